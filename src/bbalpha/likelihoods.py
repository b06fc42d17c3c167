"""Likelihoods: outputs and targets → log p(yₙ|xₙ, θ), one number per datum.

A likelihood is an object with four methods. Its array fields are hyper-parameters: `bbalpha.fit`
learns them if you pass the likelihood as `hyperparams=`. Outputs have shape (..., data, columns),
where leading axes are draws of θ. A likelihood of ordered targets also has a distribution function,
`cdf`, and its complement `survival`, which stays precise in the upper tail.
"""

import math
from dataclasses import fields
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import betaln
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int, Key

from bbalpha.data import aligned, check_values
from bbalpha.engine.arrays import on_device
from bbalpha.engine.probabilities import LARGEST_DF, LOG_TWO_PI, ndtr
from bbalpha.engine.special import log_ndtr, student_t_cdf

LOG_DEGREES_OF_FREEDOM = math.log(4.0)  # heavy tails, yet a finite variance: 2 scale²

Outputs = Float[Array, "..."]  # (..., data, columns); other shapes get an error message of ours
Columns = Float[Array, "*draws data columns"]
PerDatum = Float[Array, "*draws data"]
RandomKey = Key[Array, ""]


def floating(value: ArrayLike) -> Array:
    """The value of a field as an array of floats, with a type that training does not change."""
    array = value if isinstance(value, Array) else np.asarray(value)
    return on_device(array, jnp.result_type(array, float))


