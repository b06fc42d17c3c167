"""Scores of new rows: their log predictive density under a Gaussian q, or under draws."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from bbalpha.distributions import CappedGaussian, DiagonalGaussian, Distribution, FullGaussian
from bbalpha.low_rank import LowRankGaussian, NarrowedGaussian
from bbalpha.message_passing.arguments import Problem
from bbalpha.message_passing.programs import run
from bbalpha.message_passing.sites import log_predictive
from bbalpha.message_passing.tilted import NUM_NODES, Centers, Factors, Natural

ROWS_TIMES_DRAWS = 2**22  # projections held in memory at once
NARROWEST = 1e-12  # variance of a projection, so that its precision is finite


def scores_under(q: Distribution, rows: Problem) -> Float64[np.ndarray, " rows"]:
    """Log ∫ p(yₙ|f) q(f) df for every row, with f = xₙᵀθ; call this in a context with 64 bits.

    The integrals are one-dimensional: by quadrature or in closed form, without draws.
    """
    return np.asarray(run(_scores_program, q, rows))


def scores_of_draws(
    draws: Float64[np.ndarray, "draws params"],
    weights: Float64[np.ndarray, " draws"],
    rows: Problem,
) -> Float64[np.ndarray, " rows"]:
    """Log Σₖ wₖ p(yₙ|xₙᵀθₖ) for every row; call this in a context with 64 bits."""
    inputs, found = np.asarray(rows.inputs), []
    size = max(1, ROWS_TIMES_DRAWS // len(draws))
    for start in range(0, len(inputs), size):
        part = slice(start, start + size)
        targets = jax.tree.map(lambda leaf, part=part: leaf[part], rows.targets)
        factors = _factors(rows, targets, len(inputs[part]))
        log_probs = factors.log_prob(jnp.asarray(draws @ inputs[part].T))
        found.append(jax.nn.logsumexp(log_probs, axis=0, b=jnp.asarray(weights)[:, None]))
    return np.concatenate(found)


def _scores_program(q: Distribution, rows: Problem) -> Float[Array, " rows"]:
    mean = rows.inputs @ q.mean
    variance = jnp.maximum(_projected_variance(q, rows.inputs), NARROWEST)
    gaussian = Natural(1 / variance, mean / variance)
    factors = _factors(rows, rows.targets, rows.num_data)
    return log_predictive(factors, gaussian, Centers(mean, jnp.sqrt(variance)), NUM_NODES)


def _factors(rows: Problem, targets: Any, num_rows: int) -> Factors:
    """The factors as functions of f itself."""
    return Factors(rows.log_likelihood, targets, jnp.zeros(num_rows), rows.hyperparams)


def _projected_variance(
    q: Distribution, inputs: Float[Array, "rows params"]
) -> Float[Array, " rows"]:
    """The variance of xₙᵀθ; forms no covariance matrix unless q has one."""
    match q:
        case DiagonalGaussian() | CappedGaussian():
            return jnp.square(inputs) @ q.variance
        case FullGaussian():
            return jnp.sum(jnp.square(inputs @ q.cholesky), axis=1)
        case LowRankGaussian():
            scaled = inputs * jnp.exp(q.log_scale)[None]
            return jnp.sum(jnp.square(scaled), axis=1) + jnp.sum(
                jnp.square(scaled @ q.factor), axis=1
            )
        case NarrowedGaussian():
            scaled = inputs * jnp.exp(q.log_scale)[None]
            along = scaled @ q.basis
            narrowed = jnp.sum(jnp.square(along @ jnp.tril(q.cholesky)), axis=1)
            beyond = jnp.sum(jnp.square(scaled), axis=1) - jnp.sum(jnp.square(along), axis=1)
            return beyond + narrowed
        case _:
            covariance = q.covariance  # pyright: ignore[reportAttributeAccessIssue]
            return jnp.sum(inputs @ covariance * inputs, axis=1)
