"""The energy. All of BB-α is this file.

    E(q) = − Σₙ (1/α) log E_q[(p(xₙ|θ) / f(θ))^α],    log f(θ) = (log q(θ) − log p₀(θ)) / N

With normalized densities the log-normalizers of eq. 9 cancel draw by draw, so any q will do that
has a log-density and can be sampled by reparameterization.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Real

from bbalpha.distributions import Density, Distribution, log_prob_of_draw
from bbalpha.engine.checks import check_one_per_datum
from bbalpha.engine.draws import Noise, map_draws
from bbalpha.engine.layout import Layout
from bbalpha.engine.materialize import in_memory

NUM_TERMS = 7  # of the series for exp(r) − 1, which is right to float32's rounding for |r| < 0.35
LOG_2 = (0.693359375, -2.12194440e-4)  # ln 2 in two parts; small multiples of the first are exact
SMALLEST_EXPONENT, LARGEST_POWER = -87.0, 127.0  # of e and of 2 among normal float32 numbers
SHORT_SUM = 200  # draws up to which one exponential serves both forms of the power mean
FEWEST_TO_BRANCH = 2**12  # for fewer numbers a branch saves less than it takes to compile
KEPT_PRODUCTS = 2**24  # numbers that a replica may keep from forward to backward pass: 64 MiB

Number = float | int | Real[Array, ""]
LogLikelihood = Callable[..., Float[Array, " batch"]]


def alpha_energy(
    log_likelihood: LogLikelihood,
    q: Distribution,
    prior: Density,
    batch: PyTree,
    noise: Noise,
    *,
    alpha: Number,
    num_data: Number,
    layout: Layout | None = None,
    hyperparams: PyTree = None,
    weights: Float[Array, " batch"] | None = None,
    noise_weights: Float[Array, " draws"] | None = None,
    sample_chunk: int | None = None,
) -> Float[Array, ""]:
    """The BB-α energy of q for given noise; lower is better. This is what `fit` minimizes.

    Ê(q) = − (N/|S|) Σ_{n∈S} M_α(log p(xₙ|θₖ) − log f(θₖ)),  θₖ = g(εₖ)         (eq. 13)

    At α = 0 it is the negative evidence lower bound.

    Args:
        log_likelihood: as for `fit`: one number per data point of the batch.
        q: the approximation.
        prior: p₀, over the same vector.
        batch: the data S, any pytree.
        noise: εₖ, one row per draw, or one key per draw; all data share the draws.
        alpha: the power; may be traced.
        num_data: N, the number of data points (or their total weight).
        layout: how the vector becomes the tree that `log_likelihood` takes; by default the function
            takes the vector.
        hyperparams: the third argument of `log_likelihood`, if it takes one.
        weights: how many data points each datum of the batch stands for; N/|S| each by default.
        noise_weights: weights of the draws that sum to 1, for quadrature; 1/K each by default.
        sample_chunk: how many draws to hold in memory; all by default. The result is the same.

    Raises:
        ValueError: if the log-likelihood is not one number per data point.

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
    extra = () if hyperparams is None else (hyperparams,)

    def log_ratio(
        params: Float[Array, " params"], noise: Float[Array, " noise"]
    ) -> Float[Array, "..."]:
        # The site before the tree: the other way round a step of a small network takes 8 % longer.
        log_site = (log_prob_of_draw(q, noise, params) - prior.log_prob(params)) / num_data
        tree = params if layout is None else layout.unflatten(params)
        return log_likelihood(tree, batch, *extra) - log_site  # log p(xₙ|θₖ) − log f(θₖ)

    log_ratios = map_draws(log_ratio, q, noise, sample_chunk, KEPT_PRODUCTS)  # θₖ = g(εₖ)
    log_ratios, weights = _weighted(log_ratios, weights, num_data)
    return energy_of_ratios(log_ratios, weights, alpha, noise_weights)


def energy_of_ratios(
    log_ratios: Float[Array, "draws batch"],
    weights: Float[Array, " batch"],
    alpha: Number,
    noise_weights: Float[Array, " draws"] | None = None,
) -> Float[Array, ""]:
    """The energy − Σₙ wₙ M_α(tₖₙ) of the log-ratios tₖₙ = log p(xₙ|θₖ) − log f(θₖ).

    For models that make their ratios themselves: with latent variables of their own, a datum has
    tₖₙ = log p(xₙ, zₖₙ|θₖ) − log q(zₖₙ) − log f(θₖ).

    Args:
        log_ratios: one row per draw, one column per data point.
        weights: how many data points each column stands for; 0 for padding.
        alpha: the power; may be traced.
        noise_weights: as for `alpha_energy`.
    """
    return -jnp.sum(weights * log_power_mean(log_ratios, alpha, noise_weights))


def without_padding(
    log_ratios: Float[Array, "draws batch"], weights: Float[Array, " batch"]
) -> Float[Array, "draws batch"]:
    """The ratios, with 0 for data of weight zero, whose gradient could otherwise become 0·∞."""
    return jnp.where(weights[None] > 0, log_ratios, 0.0)


