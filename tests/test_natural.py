"""Natural gradients: against the Fisher information, quadrature, and exact posteriors."""

from functools import partial

import equinox as eqx
import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.natural import TRAVEL_AT_ZERO, highest_rate

MEAN = jnp.array([0.5, -1.0])
LOG_SCALE = jnp.array([-0.5, 0.3])
PRIOR = bb.DiagonalGaussian(jnp.array([0.2, 0.1]), jnp.array([0.4, 0.9]))
FAMILIES = {
    "DiagonalGaussian": bb.DiagonalGaussian(MEAN, 2 * LOG_SCALE),
    "CappedGaussian": bb.CappedGaussian(MEAN, jnp.array([-1.0, 0.2])),
    "FullGaussian": bb.FullGaussian(MEAN, LOG_SCALE, jnp.array([[0.0, 0.0], [0.7, 0.0]])),
    "LowRankGaussian": bb.LowRankGaussian(MEAN, LOG_SCALE, jnp.array([[0.8], [0.3]])),
}
EXACT = ["DiagonalGaussian", "FullGaussian"]  # the others are damped or approximate
DATA = jnp.array([[1.0, 0.3], [0.2, -0.5], [-1.5, 2.0]])


def log_likelihood(params, batch):
    return -jnp.logaddexp(0.0, batch @ params) + 0.3 * jnp.sin(jnp.sum(params))


def under(q, prior=PRIOR):
    return q.under(prior) if hasattr(q, "under") else q


def energy(q, noise, alpha=0.5, weights=None):
    return bb.alpha_energy(
        log_likelihood, under(q), PRIOR, DATA, noise, alpha=alpha, num_data=3, noise_weights=weights
    )


def flat(tree):
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def fisher(q):
    """The Fisher information of the fields: minus the mean Hessian of log q, by quadrature."""
    noise, weights = nodes(jax.eval_shape(q.noise, jax.random.key(0)).size, 8)
    vector, unravel = jax.flatten_util.ravel_pytree(q)
    draws = jax.vmap(under(q).transform)(noise)

    def log_probs(vector):
        return weights @ jax.vmap(under(unravel(vector)).log_prob)(draws)

    return -jax.hessian(log_probs)(vector)


def nodes(size, count=20):
    """Points and weights of Gauss and Hermite's quadrature for Gaussian noise."""
    points, weights = np.polynomial.hermite_e.hermegauss(count)
    grid = np.stack(np.meshgrid(*[points] * size), axis=-1).reshape(-1, size)
    product = np.prod(np.stack(np.meshgrid(*[weights] * size), axis=-1), axis=-1).ravel()
    return jnp.asarray(grid), jnp.asarray(product / product.sum())


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("alpha", [0.0, 0.5, -1.0])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_path_gradient_is_the_gradient_of_the_energy(name, alpha):
    """(1 − α/N) times the derivative by the noise, against the derivative by the fields of q."""
    q = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), FAMILIES[name])
    noise, weights = nodes(jax.eval_shape(q.noise, jax.random.key(0)).size)
    gradient = jax.grad(energy)(q, noise, alpha, weights)
    path = (1 - alpha / 3) * jax.grad(energy, 1)(q, noise, alpha, weights)
    direction, coordinates = q.natural_gradient(noise, path, PRIOR)
    product = float(flat(gradient) @ flat(direction))
    np.testing.assert_allclose(product, float(flat(coordinates) @ flat(coordinates)), rtol=1e-3)
    if name in EXACT:
        vector = np.asarray(flat(gradient))
        expected = np.linalg.pinv(np.asarray(fisher(q)), rcond=1e-9) @ vector
        np.testing.assert_allclose(flat(direction), expected, rtol=1e-3, atol=1e-4)


def test_the_path_gradient_vanishes_for_every_draw_where_q_is_the_posterior():
    inputs = jax.random.normal(jax.random.key(0), (20, 2))
    precision = jnp.eye(2) + inputs.T @ inputs
    covariance = jnp.linalg.inv(precision)
    cholesky = jnp.linalg.cholesky(covariance)
    scale = jnp.diag(cholesky)
    q = bb.FullGaussian(
        covariance @ inputs.T @ jnp.ones(20), jnp.log(scale), cholesky / scale[:, None]
    )
    prior = bb.DiagonalGaussian(jnp.zeros(2), jnp.zeros(2))

    def energy(noise):
        def linear(params, batch):
            return jax.scipy.stats.norm.logpdf(1.0, batch @ params)

        return bb.alpha_energy(linear, q, prior, inputs, noise, alpha=0.0, num_data=20)

    path = jax.grad(energy)(jax.random.normal(jax.random.key(1), (5, 2)))
    np.testing.assert_allclose(path, np.zeros((5, 2)), atol=2e-5)


def linear_problem(num_data=60, num_params=4):
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(num_data, num_params)) + generator.normal(size=(num_data, 1))
    targets = inputs @ np.linspace(-1, 1, num_params) + 0.5 * generator.normal(size=num_data)
    precision = np.eye(num_params) + 4 * inputs.T @ inputs
    return (inputs, targets), np.linalg.solve(precision, 4 * inputs.T @ targets), precision


def linear(params, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ params, 0.5)


