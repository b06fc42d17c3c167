"""Predictions: the distribution of a target, averaged over θ.

It is the mixture (1/K) Σₖ p(y|x, θₖ) over K draws of θ. The functions here take the outputs of a
model for these draws, of shape (draws, data, columns), as `Posterior.predict` returns them.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.scipy.special import logsumexp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bbalpha.likelihoods import Likelihood, OrderedLikelihood, Outputs


def predictive_mean(likelihood: Likelihood, outputs: Outputs) -> Float[Array, "..."]:
    """Return the mean of every target, E[y] = E_θ[E[y|θ]], over the draws on the first axis.

    >>> print(bb.predictive_mean(bb.Gaussian(), jnp.array([[[0.0]], [[2.0]]])))
    [[1.]]
    """
    _check_draws(outputs)
    return jnp.mean(likelihood.mean(outputs), axis=0)


def predictive_variance(likelihood: Likelihood, outputs: Outputs) -> Float[Array, "..."]:
    """Return the variance of every target over the draws on the first axis.

    Var[y] = E_θ[Var[y|θ]] + Var_θ[E[y|θ]]: the noise plus the uncertainty about θ.

    >>> print(bb.predictive_variance(bb.Gaussian(), jnp.array([[[0.0]], [[2.0]]])))
    [[2.]]
    """
    _check_draws(outputs)
    noise = jnp.mean(likelihood.variance(outputs), axis=0)
    return noise + jnp.var(likelihood.mean(outputs), axis=0)


def predictive_log_density(
    likelihood: Likelihood, outputs: Outputs, targets: ArrayLike
) -> Float[Array, "..."]:
    """Return log (1/K) Σₖ p(yₙ|xₙ, θₖ) for every datum, in nats; higher is better.

    The K draws are on the first axis of the outputs. The logarithm of a mean over few draws is
    biased low: use 1,000 or more.

    >>> outputs = jnp.array([[[-100.0]], [[100.0]]])  # two draws, certain of opposite classes
    >>> print(f"{bb.predictive_log_density(bb.Bernoulli(), outputs, jnp.ones(1)).item():.4f}")
    -0.6931
    """
    _check_draws(outputs)
    # Weights 1/K; subtracting log K afterwards would cost 5e-7 in float32 at K = 1,000.
    return logsumexp(likelihood.log_prob(outputs, targets), axis=0, b=1 / len(outputs))


def predictive_cdf(
    likelihood: Likelihood, outputs: Outputs, targets: ArrayLike
) -> Float[Array, "..."]:
    """Return P(Y ≤ yₙ|xₙ) = (1/K) Σₖ P(Y ≤ yₙ|xₙ, θₖ) for every target; uniform is best.

    Raises:
        TypeError: If the targets of the likelihood are not ordered.

    >>> outputs = jnp.array([[[-1.0]], [[1.0]]])
    >>> print(bb.predictive_cdf(bb.Gaussian(), outputs, jnp.zeros(1)))
    [[0.5]]
    """
    _check_draws(outputs)
    return jnp.mean(_ordered(likelihood).cdf(outputs, targets), axis=0)


def predictive_quantiles(
    likelihood: Likelihood, outputs: Outputs, probabilities: ArrayLike | Sequence[float]
) -> Float[Array, "data columns probabilities"]:
    """Return the quantiles of every target: the smallest y with P(Y ≤ y|xₙ) ≥ p.

    The quantiles are those of the mixture itself, not of a sample from it, and exact up to
    rounding. For counts they are whole numbers. Above the median, P(Y > y) ≤ 1 − p is solved
    instead, so that p near 1 is as exact as p near 0; pass such p as float64 or Python numbers,
    because 1 − p has few digits in float32.

    Args:
        likelihood: A likelihood of ordered targets (`OrderedLikelihood`).
        outputs: Outputs of the model, of shape (draws, data, columns).
        probabilities: Values of p between 0 and 1.

    Raises:
        TypeError: If the targets of the likelihood are not ordered.
        ValueError: If the outputs have another shape, or a probability lies outside (0, 1).

    >>> outputs = jnp.array([[[-1.0]], [[1.0]]])
    >>> low, high = bb.predictive_quantiles(bb.Gaussian(), outputs, [0.05, 0.95])[0, 0]
    >>> print(f"{low:.3f} {high:.3f}")
    -2.284 2.284
    """
    return quantiles_at_tails(likelihood, outputs, *tails(probabilities))


def quantiles_at_tails(
    likelihood: Likelihood, outputs: Outputs, is_upper: Any, masses: Any
) -> Float[Array, "data columns probabilities"]:
    """`predictive_quantiles` for probabilities that `tails` has split."""
    if outputs.ndim != 3:
        rule = "shape (draws, data, columns)"
        raise ValueError(f"outputs must have {rule}; got shape {outputs.shape}.")
    levels = (len(outputs) * masses).astype(outputs.dtype)
    return _quantiles(_ordered(likelihood), outputs, is_upper, levels)


@eqx.filter_jit
def _quantiles(likelihood: OrderedLikelihood, outputs: Array, upper: Array, levels: Array) -> Array:
    """The smallest y with Σₖ P(Y ≤ y|θₖ) ≥ level, or Σₖ P(Y > y|θₖ) ≤ level where upper.

    Sums rather than means, because a sum counts exactly how many of the draws lie below y where
    they are far apart.
    """
    like = jnp.zeros(jax.eval_shape(likelihood.mean, outputs).shape[1:], outputs.dtype)
    draw = jax.eval_shape(lambda x: likelihood.sample(x, key=jax.random.key(0)), outputs)
    smallest = partial(_smallest_number, is_whole=jnp.issubdtype(draw.dtype, jnp.integer))

    def below(y):
        return jnp.sum(likelihood.cdf(outputs, y), axis=0)

    def minus_above(y):
        return -jnp.sum(likelihood.survival(outputs, y), axis=0)

    def quantile(upper_and_level):
        upper, level = upper_and_level
        return jax.lax.cond(
            upper,
            lambda: smallest(minus_above, -level, like),
            lambda: smallest(below, level, like),
        )

    return jnp.moveaxis(jax.lax.map(quantile, (upper, levels)), 0, -1)


def _smallest_number(
    increasing: Callable[[Array], Array], level: Array, like: Array, *, is_whole: bool
) -> Array:
    """The smallest y with increasing(y) ≥ level, entry by entry, NaN where the function is NaN.

    Bisects the floating-point numbers themselves, ranked from −∞ to ∞: this needs neither a bracket
    nor a scale and takes as many steps as a number has bits. All levels share one tree of
    midpoints, so y rises with the level even where rounding makes the function waver. A function
    that jumps only at whole numbers needs fewer steps, until one of them is left.
    """
    bits = jnp.finfo(like.dtype).bits
    inf = jax.lax.bitcast_convert_type(jnp.full_like(like, jnp.inf), jnp.dtype(f"int{bits}"))

    def is_settled(low, high):
        low, high = (jnp.floor(_number(rank, like.dtype)) for rank in (low, high))
        return jnp.isfinite(high) & (high - low <= 1)

    def goes_on(state):
        step, *bounds = state
        return (step < bits) & ~jnp.all(is_settled(*bounds) if is_whole else False)

    def halve(state):
        step, low, high = state
        middle = (low & high) + ((low ^ high) >> 1)  # (low + high) / 2 without overflow
        reached = increasing(_number(middle, like.dtype)) >= level
        return step + 1, jnp.where(reached, low, middle), jnp.where(reached, middle, high)

    start = jnp.zeros((), int), ~inf, inf + 1  # after ∞ comes NaN
    _, low, high = jax.lax.while_loop(goes_on, halve, start)
    number = _number(high, like.dtype)
    return jnp.where(is_settled(low, high), jnp.floor(number), number) if is_whole else number


def _number(rank: Array, dtype: np.dtype) -> Array:
    """The floating-point number of each rank, or 0 where it would lack full precision."""
    magnitude = jax.lax.bitcast_convert_type(jnp.where(rank < 0, ~rank, rank), dtype)
    number = jnp.where(rank < 0, -magnitude, magnitude)
    return jnp.where(magnitude < jnp.finfo(dtype).tiny, 0, number)


def tails(probabilities: ArrayLike | Sequence[float]) -> tuple:
    """Whether each probability p is above ½, and the mass of its tail: the smaller of p and 1 − p.

    This must happen before a compiled program turns p into float32, in which 1 − p has few digits.
    """
    known = not isinstance(probabilities, Tracer)
    values = np.asarray(probabilities, np.float64) if known else probabilities
    if values.ndim != 1:
        raise ValueError(f"probabilities must have one axis; got shape {values.shape}.")
    if known and not (inside := (values > 0) & (values < 1)).all():
        rule = "lie strictly between 0 and 1"
        raise ValueError(f"probabilities must {rule}; got {values[~inside][0]}.")
    upper = values > 0.5
    return upper, abs(upper - values)


def _ordered(likelihood: Likelihood) -> OrderedLikelihood:
    """The likelihood, if it has a distribution function."""
    if not isinstance(likelihood, OrderedLikelihood):
        rule = "have the methods cdf and survival, as for ordered targets"
        raise TypeError(f"likelihood must {rule}; got {type(likelihood).__name__}.")
    return likelihood


def _check_draws(outputs: Outputs) -> None:
    """Raise if there is no axis of draws to average over."""
    if outputs.ndim < 3:
        rule = "shape (draws, data, columns)"
        raise ValueError(f"outputs must have {rule}; got shape {outputs.shape}.")
