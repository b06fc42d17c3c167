"""The α-divergence: against quadrature, at its limits, and the identities that it obeys."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from jax.flatten_util import ravel_pytree

import bbalpha as bb

ALPHAS = np.array([-0.8, -1e-3, 0.0, 1e-4, 0.2, 0.5, 0.8, 1.0 - 1e-4, 1.0, 1.2, 1.9])
EXTREME_ALPHAS = np.array([-50.0, -7.0, *ALPHAS, 1e-7, 1 - 1e-7, 7.0, 50.0])
SPECIAL_ALPHAS = np.array([0.0, 0.5, 1.0])
GRID = np.linspace(-30, 30, 6001)
SPACING = 0.01

compiled = jax.jit(jax.vmap(bb.alpha_divergence, in_axes=(None, None, 0)))
compiled_gradients = jax.jit(
    jax.vmap(jax.grad(bb.alpha_divergence, argnums=(0, 1, 2)), in_axes=(None, None, 0))
)
compiled_on_grid = jax.jit(jax.vmap(bb.log_alpha_divergence_on_grid, in_axes=(None, None, 0, None)))


def divergences(p, q, alphas):
    """The divergence at some values of α."""
    return compiled(p, q, filled(alphas))[: len(alphas)]


def gradients(p, q, alphas):
    """The gradients with respect to p, q and α at some values of α."""
    return jax.tree.map(lambda leaf: leaf[: len(alphas)], compiled_gradients(p, q, filled(alphas)))


def divergences_on_grid(log_p, log_q, alphas, spacing):
    return compiled_on_grid(log_p, log_q, filled(alphas), spacing)[: len(alphas)]


def filled(alphas):
    """The values repeated until there are always equally many, so that one program serves all."""
    return np.resize(alphas, len(EXTREME_ALPHAS))


def diagonal(mean, variance):
    return bb.DiagonalGaussian(jnp.asarray(mean), jnp.log(jnp.asarray(variance)))


def full(mean, covariance):
    cholesky = jnp.linalg.cholesky(jnp.asarray(covariance))
    scale = jnp.diag(cholesky)
    return bb.FullGaussian(jnp.asarray(mean), jnp.log(scale), cholesky / scale[:, None])


def covariance_of(q):
    return q.covariance if hasattr(q, "covariance") else jnp.diag(q.variance)


def pairs():
    """Gaussians p and q whose divergence is finite at every α of ALPHAS."""
    first, second = diagonal([0.3, -0.5], [1.0, 0.6]), diagonal([-0.2, 0.4], [0.8, 0.9])
    correlated = full([0.1, 0.2], [[1.2, 0.3], [0.3, 0.8]])
    other = full([-0.4, 0.0], [[1.0, 0.1], [0.1, 1.1]])
    low_rank = bb.LowRankGaussian(
        jnp.array([0.2, 0.6]), jnp.array([-0.1, -0.1]), jnp.array([[0.5], [0.3]])
    )
    return {
        "diagonal": (first, second),
        "diagonal and full": (first, correlated),
        "full": (correlated, other),
        "low rank and full": (low_rank, correlated),
    }


PAIRS = list(pairs())


@pytest.fixture(params=PAIRS)
def pair(request, x64):
    return pairs()[request.param]


def log_densities_on_a_square(pair):
    axis = jnp.linspace(-14, 14, 401)
    points = jnp.stack(jnp.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    return [np.asarray(jax.vmap(f.log_prob)(points)) for f in pair], 0.07**2


def in_double(pair):
    return [jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), f) for f in pair]


def kl_divergence(p, q):
    """KL[p‖q] of two Gaussians, by NumPy."""
    covariances = [np.asarray(covariance_of(f)) for f in (p, q)]
    precision = np.linalg.inv(covariances[1])
    difference = np.asarray(p.mean - q.mean)
    log_ratio = np.subtract(*[np.linalg.slogdet(covariance)[1] for covariance in covariances])
    squares = difference @ precision @ difference
    return 0.5 * (np.trace(precision @ covariances[0]) + squares - len(difference) - log_ratio)


def test_closed_form_is_the_integral_of_the_definition(pair):
    (log_p, log_q), area = log_densities_on_a_square(pair)
    alphas = ALPHAS[(ALPHAS != 0) & (ALPHAS != 1)]
    integrals = [area * np.sum(np.exp(a * log_p + (1 - a) * log_q)) for a in alphas]
    expected = (1 - np.array(integrals)) / (alphas * (1 - alphas))
    np.testing.assert_allclose(divergences(*pair, alphas), expected, rtol=1e-8)


def test_limits_are_the_divergences_of_kullback_and_leibler(pair):
    p, q = pair
    expected = [kl_divergence(q, p), kl_divergence(p, q)]
    np.testing.assert_allclose(divergences(p, q, np.array([0.0, 1.0])), expected, rtol=1e-10)


def test_half_is_four_squared_hellinger_distances(pair):
    (log_p, log_q), area = log_densities_on_a_square(pair)
    expected = 2 * area * np.sum(np.square(np.exp(0.5 * log_p) - np.exp(0.5 * log_q)))
    np.testing.assert_allclose(divergences(*pair, np.array([0.5])), [expected], rtol=1e-10)


def test_divergence_leaves_its_limits_with_the_known_slope(pair):
    """For r = log p − log q it is KL[q‖p] − ½ E_q[r²] at α = 0, and its mirror image at α = 1."""
    p, q = pair
    (log_p, log_q), area = log_densities_on_a_square(pair)
    squares = [area * np.sum(np.exp(log) * (log_p - log_q) ** 2) for log in (log_q, log_p)]
    slopes = [kl_divergence(q, p) - 0.5 * squares[0], 0.5 * squares[1] - kl_divergence(p, q)]
    at_0, after_0, before_1, at_1 = divergences(p, q, np.array([0.0, 1e-6, 1 - 1e-6, 1.0]))
    np.testing.assert_allclose(after_0, at_0 + 1e-6 * slopes[0], rtol=1e-11)
    np.testing.assert_allclose(before_1, at_1 - 1e-6 * slopes[1], rtol=1e-11)
    changes = np.array([after_0 - at_0, at_1 - before_1])
    np.testing.assert_allclose(changes / 1e-6, slopes, rtol=1e-4)


def test_divergence_is_positive_but_between_equals(pair):
    assert np.all(divergences(*pair, EXTREME_ALPHAS) > 0)
    for equal in pair:
        found = divergences(equal, equal, EXTREME_ALPHAS)
        assert np.all((found >= 0) & (found < 1e-25))


def test_a_small_difference_is_not_lost_to_rounding():
    """Between near neighbors all divergences are ½ (d²/v + t²/2), here far below 1e-7."""
    p = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    q = bb.DiagonalGaussian(jnp.array([1e-5]), jnp.array([1e-5]))
    np.testing.assert_allclose(divergences(p, q, EXTREME_ALPHAS), 0.75e-10, rtol=3e-3)


def test_exchanging_p_and_q_reflects_alpha(pair):
    p, q = pair
    found, reflected = divergences(p, q, EXTREME_ALPHAS), divergences(q, p, 1 - EXTREME_ALPHAS)
    np.testing.assert_allclose(found, reflected, rtol=1e-8)


def test_divergence_does_not_depend_on_the_coordinates(pair):
    matrix, shift = np.array([[2.0, 0.7], [-1.1, 0.4]]), np.array([3.0, -1.0])
    mapped = [full(matrix @ f.mean + shift, matrix @ covariance_of(f) @ matrix.T) for f in pair]
    np.testing.assert_allclose(divergences(*mapped, ALPHAS), divergences(*pair, ALPHAS), rtol=1e-9)


def test_diagonal_gaussians_agree_with_full_ones_without_correlation(x64):
    pair = pairs()["diagonal"]
    dense = [full(f.mean, covariance_of(f)) for f in pair]
    np.testing.assert_allclose(divergences(*dense, ALPHAS), divergences(*pair, ALPHAS), rtol=1e-10)


@pytest.mark.parametrize("name", PAIRS)
def test_float32_agrees_with_float64(name):
    pair = pairs()[name]
    alphas = EXTREME_ALPHAS[np.abs(EXTREME_ALPHAS) < 2].astype(np.float32)
    found = divergences(*pair, alphas)
    assert found.dtype == jnp.float32
    with jax.enable_x64(True):
        expected = divergences(*in_double(pair), alphas.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize("kind", ["diagonal", "full"])
def test_divergence_is_infinite_where_the_integral_diverges(kind):
    narrow, wide = diagonal([0.0, 0.0], [1.0, 1.0]), diagonal([0.5, 0.5], [1.0, 2.0])
    if kind == "full":
        narrow, wide = (full(f.mean, covariance_of(f)) for f in (narrow, wide))
    alphas = np.array([2.1, 1.9, -1.1])  # with p wide, the precision is α/2 + 1 − α
    assert (np.isinf(divergences(wide, narrow, alphas)) == [True, False, False]).all()
    assert (np.isinf(divergences(narrow, wide, alphas)) == [False, False, True]).all()
    assert np.isfinite(ravel_pytree(gradients(wide, narrow, np.array([2.1])))[0]).all()


def test_divergence_of_distant_gaussians_is_not_nan():
    members = [
        bb.DiagonalGaussian(jnp.array([mean]), jnp.array([log_variance]))
        for mean in (0.0, 1e3, 1e15)
        for log_variance in (-80.0, 0.0, 80.0)
    ]
    between = (EXTREME_ALPHAS > 0) & (EXTREME_ALPHAS < 1)
    alphas = EXTREME_ALPHAS[between]
    for p, q in itertools.product(members, members):
        found = divergences(p, q, EXTREME_ALPHAS)
        assert np.all(found >= 0)
        assert np.all(found[between] <= 1.00001 / (alphas * (1 - alphas)))


def test_gradient_is_that_of_finite_differences(pair):
    alphas = np.array([*SPECIAL_ALPHAS, 1e-300, 1e-9, 0.3, 1 - 1e-9, 1.4, -0.6])
    start, unravel = ravel_pytree(pair)
    ends = [
        [unravel(start + sign * step) for sign in (1, -1)] for step in 1e-5 * np.eye(len(start))
    ]
    expected = [
        (divergences(*after, alphas) - divergences(*before, alphas)) / 2e-5
        for after, before in ends
    ]
    *of_pair, of_alpha = gradients(*pair, alphas)
    found = np.concatenate(
        [np.reshape(leaf, (len(alphas), -1)) for leaf in jax.tree.leaves(of_pair)], axis=1
    )
    np.testing.assert_allclose(found, np.transpose(expected), rtol=1e-6, atol=1e-8)
    slopes = (divergences(*pair, alphas + 1e-5) - divergences(*pair, alphas - 1e-5)) / 2e-5
    np.testing.assert_allclose(of_alpha, slopes, rtol=1e-6, atol=1e-8)


def test_float32_gradient_agrees_with_float64_near_the_limits():
    pair = pairs()["diagonal"]
    alphas = np.concatenate([SPECIAL_ALPHAS, SPECIAL_ALPHAS + 1e-4, SPECIAL_ALPHAS - 1e-4])
    alphas = alphas.astype(np.float32)
    found = ravel_pytree(gradients(*pair, alphas))[0]
    with jax.enable_x64(True):
        expected = ravel_pytree(gradients(*in_double(pair), alphas.astype(np.float64)))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_gradient_vanishes_between_equals(pair):
    """There all ratios of variances are 1, so that no basis is preferred."""
    _, of_q, _ = gradients(pair[1], pair[1], SPECIAL_ALPHAS)
    np.testing.assert_allclose(ravel_pytree(of_q)[0], 0, atol=1e-12)


def log_gaussian(mean, variance):
    return jax.scipy.stats.norm.logpdf(GRID, mean, np.sqrt(variance))


def bimodal(grid):
    """A density with ¾ of its mass in a mode at 2 and ¼ in one at −2."""
    modes = [jax.scipy.stats.norm.logpdf(grid, *mode) for mode in ((-2.0, 0.6), (2.0, 0.9))]
    return jnp.logaddexp(np.log(0.25) + modes[0], np.log(0.75) + modes[1])


def test_the_grid_agrees_with_the_closed_form(x64):
    expected = divergences(diagonal([0.3], [1.0]), diagonal([-0.2], [0.8]), ALPHAS)
    densities = log_gaussian(0.3, 1.0), log_gaussian(-0.2, 0.8)
    found = divergences_on_grid(*densities, ALPHAS, SPACING)
    np.testing.assert_allclose(jnp.exp(found), expected, rtol=1e-10)


def test_the_grid_reaches_divergences_beyond_the_range_of_numbers(x64):
    """Between N(2, 1) and N(0, 1) it is D_α = (exp(2 α (α − 1)) − 1) / (α (α − 1))."""
    p, q = (jax.scipy.stats.norm.logpdf(np.linspace(-130, 130, 6501), m) for m in (2.0, 0.0))
    found = divergences_on_grid(p, q, np.array([50.0]), 0.04)
    np.testing.assert_allclose(found, 2 * 2450 - np.log(2450), rtol=1e-10)
    assert divergences(diagonal([2.0], [1.0]), diagonal([0.0], [1.0]), np.array([50.0])) == jnp.inf


def test_float32_on_a_grid_agrees_with_float64():
    alphas = EXTREME_ALPHAS.astype(np.float32)

    def divergence(mean, alpha, grid):
        log_q = jax.scipy.stats.norm.logpdf(grid, mean, 1.5)
        return bb.log_alpha_divergence_on_grid(bimodal(grid), log_q, alpha, 0.02)

    evaluate = jax.jit(jax.vmap(jax.value_and_grad(divergence, (0, 1)), (None, 0, None)))
    grid = np.linspace(-8, 8, 801, dtype=np.float32)
    found = evaluate(0.7, alphas, grid)
    assert found[0].dtype == jnp.float32
    with jax.enable_x64(True):
        expected = evaluate(0.7, alphas.astype(np.float64), grid.astype(np.float64))
    for single, double in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5)


def test_divergence_of_equal_densities_on_a_grid_is_zero(x64):
    log_p = bimodal(GRID)
    assert np.all(divergences_on_grid(log_p, log_p, EXTREME_ALPHAS, SPACING) == -np.inf)


@pytest.mark.parametrize("alpha", [-2.0, 0.3, 2.0])
def test_the_best_scale_of_an_unnormalized_q_is_a_power_mean(alpha, x64):
    """D_α[p‖c q] is least at c = (∫ p^α q^(1−α))^(1/α), where it is (∫ p − c) / (1 − α)."""
    log_p, log_q = bimodal(GRID) + 0.7, log_gaussian(1.5, 4.0 if alpha > 0 else 0.5)
    log_scale = bb.log_power_mean(log_p - log_q, alpha, jnp.exp(log_q) * SPACING)

    @jax.jit
    @jax.value_and_grad
    def divergence(log_scale):
        return bb.log_alpha_divergence_on_grid(log_p, log_q + log_scale, alpha, SPACING)

    found, slope = divergence(log_scale)
    least = (np.exp(0.7) - np.exp(log_scale)) / (1 - alpha)
    np.testing.assert_allclose(jnp.exp(found), least, rtol=1e-10)
    np.testing.assert_allclose(slope, 0, atol=1e-9)


@jax.jit
@jax.value_and_grad
def log_divergence_from_bimodal(params, alpha):
    log_q = jax.scipy.stats.norm.logpdf(GRID[::5], params[0], jnp.exp(params[1]))
    return bb.log_alpha_divergence_on_grid(bimodal(GRID[::5]), log_q, alpha, 5 * SPACING)


def fitted(alpha):
    """Mean and scale of the Gaussian with the least D_α from the bimodal density."""
    results = [
        scipy.optimize.minimize(
            log_divergence_from_bimodal, [mean, 0.0], alpha, jac=True, options={"gtol": 1e-9}
        )
        for mean in (-2.0, 0.5, 2.0)
    ]
    mean, log_scale = min(results, key=lambda result: result.fun).x
    return mean, np.exp(log_scale)


def test_the_fitted_gaussian_matches_the_moments_at_alpha_one(x64):
    mean = 0.25 * -2 + 0.75 * 2
    variance = 0.25 * (0.6**2 + 4) + 0.75 * (0.9**2 + 4) - mean**2
    np.testing.assert_allclose(fitted(1.0), [mean, np.sqrt(variance)], rtol=1e-6)


def test_the_fitted_gaussian_goes_from_the_largest_mode_to_all_of_them(x64):
    """As in Figure 2: one mode at negative α, all that p covers at positive α."""
    means, scales = np.transpose([fitted(alpha) for alpha in (-30.0, -1.0, 0.5, 1.0, 2.0, 30.0)])
    assert np.all(np.diff(scales) > 0)
    np.testing.assert_allclose([means[0], scales[0]], [2.0, 0.9], rtol=0.03)
    assert means[-1] - 2 * scales[-1] < -2 - 2 * 0.6
    assert means[-1] + 2 * scales[-1] > 2 + 2 * 0.9