@runtime_checkable
class Likelihood(Protocol):
    """The distribution of a target given the outputs of a model.

    Targets have shape (data, T), or (data,) if T = 1. To write your own likelihood, make an
    `equinox.Module` with these four methods.
    """

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return log p(yₙ|outputs), higher is better; the T columns are summed.

        Raises:
            ValueError: If the shapes do not match or, outside compiled code, if a target is not a
                possible value.
        """
        ...

    def mean(self, outputs: Outputs) -> Columns:
        """Return the mean of every target."""
        ...

    def variance(self, outputs: Outputs) -> Columns:
        """Return the variance of every target."""
        ...

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Array:
        """Return one target per row of the outputs."""
        ...


@runtime_checkable
class OrderedLikelihood(Likelihood, Protocol):
    """A likelihood of ordered targets, whose predictions have quantiles.

    Both methods take any real numbers as targets and treat each column separately.
    """

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y ≤ y) for every target."""
        ...

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y > y) for every target: 1 − cdf without the cancellation."""
        ...


class Gaussian(eqx.Module):
    """A continuous target with the same noise everywhere: y ~ N(output, σ²).

    `log_variance` is log σ², one number or one per column of the targets.

    >>> print(f"{bb.Gaussian().log_prob(jnp.zeros((1, 1)), jnp.ones(1)).item():.4f}")
    -1.4189
    """

    log_variance: Float[Array, "..."] = eqx.field(converter=floating, default=0.0)

    @property
    def noise_variance(self) -> Float[Array, "..."]:
        """The variance σ² of the noise."""
        return jnp.exp(self.log_variance)

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ log N(yₜ; outputₜ, σₜ²)."""
        targets = aligned(targets, outputs)
        (log_variance,) = fields_of(self, outputs)
        return jnp.sum(_gaussian_log_prob(targets - outputs, log_variance), axis=-1)

    def mean(self, outputs: Outputs) -> Columns:
        """Return the outputs."""
        return outputs

    def variance(self, outputs: Outputs) -> Columns:
        """Return σ² for every target."""
        (log_variance,) = fields_of(self, outputs)
        return jnp.broadcast_to(jnp.exp(log_variance), outputs.shape)

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Columns:
        """Return the outputs plus noise."""
        noise = jax.random.normal(key, outputs.shape, outputs.dtype)
        return outputs + jnp.sqrt(self.variance(outputs)) * noise

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return Φ((y − output) / σ) for every target."""
        return ndtr(self._score(outputs, targets))

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return Φ((output − y) / σ) for every target."""
        return ndtr(-self._score(outputs, targets))

    def _score(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        (log_variance,) = fields_of(self, outputs)
        return _score(targets, outputs, 0.5 * log_variance)


class HeteroscedasticGaussian(eqx.Module):
    """A continuous target with noise that is also an output: y ~ N(m, exp(s)), outputs = [m, s].

    The outputs hold twice as many columns as the targets: all means, then all log-variances.

    >>> print(f"{bb.HeteroscedasticGaussian().variance(jnp.array([[5.0, 2.0]])).item():.4f}")
    7.3891
    """

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ log N(yₜ; mₜ, exp(sₜ))."""
        mean, log_variance = _halves(outputs)
        targets = aligned(targets, mean)
        return jnp.sum(_gaussian_log_prob(targets - mean, log_variance), axis=-1)

    def mean(self, outputs: Outputs) -> Columns:
        """Return m."""
        return _halves(outputs)[0]

    def variance(self, outputs: Outputs) -> Columns:
        """Return exp(s)."""
        return jnp.exp(_halves(outputs)[1])

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Columns:
        """Return the means plus noise."""
        mean, log_variance = _halves(outputs)
        return mean + jnp.exp(0.5 * log_variance) * jax.random.normal(key, mean.shape, mean.dtype)

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return Φ((y − m) / exp(s/2)) for every target."""
        mean, log_variance = _halves(outputs)
        return ndtr(_score(targets, mean, 0.5 * log_variance))

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return Φ((m − y) / exp(s/2)) for every target."""
        mean, log_variance = _halves(outputs)
        return ndtr(-_score(targets, mean, 0.5 * log_variance))


class StudentT(eqx.Module):
    """A continuous target with outliers: y = output + scale · t, t ~ Student's t with ν degrees.

    Each field is one number or one per column of the targets. As ν → ∞ this is `Gaussian`.

    >>> print(f"{bb.StudentT().variance(jnp.zeros((1, 1))).item():.4f}")
    2.0000
    """

    log_scale: Float[Array, "..."] = eqx.field(converter=floating, default=0.0)
    log_degrees_of_freedom: Float[Array, "..."] = eqx.field(
        converter=floating, default=LOG_DEGREES_OF_FREEDOM
    )

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ log t(zₜ; ν) − log scale, with zₜ = (yₜ − outputₜ) / scale."""
        targets = aligned(targets, outputs)
        log_scale, log_df = self._log_scale_and_degrees(outputs)
        df = jnp.exp(log_df)
        residuals = (targets - outputs) * jnp.exp(-log_scale)
        # B(½, ν/2) rather than Γ((ν+1)/2) / Γ(ν/2), whose logarithms cancel for large ν
        log_normalizer = betaln(0.5, df / 2) + 0.5 * log_df + log_scale
        kernel = (df + 1) / 2 * jnp.log1p(jnp.square(residuals) / df)
        return -jnp.sum(log_normalizer + kernel, axis=-1)

    def mean(self, outputs: Outputs) -> Columns:
        """Return the outputs: the mean where ν > 1, the median for every ν."""
        return outputs

    def variance(self, outputs: Outputs) -> Columns:
        """Return scale² ν / (ν − 2) for every target, infinite where ν ≤ 2."""
        log_scale, log_df = self._log_scale_and_degrees(outputs)
        inverse = jnp.maximum(1 - 2 * jnp.exp(-log_df), 0.0)  # (ν − 2) / ν
        return jnp.broadcast_to(jnp.exp(2 * log_scale) / inverse, outputs.shape)

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Columns:
        """Return the outputs plus noise."""
        log_scale, log_df = self._log_scale_and_degrees(outputs)
        noise = jax.random.t(key, jnp.exp(log_df), outputs.shape, outputs.dtype)
        return outputs + jnp.exp(log_scale) * noise

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(t ≤ (y − output) / scale) for every target."""
        log_scale, log_df = self._log_scale_and_degrees(outputs)
        return student_t_cdf(_score(targets, outputs, log_scale), jnp.exp(log_df))

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(t ≤ (output − y) / scale) for every target."""
        log_scale, log_df = self._log_scale_and_degrees(outputs)
        return student_t_cdf(-_score(targets, outputs, log_scale), jnp.exp(log_df))

    def _log_scale_and_degrees(self, outputs: Outputs) -> tuple[Array, Array]:
        log_scale, log_df = fields_of(self, outputs)
        return log_scale, jnp.minimum(log_df, math.log(LARGEST_DF))


class Probit(eqx.Module):
    """A binary target: p(y = 1) = Φ(output), with Φ the standard Gaussian distribution function.

    Targets are 0 or 1, of any dtype; draws are integers.

    >>> print(f"{bb.Probit().mean(jnp.array([[1.0]])).item():.4f}")
    0.8413
    """

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ log Φ(±outputₜ), plus where yₜ = 1."""
        return jnp.sum(log_ndtr(_signs(self, outputs, targets) * outputs), axis=-1)

    def mean(self, outputs: Outputs) -> Columns:
        """Return the probability of a 1, Φ(output)."""
        return ndtr(outputs)

    def variance(self, outputs: Outputs) -> Columns:
        """Return Φ(output) Φ(−output)."""
        return ndtr(outputs) * ndtr(-outputs)

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Int[Array, "..."]:
        """Return zeros and ones."""
        return jax.random.bernoulli(key, self.mean(outputs)).astype(int)


class Bernoulli(eqx.Module):
    """A binary target: p(y = 1) = 1 / (1 + exp(−output)); the outputs are logits.

    Targets are 0 or 1, of any dtype; draws are integers.

    >>> print(f"{bb.Bernoulli().mean(jnp.array([[1.0]])).item():.4f}")
    0.7311
    """

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return Σₜ log sigmoid(±outputₜ), plus where yₜ = 1."""
        return jnp.sum(jax.nn.log_sigmoid(_signs(self, outputs, targets) * outputs), axis=-1)

    def mean(self, outputs: Outputs) -> Columns:
        """Return the probability of a 1, sigmoid(output)."""
        return jax.nn.sigmoid(outputs)

    def variance(self, outputs: Outputs) -> Columns:
        """Return sigmoid(output) sigmoid(−output)."""
        return jax.nn.sigmoid(outputs) * jax.nn.sigmoid(-outputs)

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Int[Array, "..."]:
        """Return zeros and ones."""
        return jax.random.bernoulli(key, self.mean(outputs)).astype(int)


class Categorical(eqx.Module):
    """One of C classes: p(y = c) = softmax(outputs)_c; the C columns of the outputs are logits.

    Targets are labels 0, ..., C − 1, of shape (data,) or (data, 1) and any dtype; draws are
    integers of shape (..., data). `mean` and `variance` are of the C class indicators.

    >>> print(f"{bb.Categorical().log_prob(jnp.zeros((1, 4)), jnp.array([3])).item():.4f}")
    -1.3863
    """

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return log softmax(outputs)_y."""
        rule = f"whole numbers from 0 to {outputs.shape[-1] - 1} for Categorical"
        check_values(targets, rule, lambda y: np.isin(y, np.arange(outputs.shape[-1])))
        labels = aligned(targets, outputs[..., :1], int)
        return jnp.take_along_axis(jax.nn.log_softmax(outputs), labels, axis=-1)[..., 0]

    def mean(self, outputs: Outputs) -> Columns:
        """Return the probabilities p of the classes."""
        return jax.nn.softmax(outputs)

    def variance(self, outputs: Outputs) -> Columns:
        """Return p (1 − p) for every class."""
        probabilities = jax.nn.softmax(outputs)
        return probabilities * (1 - probabilities)

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Int[Array, "..."]:
        """Return labels."""
        return jax.random.categorical(key, outputs)


def _gaussian_log_prob(residuals: Array, log_variance: Array) -> Array:
    """Log N(residual; 0, exp(log_variance)), entry by entry."""
    return -0.5 * (LOG_TWO_PI + log_variance + jnp.square(residuals) * jnp.exp(-log_variance))


def _score(targets: ArrayLike, center: Array, log_scale: Array) -> Array:
    """(target − center) / scale; a scale that underflows is replaced by the smallest number."""
    scale = jnp.maximum(jnp.exp(log_scale), jnp.finfo(center.dtype).tiny)
    return (aligned(targets, center) - center) / scale


def _signs(likelihood: Likelihood, outputs: Outputs, targets: ArrayLike) -> Array:
    """−1 for the target 0 and +1 for the target 1, aligned with the outputs."""
    rule = f"0 or 1 for {type(likelihood).__name__}"
    remedy = " Map labels −1, +1 by (labels + 1) / 2."
    check_values(targets, rule, lambda y: (y == 0) | (y == 1), remedy)
    return 2 * aligned(targets, outputs) - 1


def fields_of(likelihood: eqx.Module, outputs: Outputs) -> list[Array]:
    """Each field with as many axes as the outputs, all of length 1 except the last."""
    arrays = {field.name: getattr(likelihood, field.name) for field in fields(likelihood)}
    for name, array in arrays.items():
        if array.shape not in ((), outputs.shape[-1:]):
            rule = f"shape () or {outputs.shape[-1:]}, one per column of the outputs"
            raise ValueError(f"{name} must have {rule}; got shape {array.shape}.")
    return [array.reshape((1,) * (outputs.ndim - 1) + (-1,)) for array in arrays.values()]


def _halves(outputs: Outputs) -> list[Array]:
    """Means and log-variances."""
    if outputs.shape[-1] % 2:
        rule = "an even number of columns, means and then log-variances"
        raise ValueError(f"outputs must have {rule}; got shape {outputs.shape}.")
    return jnp.split(outputs, 2, axis=-1)
