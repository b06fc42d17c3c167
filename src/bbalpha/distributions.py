"""Distributions over one flat vector of parameters: approximations q(θ) and priors p₀(θ).

The fields of a distribution are arrays, which the optimizer changes. Any object with the members of
`Distribution` will do, including mixtures and flows; the energy needs nothing else.
"""

import math
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.engine import threefry
from bbalpha.engine.arrays import on_device
from bbalpha.engine.probabilities import LOG_TWO_PI

INITIAL_LOG_VARIANCE = -10.0  # Section 4: q starts almost as a point
CAP_DAMPING = 0.01  # Fisher information added for a variance at its cap

Draws = Float[Array, "draws noise"]


@runtime_checkable
class Density(Protocol):
    """What the energy needs of a prior: a log-density, up to a constant."""

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density log p₀(θ)."""
        ...


@runtime_checkable
class Distribution(Protocol):
    """A distribution over a flat vector that can be reparameterized: θ = g(ε).

    Every method handles one draw; the library adds the axis of draws with `jax.vmap`. To write your
    own, make an `equinox.Module` with these members. Its fields must be static or arrays of
    floating-point numbers, which are trained. Pass it to `bbalpha.fit` as `family=`: either the
    class, if it has a class method `init(mean, prior)`, or an instance, or a function of the mean
    and the prior.

    Three more members are optional:

    - `log_prob_of_noise(noise)`: the log-density of the parameters that the noise becomes. It saves
      inverting `transform`.
    - `under(prior)`: the distribution to use under a prior. It lets q depend on a prior that is
      itself learned.
    - `natural_gradient(noise, gradient, prior)`: makes natural-gradient steps possible. It takes
      the noise of all draws and the derivative of the energy with respect to it, and returns the
      inverse Fisher information times the gradient twice: as a change of q, in the form of the
      distribution itself, and in coordinates (any tree) in which the information is the identity.
    """

    @property
    def mean(self) -> Float[Array, " params"]:
        """The mean of every parameter."""
        ...

    @property
    def variance(self) -> Float[Array, " params"]:
        """The variance of every parameter."""
        ...

    def noise(self, key: Key[Array, ""]) -> Float[Array, " noise"]:
        """One draw of ε, whose distribution does not depend on the fields."""
        ...

    def transform(self, noise: Float[Array, " noise"]) -> Float[Array, " params"]:
        """The parameters θ = g(ε)."""
        ...

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The normalized log-density log q(θ)."""
        ...


