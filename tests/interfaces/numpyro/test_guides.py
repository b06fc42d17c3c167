"""Every automatic guide, trained by `SVI` with this loss, against exact posteriors and NUTS."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro import handlers
from numpyro.infer import MCMC, NUTS, SVI, autoguide

from bbalpha.interfaces.numpyro import BBAlphaELBO, fit, posterior_of

KEY = jax.random.key(0)
NUM_DRAWS = 4000


def listed(model, first, **settings):
    """An `AutoGuideList`: an `AutoNormal` for the first site, and one joint guide of the rest."""
    guide = autoguide.AutoGuideList(model)
    others = [name for name in ("level", "slopes", "shares", "scale") if name != first]
    guide.append(autoguide.AutoNormal(handlers.block(model, hide=others), **settings))
    rest = handlers.block(model, hide=[first])
    guide.append(autoguide.AutoMultivariateNormal(rest, **settings))
    return guide


GAUSSIAN_GUIDES = {
    "AutoNormal": autoguide.AutoNormal,
    "AutoDiagonalNormal": autoguide.AutoDiagonalNormal,
    "AutoMultivariateNormal": autoguide.AutoMultivariateNormal,
    "AutoLowRankMultivariateNormal": autoguide.AutoLowRankMultivariateNormal,
}
FLOWS = {
    "AutoBNAFNormal": partial(autoguide.AutoBNAFNormal, num_flows=1, hidden_factors=[4]),
    "AutoIAFNormal": partial(autoguide.AutoIAFNormal, num_flows=1, hidden_dims=[8]),
}
random = np.random.default_rng(2)
COLUMNS = np.linalg.qr(random.normal(size=(40, 3)))[0] * 40**0.5  # orthogonal
TARGETS = COLUMNS @ [0.3, 1.0, -1.0] + 0.5 * random.normal(size=40)


def regression(inputs, targets):
    """With orthogonal columns, its posterior is a product of Gaussians, which every guide has."""
    level = numpyro.sample("level", dist.Normal(0, 1))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([2]).to_event(1))
    mean = level * inputs[:, 0] + inputs[:, 1:] @ slopes
    with numpyro.plate("data", len(inputs)):
        numpyro.sample("y", dist.Normal(mean, 0.5), obs=targets)


def trained(model, guide, data, num_steps, num_particles=16):
    optimizer = optax.adam(optax.cosine_decay_schedule(0.03, num_steps))
    svi = SVI(model, guide, optimizer, BBAlphaELBO(0.0, num_particles))
    result = svi.run(KEY, num_steps, *data, progress_bar=False)
    return posterior_of(svi, result, *data).sample(NUM_DRAWS, key=KEY)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GAUSSIAN_GUIDES, *FLOWS, "AutoGuideList"])
def test_every_guide_trains_to_an_exact_gaussian_posterior(name):
    """All coefficients have the deviation (1 + 40/0.25)^-½."""
    make = {**GAUSSIAN_GUIDES, **FLOWS, "AutoGuideList": partial(listed, first="level")}[name]
    data = jnp.asarray(COLUMNS, jnp.float32), jnp.asarray(TARGETS, jnp.float32)
    draws = trained(regression, make(regression), data, 1500)
    coefficients = np.column_stack([draws["level"], draws["slopes"]])
    mean = COLUMNS.T @ TARGETS / 0.25 / 161
    deviation = 161**-0.5
    assert np.all(np.abs(coefficients.mean(axis=0) - mean) < 0.1 * deviation)
    np.testing.assert_allclose(coefficients.std(axis=0), deviation, rtol=0.1)


def mixture(data):
    shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("data", len(data)):
        parts = dist.Normal(jnp.array([0.0, 2.0, 4.0]), scale)
        numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(shares), parts), obs=data)


@pytest.fixture(scope="module")
def mixed():
    """Data of three parts, and draws of NUTS."""
    random = np.random.default_rng(1)
    parts = random.choice(3, 150, p=[0.5, 0.3, 0.2])
    data = jnp.asarray(parts * 2.0 + 0.4 * random.normal(size=150), jnp.float32)
    with jax.numpy_rank_promotion("allow"):
        sampler = MCMC(NUTS(mixture), num_warmup=500, num_samples=2000, progress_bar=False)
        sampler.run(jax.random.key(1), data)
    return data, sampler.get_samples()


def assert_near(draws, expected):
    for name in ("shares", "scale"):
        deviation = np.std(expected[name], axis=0)
        error = np.abs(np.mean(draws[name], axis=0) - np.mean(expected[name], axis=0))
        assert np.all(error < 0.3 * deviation)
        np.testing.assert_allclose(np.std(draws[name], axis=0), deviation, rtol=0.3)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*GAUSSIAN_GUIDES, *FLOWS, "AutoGuideList"])
def test_every_guide_trains_on_constrained_priors_to_the_draws_of_nuts(name, mixed):
    """A half-normal scale and Dirichlet weights; at α = 0 means are within 0.3 deviations."""
    make = {**GAUSSIAN_GUIDES, **FLOWS, "AutoGuideList": partial(listed, first="scale")}[name]
    data, expected = mixed
    assert_near(trained(mixture, make(mixture), (data,), 4000), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", GAUSSIAN_GUIDES)
def test_fit_with_a_gaussian_guide_finds_the_draws_of_nuts(name, mixed):
    data, expected = mixed
    posterior = fit(mixture, data, guide=GAUSSIAN_GUIDES[name], alpha=0.0, key=KEY)
    assert_near(posterior.sample(NUM_DRAWS, key=KEY), expected)
