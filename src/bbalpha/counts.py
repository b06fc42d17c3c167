"""Likelihoods of counts: Poisson, and the negative binomial for counts that vary more than that."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betainc, gammaln
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from bbalpha.data import aligned, check_values
from bbalpha.engine.special import LOG_TWO_PI, poisson_log_height, poisson_tails
from bbalpha.likelihoods import Columns, Outputs, PerDatum, RandomKey, fields_of, floating

SERIES_START = 8.0  # from which three terms of Stirling's series are exact to 1e-9
LARGEST_COUNT = 1e12  # whose third power, which betainc forms, is finite in float32
LARGEST_LOG_RATE = 80.0  # whose exponential is finite in float32
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
        log_size = self._log_size(outputs)
        size, total = jnp.exp(log_size), jnp.exp(log_size) + counts
        correction = _stirling_error(total) - _stirling_error(size)
        height = poisson_log_height(counts) + 0.5 * (log_size - jnp.log(total)) + correction
        return jnp.sum(height + _distance(counts, size, log_size, outputs), axis=-1)

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
        """Both tails, as incomplete beta functions of the share λ/(r + λ)."""
        counts = jnp.floor(aligned(targets, outputs))
        log_size = self._log_size(outputs)
        a = jnp.clip(counts, 0, LARGEST_COUNT) + 1
        a, size, logit = jnp.broadcast_arrays(a, jnp.exp(log_size), outputs - log_size)
        cdf = jnp.where(counts < 0, 0, betainc(size, a, jax.nn.sigmoid(-logit)))
        return cdf, jnp.where(counts < 0, 1, betainc(a, size, jax.nn.sigmoid(logit)))

    def _log_size(self, outputs: Outputs) -> Array:
        (log_size,) = fields_of(self, outputs)
        return jnp.minimum(log_size, LARGEST_LOG_SIZE)


def _counts(likelihood: eqx.Module, targets: ArrayLike, outputs: Outputs) -> Array:
    """The targets as floats aligned with the outputs, if they are counts."""
    rule = f"non-negative whole numbers for {type(likelihood).__name__}"
    check_values(targets, rule, lambda y: (y >= 0) & (y == np.floor(y)) & np.isfinite(y))
    return aligned(targets, outputs)


def _stirling_error(x: Array) -> Array:
    """Log Γ(x) minus Stirling's formula for it, (x − ½) log x − x + ½ log 2π."""
    large = jnp.maximum(x, SERIES_START)
    series = (1 / 12 - (1 / 360 - 1 / (1260 * large**2)) / large**2) / large
    small = jnp.minimum(x, SERIES_START)
    exact = gammaln(small) - (small - 0.5) * jnp.log(small) + small - 0.5 * LOG_TWO_PI
    return jnp.where(x < SERIES_START, exact, series)


def _distance(counts: Array, size: Array, log_size: Array, log_rate: Array) -> Array:
    """The logarithm of p(y) at λ over that at λ = y: y δ − (y + r) log((r + λ)/(r + y)).

    Here δ = log λ − log y.
    """
    delta = log_rate - jnp.log(jnp.maximum(counts, 1.0))
    total = counts + size
    excess = (jnp.exp(jnp.minimum(log_rate, LARGEST_LOG_RATE)) - counts) / total
    is_close = (excess > -0.5) & (log_rate < LARGEST_LOG_RATE)  # so that log1p keeps its digits
    log_ratio = jnp.where(
        is_close,
        jnp.log1p(jnp.maximum(excess, -0.5)),
        jnp.logaddexp(log_size, log_rate) - jnp.log(total),
    )
    far = counts * delta - total * log_ratio
    near = jnp.clip(delta, -1, 1)
    share = counts * jnp.expm1(near) / total
    close = counts * (near - jnp.expm1(near)) + total * (share - jnp.log1p(share))
    return jnp.where((jnp.abs(delta) < 1) & (counts > 0), close, far)
