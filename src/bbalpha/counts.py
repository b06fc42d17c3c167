"""Likelihoods of counts: Poisson, and the negative binomial for counts that vary more than that."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from bbalpha.data import aligned, check_values
from bbalpha.engine.beta_ratio import beta_ratio
from bbalpha.engine.special import LOG_TWO_PI, poisson_log_height, poisson_tails
from bbalpha.likelihoods import Columns, Outputs, PerDatum, RandomKey, fields_of, floating

SERIES_START = 8.0  # from which four terms of Stirling's series are exact to 1e-11
LARGEST_COUNT = 1e12  # whose third power is finite in float32
FAR = 40.0  # difference of logarithms from which exp(δ) − 1 is exp(δ); exp(2δ) is finite in float32
LARGEST_LOG_SIZE = 16.0  # log r up to which the negative binomial is told from the Poisson


class Poisson(eqx.Module):
    """A count: y ~ Poisson(λ), log λ = output.

    Targets are non-negative whole numbers of any dtype; draws are integers.

    >>> print(f"{bb.Poisson().log_prob(jnp.zeros((1, 1)), jnp.array([2])).item():.4f}")
    -1.6931
    """

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ yₜ log λₜ − λₜ − log yₜ!, as the height of the mode minus the distance from it.

        y log λ − λ − log y! = [y log y − y − log y!] + y (δ − (exp(δ) − 1)),  δ = log λ − log y.
        The terms on the left cancel: in float32 at y = 10⁵ their sum is off by about 0.1 nat.
        """
        counts = _counts(self, targets, outputs)
        delta = outputs - jnp.log(jnp.maximum(counts, 1.0))
        distance = jnp.where(counts > 0, counts * (delta - jnp.expm1(delta)), -jnp.exp(outputs))
        return jnp.sum(poisson_log_height(counts) + distance, axis=-1)

    def mean(self, outputs: Outputs) -> Columns:
        """Return λ, which is also the variance."""
        return jnp.exp(outputs)

    variance = mean

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Int[Array, "..."]:
        """Return counts."""
        return jax.random.poisson(key, jnp.exp(outputs))

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y ≤ y) for every target, which need not be a whole number."""
        return poisson_tails(aligned(targets, outputs), outputs)[0]

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y > y) for every target, which need not be a whole number."""
        return poisson_tails(aligned(targets, outputs), outputs)[1]


