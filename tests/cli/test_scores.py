"""Facts about scores: coverage without quantiles, and the CRPS without sorting."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import ConvergenceWarning

import bbalpha as bb
from bbalpha.cli.saved import Model
from bbalpha.cli.scores import _crps, outcomes_of
from bbalpha.tables import Encoder, Target


@pytest.fixture(scope="module", params=["gaussian", "poisson", "student_t"])
def judged(request):
    """A model, the rows that it was fitted to, and its outcomes on them."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(60, 1))
    targets = random.poisson(np.exp(inputs[:, 0])).astype(float)
    estimator = bb.BBAlphaRegressor(
        (), likelihood=request.param, max_epochs=40, num_predictive_samples=300, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(inputs, targets)
    model = Model(estimator, Encoder(()), Target("y", "regression"), ())
    return estimator, inputs, targets, outcomes_of(model, inputs, targets)


@pytest.mark.parametrize("level", [0.5, 0.9])
def test_coverage_is_that_of_the_intervals(judged, level):
    estimator, inputs, targets, outcomes = judged
    lower, upper = estimator.predict_interval(inputs, level).T
    assert outcomes.coverage(level) == np.mean((lower <= targets) & (targets <= upper))


def test_the_transform_is_the_limit_of_that_of_many_draws(judged):
    estimator, inputs, targets, outcomes = judged
    pit = bb.metrics.pit(estimator.sample_y(inputs, 4000).T, targets)
    # The draws of the weights differ: 300 against 4,000, hence the wider of the two errors.
    np.testing.assert_allclose(outcomes.pit, pit, atol=4 * 0.5 / np.sqrt(300))


def test_means_and_densities_are_the_estimators(judged):
    estimator, inputs, targets, outcomes = judged
    np.testing.assert_allclose(outcomes.mean, estimator.predict(inputs), rtol=2e-5)
    scores = estimator.score_samples(inputs, targets)
    np.testing.assert_allclose(outcomes.log_densities, scores, rtol=2e-5, atol=2e-5)


def test_parts_of_a_long_table_have_draws_of_their_own(judged, monkeypatch):
    """Fewer for each part, since the parts together have as many as a short table."""
    estimator, inputs, targets, outcomes = judged
    monkeypatch.setattr("bbalpha.cli.parts.ROWS_AT_ONCE", 30)
    model = Model(estimator, Encoder(()), Target("y", "regression"), ())
    found = outcomes_of(model, inputs, targets)
    keys = set()
    for turn in (0, 30):
        part, rows = estimator._with_other_draws(150, turn), slice(turn, turn + 30)
        scores = part.score_samples(inputs[rows], targets[rows])
        lost = found.log_densities[rows] - scores  # what few draws lose on average is added
        assert np.all((lost >= -2e-5) & (lost < 0.1))
        means = part.predict(inputs[rows])
        np.testing.assert_allclose(found.mean[rows], means, rtol=2e-5)
        keys.add(tuple(jax.random.key_data(part._key()).tolist()))
    assert len(keys) == 2
    assert estimator.num_predictive_samples == 300
    monkeypatch.setattr("bbalpha.cli.scores.SHARES", {"regression": 100.0})
    np.testing.assert_allclose(
        outcomes_of(model, inputs, targets).log_densities, outcomes.log_densities, rtol=2e-5
    )


@pytest.mark.parametrize("num_draws", [2, 5, 200])
def test_the_crps_of_gaussian_draws_is_unbiased(num_draws):
    targets = jnp.linspace(-2, 2, 5000)
    draws = jax.random.normal(jax.random.key(0), (num_draws, 5000))
    found = np.asarray(_crps(draws, targets), float)
    z = np.asarray(targets, float)
    exact = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)
    error = bb.metrics.standard_error(found - exact)
    assert np.mean(found - exact) == pytest.approx(0, abs=4 * error)


def test_a_single_draw_is_scored_as_a_point():
    assert _crps(jnp.array([[1.0]]), jnp.array([3.0])) == 2
