"""`Reweighted`: the exact posterior as weighted draws of q, with estimates of its accuracy.

`importance` computes the weights. They may be good overall and still miss a tail of one parameter,
where q is too narrow. Then the few draws in that tail carry most of the variance of the parameter,
which shows in the Pareto shape k̂ of the weights times the squared distances from the mean (Vehtari
et al., 2024, Section 2.4).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64, Key, PyTree

from bbalpha.engine.checks import as_keys, check_counts, warn
from bbalpha.engine.layout import name_of
from bbalpha.importance import (
    Draws,
    effective_size,
    highest_pareto_k,
    importance_weights,
    pareto_smoothed,
)

LARGEST_ERROR = 0.05  # posterior deviations: the error of the mean of 400 independent draws
MOST_NAMES = 3  # parameters that a warning names


class Reweighted(eqx.Module):
    """Draws of q with the importance weights that make them draws of the exact posterior.

    The posterior is exact for the given prior and hyper-parameters: learned ones are held fixed.

    Attributes:
        draws: The parameters, a tree whose leaves have a leading axis of draws.
        weights: One weight per draw, in double precision; they sum to 1.
        pareto_k: k̂, the shape of the largest weights; −∞ if all weights are equal.

    >>> import numpy as np, bbalpha as bb
    >>> weights = np.array([0.2, 0.3, 0.5])
    >>> posterior = bb.Reweighted(jnp.array([1.0, 2.0, 3.0]), weights, pareto_k=0.1)
    >>> print(f"{posterior.mean:.2f} {posterior.variance:.2f} {posterior.effective_size:.2f}")
    2.30 0.61 2.63
    """

    draws: PyTree
    weights: Float64[np.ndarray, " draws"]
    pareto_k: float

    @property
    def mean(self) -> PyTree:
        """The weighted mean of every parameter, in the tree of the model."""
        return self._each(lambda values: self._moments(values)[0])

    @property
    def variance(self) -> PyTree:
        """The weighted variance of every parameter, in the tree of the model."""
        return self._each(lambda values: self._moments(values)[1])

    @property
    def mean_error(self) -> PyTree:
        """The Monte Carlo standard error of every mean, (Σₖ wₖ² (θₖ − mean)²)^½."""
        return self._each(lambda values: self._errors(values)[0])

    @property
    def deviation_error(self) -> PyTree:
        """The Monte Carlo standard error of every standard deviation."""
        return self._each(lambda values: self._errors(values)[1])

    @property
    def tail_pareto_k(self) -> PyTree:
        """The Pareto shape k̂ of wₖ (θₖ − mean)² for every parameter; high if q misses a tail."""
        return self._each(self._tail_shapes)

    @property
    def effective_size(self) -> float:
        """How many equally weighted draws these are worth, 1 / Σₖ wₖ²."""
        return effective_size(self.weights)

    def sample(self, num_samples: int, *, key: Key[Array, ""]) -> PyTree:
        """Draws of the exact posterior: draws of q, chosen again in proportion to their weights.

        Args:
            num_samples: number of draws. Unless it is far below `effective_size`, many draws will
                be equal.
            key: randomness of the choice.
        """
        check_counts(num_samples=num_samples)
        key = as_keys(key, 0, "key")
        taken = jax.random.choice(
            key, len(self.weights), (num_samples,), p=jnp.asarray(self.weights)
        )
        return jax.tree.map(lambda leaf: leaf[taken], self.draws)

    def _each(self, function: Any) -> PyTree:
        """A function applied to the draws of each leaf in double precision, and cast back."""

        def of_leaf(leaf: Array) -> Array:
            return jnp.asarray(function(np.asarray(leaf, np.float64)), leaf.dtype)

        return jax.tree.map(of_leaf, self.draws)

    def _moments(self, values: np.ndarray) -> tuple[Any, Any, np.ndarray]:
        """The mean, the variance, and the squared distance of every draw from the mean."""
        mean = np.tensordot(self.weights, values, axes=1)
        squares = np.square(values - mean)
        return mean, np.tensordot(self.weights, squares, axes=1), squares

    def _errors(self, values: np.ndarray) -> tuple[Any, Any]:
        """Standard errors of the mean and of the deviation."""
        _, variance, squares = self._moments(values)
        weights = np.square(self.weights)
        of_mean = np.sqrt(np.tensordot(weights, squares, axes=1))
        of_variance = np.sqrt(np.tensordot(weights, np.square(squares - variance), axes=1))
        return of_mean, of_variance / np.sqrt(np.where(variance > 0, 4 * variance, 1.0))

    def _tail_shapes(self, values: np.ndarray) -> np.ndarray:
        _, variance, squares = self._moments(values)
        shapes = np.full(variance.shape, -np.inf)  # of parameters that do not vary
        with np.errstate(divide="ignore"):
            for place in np.argwhere(variance > 0):
                log_products = np.log(self.weights) + np.log(squares[:, *place])
                shapes[*place] = pareto_smoothed(log_products)[1]
        return shapes


def reweighted(draws: Draws, params: PyTree) -> Reweighted:
    """The draws with their weights; warns if they do not determine the posterior well.

    Raises:
        ValueError: if k̂ shows that the weights cannot be trusted.
    """
    found = Reweighted(params, *importance_weights(draws))
    warn_of_errors(found)
    return found


def warn_of_errors(found: Reweighted) -> None:
    """Warn if the weighted draws do not determine the posterior well."""
    num_samples = len(found.weights)
    limit = highest_pareto_k(num_samples)
    shapes = _by_name(found.tail_pareto_k)
    missed = [name for name in sorted(shapes, key=shapes.__getitem__)[::-1] if shapes[name] > limit]
    if missed:
        more = f" and {len(missed) - MOST_NAMES} more" if len(missed) > MOST_NAMES else ""
        warn(
            f"Reweighting does not correct the deviation of {', '.join(missed[:MOST_NAMES])}{more}:"
            f" q is too narrow in a tail, where few draws carry the variance (Pareto k̂="
            f"{shapes[missed[0]]:.2f}, above {limit:.2f}). Try another alpha or family."
        )
    error = _largest_error(found)
    if error > LARGEST_ERROR:
        enough = 1000 * np.ceil(num_samples * (error / LARGEST_ERROR) ** 2 / 1000)
        warn(
            f"Reweighted means and deviations are only known to {error:.2g} posterior deviations. "
            f"Raise num_samples to about {enough:,.0f}."
        )


def _largest_error(found: Reweighted) -> float:
    """The largest standard error of a mean or deviation, in deviations."""
    errors = [
        np.max(np.maximum(of_mean, of_deviation) / np.sqrt(np.where(variance > 0, variance, 1.0)))
        for of_mean, of_deviation, variance in zip(
            *map(jax.tree.leaves, (found.mean_error, found.deviation_error, found.variance)),
            strict=True,
        )
    ]
    return float(max(errors))


def _by_name(tree: PyTree) -> dict[str, float]:
    """The numbers of a tree with their names."""
    return {
        name_of(jax.tree_util.keystr(path), index): float(leaf[index])
        for path, leaf in jax.tree_util.tree_leaves_with_path(jax.tree.map(np.asarray, tree))
        for index in np.ndindex(leaf.shape)
    }