def log_power_mean(
    log_values: Float[Array, "draws ..."],
    alpha: Number,
    noise_weights: Float[Array, " draws"] | None = None,
) -> Float[Array, "..."]:
    """The power mean M_α(t) = (1/α) log (1/K) Σₖ exp(α tₖ) over the first axis; M₀ is the mean.

    Written as b + log1p(mean(expm1(α (t − b))))/α around the dominant term b, which neither
    overflows nor loses the digits that log-mean-exp loses at small α (0.1 nat per datum in float32
    at α = 1e-6). As that mean approaches −1, log1p would lose digits; there the logarithm of the
    mean of the exponentials is accurate.

    >>> print(f"{bb.log_power_mean(jnp.array([0.0, 1.0]), 1e-6):.4f}")
    0.5000
    """
    alpha = jnp.asarray(alpha, log_values.dtype)
    # Below this |α|, M_α equals M₀ to rounding. A schedule that should give 0 may give such a power
    # instead, and kernels that compute it again may round it differently.
    is_zero = jnp.abs(alpha) < jnp.finfo(log_values.dtype).eps

    def mean(log_values: Float[Array, "draws ..."]) -> Float[Array, "..."]:
        return _mean_over_draws(log_values, noise_weights)

    def power_mean(log_values: Float[Array, "draws ..."]) -> Float[Array, "..."]:
        power = jnp.where(is_zero, 1.0, alpha)
        sign = jnp.sign(power)
        dominant = sign * jnp.max(sign * log_values, axis=0)
        dominant = jax.lax.stop_gradient(jnp.where(jnp.isfinite(dominant), dominant, 0.0))
        exponents = power * (log_values - dominant[None])
        excesses = _exp_minus_one(exponents)
        excess = _mean_over_draws(excesses, noise_weights)
        is_close = excess > -0.5
        # With many draws or very small weights, the digits that 1 + expm1 loses would show in the
        # sum.
        is_short = noise_weights is None and len(log_values) <= SHORT_SUM
        powers = 1 + excesses if is_short else jnp.exp(exponents)
        close = jnp.log1p(jnp.where(is_close, excess, 0.0))
        far = jnp.log(jnp.where(is_close, 1.0, _mean_over_draws(powers, noise_weights)))
        return dominant + jnp.where(is_close, close, far) / power

    if log_values.size < FEWEST_TO_BRANCH:
        return jnp.where(is_zero, mean(log_values), power_mean(log_values))
    return jax.lax.cond(is_zero, mean, power_mean, log_values)  # α = 0 takes no exponentials


@jax.custom_jvp
def _exp_minus_one(exponents: Float[Array, "..."]) -> Float[Array, "..."]:
    """exp(x) − 1, right to rounding.

    In float32, x = n ln 2 + r gives 2ⁿ (exp(r) − 1) + (2ⁿ − 1), with a series for exp(r) − 1. XLA's
    own `expm1` computes a hyperbolic tangent in addition to the exponential.
    """
    if exponents.dtype != jnp.float32:
        return jnp.expm1(exponents)
    exponents = jnp.maximum(exponents, SMALLEST_EXPONENT)
    whole = jnp.minimum(jnp.round(exponents * np.float32(1 / math.log(2))), LARGEST_POWER)  # n
    rest = exponents - whole * np.float32(LOG_2[0]) - whole * np.float32(LOG_2[1])  # r
    series = jnp.zeros_like(rest)
    for power in range(NUM_TERMS, 0, -1):
        series = rest * (np.float32(1 / math.factorial(power)) + series)
    bits = (whole.astype(jnp.int32) + 127) << 23  # of 2ⁿ as a float32 number
    scale = jax.lax.bitcast_convert_type(bits, jnp.float32)
    return scale * series + (scale - 1)


_exp_minus_one.defjvps(lambda tangent, result, _: tangent * (result + 1))


def _weighted(
    log_ratios: Float[Array, "draws ..."], weights: Float[Array, " batch"] | None, num_data: Number
) -> tuple[Float[Array, "draws batch"], Float[Array, " batch"]]:
    """The ratios, stored and with padding set to 0, and the weight of each datum."""
    # `step` meets its batches only while it is compiled, so a wrong shape is refused here.
    check_one_per_datum(log_ratios.shape[1:], None if weights is None else weights.shape)
    log_ratios = in_memory(log_ratios, jnp.asarray(num_data))
    if weights is None:
        batch_size = log_ratios.shape[1]
        return log_ratios, jnp.full(batch_size, num_data / batch_size, log_ratios.dtype)
    return without_padding(log_ratios, weights), weights


def _mean_over_draws(
    values: Float[Array, "draws ..."], noise_weights: Float[Array, " draws"] | None
) -> Float[Array, "..."]:
    if noise_weights is None:
        return jnp.mean(values, axis=0)
    return jnp.tensordot(noise_weights, values, axes=1)