class NegativeBinomial(eqx.Module):
    """A count that varies more than a Poisson count: mean λ, variance λ + λ²/r, log λ = output.

    It is a Poisson count whose rate is λ times a Gamma variable of mean 1 and variance 1/r. As
    r → ∞ this is `Poisson`. `log_size` is log r, one number or one per column of the targets.
    Targets are non-negative whole numbers of any dtype; draws are integers.

    >>> print(f"{bb.NegativeBinomial().log_prob(jnp.zeros((1, 1)), jnp.array([2])).item():.4f}")
    -2.0794
    """

    log_size: Float[Array, "..."] = eqx.field(converter=floating, default=0.0)

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ log p(yₜ), as the height at λ = y minus the distance from it.

        log p(y) = log Γ(y + r) − log Γ(r) − log y! + r log(r/(r + λ)) + y log(λ/(r + λ)). In
        float32 these terms would cancel, as for `Poisson`.
        """
        counts = _counts(self, targets, outputs)
        return jnp.sum(_log_prob(counts, self._log_size(outputs), outputs), axis=-1)

    def mean(self, outputs: Outputs) -> Columns:
        """Return λ."""
        return jnp.exp(outputs)

    def variance(self, outputs: Outputs) -> Columns:
        """Return λ + λ²/r."""
        rate = jnp.exp(outputs)
        return rate + jnp.square(rate) * jnp.exp(-self._log_size(outputs))

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Int[Array, "..."]:
        """Return counts."""
        of_rates, of_counts = jax.random.split(key)
        size = jnp.broadcast_to(jnp.exp(self._log_size(outputs)), outputs.shape)
        factor = jax.random.gamma(of_rates, size) / size
        return jax.random.poisson(of_counts, jnp.exp(outputs) * factor)

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y ≤ y) for every target, which need not be a whole number."""
        return self._tails(outputs, targets)[0]

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y > y) for every target, which need not be a whole number."""
        return self._tails(outputs, targets)[1]

    def _tails(self, outputs: Outputs, targets: ArrayLike) -> tuple[Columns, Columns]:
        """P(Y ≤ y) and P(Y > y), the smaller one with a small relative error.

        With a = y + 1 and x = λ/(r + λ), these are I_{1−x}(r, a) and I_x(a, r). The factor in front
        of the integral, x^a (1−x)^r / B(a, r), is a p(a).
        """
        counts = jnp.floor(aligned(targets, outputs))
        log_size = self._log_size(outputs)
        a = jnp.clip(counts, 0, LARGEST_COUNT) + 1
        a, size = jnp.broadcast_arrays(a, jnp.exp(log_size))
        delta, logit = outputs - jnp.log(a), outputs - log_size
        above = delta >= 0
        distance = -jnp.expm1(-jnp.abs(delta)) * jax.nn.sigmoid(jnp.where(above, logit, -logit))
        ratio = jnp.where(above, beta_ratio(size, a, distance), beta_ratio(a, size, distance))
        tail = jnp.exp(_log_prob(a, log_size, outputs) + jnp.log(a)) * ratio
        cdf, survival = jnp.where(above, tail, 1 - tail), jnp.where(above, 1 - tail, tail)
        return jnp.where(counts < 0, 0, cdf), jnp.where(counts < 0, 1, survival)

    def _log_size(self, outputs: Outputs) -> Array:
        (log_size,) = fields_of(self, outputs)
        return jnp.minimum(log_size, LARGEST_LOG_SIZE)


def _counts(likelihood: eqx.Module, targets: ArrayLike, outputs: Outputs) -> Array:
    """The targets as floats aligned with the outputs, if they are counts."""
    rule = f"non-negative whole numbers for {type(likelihood).__name__}"
    check_values(targets, rule, lambda y: (y >= 0) & (y == np.floor(y)) & np.isfinite(y))
    return aligned(targets, outputs)


def _log_prob(counts: Array, log_size: Array, log_rate: Array) -> Array:
    size, total = jnp.exp(log_size), jnp.exp(log_size) + counts
    correction = _stirling_error(total) - _stirling_error(size)
    height = poisson_log_height(counts) + 0.5 * (log_size - jnp.log(total)) + correction
    return height + _distance(counts, size, log_size, log_rate)


def _stirling_error(x: Array) -> Array:
    """Log Γ(x) minus Stirling's formula for it, (x − ½) log x − x + ½ log 2π."""
    large = jnp.maximum(x, SERIES_START)
    square = large**2
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / (1680 * square)) / square) / square) / large
    small = jnp.minimum(x, SERIES_START)
    exact = gammaln(small) - (small - 0.5) * jnp.log(small) + small - 0.5 * LOG_TWO_PI
    return jnp.where(x < SERIES_START, exact, series)


def _distance(counts: Array, size: Array, log_size: Array, log_rate: Array) -> Array:
    """The logarithm of p(y) at λ over that at λ = y, from terms of the size of yr/(y + r).

    −y log(1 + r (exp(−δ) − 1)/(y + r)) − r log(1 + y (exp(δ) − 1)/(y + r)), δ = log λ − log y;
    for y = 0 it is −r log(1 + λ/r).
    """
    some = counts > 0
    delta = log_rate - jnp.where(some, jnp.log(jnp.maximum(counts, 1.0)), log_size)
    length = jnp.abs(delta)
    near = jnp.minimum(length, FAR)  # so that exp stays finite
    factor, change = jnp.exp(-near), jnp.expm1(-near)
    rises, total = delta > 0, counts + size
    share, other = (jnp.where(of, size, counts) / total for of in (rises, ~rises))
    less = share * change
    falling = jnp.where(less > -0.5, jnp.log1p(less), jnp.log(other + share * factor))
    rising = jnp.log1p(-other * change / factor) + (length - near)
    fewer, more = jnp.where(rises, falling, rising), jnp.where(rises, rising, falling)
    none = -size * (jnp.maximum(delta, 0) + jnp.log1p(factor))
    return jnp.where(some, -counts * fewer - size * more, none)