class DiagonalGaussian(eqx.Module):
    """Independent Gaussians: q(θ) = Πⱼ N(θⱼ; mⱼ, vⱼ).

    >>> q = bb.DiagonalGaussian(mean=jnp.zeros(2), log_variance=jnp.zeros(2))
    >>> print(f"{q.log_prob(jnp.zeros(2)):.4f}")  # −log 2π
    -1.8379
    """

    mean: Float[Array, " params"]
    log_variance: Float[Array, " params"]

    @classmethod
    def init(
        cls,
        mean: Float[Array, " params"],
        prior: Density,
        *,
        initial_log_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "DiagonalGaussian":
        """A narrow Gaussian around `mean` with unbounded variances, as in the paper's text."""
        del prior
        return cls(mean, filled(mean, initial_log_variance))

    @property
    def variance(self) -> Float[Array, " params"]:
        """The variance of every parameter, vⱼ."""
        return jnp.exp(self.log_variance)

    def noise(self, key: Key[Array, ""]) -> Float[Array, " params"]:
        """Standard Gaussian noise, one number per parameter."""
        return threefry.normal(key, self.mean.shape, self.mean.dtype)

    def transform(self, noise: Float[Array, " params"]) -> Float[Array, " params"]:
        """The parameters θⱼ = mⱼ + √vⱼ εⱼ."""
        return self.mean + jnp.exp(0.5 * self.log_variance) * noise

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density Σⱼ log N(θⱼ; mⱼ, vⱼ)."""
        squares = jnp.dot(jnp.square(params - self.mean), jnp.exp(-self.log_variance))
        return -0.5 * (squares + jnp.sum(self.log_variance + LOG_TWO_PI))

    def log_prob_of_noise(self, noise: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density of the parameters that `noise` becomes."""
        return -0.5 * (jnp.dot(noise, noise) + jnp.sum(self.log_variance + LOG_TWO_PI))

    def natural_gradient(
        self, noise: Draws, gradient: Draws, prior: Density
    ) -> tuple["DiagonalGaussian", PyTree]:
        """The direction, and its coordinates: by δⱼ in mⱼ + √vⱼ δⱼ and by mⱼ in vⱼ exp(2 mⱼ)."""
        del prior
        shift = jnp.sum(gradient, axis=0)
        stretch = jnp.sum(gradient * noise, axis=0)
        direction = DiagonalGaussian(jnp.exp(0.5 * self.log_variance) * shift, stretch)
        return direction, (shift, stretch / math.sqrt(2))


class CappedGaussian(eqx.Module):
    """The default q: a diagonal Gaussian no wider than the prior, vⱼ = v₀ⱼ·sigmoid(ρⱼ).

    The cap keeps the precision of the site q/p₀ positive under a diagonal prior, as in the code
    that the paper's authors released. The fields give the width of q relative to a prior, which may
    itself be learned; `under` applies them to a prior. On its own, this object is q under the
    standard prior, v₀ = 1.

    >>> prior = bb.DiagonalGaussian(mean=jnp.zeros(1), log_variance=jnp.log(jnp.array([4.0])))
    >>> q = bb.CappedGaussian(mean=jnp.ones(1), logit_variance=jnp.zeros(1))
    >>> print(f"{q.variance.item():.4f}, {q.under(prior).variance.item():.4f}")  # v₀ · sigmoid(0)
    0.5000, 2.0000
    """

    mean: Float[Array, " params"]
    logit_variance: Float[Array, " params"]

    @classmethod
    def init(
        cls,
        mean: Float[Array, " params"],
        prior: Density,
        *,
        initial_logit_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "CappedGaussian":
        """A Gaussian around `mean`, much narrower than the prior."""
        del prior
        return cls(mean, filled(mean, initial_logit_variance))

    def under(self, prior: Distribution) -> DiagonalGaussian:
        """The Gaussian whose variances are these fractions of the prior's."""
        log_variance = jnp.log(prior.variance) + jax.nn.log_sigmoid(self.logit_variance)
        return DiagonalGaussian(self.mean, log_variance)

    @property
    def variance(self) -> Float[Array, " params"]:
        """The variance of every parameter under the standard prior, sigmoid(ρⱼ)."""
        return jax.nn.sigmoid(self.logit_variance)

    def noise(self, key: Key[Array, ""]) -> Float[Array, " params"]:
        """Standard Gaussian noise, one number per parameter."""
        return threefry.normal(key, self.mean.shape, self.mean.dtype)

    def transform(self, noise: Float[Array, " params"]) -> Float[Array, " params"]:
        """The parameters θⱼ = mⱼ + √vⱼ εⱼ."""
        return self._standard.transform(noise)

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density Σⱼ log N(θⱼ; mⱼ, vⱼ)."""
        return self._standard.log_prob(params)

    def natural_gradient(
        self, noise: Draws, gradient: Draws, prior: Distribution
    ) -> tuple["CappedGaussian", PyTree]:
        """The direction, and its coordinates; ∂ log vⱼ/∂ρⱼ = 1 − sigmoid(ρⱼ), damped at the cap.

        At the cap, ρⱼ hardly changes vⱼ; the damping keeps its steps finite there.
        """
        q = self.under(prior)
        free, (shift, stretch) = q.natural_gradient(noise, gradient, prior)
        slope = jax.nn.sigmoid(-self.logit_variance)
        shrunk = slope / (jnp.square(slope) + CAP_DAMPING)
        damping = jnp.sqrt(slope * shrunk)
        return CappedGaussian(free.mean, shrunk * free.log_variance), (shift, damping * stretch)

    @property
    def _standard(self) -> DiagonalGaussian:
        return DiagonalGaussian(self.mean, jax.nn.log_sigmoid(self.logit_variance))


class FullGaussian(eqx.Module):
    """A Gaussian with full covariance Σ = L Lᵀ, where L = diag(s)·(I + strictly lower part).

    The rows of the factor are relative to the scales s, so that one learning rate suits parameters
    of all sizes.

    >>> lower = jnp.array([[0.0, 0.0], [1.0, 0.0]])
    >>> q = bb.FullGaussian(
    ...     mean=jnp.zeros(2), log_scale=jnp.log(jnp.array([1.0, 3.0])), lower=lower
    ... )
    >>> print(q.covariance)
    [[ 1.  3.]
     [ 3. 18.]]
    """

    mean: Float[Array, " params"]
    log_scale: Float[Array, " params"]
    lower: Float[Array, "params params"]

    @classmethod
    def init(
        cls,
        mean: Float[Array, " params"],
        prior: Density,
        *,
        initial_log_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "FullGaussian":
        """A narrow Gaussian around `mean` without correlations."""
        del prior
        lower = on_device(np.zeros((mean.size, mean.size)), mean.dtype)
        return cls(mean, filled(mean, 0.5 * initial_log_variance), lower)

    @property
    def cholesky(self) -> Float[Array, "params params"]:
        """The lower-triangular factor L."""
        return jnp.exp(self.log_scale)[:, None] * self._unit_lower

    @property
    def covariance(self) -> Float[Array, "params params"]:
        """The covariance matrix Σ."""
        return self.cholesky @ self.cholesky.T

    @property
    def variance(self) -> Float[Array, " params"]:
        """The variance of every parameter, the diagonal of Σ."""
        return jnp.sum(jnp.square(self.cholesky), axis=1)

    def noise(self, key: Key[Array, ""]) -> Float[Array, " params"]:
        """Standard Gaussian noise, one number per parameter."""
        return threefry.normal(key, self.mean.shape, self.mean.dtype)

    def transform(self, noise: Float[Array, " params"]) -> Float[Array, " params"]:
        """The parameters θ = m + L ε."""
        return self.mean + self.cholesky @ noise

    def log_prob(self, params: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density log N(θ; m, L Lᵀ)."""
        scaled = (params - self.mean) * jnp.exp(-self.log_scale)
        noise = jax.scipy.linalg.solve_triangular(
            self._unit_lower, scaled, lower=True, unit_diagonal=True
        )
        return self.log_prob_of_noise(noise)

    def log_prob_of_noise(self, noise: Float[Array, " params"]) -> Float[Array, ""]:
        """The log-density of the parameters that `noise` becomes."""
        return -0.5 * jnp.dot(noise, noise) - jnp.sum(self.log_scale + 0.5 * LOG_TWO_PI)

    def natural_gradient(
        self, noise: Draws, gradient: Draws, prior: Density
    ) -> tuple["FullGaussian", PyTree]:
        """The direction, and its coordinates δ and M in θ = m + L (δ + (I + M) ε).

        M is lower triangular. The Fisher information of δ and of the strictly lower part of M is
        the identity at δ = 0, M = 0, and 2 for the diagonal of M.
        """
        del prior
        shift = jnp.sum(gradient, axis=0)
        mixing = gradient.T @ noise
        lower, log_scale = jnp.tril(mixing, -1), 0.5 * jnp.diag(mixing)
        unit = self._unit_lower  # L = diag(s) U, so that dU = U M − diag(M) U
        moved = unit @ (lower + jnp.diag(log_scale)) - log_scale[:, None] * unit
        direction = FullGaussian(self.cholesky @ shift, log_scale, jnp.tril(moved, -1))
        return direction, (shift, lower, math.sqrt(2) * log_scale)

    @property
    def _unit_lower(self) -> Float[Array, "params params"]:
        return jnp.tril(self.lower, -1) + jnp.eye(self.mean.size, dtype=self.mean.dtype)


def log_prob_of_draw(
    q: Distribution, noise: Float[Array, " noise"], params: Float[Array, " params"]
) -> Float[Array, ""]:
    """The log-density of the parameters that q made of `noise`, computed from it if q can do so."""
    if hasattr(q, "log_prob_of_noise"):
        return q.log_prob_of_noise(noise)  # pyright: ignore[reportAttributeAccessIssue]
    return q.log_prob(params)


def under_prior(q: Distribution, prior: Density) -> Distribution:
    """The distribution that q represents under a prior."""
    if hasattr(q, "under"):
        return q.under(prior)  # pyright: ignore[reportAttributeAccessIssue]
    return q


def is_distribution(value: Any) -> bool:
    """`isinstance(value, Distribution)`, traced, because before 3.12 it computes the variance."""
    answers = []
    jax.eval_shape(lambda: answers.append(isinstance(value, Distribution)))  # traced, not compiled
    return answers[0]


def filled(mean: Float[Array, " params"], value: float) -> Float[Array, " params"]:
    """A vector like `mean` with this value everywhere."""
    return on_device(np.full(mean.shape, value), mean.dtype)
