"""Gaussians whose covariance is a diagonal plus a few directions, for models with many parameters.

`LowRankGaussian` can be fitted; `NarrowedGaussian` is the exact result of a wide regression.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.distributions import INITIAL_LOG_VARIANCE, Density, Draws, filled
from bbalpha.engine import threefry
from bbalpha.engine.arrays import on_device
from bbalpha.engine.probabilities import LOG_TWO_PI

RANK_DAMPING = 0.1  # added to the squared length of a direction of the factor


class LowRankGaussian(eqx.Module):
    """A Gaussian with covariance S (I + F Fᵀ) S: a diagonal plus a few directions.

    S = diag(s) and F has one column per direction, so time and memory grow with the number of
    parameters times the rank.

    >>> q = bb.LowRankGaussian(jnp.zeros(2), jnp.zeros(2), factor=jnp.array([[1.0], [2.0]]))
    >>> print(q.covariance)
    [[2. 2.]
     [2. 5.]]
    """

    mean: Float[Array, " params"]
    log_scale: Float[Array, " params"]
    factor: Float[Array, "params rank"]

    @classmethod
    def init(
        cls,
        mean: Float[Array, " params"],
        prior: Density,
        *,
        rank: int = 10,
        initial_log_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "LowRankGaussian":
        """A narrow Gaussian around `mean`; use `functools.partial` to set another rank.

        At F = 0 the gradient with respect to F vanishes, so direction r starts with a small weight
        on every parameter j with j mod rank = r.
        """
        del prior
        factor = on_device(0.1 * np.eye(rank)[np.arange(mean.size) % rank], mean.dtype)
        return cls(mean, filled(mean, 0.5 * initial_log_variance), factor)

    @property
    def covariance(self) -> Float[Array, "params params"]:
        """The covariance matrix, dense: for models with few parameters."""
        scaled = jnp.exp(self.log_scale)[:, None] * self.factor
        return scaled @ scaled.T + jnp.diag(jnp.exp(2 * self.log_scale))

    @property
    def variance(self) -> Float[Array, " params"]:
        """The variance of every parameter."""
        return jnp.exp(2 * self.log_scale) * (1 + jnp.sum(jnp.square(self.factor), axis=1))

    def noise(self, key: Key[Array, ""]) -> Float[Array, " noise"]:
        """Standard Gaussian noise: one number per parameter, then one per direction."""
        return threefry.normal(key, (sum(self.factor.shape),), self.mean.dtype)

    def transform(self, noise: Float[Array, " noise"]) -> Float[Array, " params"]:
        """The parameters θ = m + s (ε + F η)."""
        own, shared = jnp.split(noise, [self.mean.size])
        return self.mean + jnp.exp(self.log_scale) * (own + self.factor @ shared)

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density, by the Woodbury identity on the rank × rank matrix I + Fᵀ F."""
        scaled = (params - self.mean) * jnp.exp(-self.log_scale)
        rank = self.factor.shape[1]
        gram = jnp.eye(rank, dtype=self.mean.dtype) + self.factor.T @ self.factor
        cholesky = jnp.linalg.cholesky(gram)
        projected = jax.scipy.linalg.solve_triangular(cholesky, self.factor.T @ scaled, lower=True)
        squares = jnp.sum(jnp.square(scaled)) - jnp.sum(jnp.square(projected))
        log_determinant = 2 * jnp.sum(self.log_scale) + 2 * jnp.sum(jnp.log(jnp.diag(cholesky)))
        return -0.5 * (squares + log_determinant + self.mean.size * LOG_TWO_PI)

    def natural_gradient(
        self, noise: Draws, gradient: Draws, prior: Density
    ) -> tuple["LowRankGaussian", PyTree]:
        """The direction, and its coordinates, exact for the mean and approximate for the rest.

        With Σ̃ = I + F Fᵀ and W = Fᵀ F, the information of log s is taken as its diagonal,
        1 + Σ̃ⱼⱼ (Σ̃⁻¹)ⱼⱼ, and of the factor as Σ̃⁻¹ ⊗ W (I + W)⁻¹, damped where W vanishes.
        """
        del prior
        size, factor = self.mean.size, self.factor
        own, shared = noise[:, :size], noise[:, size:]
        by_own = gradient[:, :size]  # s ∂E/∂θ
        identity = jnp.eye(factor.shape[1], dtype=factor.dtype)
        gram = factor.T @ factor
        inverse_diagonal = 1 - jnp.sum(factor @ jnp.linalg.inv(identity + gram) * factor, axis=1)
        information = 1 + (1 + jnp.sum(jnp.square(factor), axis=1)) * inverse_diagonal
        preconditioner = (identity + gram) @ jnp.linalg.inv(gram + RANK_DAMPING * identity)
        shift = jnp.sum(by_own, axis=0)
        stretch = jnp.sum(by_own * (own + shared @ factor.T), axis=0)
        turn = by_own.T @ shared
        root = jnp.linalg.cholesky(0.5 * (preconditioner + preconditioner.T))
        direction = LowRankGaussian(
            jnp.exp(self.log_scale) * (shift + factor @ (factor.T @ shift)),
            stretch / information,
            (turn + factor @ (factor.T @ turn)) @ preconditioner,
        )
        turned = turn @ root
        along = (factor.T @ shift, factor.T @ turned)
        return direction, (shift, stretch / jnp.sqrt(information), turned, along)


