"""A likelihood whose spread is multiplied by a factor, to repair miscalibrated predictions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bbalpha.interfaces.bounded import Bounded
from bbalpha.interfaces.stacking import Members, members_of_likelihood
from bbalpha.likelihoods import (
    Categorical,
    Columns,
    Gaussian,
    HeteroscedasticGaussian,
    Outputs,
    PerDatum,
    Probit,
    RandomKey,
    StudentT,
    floating,
)


class Spread(eqx.Module):
    """A likelihood with wider or narrower noise or, for classes, another temperature.

    Standard deviations and scales of the noise are multiplied by exp(log_factor); logits are
    divided by it. The uncertainty about the weights does not change.

    Attributes:
        likelihood: The likelihood as it was fitted.
        log_factor: The logarithm of the factor.
    """

    likelihood: Any
    log_factor: Float[Array, ""] = eqx.field(converter=floating)

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return the log-density with the changed spread."""
        likelihood, outputs = self._parts(outputs)
        return likelihood.log_prob(outputs, targets)

    def mean(self, outputs: Outputs) -> Columns:
        """Return the mean with the changed spread."""
        likelihood, outputs = self._parts(outputs)
        return likelihood.mean(outputs)

    def variance(self, outputs: Outputs) -> Columns:
        """Return the variance with the changed spread."""
        likelihood, outputs = self._parts(outputs)
        return likelihood.variance(outputs)

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Array:
        """Return one target per row with the changed spread."""
        likelihood, outputs = self._parts(outputs)
        return likelihood.sample(outputs, key=key)

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y ≤ y) with the changed spread."""
        likelihood, outputs = self._parts(outputs)
        return likelihood.cdf(outputs, targets)

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y > y) with the changed spread."""
        likelihood, outputs = self._parts(outputs)
        return likelihood.survival(outputs, targets)

    def _parts(self, outputs: Outputs) -> tuple[Any, Outputs]:
        """A plain likelihood with the changed spread, and the outputs to give it."""
        match self.likelihood:
            case Gaussian() as noise:
                return Gaussian(noise.log_variance + 2 * self.log_factor), outputs
            case StudentT() as noise:
                log_scale = noise.log_scale + self.log_factor
                return StudentT(log_scale, noise.log_degrees_of_freedom), outputs
            case Bounded(likelihood=HeteroscedasticGaussian()) as bounded:
                mean, log_variance = jnp.split(bounded.bounded(outputs), 2, axis=-1)
                wider = log_variance + 2 * self.log_factor
                return bounded.likelihood, jnp.concatenate([mean, wider], axis=-1)
            case _:
                return self.likelihood, outputs * jnp.exp(-self.log_factor)


def with_factor(likelihood: Any, log_factor: Any) -> Any:
    """The likelihood with this factor; None for counts, which have no separate spread.

    All members of a mixture get the same factor.
    """
    plain = as_fitted(likelihood)
    if isinstance(plain, Members):
        num_members = len(jax.tree.leaves(plain.each)[0])
        factors = jnp.broadcast_to(jnp.asarray(log_factor), (num_members,))
        return Members(Spread(plain.each, factors)) if _has_spread(plain.each) else None
    return Spread(plain, log_factor) if _has_spread(plain) else None


def as_fitted(likelihood: Any) -> Any:
    """The likelihood without a factor."""
    if isinstance(likelihood, Members) and isinstance(likelihood.each, Spread):
        return Members(likelihood.each.likelihood)
    return likelihood.likelihood if isinstance(likelihood, Spread) else likelihood


def log_factor_of(likelihood: Any) -> float:
    """The logarithm of the factor, 0 if there is none."""
    one = members_of_likelihood(likelihood)[0]
    return float(one.log_factor) if isinstance(one, Spread) else 0.0


def _has_spread(likelihood: Any) -> bool:
    noise = likelihood.likelihood if isinstance(likelihood, Bounded) else likelihood
    return isinstance(noise, Gaussian | HeteroscedasticGaussian | StudentT | Categorical | Probit)
