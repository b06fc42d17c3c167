"""Latent sites of single data points, against the model in which they are integrated out."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.scipy.optimize import minimize
from jax.scipy.stats import norm

import bbalpha as bb
from bbalpha.interfaces.numpyro import BBAlphaELBO, fit

EFFECT, NOISE = 0.8, 0.6  # deviations of the random effect and of the noise
SPREAD = (EFFECT**2 + NOISE**2) ** 0.5
GAIN = EFFECT**2 / SPREAD**2
WIDTH = EFFECT * NOISE / SPREAD
DATA = jnp.array([0.5, 1.5, 2.5, -0.3, 0.7, 0.1, 1.9, 1.1])
KEY = jax.random.key(5)
ALPHAS = (0.5, 1.0)


def with_effects(data):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("data", len(data)):
        effect = numpyro.sample("effect", dist.Normal(0, EFFECT))
        numpyro.sample("x", dist.Normal(mean + effect, NOISE), obs=data)


def integrated(data):
    mean = numpyro.sample("mean", dist.Normal(0, 1))
    with numpyro.plate("data", len(data)):
        numpyro.sample("x", dist.Normal(mean, SPREAD), obs=data)


def guide_of_mean(data):
    center = numpyro.param("center", 0.9)
    deviation = numpyro.param("deviation", 0.4, constraint=dist.constraints.positive)
    return numpyro.sample("mean", dist.Normal(center, deviation))


def conditional_guide(data):
    """Gaussian effects given the mean; at these values exactly p(z|x, θ)."""
    mean = guide_of_mean(data)
    gain = numpyro.param("gain", jnp.full(len(data), GAIN))
    width = numpyro.param("width", WIDTH, constraint=dist.constraints.positive)
    with numpyro.plate("data", len(data)):
        numpyro.sample("effect", dist.Normal(gain * (data - mean), width))


PARAMS = {"center": 0.9, "deviation": 0.4}
OF_EFFECTS = {"gain": jnp.full(len(DATA), GAIN), "width": WIDTH}


def gradient(model, guide, params, alpha, num_particles, key=KEY):
    loss = BBAlphaELBO(alpha, num_particles)
    return jax.value_and_grad(lambda params: loss.loss(key, params, model, guide, DATA))(params)


@pytest.fixture(scope="module")
def with_exact_effects():
    """Losses and gradients of both models at two powers, and gradients over 200 keys."""
    params = PARAMS | OF_EFFECTS

    def both(alpha):
        return (
            gradient(with_effects, conditional_guide, params, alpha, 6),
            gradient(integrated, guide_of_mean, params, alpha, 6),
        )

    def of_keys(alpha):
        def of_key(key):
            return gradient(with_effects, conditional_guide, params, alpha, 50, key)[1]

        return jax.lax.map(of_key, jax.random.split(KEY, 200))

    with jax.numpy_rank_promotion("allow"):
        return jax.jit(jax.vmap(lambda alpha: (both(alpha), of_keys(alpha))))(jnp.array(ALPHAS))


def test_with_the_exact_effects_loss_and_gradient_are_those_of_the_integrated_model(
    with_exact_effects,
):
    """The guide draws the mean first, so both models see the same draws of it."""
    # A key is split at every site: the integrated model has its mean from the same first half.
    (found, expected), _ = with_exact_effects
    np.testing.assert_allclose(found[0], expected[0], rtol=2e-5)
    for name in PARAMS:
        np.testing.assert_allclose(found[1][name], expected[1][name], rtol=1e-3, atol=1e-4)


def test_the_exact_effects_are_where_their_gradient_vanishes(with_exact_effects):
    _, found = with_exact_effects
    for name in OF_EFFECTS:
        error = np.std(found[name], axis=1) / np.sqrt(200)
        assert np.all(np.abs(np.mean(found[name], axis=1)) < 4 * error)


def test_at_alpha_one_any_effects_leave_the_energy_of_the_integrated_model():
    """E_q[p(x, z|θ)/q(z)] = p(x|θ) for every q(z): here one that is far from the posterior."""

    def guide(data):
        guide_of_mean(data)
        with numpyro.plate("data", len(data)):
            numpyro.sample("effect", dist.Normal(0.3, 1.2))

    num_particles, num_data = 20_000, len(DATA)
    loss, params = BBAlphaELBO(1.0, num_particles), {"center": 0.9, "deviation": 0.4}
    values = jax.jit(lambda key: log_ratios(loss, key, with_effects, guide, params))(KEY)
    exact = jax.jit(exact_energy)(jnp.array([0.9, 2 * np.log(0.4)]), 1.0)
    energy = -jnp.sum(jax.jit(bb.log_power_mean)(values, 1.0))
    weights = np.exp(np.asarray(values - values.max(axis=0)))
    influence = (weights / weights.mean(axis=0)).sum(axis=1) - num_data
    error = influence.std() / np.sqrt(num_particles)
    assert abs(float(energy - exact)) < 4 * error


def log_ratios(loss, key, model, guide, params):
    from bbalpha.interfaces.numpyro.loss import split
    from bbalpha.interfaces.numpyro.traces import Program

    program = Program(model, guide, (DATA,), {})
    return loss.of_draws(*split(key, loss.num_particles), params, program).log_ratios


def exact_energy(numbers, alpha):
    """The energy of N(m, v) on the integrated model, by quadrature."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    q = bb.DiagonalGaussian(numbers[:1], numbers[1:])
    prior = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    return bb.alpha_energy(
        lambda mean, batch: norm.logpdf(batch, mean, SPREAD),
        q,
        prior,
        DATA,
        jnp.asarray(nodes[:, None], jnp.float32),
        alpha=alpha,
        num_data=len(DATA),
        noise_weights=jnp.asarray(weights / weights.sum(), jnp.float32),
    )


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.5, 1.0])
def test_a_fit_with_effects_finds_the_optimum_of_the_integrated_model(alpha):
    optimum = minimize(exact_energy, jnp.array([0.9, -2.0]), args=(alpha,), method="BFGS").x
    expected = np.array([optimum[0], np.exp(optimum[1] / 2)])
    found = []
    for seed in range(5):
        posterior = fit(
            with_effects,
            DATA,
            guide=conditional_guide,
            alpha=alpha,
            num_particles=200,
            num_epochs=3000,
            key=jax.random.key(seed),
        )
        found.append([posterior.params["center"], posterior.params["deviation"]])
    error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found))
    assert np.all(np.abs(np.mean(found, axis=0) - expected) < 4 * error)