@pytest.mark.parametrize("family", ["CappedGaussian", "DiagonalGaussian", "FullGaussian", "rank 4"])
def test_every_family_reaches_the_exact_optimum_of_a_linear_model(family):
    """At α = 0 the optimum is the exact mean with variances 1/Λⱼⱼ, or the exact covariance."""
    data, mean, precision = linear_problem()
    make = partial(bb.LowRankGaussian.init, rank=4) if family == "rank 4" else getattr(bb, family)
    posterior = bb.fit(linear, jnp.zeros(4), data, alpha=0.0, family=make, key=jax.random.key(0))
    is_full = family in ("FullGaussian", "rank 4")
    exact = np.diag(np.linalg.inv(precision)) if is_full else 1 / np.diag(precision)
    assert posterior.info.converged
    assert posterior.info.stopped == "converged"
    np.testing.assert_allclose((posterior.mean - mean) / np.sqrt(exact), np.zeros(4), atol=0.02)
    np.testing.assert_allclose(posterior.variance, exact, rtol=0.02)


def test_a_start_far_away_is_reached_by_growing_steps():
    data, mean, precision = linear_problem()
    far = jnp.full(4, 1e3)  # some ten thousand posterior deviations
    posterior = bb.fit(linear, far, data, alpha=0.0, family=bb.FullGaussian, key=jax.random.key(0))
    assert posterior.info.converged
    exact = np.sqrt(np.diag(np.linalg.inv(precision)))
    np.testing.assert_allclose((posterior.mean - mean) / exact, np.zeros(4), atol=0.02)


def cliff(params, batch):
    """A log-likelihood that is not finite where the first parameter exceeds 1.2."""
    log_density = jax.scipy.stats.norm.logpdf(batch, params[0], 0.1)
    return jnp.where(params[0] > 1.2, -jnp.inf, log_density)


def test_a_step_that_leaves_the_finite_region_is_shortened():
    state = bb.init(
        cliff,
        jnp.zeros(1),
        num_data=50,
        key=jax.random.key(0),
        alpha=0.0,
        optimizer=bb.natural_gradients(1.0),
        num_samples=20,
    )
    step = jax.jit(bb.step)
    data = jnp.ones(50)
    for _ in range(40):
        state, info = step(state, data)
        assert bool(info.finite)
    assert abs(float(state.posterior().mean[0]) - 1.0) < 0.05


def test_hyperparameters_and_prior_scales_reach_their_optimum():
    """At α = 0 with a full q the energy is −log evidence, least at the evidence's maximum."""
    (inputs, targets), _, _ = linear_problem()

    def unknown_noise(params, batch, log_variance):
        return jax.scipy.stats.norm.logpdf(batch[1], batch[0] @ params, jnp.exp(log_variance / 2))

    posterior = bb.fit(
        unknown_noise,
        jnp.zeros(4),
        (inputs, targets),
        alpha=0.0,
        family=bb.FullGaussian,
        hyperparams=jnp.zeros(()),
        learn_prior=True,
        key=jax.random.key(0),
    )

    def log_evidence(log_variance, log_prior):
        covariance = np.exp(log_prior) * inputs @ inputs.T + np.exp(log_variance) * np.eye(60)
        _, log_det = np.linalg.slogdet(covariance)
        return -0.5 * (targets @ np.linalg.solve(covariance, targets) + log_det)

    found = float(posterior.hyperparams), float(jnp.log(posterior.prior.variance[0]))
    best = log_evidence(*found)
    assert posterior.info.converged
    for offset in (-0.1, 0.1):  # an optimum within 0.05 of the result
        assert log_evidence(found[0] + offset, found[1]) < best
        assert log_evidence(found[0], found[1] + 4 * offset) < best  # a much flatter direction


def test_alpha_rises_from_zero_once_steps_have_led_near():
    optimizer = bb.natural_gradients(0.5)
    state = bb.init(
        linear, jnp.zeros(4), num_data=60, key=jax.random.key(0), optimizer=optimizer
    ).optimizer_state
    travels = np.array([0.0, 1.0, 1.5, 2.0, 9.0]) * TRAVEL_AT_ZERO
    shares = [float(state._replace(travel=jnp.asarray(t)).share_of_alpha) for t in travels]
    assert shares == pytest.approx([0.0, 0.0, 0.5, 1.0, 1.0])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((10, 100, 1.0, True), 1.0),
        ((10, 100, 1.0, False), 1 / 1.22),
        ((100, 100, 1.0, True), 1 / 3.02),  # too many to be matched
        ((10, 100, 0.01, True), 0.01),
    ],
)
def test_the_highest_rate_follows_the_noise(arguments, expected):
    assert highest_rate(*arguments) == pytest.approx(expected)


def test_a_family_without_a_natural_gradient_is_refused():
    class Plain(eqx.Module):
        inner: bb.DiagonalGaussian

        mean = property(lambda self: self.inner.mean)
        variance = property(lambda self: self.inner.variance)

        def noise(self, key):
            return self.inner.noise(key)

        def transform(self, noise):
            return self.inner.transform(noise)

        def log_prob(self, params):
            return self.inner.log_prob(params)

    data, _, _ = linear_problem()
    start = Plain(bb.DiagonalGaussian(jnp.zeros(4), jnp.zeros(4)))
    message = "must not be .natural. for a family without a member natural_gradient; got a Plain"
    with pytest.raises(ValueError, match=message):
        bb.fit(linear, jnp.zeros(4), data, family=start, key=jax.random.key(0), optimizer="natural")


def test_an_optimizer_must_be_known_by_name():
    data, _, _ = linear_problem()
    with pytest.raises(ValueError, match=r"or an optax optimizer; got .*newton"):
        bb.fit(linear, jnp.zeros(4), data, key=jax.random.key(0), optimizer="newton")
