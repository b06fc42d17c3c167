"""Likelihoods of counts: Poisson, and negative binomial for counts that vary more than Poisson."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int

from bbalpha.data import aligned, check_values
from bbalpha.engine.count_probabilities import (
    LARGEST_LOG_SIZE,
    negative_binomial_log_prob,
    negative_binomial_tails,
    poisson_log_height,
)
from bbalpha.engine.special import poisson_tails
from bbalpha.likelihoods import Columns, Outputs, PerDatum, RandomKey, fields_of, floating


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
    """A count that varies more than Poisson: mean λ, variance λ + λ²/r, log λ = output.

    It is a Poisson count whose rate is λ times a Gamma variable of mean 1 and variance 1/r. For
    r → ∞ this is `Poisson`. `log_size` is log r, one number or one per column of the targets.
    Targets are non-negative whole numbers of any dtype; draws are integers.

    >>> print(f"{bb.NegativeBinomial().log_prob(jnp.zeros((1, 1)), jnp.array([2])).item():.4f}")
    -2.0794
    """

    log_size: Float[Array, "..."] = eqx.field(converter=floating, default=0.0)

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ log p(yₜ)."""
        counts = _counts(self, targets, outputs)
        return jnp.sum(
            negative_binomial_log_prob(counts, self._log_size(outputs), outputs), axis=-1
        )

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
        """P(Y ≤ y) and P(Y > y)."""
        counts = aligned(targets, outputs)
        return negative_binomial_tails(counts, self._log_size(outputs), outputs)

    def _log_size(self, outputs: Outputs) -> Array:
        (log_size,) = fields_of(self, outputs)
        return jnp.minimum(log_size, LARGEST_LOG_SIZE)


def _counts(likelihood: eqx.Module, targets: ArrayLike, outputs: Outputs) -> Array:
    """The targets as floats aligned with the outputs, if they are counts."""
    rule = f"non-negative whole numbers for {type(likelihood).__name__}"
    check_values(targets, rule, lambda y: (y >= 0) & (y == np.floor(y)) & np.isfinite(y))
    return aligned(targets, outputs)
