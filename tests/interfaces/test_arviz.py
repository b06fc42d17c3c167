"""`to_arviz` under ArviZ 0.23, whose functions run on the result."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.stats import norm

import bbalpha as bb
from bbalpha.interfaces.arviz import to_arviz

KEY = jax.random.key(1)
GROUPS = ["posterior", "posterior_predictive", "log_likelihood", "observed_data"]
NUM_SAMPLES = 400

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    az = pytest.importorskip("arviz", minversion="0.23")


def log_likelihood(params, batch):
    return norm.logpdf(batch, params["mean"], 1.0)


@pytest.fixture(scope="module")
def data():
    return jnp.asarray(np.random.default_rng(0).normal(1.0, 1.0, 30), jnp.float32)


def exact_posterior(data, prior_mean=0.0):
    """N(Σx/(N+1), 1/(N+1)) under the prior N(0, 1); another mean makes it worse."""
    count = len(data)
    mean = jnp.array([(jnp.sum(data) + prior_mean) / (count + 1)])
    q = bb.DiagonalGaussian(mean, -jnp.log(jnp.array([count + 1.0])))
    prior = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    layout = bb.Layout.of({"mean": jnp.zeros(())})
    numbers = jnp.array(0.0), jnp.array(float(count)), jnp.array(jnp.nan)
    return bb.Posterior(q, prior, None, *numbers, layout)


@pytest.fixture(scope="module")
def found(data):
    posterior = exact_posterior(data)
    with jax.numpy_rank_promotion("allow"):
        means = posterior.sample(NUM_SAMPLES, key=KEY)["mean"]
        replicated = means[:, None] + jax.random.normal(KEY, (NUM_SAMPLES, len(data)))
    return to_arviz(
        posterior,
        key=KEY,
        num_samples=NUM_SAMPLES,
        log_likelihood=log_likelihood,
        data=data,
        posterior_predictive={"y": replicated},
        observed_data={"y": data},
    )


def test_groups_have_one_chain_and_the_draws_of_the_posterior(found, data):
    assert sorted(found.groups()) == sorted(GROUPS)
    draws = exact_posterior(data).sample(NUM_SAMPLES, key=KEY)["mean"]
    np.testing.assert_array_equal(found.posterior["mean"].values, draws[None])
    expected = norm.logpdf(data[None], draws[:, None])
    np.testing.assert_allclose(found.log_likelihood["y"].values[0], expected, rtol=2e-5, atol=2e-6)
    np.testing.assert_array_equal(found.observed_data["y"].values, data)
    assert found.posterior.attrs["alpha"] == 0.0


@pytest.mark.filterwarnings("ignore")
def test_summary_loo_compare_and_ppc_run_on_it(found, data):
    summary = az.summary(found, kind="stats")
    np.testing.assert_allclose(summary["mean"]["mean"], jnp.sum(data) / 31, atol=0.02)
    loo = az.loo(found)
    # Leaving out a datum of a Gaussian mean is known exactly.
    rest = (jnp.sum(data) - data) / 30
    exact = float(jnp.sum(norm.logpdf(data, rest, jnp.sqrt(1 + 1 / 30))))
    error = np.std(found.log_likelihood["y"].values[0].sum(axis=1)) / np.sqrt(NUM_SAMPLES)
    np.testing.assert_allclose(loo.elpd_loo, exact, atol=4 * error)
    shifted = to_arviz(
        exact_posterior(data, prior_mean=60.0),
        key=KEY,
        num_samples=NUM_SAMPLES,
        log_likelihood=log_likelihood,
        data=data,
    )
    table = az.compare({"right": found, "shifted": shifted}, ic="loo")
    assert table.index[0] == "right"
    axes = az.plot_ppc(found, num_pp_samples=10)
    assert axes is not None


def test_it_survives_the_way_to_a_file_and_back(found, tmp_path):
    path = tmp_path / "posterior.nc"
    found.to_netcdf(str(path))
    again = az.from_netcdf(str(path))
    np.testing.assert_array_equal(again.posterior["mean"].values, found.posterior["mean"].values)


def test_weighted_draws_are_resampled():
    draws = {"mean": jnp.array([0.0, 1.0])}
    posterior = bb.Reweighted(draws, np.array([0.0, 1.0]), pareto_k=0.1)
    found = to_arviz(posterior, key=KEY, num_samples=5)
    np.testing.assert_array_equal(found.posterior["mean"].values, np.ones((1, 5)))


@pytest.fixture(scope="module")
def table():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(60, 2))
    return inputs, 100 * inputs @ [1.0, -1.0] + 20 * random.normal(size=60)


@pytest.fixture(scope="module")
def regressor(table):
    return trained(*table)


def trained(inputs, targets):
    model = bb.BBAlphaRegressor(hidden_layer_sizes=(), max_epochs=30, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # thirty epochs are few
        return model.fit(inputs, targets)


def test_an_estimator_has_densities_in_the_units_of_its_targets(regressor, table):
    found = to_arviz(regressor, *table, key=KEY, num_samples=300)
    assert sorted(found.groups()) == sorted(GROUPS)
    assert found.posterior_predictive["y"].shape == (1, 300, 60)
    densities = np.exp(found.log_likelihood["y"].values[0].astype(float))
    score = np.mean(np.log(densities.mean(axis=0)))
    errors = densities.std(axis=0) / densities.mean(axis=0) / np.sqrt(300)
    np.testing.assert_allclose(
        score, np.mean(regressor.score_samples(*table)), atol=4 * errors.max()
    )


@pytest.mark.filterwarnings("ignore")
def test_loo_compare_and_ppc_run_on_estimators_and_rank_them(regressor, table):
    """One of the two was trained on targets of other rows."""
    inputs, targets = table
    others = trained(inputs, np.roll(targets, 1))
    runs = {
        name: to_arviz(model, *table, key=KEY, num_samples=300)
        for name, model in {"right": regressor, "rolled": others}.items()
    }
    log_likelihoods = runs["right"].log_likelihood["y"].values[0]
    with_the_row = np.sum(np.log(np.mean(np.exp(log_likelihoods), axis=0)))
    assert with_the_row - 10 < az.loo(runs["right"]).elpd_loo < with_the_row
    assert list(az.compare(runs, ic="loo").index) == ["right", "rolled"]
    assert az.plot_ppc(runs["right"], num_pp_samples=10) is not None


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"fitted": 3}, TypeError, r"fitted must be a posterior of bbalpha.*got int"),
        (
            {"data": jnp.ones(3)},
            ValueError,
            r"log_likelihood and data must be given together.*data",
        ),
        (
            {"posterior_predictive": {"y": jnp.ones((3, 30))}},
            ValueError,
            r"posterior_predictive\['y'\] must begin with an axis of 400 draws.*\(3, 30\)",
        ),
        ({"num_samples": 0}, ValueError, r"num_samples must be at least 1"),
    ],
)
def test_bad_input_gets_a_sentence(arguments, error, reason, data):
    settings = {"fitted": exact_posterior(data), "key": KEY, "num_samples": NUM_SAMPLES}
    with pytest.raises(error, match=reason):
        to_arviz(**settings | arguments)


def test_an_estimator_needs_rows(regressor):
    with pytest.raises(ValueError, match="X and y must be given for an estimator; got None"):
        to_arviz(regressor, key=KEY)
