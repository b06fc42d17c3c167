"""A mixture of diagonal Gaussians, the form of a stacked posterior."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from bbalpha.distributions import DiagonalGaussian
from bbalpha.engine import threefry


class GaussianMixture(eqx.Module):
    """A mixture of diagonal Gaussians, q(θ) = Σₖ wₖ Πⱼ N(θⱼ; mₖⱼ, vₖⱼ).

    It combines posteriors that are already fitted. `fit` cannot learn the weights, because a draw
    does not depend on them smoothly.

    >>> q = bb.GaussianMixture(
    ...     means=jnp.array([[-1.0], [1.0]]),
    ...     log_variances=jnp.zeros((2, 1)),
    ...     log_weights=jnp.log(jnp.array([0.5, 0.5])),
    ... )
    >>> print(q.mean, q.variance)
    [0.] [2.]
    """

    means: Float[Array, "members params"]
    log_variances: Float[Array, "members params"]
    log_weights: Float[Array, " members"]

    @property
    def weights(self) -> Float[Array, " members"]:
        """The weights, which sum to 1."""
        return jax.nn.softmax(self.log_weights)

    @property
    def members(self) -> list[DiagonalGaussian]:
        """The Gaussians."""
        pairs = zip(self.means, self.log_variances, strict=True)
        return [DiagonalGaussian(*pair) for pair in pairs]

    @property
    def mean(self) -> Float[Array, " params"]:
        """The mean of every parameter."""
        return self.weights @ self.means

    @property
    def variance(self) -> Float[Array, " params"]:
        """The variance of every parameter: within the Gaussians plus between them."""
        apart = jnp.square(self.means - self.mean[None])
        return self.weights @ (jnp.exp(self.log_variances) + apart)

    def noise(self, key: Key[Array, ""]) -> Float[Array, " noise"]:
        """Standard Gaussian noise and, as the last number, one that chooses a Gaussian."""
        return threefry.normal(key, (self.means.shape[1] + 1,), self.means.dtype)

    def transform(self, noise: Float[Array, " noise"]) -> Float[Array, " params"]:
        """The parameters θⱼ = mₖⱼ + √vₖⱼ εⱼ of the chosen Gaussian k."""
        ends = jnp.cumsum(self.weights)[:-1]
        member = jnp.sum(jax.scipy.stats.norm.cdf(noise[-1]) > ends)
        deviations = jnp.exp(0.5 * self.log_variances[member])
        return self.means[member] + deviations * noise[:-1]

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density log Σₖ wₖ N(θ; mₖ, vₖ)."""
        of_members = [member.log_prob(params) for member in self.members]
        log_weights = jax.nn.log_softmax(self.log_weights)
        return jax.nn.logsumexp(log_weights + jnp.stack(of_members))