class NarrowedGaussian(eqx.Module):
    """A diagonal Gaussian made narrower, or wider, along a few directions.

    The covariance is S (I + B (A Aᵀ − I) Bᵀ) S with S = diag(s), orthonormal columns B, and A lower
    triangular. The posterior of a regression with more columns than rows has this form: it is as
    wide as the prior except in the directions that the data determine. Time and memory grow with
    the number of parameters times the number of directions.

    >>> basis, cholesky = jnp.array([[1.0], [0.0]]), jnp.array([[0.5]])
    >>> q = bb.NarrowedGaussian(jnp.zeros(2), jnp.zeros(2), basis, cholesky)
    >>> print(q.variance)
    [0.25 1.  ]
    """

    mean: Float[Array, " params"]
    log_scale: Float[Array, " params"]
    basis: Float[Array, "params rank"]
    cholesky: Float[Array, "rank rank"]

    @property
    def covariance(self) -> Float[Array, "params params"]:
        """The covariance matrix, dense: for models with few parameters."""
        scaled = jnp.exp(self.log_scale)[:, None] * self.basis
        return jnp.diag(jnp.exp(2 * self.log_scale)) + scaled @ self._excess @ scaled.T

    @property
    def variance(self) -> Float[Array, " params"]:
        """The variance of every parameter."""
        excess = jnp.sum(self.basis @ self._excess * self.basis, axis=1)
        return jnp.exp(2 * self.log_scale) * (1 + excess)

    def noise(self, key: Key[Array, ""]) -> Float[Array, " params"]:
        """Standard Gaussian noise, one number per parameter."""
        return threefry.normal(key, self.mean.shape, self.mean.dtype)

    def transform(self, noise: Float[Array, " params"]) -> Float[Array, " params"]:
        """The parameters θ = m + s (ε + B (A − I) Bᵀ ε)."""
        along = self.basis.T @ noise
        change = self.basis @ (jnp.tril(self.cholesky) @ along - along)
        return self.mean + jnp.exp(self.log_scale) * (noise + change)

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density, from the noise that becomes the parameters."""
        scaled = (params - self.mean) * jnp.exp(-self.log_scale)
        along = self.basis.T @ scaled
        noise = jax.scipy.linalg.solve_triangular(jnp.tril(self.cholesky), along, lower=True)
        squares = jnp.sum(jnp.square(scaled)) - jnp.sum(jnp.square(along))
        return self._log_density(squares + jnp.sum(jnp.square(noise)))

    def log_prob_of_noise(self, noise: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density of the parameters that `noise` becomes."""
        return self._log_density(jnp.sum(jnp.square(noise)))

    def _log_density(self, squares: Float[Array, ""]) -> Float[Array, ""]:
        log_scales = jnp.sum(self.log_scale) + jnp.sum(jnp.log(jnp.abs(jnp.diag(self.cholesky))))
        return -0.5 * (squares + self.mean.size * LOG_TWO_PI) - log_scales

    @property
    def _excess(self) -> Float[Array, "rank rank"]:
        factor = jnp.tril(self.cholesky)
        return factor @ factor.T - jnp.eye(len(factor), dtype=factor.dtype)
