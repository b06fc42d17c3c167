"""`fit` against exact posteriors, `bb.fit` and NUTS, and all that its result can do."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer import MCMC, NUTS, SVI, Trace_ELBO, autoguide
from problems.numpyro_models import INPUTS, PAIRS, TARGETS, linear

import bbalpha as bb
from bbalpha.interfaces.arviz import to_arviz
from bbalpha.interfaces.numpyro import BBAlphaELBO, fit, posterior_of

KEY = jax.random.key(0)
TOLERANCE = 0.02  # of `fit`: two standard errors, in posterior deviations
ERRORS = 4 * TOLERANCE / 2  # four standard errors


def exact_linear():
    precision = np.eye(3) + np.asarray(INPUTS.T @ INPUTS, float) / 0.25
    covariance = np.linalg.inv(precision)
    return covariance @ np.asarray(INPUTS.T @ TARGETS, float) / 0.25, covariance


@pytest.fixture(scope="module")
def linear_posterior():
    with jax.numpy_rank_promotion("allow"):
        return fit(linear, INPUTS, TARGETS, alpha=0.0, key=KEY)


def test_at_alpha_zero_a_linear_regression_has_its_exact_posterior(linear_posterior):
    mean, covariance = exact_linear()
    deviation = np.sqrt(np.diag(covariance))
    summary = linear_posterior.summary()
    assert linear_posterior.info.stopped == "converged"
    assert np.all(np.abs(summary.mean["weights"] - mean) < ERRORS * deviation)
    np.testing.assert_allclose(summary.deviation["weights"], deviation, rtol=ERRORS)


@pytest.mark.slow
def test_diagnosis_and_weights_of_an_exact_posterior_are_those_of_the_posterior(linear_posterior):
    diagnosis = linear_posterior.diagnose(key=KEY, num_samples=400)
    assert diagnosis.efficiency > 0.9
    exact = linear_posterior.reweighted(key=KEY, num_samples=1000)
    mean, covariance = exact_linear()
    error = 4 * np.sqrt(np.diag(covariance) / exact.effective_size)
    assert np.all(np.abs(exact.mean["weights"] - mean) < error)


def test_predictions_have_the_mean_and_spread_of_the_model(linear_posterior):
    new = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    predictive = linear_posterior.predictive(2000, key=jax.random.key(1))
    draws = predictive(jax.random.key(2), new, jnp.full(2, jnp.nan))["y"]
    assert np.isnan(draws).all()  # NumPyro returns what is observed
    weights = linear_posterior.sample(2000, key=jax.random.key(1))["weights"]
    mean, covariance = exact_linear()
    error = 4 * np.sqrt(np.diag(covariance) / 2000)
    assert np.all(np.abs(weights.mean(axis=0) - mean) < error + ERRORS * np.diag(covariance) ** 0.5)


@pytest.mark.filterwarnings("ignore")
def test_arviz_gets_replicated_data_with_the_spread_of_the_observed(linear_posterior):
    found = to_arviz(linear_posterior, key=KEY, num_samples=200)
    assert found.log_likelihood["y"].shape == (1, 200, 200)
    np.testing.assert_array_equal(found.observed_data["y"].values, TARGETS)
    replicated = found.posterior_predictive["y"].values[0]
    residuals = replicated - np.asarray(INPUTS @ exact_linear()[0])[None]
    np.testing.assert_allclose(residuals.std(), 0.5, rtol=0.05)  # 40,000 of them, and the weights'


@pytest.mark.slow
@pytest.mark.parametrize(("batch_size", "tolerance"), [(None, TOLERANCE), (32, 0.05)])
@pytest.mark.parametrize("alpha", [-1.0, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("name", ["linear", "probit"])
def test_posteriors_are_those_of_bbalpha(name, alpha, batch_size, tolerance, request):
    """The Monte Carlo error of a fit is the spread of bbalpha's own over ten keys.

    A linear regression at α = 0 has none, because the gradient vanishes draw by draw; there only
    rounding is left.
    """
    if (name, alpha, batch_size) == ("linear", 1.0, 32):
        reason = "a deviation is 5.7 % smaller, five standard errors, for a reason not yet known"
        request.applymarker(pytest.mark.xfail(reason=reason))
    model, data, log_likelihood, num_weights = PAIRS[name]
    settings = {"alpha": alpha, "tolerance": tolerance}
    found = fit(partial(model, batch_size=batch_size), *data, **settings, key=KEY)
    others = [
        bb.fit(
            log_likelihood,
            jnp.zeros(num_weights),
            data,
            family=bb.FullGaussian,
            batch_size=batch_size,
            key=key,
            **settings,
        )
        for key in jax.random.split(jax.random.key(1), 10)
    ]
    summary = found.summary()
    of_found = np.array([summary.mean["weights"], np.log(summary.deviation["weights"])])
    of_others = np.array([[other.mean, 0.5 * np.log(other.variance)] for other in others])
    error = np.std(of_others, axis=0, ddof=1) * np.sqrt(1 + 1 / len(others))
    expected = of_others.mean(axis=0)
    assert np.all(np.abs(of_found - expected) < 4 * error + 2e-5 * np.abs(expected))


def pooled(data):
    center = numpyro.sample("center", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("groups", 4):
        effect = numpyro.sample("effect", dist.Normal(center, spread))
        numpyro.sample("x", dist.Normal(effect, 0.7), obs=data)


@pytest.fixture(scope="module")
def local_posterior():
    data = jnp.array([1.0, 2.0, 0.5, 1.5])
    with jax.numpy_rank_promotion("allow"):
        return fit(pooled, data, num_epochs=300, num_particles=8, key=KEY)


def test_a_model_with_local_sites_takes_steps_of_svi_and_keeps_its_record(local_posterior):
    energies = local_posterior.info.energies
    assert (local_posterior.info.num_steps, len(energies)) == (300, 300)
    assert np.mean(energies[-30:]) < np.mean(energies[:30])
    assert local_posterior.structure.local == ("effect",)
    draws = local_posterior.sample(50, key=KEY)
    shapes = {name: of.shape for name, of in draws.items()}
    assert shapes == {"center": (50,), "spread": (50,), "effect": (50, 4)}
    assert np.all(draws["spread"] > 0)


@pytest.mark.slow
def test_local_sites_of_new_data_come_from_their_own_distribution(local_posterior):
    draws = local_posterior.sample(4000, key=KEY)
    for new_data in (False, True):
        predictive = local_posterior.predictive(4000, key=KEY, new_data=new_data)
        found = predictive(jax.random.key(1), None)["x"]
        spread = draws["spread"][:, None] if new_data else 0.0
        center = draws["center"][:, None] if new_data else draws["effect"]
        scores = np.asarray((found - center) / np.sqrt(0.7**2 + spread**2))
        assert abs(scores.std() - 1) < 4 / np.sqrt(2 * scores.size)


@pytest.mark.slow
def test_summary_diagnosis_and_energy_of_a_guide_agree(local_posterior):
    assert "effect[3]" in str(local_posterior.summary())
    diagnosis = local_posterior.diagnose(key=KEY, num_samples=200)
    assert len(diagnosis.leave_one_out) == 4
    error = diagnosis.energy_standard_error
    assert abs(float(local_posterior.energy) - diagnosis.energy) < 4 * error


@pytest.mark.slow
def test_a_run_of_svi_with_any_loss_becomes_a_posterior():
    guide = autoguide.AutoNormal(linear)
    svi = SVI(linear, guide, optax.adam(0.05), Trace_ELBO(num_particles=4))
    result = svi.run(KEY, 500, INPUTS, TARGETS, progress_bar=False)
    posterior = posterior_of(svi, result, INPUTS, TARGETS)
    draws = posterior.sample(1000, key=KEY)["weights"]
    loc, scale = (np.asarray(result.params[f"weights_auto_{of}"]) for of in ("loc", "scale"))
    assert np.all(np.abs(draws.mean(axis=0) - loc) < 4 * scale / np.sqrt(1000))
    exact = posterior.reweighted(key=KEY, num_samples=2000)
    mean, covariance = exact_linear()
    error = 4 * np.sqrt(np.diag(covariance) / exact.effective_size)
    assert np.all(np.abs(exact.mean["weights"] - mean) < error)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make_guide",
    [
        autoguide.AutoNormal,
        autoguide.AutoDiagonalNormal,
        autoguide.AutoMultivariateNormal,
        autoguide.AutoLowRankMultivariateNormal,
        autoguide.AutoBNAFNormal,
        autoguide.AutoIAFNormal,
    ],
)
def test_every_guide_trains_on_constrained_priors_to_the_means_of_nuts(make_guide):
    """A half-normal scale and Dirichlet weights; with α = 0 means are within 0.3 deviations."""
    random = np.random.default_rng(1)
    parts = random.choice(3, 150, p=[0.5, 0.3, 0.2])
    data = jnp.asarray(parts * 2.0 + 0.4 * random.normal(size=150), jnp.float32)

    def mixture(data):
        shares = numpyro.sample("shares", dist.Dirichlet(jnp.ones(3)))
        scale = numpyro.sample("scale", dist.HalfNormal(1))
        with numpyro.plate("data", len(data)):
            parts = dist.Normal(jnp.array([0.0, 2.0, 4.0]), scale)
            numpyro.sample("x", dist.MixtureSameFamily(dist.Categorical(shares), parts), obs=data)

    sampler = MCMC(NUTS(mixture), num_warmup=500, num_samples=2000, progress_bar=False)
    sampler.run(jax.random.key(1), data)
    draws = sampler.get_samples()
    posterior = fit(mixture, data, guide=make_guide, alpha=0.0, num_epochs=4000, key=KEY)
    summary = posterior.summary()
    for name in ("shares", "scale"):
        deviation = np.std(draws[name], axis=0)
        assert np.all(np.abs(summary.mean[name] - np.mean(draws[name], axis=0)) < 0.3 * deviation)
        np.testing.assert_allclose(summary.deviation[name], deviation, rtol=0.3)


@pytest.mark.slow
def test_a_minibatched_guide_of_svi_finds_the_exact_posterior():
    svi = SVI(
        partial(linear, batch_size=32),
        autoguide.AutoMultivariateNormal(linear),
        optax.adam(optax.cosine_decay_schedule(0.02, 6000)),
        BBAlphaELBO(0.0, 32),
    )
    result = svi.run(KEY, 6000, INPUTS, TARGETS, progress_bar=False)
    mean, covariance = exact_linear()
    deviation = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(result.params["auto_loc"] - mean) < 0.2 * deviation)
