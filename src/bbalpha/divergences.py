"""The α-divergence between two densities, which BB-α minimizes locally, site by site.

    D_α[p‖q] = (1 − ∫ p(θ)^α q(θ)^(1−α) dθ) / (α (1 − α))                         (eq. 1)

D₁ = KL[p‖q], D₀ = KL[q‖p] and D_½ = 2 ∫ (√p − √q)² dθ = 4 Hel², with Hel² = 1 − ∫ √(p q) dθ
(Section 2, eqs. 2 to 4). A large positive α makes q cover p; a large negative one confines q to the
mode of p with the most mass. Because D_α[p‖q] = D_{1−α}[q‖p], the formulas here are for α ≤ ½.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from bbalpha.distributions import DiagonalGaussian, FullGaussian
from bbalpha.energy import Number
from bbalpha.low_rank import LowRankGaussian

Gaussians = DiagonalGaussian | FullGaussian | LowRankGaussian

NUM_NODES = 12  # Gauss–Legendre; errors of 1e-16 in `_exp_remainder` and `_log1p_remainder`


def alpha_divergence(p: Gaussians, q: Gaussians, alpha: Number) -> Float[Array, ""]:
    """The α-divergence D_α[p‖q] of two Gaussians in closed form: ≥ 0, and 0 only where p = q.

    With Σ = α Σ_q + (1 − α) Σ_p and d the difference of the means,
    −log ∫ p^α q^(1−α) = ½ α (1 − α) dᵀ Σ⁻¹ d + ½ log |Σ| − ½ α log |Σ_q| − ½ (1 − α) log |Σ_p|.
    The integral diverges where Σ is not positive definite, which happens only for α outside [0, 1];
    there D_α = ∞. All terms are divided by α (1 − α) before rounding, so α = 0 and α = 1 need no
    special treatment. For two diagonal Gaussians, the result is accurate to rounding and the time
    is linear in the number of parameters. Otherwise the time is cubic, and digits are lost as the
    condition number of one covariance relative to the other grows.

    Args:
        p: The density to approximate.
        q: Its approximation, over the same vector.
        alpha: The power, any real number; may be traced.

    >>> p = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    >>> q = bb.DiagonalGaussian(jnp.ones(1), jnp.zeros(1))
    >>> for alpha in (0, 0.5, 1, 2):  # KL[q‖p], 4 (1 − exp(−⅛)), KL[p‖q], ½ (e − 1)
    ...     print(f"{bb.alpha_divergence(p, q, alpha):.4f}")
    0.5000
    0.4700
    0.5000
    0.8591
    """
    alpha = jnp.asarray(alpha, p.mean.dtype)
    is_upper = alpha > 0.5
    alpha = jnp.where(is_upper, 1 - alpha, alpha)
    log_ratio = _log_variance_ratios(p, q)
    log_ratio = jnp.where(is_upper, -log_ratio, log_ratio)
    is_proper = jnp.all(_excess(alpha, log_ratio) > -1)
    # Improper values are replaced before the logarithms, or their gradient would be 0·∞.
    alpha, log_ratio = jnp.where(is_proper, alpha, 0.0), jnp.where(is_proper, log_ratio, 0.0)
    squares = _squared_distance(p, q, alpha, log_ratio, is_upper)
    exponent = 0.5 * (squares + jnp.sum(_log_determinant_term(alpha, log_ratio)))
    return jnp.where(is_proper, _one_minus_exp(alpha, exponent), jnp.inf)


def log_alpha_divergence_on_grid(
    log_p: Float[Array, " grid"], log_q: Float[Array, " grid"], alpha: Number, spacing: Number
) -> Float[Array, ""]:
    """The logarithm of D_α[p‖q] for densities given on an even grid in one dimension.

    D_α[p‖q] = ∫ (α p + (1 − α) q − p^α q^(1−α)) dθ / (α (1 − α)), which equals eq. 1 where p and q
    are normalized and extends it to the unnormalized densities of Figure 2: the integrand is never
    negative. The logarithm is returned because D_α itself overflows at large |α|, where one may
    still want to minimize it.

    The integral is a sum over the grid, which must contain all the mass of p, q and p^α q^(1−α). If
    the divergence is infinite, the result grows with the grid.

    Args:
        log_p: Log-density to approximate, finite, normalized or not.
        log_q: Log-density of the approximation, on the same grid.
        alpha: The power, any real number; may be traced.
        spacing: Distance between neighbors on the grid.

    >>> grid = jnp.linspace(-10.0, 10.0, 201)
    >>> log_p, log_q = (jax.scipy.stats.norm.logpdf(grid, mean) for mean in (0.0, 1.0))
    >>> print(f"{jnp.exp(bb.log_alpha_divergence_on_grid(log_p, log_q, 0.5, 0.1)):.4f}")
    0.4700
    """
    alpha = jnp.asarray(alpha, log_p.dtype)
    # D_α[cp‖cq] = c D_α[p‖q]: the largest of p, q and p^α q^(1−α) is scaled to 1.
    log_power = alpha * log_p + (1 - alpha) * log_q
    largest = jnp.max(jnp.maximum(jnp.maximum(log_p, log_q), log_power))
    largest = jax.lax.stop_gradient(largest)
    is_upper = alpha > 0.5
    alpha = jnp.where(is_upper, 1 - alpha, alpha)
    first = jnp.where(is_upper, log_q, log_p) - largest
    second = jnp.where(is_upper, log_p, log_q) - largest
    return largest + jnp.log(spacing * jnp.sum(_pointwise_divergence(first, second, alpha)))


def _log_variance_ratios(p: Gaussians, q: Gaussians) -> Float[Array, " params"]:
    """t, the log-variances of p in the coordinates in which q is standard and p is diagonal."""
    if isinstance(p, DiagonalGaussian) and isinstance(q, DiagonalGaussian):
        return p.log_variance - q.log_variance
    relative = jax.scipy.linalg.solve_triangular(_cholesky(q), _cholesky(p), lower=True)
    return 2 * jnp.log(jnp.linalg.svd(relative, compute_uv=False))


def _squared_distance(
    p: Gaussians,
    q: Gaussians,
    alpha: Float[Array, ""],
    log_ratio: Float[Array, " params"],
    is_upper: Array,
) -> Float[Array, ""]:
    """Return dᵀ Σ⁻¹ d for α ≤ ½; `is_upper` says that p and q have traded places."""
    difference = p.mean - q.mean
    if isinstance(p, DiagonalGaussian) and isinstance(q, DiagonalGaussian):
        log_variance = jnp.where(is_upper, q.log_variance, p.log_variance)
        log_variance = log_variance + _log_mixture(alpha, log_ratio)
        return jnp.sum(jnp.square(difference * jnp.exp(-0.5 * log_variance)))
    covariances = [_cholesky(density) @ _cholesky(density).T for density in (p, q)]
    first = jnp.where(is_upper, *covariances[::-1])
    second = jnp.where(is_upper, *covariances)
    cholesky = jnp.linalg.cholesky(first + alpha * (second - first))
    noise = jax.scipy.linalg.solve_triangular(cholesky, difference, lower=True)
    # A matrix that has no Cholesky factor because of rounding counts as infinite.
    return jnp.where(jnp.isnan(cholesky[0, 0]), jnp.inf, jnp.dot(noise, noise))


def _cholesky(q: Gaussians) -> Float[Array, "params params"]:
    if isinstance(q, DiagonalGaussian):
        return jnp.diag(jnp.exp(0.5 * q.log_variance))
    return q.cholesky if isinstance(q, FullGaussian) else jnp.linalg.cholesky(q.covariance)


def _excess(alpha: Float[Array, ""], log_ratio: Float[Array, " params"]) -> Float[Array, " params"]:
    """Return y = α (exp(−t) − 1): the mixed variance α v_q + (1 − α) v_p is v_p (1 + y)."""
    return alpha * _expm1_of_minus(log_ratio)


def _expm1_of_minus(log_ratio: Float[Array, " params"]) -> Float[Array, " params"]:
    """exp(−t) − 1, kept finite so that it can be multiplied by α = 0."""
    return jnp.expm1(-jnp.maximum(log_ratio, -jnp.log(jnp.finfo(log_ratio.dtype).max)))


def _log_mixture(
    alpha: Float[Array, ""], log_ratio: Float[Array, " params"]
) -> Float[Array, " params"]:
    """Return log(1 − α + α exp(−t)), the log of the mixed variance over v_p."""
    excess = _excess(alpha, log_ratio)
    is_large = (log_ratio < 0) & (excess > 1)  # so α > 0
    close = jnp.log1p(jnp.where(is_large, 0.0, excess))
    ratio = jnp.where(is_large, log_ratio, 0.0)
    far = jnp.log(alpha + (1 - alpha) * jnp.exp(ratio)) - ratio
    return jnp.where(is_large, far, close)


def _log_determinant_term(
    alpha: Float[Array, ""], log_ratio: Float[Array, " params"]
) -> Float[Array, " params"]:
    """(log(1 − α + α exp(−t)) + α t) / (α (1 − α)) for α ≤ ½, about t²/2 at small t.

    Because log1p(y) = y + y² φ(y), it equals (y (exp(−t) − 1) φ(y) + exp(−t) − 1 + t) / (1 − α), in
    which nothing cancels at small t or α.
    """
    excess = _excess(alpha, log_ratio)
    is_small = jnp.abs(excess) <= 0.5
    small = jnp.where(is_small, excess, 0.0)
    curvature = small * _expm1_of_minus(log_ratio) * _log1p_remainder(small)
    is_short = jnp.abs(log_ratio) <= 1
    short = jnp.where(is_short, log_ratio, 0.0)
    linear = jnp.where(
        is_short,
        jnp.square(short) * _exp_remainder(-short),
        jnp.expm1(-log_ratio) + log_ratio,
    )
    far = _log_mixture(alpha, log_ratio) / jnp.where(is_small, 1.0, alpha) + log_ratio
    return jnp.where(is_small, curvature + linear, far) / (1 - alpha)


def _one_minus_exp(alpha: Float[Array, ""], exponent: Float[Array, ""]) -> Float[Array, ""]:
    """(1 − exp(−α (1 − α) R)) / (α (1 − α)), which is R at α = 0."""
    factor = alpha * (1 - alpha)
    x = factor * jnp.minimum(exponent, jnp.finfo(exponent.dtype).max)  # not 0·∞
    is_small = jnp.abs(x) <= 1
    small = jnp.where(is_small, x, 0.0)
    close = exponent * (1 - small * _exp_remainder(-small))
    half = jnp.where(is_small, 0.0, 0.5 * x)  # e⁻ˣ − 1 as a product, which overflows later
    far = -jnp.expm1(-half) / jnp.where(is_small, 1.0, factor) * (jnp.exp(-half) + 1)
    return jnp.where(is_small, close, far)


def _pointwise_divergence(
    log_p: Float[Array, " grid"], log_q: Float[Array, " grid"], alpha: Float[Array, ""]
) -> Float[Array, " grid"]:
    """(α p + (1 − α) q − p^α q^(1−α)) / (α (1 − α)) for α ≤ ½.

    It is (p − q − (p^α q^(1−α) − q) / α) / (1 − α). With r = log p − log q, the terms q r cancel at
    small α r and leave the remainders of the exponentials.
    """
    log_ratio = log_p - log_q
    power = alpha * log_ratio
    q = jnp.exp(log_q)
    is_short, is_small = jnp.abs(log_ratio) <= 1, jnp.abs(power) <= 1
    short, small = jnp.where(is_short, log_ratio, 0.0), jnp.where(is_small, power, 0.0)
    change = _difference_of_exp(log_p, log_q)
    remainder = jnp.where(
        is_short, q * jnp.square(short) * _exp_remainder(short), change - q * log_ratio
    )
    close = remainder - q * log_ratio * small * _exp_remainder(small)
    far = change - _difference_of_exp(log_q + power, log_q) / jnp.where(is_small, 1.0, alpha)
    return jnp.where(is_small, close, far) / (1 - alpha)


def _difference_of_exp(
    first: Float[Array, " grid"], second: Float[Array, " grid"]
) -> Float[Array, " grid"]:
    """exp(first) − exp(second), without the overflow of exp(first − second)."""
    difference = first - second
    is_larger = difference > 0
    change = jnp.expm1(jnp.where(is_larger, -difference, difference))
    return jnp.where(is_larger, -jnp.exp(first), jnp.exp(second)) * change


def _exp_remainder(z: Array) -> Array:
    """(exp(z) − 1 − z) / z² for |z| ≤ 1."""
    return _taylor_remainder(jnp.exp, z)


def _log1p_remainder(y: Array) -> Array:
    """φ(y) = (log(1 + y) − y) / y² for |y| ≤ ½."""
    return _taylor_remainder(lambda y: -1 / jnp.square(1 + y), y)


def _taylor_remainder(second_derivative: Callable[[Array], Array], z: Array) -> Array:
    """(f(z) − f(0) − f′(0) z) / z² = ∫₀¹ (1 − s) f″(s z) ds, which is smooth at 0."""
    nodes, weights = np.polynomial.legendre.leggauss(NUM_NODES)
    nodes, weights = 0.5 * (1 + nodes), 0.5 * weights
    column = (NUM_NODES, *(1,) * z.ndim)
    s = jnp.asarray(nodes.reshape(column), z.dtype)
    weights = jnp.asarray((weights * (1 - nodes)).reshape(column), z.dtype)
    return jnp.sum(weights * second_derivative(s * z[None]), axis=0)
