"""Step four: the approximating families q(θ), which serve as priors p₀(θ) too.

A family is a value: a distribution over one flat vector of parameters, whose array fields are what
the optimizer moves. Anything with the members of `Family` will do, a mixture or a flow included;
the energy asks for nothing else.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from bbalpha.engine import threefry
from bbalpha.engine.materialize import in_memory, once
from bbalpha.engine.special import LOG_TWO_PI

Noise = Key[Array, " draws"] | Float[Array, "draws noise"]
"""The noise of some draws, or one key for each, from which its noise is drawn where it is used."""

INITIAL_LOG_VARIANCE = -10.0  # Section 4: q starts as good as a point
CHUNK_ELEMENTS = 2**19  # 2 MiB of float32, the cache of a core
WHOLE_ELEMENTS = 2**21  # 8 MiB, up to where recomputing costs more than the cache saves
TYPICAL_WIDTH = 64


@runtime_checkable
class Family(Protocol):
    """A distribution over a flat vector that can be reparameterized: θ = g(ε).

    Every method speaks of one draw; the library adds the axis of draws with `jax.vmap`. To write a
    family of your own, make it an `equinox.Module` with these members, whose fields are arrays of
    floating-point numbers (they are trained) or static, and pass a function of the mean and the
    prior that makes one as `family=` to `bbalpha.fit`.
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
        """One draw of ε from a distribution that does not depend on the fields of the family."""
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
        prior: Family,
        *,
        initial_log_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "DiagonalGaussian":
        """A narrow Gaussian around `mean` whose log-variances are free (the paper's text)."""
        del prior
        return cls(mean, jnp.full_like(mean, initial_log_variance))

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
        """The log-density of the parameters that `noise` is transformed into."""
        return -0.5 * (jnp.dot(noise, noise) + jnp.sum(self.log_variance + LOG_TWO_PI))


