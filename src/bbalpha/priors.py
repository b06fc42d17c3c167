"""Priors p₀(θ): turns what `fit` accepts as `prior=` into a log-density over the flat vector.

A prior may be given as a standard deviation, a tree, a distribution, or a log-density function. A
function takes the parameters in your units. Where a parameter has a transform, q is over free
numbers; the Jacobian is added here, so that users never have to write it.
"""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from bbalpha.distributions import Density, DiagonalGaussian, is_distribution
from bbalpha.engine.arrays import on_device
from bbalpha.engine.layout import Layout, shown
from bbalpha.engine.probabilities import LOG_TWO_PI

Prior = Any  # a deviation, a log-density, a tree of both, or a Distribution
LogDensity = Callable[[PyTree], Any]

MOST_SHOWN = 5  # parameters that a message repeats


class DensityPrior(eqx.Module):
    """A prior given by log-density functions; it becomes `posterior.prior` of such a fit.

    `log_density` is either one function of the whole tree, or one function per leaf. A leaf with
    None instead of a function has Gaussian free numbers, with mean zero and variances from
    `log_variance`.

    >>> def log_density(scale):
    ...     return -scale  # exponential
    >>> layout = bb.Layout.of(jnp.ones(()), transforms=bb.positive)
    >>> prior = bb.DensityPrior(jnp.zeros(1), log_density, layout)
    >>> print(prior.log_prob(jnp.zeros(1)))  # of log scale = 0: −1, and a Jacobian of 1
    -1.0
    """

    log_variance: Float[Array, " params"]
    log_density: LogDensity | tuple[LogDensity | None, ...] = eqx.field(static=True)
    layout: Layout = eqx.field(static=True)

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density of the free numbers, log p₀(θ) + log |det ∂θ/∂free|."""
        terms = self.terms(params).values()
        return sum(terms, start=jnp.zeros((), params.dtype))

    def terms(self, params: Float[Array, " params"]) -> dict[str, Float[Array, ""]]:
        """The log-density of each leaf by its path, or of all leaves under an empty path."""
        layout = self.layout
        jacobians = layout.log_det_jacobians(params)
        tree = layout.unflatten(params)
        if not isinstance(self.log_density, tuple):
            return {"": jnp.asarray(self.log_density(tree)) + sum(jacobians)}
        terms = {}
        for place, log_density in enumerate(self.log_density):
            if log_density is None:
                free, log_variance = (layout.pieces(x)[place] for x in (params, self.log_variance))
                squares = jnp.square(free) * jnp.exp(-log_variance)
                term = -0.5 * jnp.sum(squares + log_variance + LOG_TWO_PI)
            else:
                leaf = layout.structure.flatten_up_to(tree)[place]
                term = jnp.sum(log_density(leaf)) + jacobians[place]
            terms[layout.paths[place]] = term
        return terms


def as_prior(prior: Prior, layout: Layout, dtype: Any) -> Density:
    """The prior as an object with a log-density over the vector.

    Args:
        prior: a distribution, a standard deviation, a function, or a tree of these two.
        layout: how the parameters lie in the vector.
        dtype: the type of the vector.

    Raises:
        ValueError: if its structure or a shape differs from the parameters, if a deviation is not
            positive, or if a function does not return a number.
    """
    if is_distribution(prior):
        if prior.mean.shape != (layout.size,):
            raise ValueError(
                f"prior must be over the {layout.size} parameters of the model; "
                f"got a {type(prior).__name__} over {prior.mean.size}."
            )
        return prior
    leaves, structure = jax.tree.flatten(prior, is_leaf=callable)
    if callable(prior) and structure != layout.structure:
        density = DensityPrior(jnp.zeros(layout.size, dtype), prior, layout)
        _check_functions(density, dtype)
        return density
    deviations = jax.tree.map(lambda leaf: 1.0 if callable(leaf) else leaf, prior, is_leaf=callable)
    gaussian = _gaussian(deviations, layout, dtype)
    if not any(map(callable, leaves)):
        return gaussian
    functions = tuple(leaf if callable(leaf) else None for leaf in leaves)
    density = DensityPrior(gaussian.log_variance, functions, layout)
    _check_functions(density, dtype)
    return density


def check_start(params: PyTree, layout: Layout, prior: Density) -> None:
    """Raise if the start breaks a constraint or has prior density zero, unless it is traced.

    Raises:
        ValueError: with the name of the parameter and its value.
    """
    layout.check_support(params)
    leaves = layout.structure.flatten_up_to(params)
    if not isinstance(prior, DensityPrior) or any(isinstance(leaf, Tracer) for leaf in leaves):
        return
    values = dict(zip(layout.paths, leaves, strict=True))
    for path, log_density in prior.terms(layout.flatten(params)).items():
        if not np.isfinite(log_density):
            start = values if path == "" else {path: values[path]}
            some = [
                f"params{path}={shown(leaf)}" for path, leaf in list(start.items())[:MOST_SHOWN]
            ]
            raise ValueError(
                f"prior{path} must have a finite log-density where the fit starts; "
                f"got {log_density:g} at {', '.join(some)}."
            )


def _gaussian(prior: PyTree, layout: Layout, dtype: Any) -> DiagonalGaussian:
    """Independent Gaussians with mean zero, and deviations from a number or a tree."""
    if jax.tree.structure(prior) == jax.tree.structure(0.0) and np.ndim(prior) == 0:
        deviations = np.full(layout.size, prior, dtype)
    else:
        deviations = _deviations_of_leaves(prior, layout).astype(dtype)
    if not np.all(np.isfinite(deviations) & (deviations > 0)):
        worst = deviations[np.argmin(np.where(np.isfinite(deviations), deviations, -np.inf))]
        raise ValueError(f"prior must hold positive standard deviations; got prior={worst:g}.")
    log_variance = on_device(2 * np.log(deviations))
    return DiagonalGaussian(on_device(np.zeros(layout.size), dtype), log_variance)


def _deviations_of_leaves(prior: PyTree, layout: Layout) -> np.ndarray:
    leaves, structure = jax.tree.flatten(prior)
    if structure != layout.structure:
        raise ValueError(
            "prior must be a number, a function, a tree like params or a bb.Distribution; "
            f"got a tree {structure} where params is {layout.structure}."
        )
    deviations = []
    for leaf, path, shape in zip(leaves, layout.paths, layout.free_shapes, strict=True):
        if np.shape(leaf) not in ((), shape):
            raise ValueError(
                f"prior{path} must be a number or have shape {shape}, as in params; "
                f"got shape {np.shape(leaf)}."
            )
        deviations.append(np.broadcast_to(leaf, shape).ravel())
    return np.concatenate(deviations)


def _check_functions(prior: DensityPrior, dtype: Any) -> None:
    """Raise unless each function returns a number, or for a single leaf, numbers to be summed."""
    layout, functions = prior.layout, prior.log_density
    vector = jax.ShapeDtypeStruct((layout.size,), dtype)
    tree = jax.eval_shape(layout.unflatten, vector)
    if isinstance(functions, tuple):
        named = zip(functions, layout.paths, layout.structure.flatten_up_to(tree), strict=True)
    else:
        named = [(functions, "", tree)]
    for function, path, params in named:
        if function is None:
            continue
        found = jax.eval_shape(function, params)
        shape = getattr(found, "shape", None)
        if shape is None or (shape != () and functions is function):
            kind = type(found).__name__ if shape is None else f"shape {shape}"
            raise ValueError(
                f"prior{path} must return one number, the log-density of params{path}; got {kind}."
            )
