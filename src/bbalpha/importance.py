"""Importance weights: draws of q, weighted towards the exact posterior.

    wₖ ∝ p₀(θₖ) Πₙ p(xₙ|θₖ) / q(θₖ),    θₖ drawn from q

`diagnostics` and `reweighting` rest on these weights. The largest are smoothed by a Pareto
distribution that is fitted to them (PSIS); its shape k̂ tells whether the weights can be trusted
(Vehtari et al., Pareto smoothed importance sampling, 2024).
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol, runtime_checkable

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Float64, Key, PyTree

from bbalpha.data import as_array, as_weights, check_data, check_weights
from bbalpha.distributions import Distribution, log_prob_of_draw
from bbalpha.engine import threefry
from bbalpha.engine.batches import padded_length
from bbalpha.engine.checks import as_keys, check_counts, check_log_likelihood, without_jit
from bbalpha.engine.draws import chunk_of_draws, map_draws
from bbalpha.engine.layout import Layout

FEWEST_DRAWS = 100  # the Pareto distribution is then fitted to the largest twenty weights
HIGHEST_PARETO_K = 0.7  # Vehtari et al., 2024: above it the weights need too many draws
EQUAL_WEIGHTS = 1e-3  # range of log-weights below which differences are only rounding
ROWS_TIMES_DRAWS = 2**21  # log-likelihoods held at once: 16 MiB in double precision


@runtime_checkable
class Fitted(Protocol):
    """What weights and diagnostics need of a posterior, which they only read."""

    @property
    def q(self) -> Distribution:
        """The approximation."""
        ...

    @property
    def prior(self) -> Any:
        """The prior p₀ over the same vector; only its `log_prob` is used."""
        ...

    @property
    def hyperparams(self) -> PyTree:
        """The third argument of the log-likelihood, or None."""
        ...

    @property
    def alpha(self) -> Float[Array, ""]:
        """The power."""
        ...

    @property
    def num_data(self) -> Float[Array, ""]:
        """N, the number of data points (or their total weight)."""
        ...

    @property
    def layout(self) -> Layout:
        """How the vector becomes a tree of parameters."""
        ...


class Draws(NamedTuple):
    """Draws of q and the data that weight them, checked; they are drawn again whenever needed."""

    fitted: Fitted
    log_likelihood: Callable[..., Any]
    data: PyTree
    row_weights: Float64[np.ndarray, " rows"]  # how many data points each row stands for
    key: Key[Array, ""]
    num_samples: int

    @classmethod
    def of(
        cls,
        fitted: Fitted,
        log_likelihood: Any,
        data: PyTree,
        key: Any,
        num_samples: int,
        sample_weight: Any = None,
    ) -> "Draws":
        """Draws of a posterior, given the log-likelihood and the data it was fitted to.

        Raises:
            TypeError: if an argument is of the wrong kind.
            ValueError: if an argument breaks its rule; the message shows its value.
        """
        if not callable(log_likelihood):
            raise TypeError(
                "log_likelihood must be the function that was given to fit; "
                f"got {type(log_likelihood).__name__}."
            )
        check_counts(num_samples=num_samples)
        if num_samples < FEWEST_DRAWS:
            raise ValueError(
                f"num_samples must be at least {FEWEST_DRAWS}, because a Pareto distribution is "
                f"fitted to the largest weights; got num_samples={num_samples}."
            )
        key, weights = as_keys(key, 0, "key"), _row_weights(fitted, data, sample_weight)
        log_likelihood, extra = without_jit(log_likelihood), _hyperparams(fitted)
        vector = jax.ShapeDtypeStruct(fitted.q.mean.shape, fitted.q.mean.dtype)
        check_log_likelihood(
            lambda params, rows: log_likelihood(params, rows, *extra),
            jax.eval_shape(fitted.layout.unflatten, vector),
            data,
        )
        data = jax.tree.map(as_array, data)
        return cls(fitted, log_likelihood, data, weights, key, num_samples)

    def log_prior_ratios(self) -> Float64[np.ndarray, " draws"]:
        """The logarithms of p₀(θₖ)/q(θₖ)."""
        return np.array(_log_prior_ratios(self.fitted, self.key, self.num_samples), np.float64)

    def log_likelihoods(
        self, rows: np.ndarray | None = None
    ) -> Iterator[tuple[Float64[np.ndarray, "draws rows"], np.ndarray]]:
        """The log-likelihoods log p(xₙ|θₖ), one chunk of rows at a time, and the row numbers.

        Raises:
            ValueError: if one is NaN or +∞.
        """
        for data, _, numbers in self.chunks(self.num_samples, rows):
            found = _log_likelihoods(
                self.fitted, self.log_likelihood, data, self.key, self.num_samples
            )
            values = np.asarray(found, np.float64)[:, : len(numbers)]
            bad = ~(values < np.inf)
            if bad.any():
                draw, column = np.argwhere(bad)[0]
                raise ValueError(
                    "log_likelihood must not be NaN or +∞ at draws of q; "
                    f"got {values[draw, column]} for row {numbers[column]}."
                )
            yield values, numbers

    def chunks(
        self, num_draws: int, rows: np.ndarray | None = None
    ) -> Iterator[tuple[PyTree, np.ndarray, np.ndarray]]:
        """Data, weights and numbers of some rows (by default all), in chunks of the same shape.

        A short chunk is padded with its last row at weight zero; padding has no row numbers.
        """
        num_rows = len(self.row_weights)
        rows = np.arange(num_rows) if rows is None else rows
        size = max(1, min(ROWS_TIMES_DRAWS // num_draws, padded_length(num_rows)))
        for start in range(0, len(rows), size):
            real = rows[start : start + size]
            taken = np.pad(real, (0, size - len(real)), mode="edge")
            weights = np.where(np.arange(size) < len(real), self.row_weights[taken], 0.0)
            yield jax.tree.map(lambda leaf, taken=taken: leaf[taken], self.data), weights, real


def importance_weights(draws: Draws) -> tuple[Float64[np.ndarray, " draws"], float]:
    """The smoothed weights of the draws, which sum to 1, and k̂.

    Raises:
        ValueError: if k̂ shows that the weights cannot be trusted.
    """
    return trusted_weights(log_importance_ratios(draws))


def trusted_weights(
    log_ratios: Float64[np.ndarray, " draws"],
) -> tuple[Float64[np.ndarray, " draws"], float]:
    """The smoothed weights of draws with these log-ratios, which sum to 1, and k̂.

    Raises:
        ValueError: if k̂ shows that the weights cannot be trusted.
    """
    log_weights, pareto_k = pareto_smoothed(log_ratios)
    limit = highest_pareto_k(len(log_ratios))
    if pareto_k > limit:
        raise ValueError(
            "q must be closer to the exact posterior to be reweighted; got Pareto k̂="
            f"{pareto_k:.2f}, which must not exceed {limit:.2f}. Fit a richer family such as "
            "bb.FullGaussian, or another alpha: ½ makes q wider than 0."
        )
    return np.exp(log_weights), pareto_k


def log_importance_ratios(draws: Draws) -> Float64[np.ndarray, " draws"]:
    """Log p₀(θₖ) Πₙ p(xₙ|θₖ) / q(θₖ); the mean of their exponentials estimates the evidence."""
    log_ratios = draws.log_prior_ratios()
    for log_likelihoods, rows in draws.log_likelihoods():
        log_ratios += weighted_sum(log_likelihoods, draws.row_weights[rows])
    return log_ratios


def highest_pareto_k(num_samples: int) -> float:
    """The largest k̂ for which S draws suffice: min(1 − 1/log₁₀ S, 0.7).

    >>> from bbalpha.importance import highest_pareto_k
    >>> highest_pareto_k(100), highest_pareto_k(4000)
    (0.5, 0.7)
    """
    return min(1 - 1 / math.log10(num_samples), HIGHEST_PARETO_K)


def pareto_smoothed(
    log_ratios: Float64[np.ndarray, " draws"],
) -> tuple[Float64[np.ndarray, " draws"], float]:
    """The logarithms of smoothed weights that sum to 1, and k̂.

    k̂ is −∞ if the largest weights are equal, and ∞ if most weights are zero. In both cases, no tail
    can be fitted.

    >>> import numpy as np
    >>> from bbalpha.importance import pareto_smoothed
    >>> log_weights, pareto_k = pareto_smoothed(np.zeros(100))
    >>> float(np.exp(log_weights).sum().round(6)), pareto_k
    (1.0, -inf)
    """
    num_draws, largest = len(log_ratios), np.max(log_ratios)
    if np.sum(log_ratios > -np.inf) < num_draws / 5:  # the tail may hold a fifth of the draws
        return np.full(num_draws, -np.log(num_draws)), math.inf
    if largest - np.min(log_ratios) < EQUAL_WEIGHTS:
        return np.full(num_draws, -np.log(num_draws)), -math.inf
    log_weights, pareto_k = _psis(log_ratios)
    if math.isnan(pareto_k):
        log_weights = log_ratios - largest
        return log_weights - np.log(np.sum(np.exp(log_weights))), -math.inf
    return log_weights, pareto_k


def weighted_sum(
    values: Float64[np.ndarray, "draws rows"], weights: Float64[np.ndarray, " rows"]
) -> Float64[np.ndarray, " draws"]:
    """The sum over the rows in double precision; a row of weight zero may be infinite."""
    return values[:, weights > 0] @ weights[weights > 0]


def effective_size(weights: Float64[np.ndarray, " draws"]) -> float:
    """The number of equally weighted draws that these are worth, 1 / Σₖ wₖ² (Kong, 1992)."""
    return float(1 / np.sum(np.square(weights)))


def _row_weights(fitted: Fitted, data: PyTree, sample_weight: Any) -> np.ndarray:
    """The weights of the rows in double precision; raises unless they sum to N."""
    num_rows = check_data(data)
    sample_weight = np.ones(num_rows) if sample_weight is None else sample_weight
    weights = as_weights(sample_weight, "sample_weight")
    check_weights(weights, (num_rows,), "sample_weight")
    weights, num_data = weights.astype(np.float64), float(fitted.num_data)
    if not math.isclose(weights.sum(), num_data, rel_tol=1e-5):  # num_data is in single precision
        raise ValueError(
            "data must be all that the posterior was fitted to, with the same sample_weight: "
            f"{num_data:g} data points; got {weights.sum():g}."
        )
    return weights


def _psis(log_ratios: Float64[np.ndarray, " draws"]) -> tuple[np.ndarray, float]:
    """PSIS by arviz-stats; k̂ is NaN if the largest weights are all the same."""
    from arviz_stats.base.array import array_stats

    try:
        with np.errstate(all="ignore"):
            log_weights, pareto_k = array_stats.psislw(-log_ratios)
    except ValueError:
        return log_ratios, math.nan
    return log_weights, float(pareto_k)


@eqx.filter_jit
def _log_prior_ratios(
    fitted: Fitted, key: Key[Array, ""], num_samples: int
) -> Float[Array, " draws"]:
    def log_ratio(params: Array, noise: Array) -> Array:
        return fitted.prior.log_prob(params) - log_prob_of_draw(fitted.q, noise, params)

    chunk = chunk_of_draws(fitted.layout.size, 0, num_samples)
    return map_draws(log_ratio, fitted.q, threefry.consecutive(key, num_samples), chunk)


@eqx.filter_jit
def _log_likelihoods(
    fitted: Fitted,
    log_likelihood: Callable[..., Array],
    rows: PyTree,
    key: Key[Array, ""],
    num_samples: int,
) -> Float[Array, "draws rows"]:
    def of_draw(params: Array, _: Array) -> Array:
        return log_likelihood(fitted.layout.unflatten(params), rows, *_hyperparams(fitted))

    chunk = chunk_of_draws(fitted.layout.size, len(jax.tree.leaves(rows)[0]), num_samples)
    return map_draws(of_draw, fitted.q, threefry.consecutive(key, num_samples), chunk)


def _hyperparams(fitted: Fitted) -> tuple[PyTree, ...]:
    """The third argument of the log-likelihood, if it takes one."""
    return () if fitted.hyperparams is None else (fitted.hyperparams,)