class CappedGaussian(eqx.Module):
    """The default: a diagonal Gaussian that is never wider than the prior, vⱼ = v₀ⱼ·sigmoid(ρⱼ).

    So the site q/p₀ keeps a positive precision under a diagonal prior, as in the code that the
    paper's authors released. It becomes a distribution under a prior, which may itself be learned.

    >>> prior = bb.DiagonalGaussian(mean=jnp.zeros(1), log_variance=jnp.log(jnp.array([4.0])))
    >>> q = bb.CappedGaussian(mean=jnp.ones(1), logit_variance=jnp.zeros(1))
    >>> print(f"{q.under(prior).variance.item():.4f}")  # 4 · sigmoid(0)
    2.0000
    """

    mean: Float[Array, " params"]
    logit_variance: Float[Array, " params"]

    @classmethod
    def init(
        cls,
        mean: Float[Array, " params"],
        prior: Family,
        *,
        initial_logit_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "CappedGaussian":
        """A Gaussian around `mean`, narrow when compared with the prior."""
        del prior
        return cls(mean, jnp.full_like(mean, initial_logit_variance))

    def under(self, prior: Family) -> DiagonalGaussian:
        """The Gaussian whose variances are these fractions of the prior's."""
        log_variance = jnp.log(prior.variance) + jax.nn.log_sigmoid(self.logit_variance)
        return DiagonalGaussian(self.mean, log_variance)


class FullGaussian(eqx.Module):
    """A Gaussian with full covariance Σ = L Lᵀ, where L = diag(s)·(I + strictly lower part).

    Rows of the factor are relative to the scales s, so that one learning rate suits parameters of
    all sizes.

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
        prior: Family,
        *,
        initial_log_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "FullGaussian":
        """A narrow Gaussian around `mean` without correlations."""
        del prior
        lower = jnp.zeros((mean.size, mean.size), mean.dtype)
        return cls(mean, jnp.full_like(mean, 0.5 * initial_log_variance), lower)

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
        """The log-density of the parameters that `noise` is transformed into."""
        return -0.5 * jnp.dot(noise, noise) - jnp.sum(self.log_scale + 0.5 * LOG_TWO_PI)

    @property
    def _unit_lower(self) -> Float[Array, "params params"]:
        return jnp.tril(self.lower, -1) + jnp.eye(self.mean.size, dtype=self.mean.dtype)


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
        prior: Family,
        *,
        rank: int = 10,
        initial_log_variance: float = INITIAL_LOG_VARIANCE,
    ) -> "LowRankGaussian":
        """A narrow Gaussian around `mean`; `functools.partial` sets another rank.

        At F = 0 the gradient with respect to F vanishes, so direction r starts with a small weight
        on every parameter j with j mod rank = r.
        """
        del prior
        factor = 0.1 * jax.nn.one_hot(jnp.arange(mean.size) % rank, rank, dtype=mean.dtype)
        return cls(mean, jnp.full_like(mean, 0.5 * initial_log_variance), factor)

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


def log_prob_of_draw(
    q: Family, noise: Float[Array, " noise"], params: Float[Array, " params"]
) -> Float[Array, ""]:
    """The log-density of the parameters that q made of `noise`, from the noise where q can do so.

    A member `log_prob_of_noise` is optional: it saves the way back from the parameters.
    """
    if hasattr(q, "log_prob_of_noise"):
        return q.log_prob_of_noise(noise)  # pyright: ignore[reportAttributeAccessIssue]
    return q.log_prob(params)


def map_draws(
    function: Callable[[Float[Array, " params"], Float[Array, " noise"]], PyTree],
    q: Family,
    noise: Noise,
    sample_chunk: int,
    kept_products: int = 0,
) -> PyTree:
    """`function` of the parameters and the noise of every draw, with one chunk of draws in memory.

    A draw whose noise comes from a key of Threefry has that to itself, so the chunk size changes
    time and memory but not the result. The chunks are recomputed in the backward pass instead of
    being kept; their matrix products, which take most of the time, are kept if those of all draws
    have at most `kept_products` numbers.
    """

    def of_noise(noise: Float[Array, "draws noise"]) -> PyTree:
        params = jax.vmap(q.transform)(noise)  # θₖ = g(εₖ)
        if num_chunks == 1:  # what is checkpointed could not be differentiated twice in reverse
            params = in_memory(params, noise)
        return jax.vmap(function)(params, noise)

    def take(start: int | Int[Array, ""]) -> Float[Array, "draws noise"]:
        chunk = jax.lax.dynamic_slice_in_dim(noise, start, sample_chunk)
        return draw_noise(q, chunk) if _are_keys(chunk) else chunk

    num_samples = len(noise)
    sample_chunk = min(sample_chunk, num_samples)
    num_chunks = -(-num_samples // sample_chunk)
    if num_chunks == 1:
        return of_noise(take(0))
    if num_samples % sample_chunk:  # what overhangs is dropped below
        noise = noise[jnp.arange(num_chunks * sample_chunk) % num_samples]
    policy = jax.checkpoint_policies.nothing_saveable
    if kept_products > 0:
        num_products = num_chunks * _size_of_products(of_noise, jax.eval_shape(take, 0))
        if num_products <= kept_products:
            policy = jax.checkpoint_policies.dots_saveable
    # The starts are mapped, not the noise in chunks, of which XLA would make a copy.
    of_chunk = jax.checkpoint(lambda start: of_noise(take(start)), prevent_cse=False, policy=policy)
    results = jax.lax.map(of_chunk, jnp.arange(0, len(noise), sample_chunk))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[:num_samples], results)


def draw_noise(q: Family, keys: Key[Array, " draws"]) -> Float[Array, "draws noise"]:
    """The noise of each key, drawn once although much depends on it."""
    impl = jax.random.key_impl(keys)

    def draw(words: Array) -> Array:
        return jax.vmap(q.noise)(jax.random.wrap_key_data(words, impl=impl))

    return once(draw, jax.random.key_data(keys))


def chunk_of_draws(num_params: int, num_rows: int, num_samples: int) -> int:
    """How many draws to process at once: all where they are small, else what a cache can hold.

    A draw is counted as its parameters and as many hidden units per row as a common layer has.
    """
    elements = num_params + TYPICAL_WIDTH * num_rows
    if num_samples * elements <= WHOLE_ELEMENTS:
        return num_samples
    num_chunks = -(-num_samples // max(1, CHUNK_ELEMENTS // elements))
    return -(-num_samples // num_chunks)


def _are_keys(noise: Noise) -> bool:
    return jnp.issubdtype(noise.dtype, jax.dtypes.prng_key)


def _size_of_products(function: Callable[[Array], PyTree], noise: jax.ShapeDtypeStruct) -> int:
    """How many numbers the matrix products are that the derivative of a function asks for."""

    def num_kept(policy: Callable[..., bool]) -> int:
        function_again = jax.checkpoint(function, policy=policy)
        kept = jax.eval_shape(lambda noise: jax.vjp(function_again, noise)[1], noise)
        return sum(leaf.size for leaf in jax.tree.leaves(kept))

    policies = jax.checkpoint_policies
    return num_kept(policies.dots_saveable) - num_kept(policies.nothing_saveable)
