"""Fits of constrained parameters, where the right answer is known, and what is refused."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.integrate
import scipy.optimize
import scipy.stats
from jax.scipy.stats import norm
from problems.constrained import CONSTRAINED, answers

import bbalpha as bb

KEY = jax.random.key(0)
NUM_STEPS = 300
OPTIMIZER = optax.adam(optax.cosine_decay_schedule(0.1, NUM_STEPS))
NUM_SAMPLES = 10_000
DATA = np.random.default_rng(0).normal(scale=2.0, size=16)
SHAPE, RATE = 3.0, 4.0  # of the prior
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(60)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def variance_log_likelihood(variance, batch):
    return norm.logpdf(batch, 0.0, jnp.sqrt(variance))


def log_inverse_gamma(variance):
    return -(SHAPE + 1) * jnp.log(variance) - RATE / variance  # unnormalized


def chance_log_likelihood(chance, batch):
    return jnp.where(batch > 0, jnp.log(chance), jnp.log1p(-chance))


def log_beta(chance):
    return SHAPE * jnp.log(chance) + RATE * jnp.log1p(-chance)  # Beta(4, 5), unnormalized


MODELS = {
    "the variance of a Gaussian": (variance_log_likelihood, log_inverse_gamma, bb.positive),
    "the chance of a coin": (chance_log_likelihood, log_beta, bb.probability),
}


def exact_posterior(name):
    """The posterior by conjugacy."""
    if name == "the variance of a Gaussian":
        rate = RATE + np.sum(DATA**2) / 2
        return scipy.stats.invgamma(SHAPE + len(DATA) / 2, scale=rate)
    return scipy.stats.beta(SHAPE + 1 + np.sum(DATA > 0), RATE + 1 + np.sum(DATA <= 0))


def to_values(name, free):
    """The values of free numbers and log dx/dz, written out once more."""
    if name == "the variance of a Gaussian":
        return np.exp(free), free
    chance = scipy.special.expit(free)
    return chance, np.log(chance) + np.log1p(-chance)


def best_gaussian(name):
    """Mean and deviation of the Gaussian over free numbers with least KL divergence from q to p."""
    exact = exact_posterior(name)

    def divergence(mean_and_log_deviation):
        mean, log_deviation = mean_and_log_deviation
        values, log_jacobian = to_values(name, mean + np.exp(log_deviation) * NODES)
        return -log_deviation - WEIGHTS @ (exact.logpdf(values) + log_jacobian)

    start = [0.0, -1.0]
    found = scipy.optimize.minimize(divergence, start, method="Nelder-Mead", tol=1e-10)
    return found.x[0], np.exp(found.x[1])


def fit(name, **settings):
    log_likelihood, prior, transform = MODELS[name]
    settings = {
        "transforms": transform,
        "prior": prior,
        "alpha": 0.0,
        "key": KEY,
        "optimizer": OPTIMIZER,
        "num_epochs": NUM_STEPS,
        "num_samples": NUM_SAMPLES,
        "resample_every": NUM_STEPS,  # one sample, so that its error is known
    } | settings
    return bb.fit(log_likelihood, jnp.array(0.5), DATA, **settings)


def test_the_best_gaussian_of_an_inverse_gamma_is_known_in_closed_form():
    """−a z − b exp(−z) is least far from N(log(b/a) + 1/2a, 1/a)."""
    a, b = SHAPE + len(DATA) / 2, RATE + np.sum(DATA**2) / 2
    expected = np.log(b / a) + 0.5 / a, 1 / np.sqrt(a)
    np.testing.assert_allclose(best_gaussian("the variance of a Gaussian"), expected, rtol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_finds_the_best_gaussian_over_free_numbers(name):
    posterior = fit(name)
    mean, deviation = best_gaussian(name)
    # The optimum of the energy of K draws is as far off as moments of K draws.
    assert abs(posterior.q.mean[0] - mean) < 4 * deviation / np.sqrt(NUM_SAMPLES)
    ratio = np.sqrt(posterior.q.variance[0]) / deviation
    assert abs(np.log(ratio)) < 4 / np.sqrt(2 * NUM_SAMPLES)
    # In the user's units it is close to the exact posterior.
    exact, summary = exact_posterior(name), posterior.summary()
    assert abs(summary.mean - exact.mean()) < 0.1 * exact.std()
    np.testing.assert_allclose(summary.deviation, exact.std(), rtol=0.1)
    for level, found in ((0.05, summary.lower), (0.95, summary.upper)):
        assert abs(exact.cdf(found) - level) < 0.03


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", MODELS)
def test_the_energy_is_that_of_the_model_written_in_free_numbers(name, alpha):
    log_likelihood, log_density, transform = MODELS[name]
    state = bb.init(
        log_likelihood,
        jnp.array(0.5),
        num_data=16,
        key=KEY,
        transforms=transform,
        prior=log_density,
    )

    class ByHand:
        def log_prob(self, free):
            values = transform.forward(free[0])
            jacobian = jax.grad(transform.forward)(free[0])
            return log_density(values) + jnp.log(jnp.abs(jacobian))

    q = bb.DiagonalGaussian(jnp.array([0.3]), jnp.array([-1.0]))
    settings = {"alpha": alpha, "num_data": 16, "noise_weights": jnp.asarray(WEIGHTS)}
    noise = jnp.asarray(NODES)[:, None]
    energy = partial(bb.alpha_energy, batch=jnp.asarray(DATA), noise=noise, **settings)
    found = energy(log_likelihood, q, state.prior, layout=state.method.layout)
    by_hand = energy(
        lambda free, batch: log_likelihood(transform.forward(free[0]), batch), q, ByHand()
    )
    np.testing.assert_allclose(found, by_hand, rtol=1e-10)


def test_the_energy_of_an_unnormalized_prior_misses_its_constant():
    constant = SHAPE * np.log(RATE) - scipy.special.gammaln(SHAPE)

    def energy(prior):
        settings = {"num_data": 16, "key": KEY, "transforms": bb.positive, "num_samples": 5}
        state = bb.init(variance_log_likelihood, jnp.array(0.5), prior=prior, **settings)
        return state.energy(jnp.asarray(DATA))

    normalized = energy(lambda variance: log_inverse_gamma(variance) + constant)
    np.testing.assert_allclose(energy(log_inverse_gamma) - normalized, constant, rtol=1e-4)


def gaussian_log_likelihood(params, batch):
    return norm.logpdf(batch, params["center"], params["scale"])


STARTS = {"center": jnp.array([0.0, 1.0]), "scale": jnp.array([1.0, 3.0])}
SETTINGS = {
    "transforms": {"scale": bb.positive},
    "prior": {"center": 5.0, "scale": norm.logpdf},
    "alpha": 0.5,
    "optimizer": optax.adam(1e-2),
    "num_epochs": 3,
    "num_samples": 7,
}


def test_replicas_equal_single_fits():
    keys = jax.random.split(KEY, 2)
    many = bb.fit_many(gaussian_log_likelihood, STARTS, DATA, keys=keys, **SETTINGS)
    for place, (replica, key) in enumerate(zip(many, keys, strict=True)):
        start = jax.tree.map(lambda leaf, place=place: leaf[place], STARTS)
        one = bb.fit(gaussian_log_likelihood, start, DATA, key=key, **SETTINGS)
        np.testing.assert_allclose(replica.q.mean, one.q.mean, rtol=2e-5)
        np.testing.assert_allclose(replica.energy, one.energy, rtol=2e-5)
        np.testing.assert_allclose(one.mean["scale"], start["scale"], rtol=0.05)


def test_draws_predictions_and_densities_are_in_the_users_units():
    start = {"center": jnp.array(0.0), "scale": jnp.array(3.0)}
    posterior = bb.fit(gaussian_log_likelihood, start, DATA, key=KEY, **SETTINGS)
    draws = posterior.sample(50, key=KEY)
    assert np.all(np.abs(np.log(draws["scale"] / 3)) < 0.2)
    densities = scipy.stats.norm.pdf(DATA[:, None], draws["center"], draws["scale"])
    found = posterior.log_density(gaussian_log_likelihood, DATA, key=KEY, num_samples=50)
    np.testing.assert_allclose(found, np.log(densities.mean(axis=1)), rtol=2e-5)
    scales = posterior.predict(
        lambda params, rows: 0 * rows + params["scale"], DATA, key=KEY, num_samples=50
    )
    np.testing.assert_allclose(scales, np.repeat(draws["scale"][:, None], 16, axis=1), rtol=2e-5)


@pytest.mark.parametrize("place", [0, 1])
def test_a_start_that_breaks_a_constraint_is_refused(place):
    bad = STARTS | {"scale": jnp.array([1.0, 3.0]).at[place].set(-2.0)}
    message = r"^params\['scale'\] must be positive; got params\['scale'\]=-2\.$"
    with pytest.raises(ValueError, match=message):
        bb.fit_many(gaussian_log_likelihood, bad, DATA, keys=jax.random.split(KEY, 2), **SETTINGS)
    one = jax.tree.map(lambda leaf: leaf[place], bad)
    with pytest.raises(ValueError, match=message):
        bb.fit(gaussian_log_likelihood, one, DATA, key=KEY, **SETTINGS)


def test_a_start_without_prior_density_is_refused_for_every_replica():
    settings = SETTINGS | {
        "prior": {"center": 5.0, "scale": lambda scale: jnp.where(scale < 2, 0.0, -jnp.inf)}
    }
    message = r"^prior\['scale'\] must have a finite .* got -inf at params\['scale'\]=3\.$"
    with pytest.raises(ValueError, match=message):
        bb.fit_many(
            gaussian_log_likelihood, STARTS, DATA, keys=jax.random.split(KEY, 2), **settings
        )


def test_a_transform_of_no_parameter_is_refused():
    start = {"center": jnp.array(0.0), "scale": jnp.array(3.0)}
    message = (
        r"^transforms\['scael'\] must belong to an array of params, which has params\['center'\], "
        r"params\['scale'\]; got Positive\(\)\.$"
    )
    settings = SETTINGS | {"transforms": {"scael": bb.positive}}
    with pytest.raises(ValueError, match=message):
        bb.fit(gaussian_log_likelihood, start, DATA, key=KEY, **settings)


@pytest.mark.parametrize("name", CONSTRAINED)
def test_a_fit_of_constrained_parameters_agrees_with_nuts(name):
    problem, answer = CONSTRAINED[name], answers()[name]
    assert answer["largest_r_hat"] <= 1.01
    assert answer["smallest_effective_size"] >= 10_000  # 1 % of a deviation
    posterior = bb.fit(
        problem.log_likelihood,
        problem.params,
        problem.data,
        transforms=problem.transforms,
        prior=problem.prior,
        family=bb.FullGaussian,
        alpha=0.0,
        key=KEY,
    )
    assert posterior.info.converged
    summary = posterior.summary()
    for part, exact in answer["deviations"].items():
        off = np.abs(summary.mean[part] - np.array(answer["means"][part])) / exact
        assert np.max(off) < 0.05, part
        np.testing.assert_allclose(summary.deviation[part], exact, rtol=0.03, err_msg=part)
