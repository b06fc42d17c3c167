"""Step five: the energy. All of BB-α is this file.

    E(q) = − Σₙ (1/α) log E_q[(p(xₙ|θ) / f(θ))^α],    log f(θ) = (log q(θ) − log p₀(θ)) / N

With normalized densities the log-normalizers of the paper's eq. (bb_alpha_energy) cancel draw by
draw, so any q that can be sampled by reparameterization and has a log-density will do.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from bbalpha.engine.checks import check_one_per_datum
from bbalpha.distributions import Family, Noise, log_prob_of_draw, map_draws
from bbalpha.engine.materialize import in_memory

SHORT_SUM = 200  # draws up to which one exponential serves two forms of the power mean
KEPT_PRODUCTS = 2**24  # numbers that a replica may keep from forward to backward pass: 64 MiB

Number = float | int | Float[Array, ""]
VectorLogLikelihood = Callable[[Float[Array, " params"], PyTree], Float[Array, " batch"]]


def alpha_energy(
    log_likelihood: VectorLogLikelihood,
    q: Family,
    prior: Family,
    batch: PyTree,
    noise: Float[Array, "draws noise"],
    *,
    alpha: Number,
    num_data: Number,
    weights: Float[Array, " batch"] | None = None,
    noise_weights: Float[Array, " draws"] | None = None,
) -> Float[Array, ""]:
    """The BB-α energy of q for given noise; lower is better.

    Ê(q) = − (N/|S|) Σ_{n∈S} M_α(log p(xₙ|θₖ) − log f(θₖ)),  θₖ = g(εₖ): the paper's eq.
    (new_noisy_alpha_energy_reparam). α = 0 is the negative evidence lower bound.

    Args:
        log_likelihood: one number per datum of the batch, for one flat vector of parameters.
        q: the approximation.
        prior: p₀, over the same vector.
        batch: the data S, any pytree.
        noise: εₖ, one row per draw, shared by all data.
        alpha: the power; may be traced.
        num_data: N, the number of data points (or their total weight).
        weights: how many data points each datum of the batch stands for; N/|S| each by default.
        noise_weights: weights of the draws that sum to one, for quadrature; 1/K by default.

    >>> q = prior = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    >>> def log_likelihood(params, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, params)
    >>> noise = jax.random.normal(jax.random.key(0), (100_000, 1))
    >>> energy = bb.alpha_energy(
    ...     log_likelihood, q, prior, jnp.ones(2), noise, alpha=0.5, num_data=2
    ... )
    >>> print(f"{energy:.1f}")  # −4 log ∫ N(θ; 0, 1) N(1; θ, 1)^½ dθ = 3.315
    3.3
    """
    ratio = _log_ratio(log_likelihood, q, prior, batch, num_data)
    log_ratio = jax.vmap(ratio)(jax.vmap(q.transform)(noise), noise)  # θₖ = g(εₖ)
    return _weighted_energy(log_ratio, alpha, num_data, weights, noise_weights)


def chunked_energy(
    log_likelihood: VectorLogLikelihood,
    q: Family,
    prior: Family,
    batch: PyTree,
    noise: Noise,
    *,
    alpha: Number,
    num_data: Number,
    sample_chunk: int,
    weights: Float[Array, " batch"] | None = None,
) -> Float[Array, ""]:
    """The energy of `alpha_energy` with one chunk of draws in memory, and products if they fit."""
    ratio = _log_ratio(log_likelihood, q, prior, batch, num_data)
    log_ratio = map_draws(ratio, q, noise, sample_chunk, kept_products=KEPT_PRODUCTS)
    log_ratio = in_memory(log_ratio, jnp.asarray(num_data))
    return _weighted_energy(log_ratio, alpha, num_data, weights)


def log_power_mean(
    log_values: Float[Array, "draws ..."],
    alpha: Number,
    noise_weights: Float[Array, " draws"] | None = None,
) -> Float[Array, "..."]:
    """The power mean M_α(t) = (1/α) log (1/K) Σₖ exp(α tₖ) over the first axis; M₀ is the mean.

    Written as b + log1p(mean(expm1(α (t − b))))/α around the dominant term b, which neither
    overflows nor loses the digits that log-mean-exp loses at small α (0.1 nat per datum in float32
    at α = 1e-6). Where the mean comes near −1 it is log1p that would lose digits, and the
    logarithm of the mean of exponentials is the accurate form.

    >>> print(f"{bb.log_power_mean(jnp.array([0.0, 1.0]), 1e-6):.4f}")
    0.5000
    """
    alpha = jnp.asarray(alpha, log_values.dtype)
    # Below this |α| the exponent would underflow, and M_α equals M₀ to rounding.
    is_zero = jnp.abs(alpha) < jnp.sqrt(jnp.finfo(log_values.dtype).tiny)
    power = jnp.where(is_zero, 1.0, alpha)
    sign = jnp.sign(power)
    dominant = sign * jnp.max(sign * log_values, axis=0)
    dominant = jax.lax.stop_gradient(jnp.where(jnp.isfinite(dominant), dominant, 0.0))
    exponents = power * (log_values - dominant[None])
    excesses = jnp.expm1(exponents)
    excess = _mean_over_draws(excesses, noise_weights)
    is_close = excess > -0.5
    close = jnp.log1p(jnp.where(is_close, excess, 0.0))
    # Where the weight of a draw is very small, what 1 + expm1 has lost would be seen in the sum.
    is_short = noise_weights is None and len(log_values) <= SHORT_SUM
    powers = 1 + excesses if is_short else jnp.exp(exponents)
    spread = _mean_over_draws(powers, noise_weights)
    far = jnp.log(jnp.where(is_close, 1.0, spread))
    power_mean = dominant + jnp.where(is_close, close, far) / power
    return jnp.where(is_zero, _mean_over_draws(log_values, noise_weights), power_mean)


def _log_ratio(
    log_likelihood: VectorLogLikelihood, q: Family, prior: Family, batch: PyTree, num_data: Number
) -> Callable[[Float[Array, " params"], Float[Array, " noise"]], Float[Array, "..."]]:
    def log_ratio(
        params: Float[Array, " params"], noise: Float[Array, " noise"]
    ) -> Float[Array, "..."]:
        log_q = log_prob_of_draw(q, noise, params)
        log_site = (log_q - prior.log_prob(params)) / num_data  # log f(θₖ)
        return log_likelihood(params, batch) - log_site

    return log_ratio


def _weighted_energy(
    log_ratio: Float[Array, "draws ..."],
    alpha: Number,
    num_data: Number,
    weights: Float[Array, " batch"] | None,
    noise_weights: Float[Array, " draws"] | None = None,
) -> Float[Array, ""]:
    # `step` meets its batches while it is compiled: what would be broadcast is refused here.
    check_one_per_datum(log_ratio.shape[1:], None if weights is None else weights.shape)
    if weights is None:
        return -num_data * jnp.mean(log_power_mean(log_ratio, alpha, noise_weights))
    # A datum of weight zero is padding: its ratio is set to 0, lest its gradient become 0·∞.
    log_ratio = jnp.where(weights[None] > 0, log_ratio, 0.0)
    return -jnp.sum(weights * log_power_mean(log_ratio, alpha, noise_weights))


def _mean_over_draws(
    values: Float[Array, "draws ..."], noise_weights: Float[Array, " draws"] | None
) -> Float[Array, "..."]:
    if noise_weights is None:
        return jnp.mean(values, axis=0)
    return jnp.tensordot(noise_weights, values, axes=1)
