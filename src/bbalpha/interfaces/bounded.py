"""A likelihood whose rates and variances cannot explode far from the training rows.

A rate or a variance is the exponential of an output of the network. In an average over the
posterior, a single draw in a thousand with a large output would decide the mean. Beyond a limit,
the output is therefore compressed to its logarithm, so that the rate or variance grows only
linearly.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from bbalpha.likelihoods import (
    Columns,
    OrderedLikelihood,
    Outputs,
    PerDatum,
    RandomKey,
    floating,
)

UNLIMITED = 1e9  # for outputs that are not logarithms; its square is finite in float32


class Bounded(eqx.Module):
    """A likelihood with limits on its outputs; training does not change the limits.

    Attributes:
        likelihood: The likelihood of the bounded outputs.
        lower: Where outputs begin to fall like a logarithm, one number per output.
        upper: Where outputs begin to grow like a logarithm.
    """

    likelihood: OrderedLikelihood
    lower: Float[Array, " outputs"] = eqx.field(converter=floating)
    upper: Float[Array, " outputs"] = eqx.field(converter=floating)

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return the log-density at the bounded outputs."""
        return self.likelihood.log_prob(self.bounded(outputs), targets)

    def mean(self, outputs: Outputs) -> Columns:
        """Return the mean at the bounded outputs."""
        return self.likelihood.mean(self.bounded(outputs))

    def variance(self, outputs: Outputs) -> Columns:
        """Return the variance at the bounded outputs."""
        return self.likelihood.variance(self.bounded(outputs))

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Array:
        """Return one target per row of the bounded outputs."""
        return self.likelihood.sample(self.bounded(outputs), key=key)

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y ≤ y) at the bounded outputs."""
        return self.likelihood.cdf(self.bounded(outputs), targets)

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y > y) at the bounded outputs."""
        return self.likelihood.survival(self.bounded(outputs), targets)

    def bounded(self, outputs: Outputs) -> Outputs:
        """The outputs, compressed beyond the limits, where value and slope stay continuous."""
        ones = (1,) * (outputs.ndim - 1)
        lower, upper = (
            jax.lax.stop_gradient(limit).reshape(*ones, -1) for limit in (self.lower, self.upper)
        )
        above, below = jnp.maximum(outputs - upper, 0), jnp.maximum(lower - outputs, 0)
        bounded = jnp.where(outputs < lower, lower - jnp.log1p(below), outputs)
        return jnp.where(outputs > upper, upper + jnp.log1p(above), bounded)
