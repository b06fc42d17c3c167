"""What every distribution must do, and what each of ours is."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import bbalpha as bb
from bbalpha.distributions import log_prob_of_draw
from bbalpha.engine.draws import map_draws

MEAN = np.array([0.3, -1.0, 2.0])
KEY = jax.random.key(0)


class SinhArcsinhFlow(eqx.Module):
    """A user's distribution: Gaussians pushed through sinh, so that they can be skewed."""

    shift: jax.Array
    log_scale: jax.Array
    skew: jax.Array

    def noise(self, key):
        return jax.random.normal(key, self.shift.shape, self.shift.dtype)

    def transform(self, noise):
        return self.shift + jnp.exp(self.log_scale) * jnp.sinh(jnp.arcsinh(noise) + self.skew)

    def log_prob(self, params):
        arcsinh = jnp.arcsinh((params - self.shift) * jnp.exp(-self.log_scale))
        noise = jnp.sinh(arcsinh - self.skew)
        log_slope = self.log_scale + jnp.log(jnp.cosh(arcsinh) / jnp.cosh(arcsinh - self.skew))
        return jnp.sum(jax.scipy.stats.norm.logpdf(noise) - log_slope)

    def _moment(self, power):
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        values = jax.vmap(lambda node: self.transform(jnp.full_like(self.shift, node)))(nodes)
        return jnp.asarray(weights / weights.sum(), values.dtype) @ values**power

    @property
    def mean(self):
        return self._moment(1)

    @property
    def variance(self):
        return self._moment(2) - self._moment(1) ** 2


def members():
    """One of each kind, with fields of no special value."""
    generator = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(generator.normal(size=shape))  # noqa: E731
    mean = jnp.asarray(MEAN)
    prior = bb.DiagonalGaussian(jnp.zeros(3), jnp.log(jnp.array([1.0, 4.0, 0.25])))
    return {
        "diagonal": bb.DiagonalGaussian(mean, normal(3)),
        "capped": bb.CappedGaussian(mean, normal(3)),
        "capped under a prior": bb.CappedGaussian(mean, normal(3)).under(prior),
        "full": bb.FullGaussian(mean, normal(3), normal(3, 3)),
        "low rank": bb.LowRankGaussian(mean, normal(3), normal(3, 2)),
        "a user's flow": SinhArcsinhFlow(mean, 0.3 * normal(3), 0.3 * normal(3)),
    }


MEMBERS = list(members())


@pytest.fixture(params=MEMBERS)
def q(request, x64):
    return members()[request.param]


def test_every_distribution_keeps_the_protocol(q):
    assert isinstance(q, bb.Distribution)
    noise = q.noise(KEY)
    params = q.transform(noise)
    assert params.shape == q.mean.shape == q.variance.shape == (3,)
    assert q.log_prob(params).shape == ()


def test_draws_have_the_mean_and_the_variance_of_the_distribution(q):
    num_samples = 20_000
    keys = jax.random.split(KEY, num_samples)
    draws = np.asarray(map_draws(lambda params, _: params, q, keys, num_samples))
    error = draws.std(axis=0) / np.sqrt(num_samples)
    assert np.all(np.abs(draws.mean(axis=0) - q.mean) < 4 * error)
    squares = (draws - np.asarray(q.mean)) ** 2
    error = squares.std(axis=0) / np.sqrt(num_samples)
    assert np.all(np.abs(squares.mean(axis=0) - q.variance) < 4 * error)


def test_the_density_integrates_to_one(q):
    """By importance sampling from a wide Student-t distribution."""
    num_samples = 40_000
    proposal = scipy.stats.multivariate_t(
        MEAN, 3 * np.diag(np.asarray(q.variance)), df=5, seed=np.random.default_rng(1)
    )
    points = proposal.rvs(num_samples)
    log_q = jax.vmap(q.log_prob)(jnp.asarray(points))
    weights = np.exp(log_q - proposal.logpdf(points))
    assert abs(weights.mean() - 1) < 4 * weights.std() / np.sqrt(num_samples)


def test_the_density_of_a_draw_follows_from_that_of_its_noise(q):
    """log q(g(ε)) = log p(ε) − log |∂g/∂ε|, where the noise is as long as the parameters."""
    if q.noise(KEY).shape != q.mean.shape:
        pytest.skip("the noise of this family is longer than its parameters")
    noise = q.noise(KEY)
    _, log_determinant = np.linalg.slogdet(jax.jacfwd(q.transform)(noise))
    expected = scipy.stats.norm.logpdf(noise).sum() - log_determinant
    np.testing.assert_allclose(q.log_prob(q.transform(noise)), expected, rtol=1e-10)


def test_the_density_of_a_draw_and_its_gradient_are_the_same_from_the_noise_and_the_parameters(q):
    """The gradient with respect to the fields, through the density and through the draw."""
    noise = q.noise(KEY)
    from_noise = jax.value_and_grad(lambda q: log_prob_of_draw(q, noise, q.transform(noise)))(q)
    from_params = jax.value_and_grad(lambda q: q.log_prob(q.transform(noise)))(q)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-10, atol=1e-10), from_noise, from_params
    )


