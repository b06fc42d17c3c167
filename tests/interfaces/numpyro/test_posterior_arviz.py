"""ArviZ's functions on fits of NumPyro models: by `fit`, by `SVI`, and with local sites."""

import warnings
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
from numpyro.infer import SVI, Trace_ELBO, autoguide
from problems.numpyro_models import INPUTS, TARGETS, linear
from scipy.stats import norm

from bbalpha.interfaces.arviz import to_arviz
from bbalpha.interfaces.numpyro import BBAlphaELBO, fit, posterior_of

KEY = jax.random.key(0)
NUM_SAMPLES = 500

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    az = pytest.importorskip("arviz", minversion="0.23")


@pytest.fixture(scope="module")
def fitted():
    with jax.numpy_rank_promotion("allow"):
        return fit(linear, INPUTS, TARGETS, alpha=0.0, key=KEY)


def trained(loss, num_steps, batch_size=None):
    svi = SVI(linear, autoguide.AutoNormal(linear), optax.adam(0.03), loss)
    result = svi.run(KEY, num_steps, INPUTS, TARGETS, batch_size=batch_size, progress_bar=False)
    return posterior_of(svi, result, INPUTS, TARGETS)


def exact_leave_one_out():
    """The log-density of each target given all others."""
    inputs, targets = np.asarray(INPUTS, float), np.asarray(TARGETS, float)
    total = 0.0
    for row in range(len(inputs)):
        rest = np.arange(len(inputs)) != row
        covariance = np.linalg.inv(np.eye(3) + inputs[rest].T @ inputs[rest] / 0.25)
        mean = inputs[row] @ covariance @ inputs[rest].T @ targets[rest] / 0.25
        variance = 0.25 + inputs[row] @ covariance @ inputs[row]
        total += norm.logpdf(targets[row], mean, np.sqrt(variance))
    return total


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_loo_of_a_numpyro_fit_is_exact_and_ranks_it_before_an_untrained_run(fitted):
    found = to_arviz(fitted, key=KEY, num_samples=NUM_SAMPLES)
    log_likelihoods = found.log_likelihood["y"].values[0]
    error = np.std(log_likelihoods.sum(axis=1)) / np.sqrt(NUM_SAMPLES)
    np.testing.assert_allclose(az.loo(found).elpd_loo, exact_leave_one_out(), atol=4 * error)
    untrained = trained(BBAlphaELBO(0.5, 4), 2, batch_size=32)
    runs = {"fit": found, "untrained": to_arviz(untrained, key=KEY, num_samples=NUM_SAMPLES)}
    assert runs["untrained"].log_likelihood["y"].shape == (1, NUM_SAMPLES, 200)
    assert list(az.compare(runs, ic="loo").index) == ["fit", "untrained"]
    assert az.plot_ppc(found, num_pp_samples=10) is not None


@pytest.mark.filterwarnings("ignore")
def test_a_run_of_trace_elbo_becomes_an_arviz_object_with_the_draws_of_its_guide():
    posterior = trained(Trace_ELBO(4), 20)
    found = to_arviz(posterior, key=KEY, num_samples=NUM_SAMPLES)
    draws = posterior.sample(NUM_SAMPLES, key=KEY)["weights"]
    np.testing.assert_array_equal(found.posterior["weights"].values[0], draws)
    summary = az.summary(found, kind="stats", round_to="none")
    np.testing.assert_allclose(summary["mean"], np.mean(draws, axis=0), rtol=1e-4)
    np.testing.assert_array_equal(found.observed_data["y"].values, TARGETS)


def with_effects(data, batch_size=None):
    center = numpyro.sample("center", dist.Normal(0, 5))
    with numpyro.plate("data", 6, subsample_size=batch_size) as rows:
        effect = numpyro.sample("effect", dist.Normal(center, 1))
        observed = None if data is None else data[rows]
        numpyro.sample("x", dist.Normal(effect, 0.7), obs=observed)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_local_sites_trained_on_minibatches_predict_and_score_all_rows():
    """Predictions of row n center on its own effect, although a step sees two rows of six."""
    data = jnp.array([1.0, 12.0, -10.0, 31.0, 22.0, -20.0])
    posterior = fit(
        partial(with_effects, batch_size=2), data, num_epochs=3, num_particles=4, key=KEY
    )
    draws = posterior.sample(NUM_SAMPLES, key=KEY)["effect"]
    predicted = posterior.predictive(NUM_SAMPLES, key=KEY)(KEY, None)["x"]
    assert draws.shape == predicted.shape == (NUM_SAMPLES, 6)
    scores = np.asarray(predicted - draws) / 0.7
    assert np.all(np.abs(scores.mean(axis=0)) < 4 / np.sqrt(NUM_SAMPLES))
    of_new = posterior.predictive(NUM_SAMPLES, key=KEY, new_data=True)(KEY, None)["x"]
    assert of_new.shape == (NUM_SAMPLES, 6)
    found = to_arviz(posterior, key=KEY, num_samples=NUM_SAMPLES)
    expected = norm.logpdf(data, draws, 0.7)
    np.testing.assert_allclose(found.log_likelihood["x"].values[0], expected, rtol=1e-4)
    assert found.posterior_predictive["x"].shape == found.posterior["effect"].shape
    np.testing.assert_array_equal(found.observed_data["x"].values, data)
    assert np.isfinite(az.loo(found).elpd_loo)
    assert az.plot_ppc(found, num_pp_samples=10) is not None