def test_compiled_mapped_and_plain_calls_agree(q):
    noise = jax.vmap(q.noise)(jax.random.split(KEY, 4))
    plain = [q.log_prob(q.transform(row)) for row in noise]
    mapped = jax.jit(jax.vmap(lambda row: q.log_prob(q.transform(row))))(noise)
    np.testing.assert_allclose(mapped, plain, rtol=1e-10)


def test_gradients_reach_every_field(q):
    noise = q.noise(KEY)
    gradient = jax.grad(lambda q: jnp.sum(q.transform(noise) ** 3))(q)
    for leaf in jax.tree.leaves(gradient):
        assert np.isfinite(leaf).all()
        assert np.any(leaf != 0)


@pytest.mark.parametrize("name", ["full", "low rank"])
def test_log_density_is_that_of_the_covariance(name, x64):
    q = members()[name]
    point = MEAN + np.array([0.5, -0.2, 0.8])
    expected = scipy.stats.multivariate_normal.logpdf(point, q.mean, q.covariance)
    np.testing.assert_allclose(q.log_prob(jnp.asarray(point)), expected, rtol=1e-10)
    np.testing.assert_allclose(q.variance, np.diag(q.covariance), rtol=1e-10)


@pytest.mark.parametrize("name", ["full", "low rank"])
def test_the_transform_has_the_covariance(name, x64):
    q = members()[name]
    jacobian = np.asarray(jax.jacfwd(q.transform)(q.noise(KEY)))
    np.testing.assert_allclose(jacobian @ jacobian.T, q.covariance, rtol=1e-10)


def test_the_capped_gaussian_is_never_wider_than_its_prior(x64):
    prior = bb.DiagonalGaussian(jnp.zeros(3), jnp.log(jnp.array([1.0, 4.0, 0.25])))
    logits = jnp.array([-10.0, 0.0, 50.0])
    variance = bb.CappedGaussian(jnp.zeros(3), logits).under(prior).variance
    expected = np.array([1.0, 4.0, 0.25]) / (1 + np.exp(-np.asarray(logits)))
    np.testing.assert_allclose(variance, expected, rtol=1e-10)
    assert np.all(variance <= prior.variance)


def test_the_capped_gaussian_by_itself_is_the_one_under_the_standard_prior(x64):
    q = bb.CappedGaussian(jnp.asarray(MEAN), jnp.array([-3.0, 0.0, 2.0]))
    standard = q.under(bb.DiagonalGaussian(jnp.zeros(3), jnp.zeros(3)))
    params = q.transform(jnp.array([0.3, -1.0, 2.0]))
    np.testing.assert_allclose(q.variance, standard.variance, rtol=1e-10)
    np.testing.assert_allclose(params, standard.transform(jnp.array([0.3, -1.0, 2.0])), rtol=1e-10)
    np.testing.assert_allclose(q.log_prob(params), standard.log_prob(params), rtol=1e-10)


@pytest.mark.parametrize(
    "start",
    [
        bb.DiagonalGaussian.init,
        bb.CappedGaussian.init,
        bb.FullGaussian.init,
        partial(bb.LowRankGaussian.init, rank=2),
    ],
)
def test_every_class_starts_narrow_around_the_mean(start):
    prior = bb.DiagonalGaussian(jnp.zeros(3), jnp.zeros(3))
    q = start(jnp.asarray(MEAN, jnp.float32), prior)
    np.testing.assert_allclose(q.mean, MEAN, rtol=1e-6)
    np.testing.assert_allclose(q.variance, np.exp(-10), rtol=0.02)


def test_a_users_flow_goes_through_fit_and_beats_the_gaussian():
    """Counts 0, 0, 1 with log-rate θ ~ N(0, 1): the posterior is skewed, the evidence a sum."""
    counts = jnp.array([0.0, 0.0, 1.0])

    def log_likelihood(params, batch):
        return jax.scipy.stats.poisson.logpmf(batch, jnp.exp(3 * params[0]))

    grid = np.linspace(-12, 6, 20001)
    log_joint = scipy.stats.norm.logpdf(grid) + sum(
        scipy.stats.poisson.logpmf(count, np.exp(3 * grid)) for count in np.asarray(counts)
    )
    evidence = np.log(np.exp(log_joint).sum() * (grid[1] - grid[0]))
    gaps = {}
    for name, family in {
        "flow": lambda mean, prior: SinhArcsinhFlow(mean, mean - 2.0, jnp.zeros_like(mean)),
        "gaussian": bb.DiagonalGaussian.init,
    }.items():
        posterior = bb.fit(
            log_likelihood,
            jnp.zeros(1),
            counts,
            alpha=0.0,
            key=KEY,
            family=family,
            num_epochs=3000,
            num_samples=50,
        )
        draws = posterior.sample(20_000, key=jax.random.key(1))
        log_ratio = jax.vmap(lambda p, q=posterior: log_likelihood(p, counts).sum() - q.log_prob(p))
        bounds = np.asarray(jax.jit(log_ratio)(draws)) + scipy.stats.norm.logpdf(
            np.asarray(draws)[:, 0]
        )
        gaps[name] = evidence - bounds.mean(), bounds.std() / np.sqrt(len(bounds))
    assert gaps["flow"][0] > -4 * gaps["flow"][1]
    assert gaps["flow"][0] < 0.5 * gaps["gaussian"][0]
