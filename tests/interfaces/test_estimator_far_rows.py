"""Rows far from the training data: inputs are clipped, and every prediction stays bounded.

The models have seen no data: their posterior is the prior, and no posterior can be wider, because
the prior caps the variances of q.
"""

import functools

import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.interfaces.network import model_of
from bbalpha.interfaces.regressor import HALF_A_COUNT, HIGHEST_COUNT
from bbalpha.interfaces.settings import COUNTS

RANDOM = np.random.RandomState(0)
INPUTS = RANDOM.normal(size=(64, 2)) * [3.0, 0.1] + [10.0, -5.0]
DISTANCES = np.array([10.0, 100.0, 1e6])
FAR = INPUTS.mean(axis=0) + np.outer(DISTANCES, INPUTS.std(axis=0))
FAR = np.concatenate([FAR, 2 * INPUTS.mean(axis=0) - FAR])  # and on the other side
TARGETS = {
    **dict.fromkeys(bb.BBAlphaRegressor._likelihoods, RANDOM.normal(100.0, 20.0, size=64)),
    **dict.fromkeys(COUNTS, RANDOM.poisson(7.0, size=64).astype(float)),
}
LABELS = {"softmax": np.arange(64) % 3, "probit": np.arange(64) % 2}
LEVELS = (0.05, 0.5, 0.95)
NUM_DRAWS = 400


def untrained(model, targets):
    """The model with the units of its data and the prior as its posterior."""
    X, y = model._validated(INPUTS, targets, reset=True)
    rows = model._rows(X, y, None, new_units=True)
    level, network = model._level(rows), model._network()
    prior = network.prior_around(level, 1.0)
    model._seed, model._memory, model._memory_prior = 7, None, None
    model.posterior_ = bb.Posterior(
        q=prior,
        prior=prior,
        hyperparams=model._new_likelihood(level),
        alpha=jnp.array(0.5),
        num_data=jnp.array(64.0),
        energy=jnp.array(0.0),
        layout=bb.Layout.of(network.shapes()),
        info=bb.FitInfo((), (), 0, 0.0),
    )
    return model


@functools.cache
def regressor(likelihood):
    model = bb.BBAlphaRegressor(likelihood=likelihood, num_predictive_samples=NUM_DRAWS)
    return untrained(model, TARGETS[likelihood])


@functools.cache
def classifier(likelihood):
    model = bb.BBAlphaClassifier(likelihood=likelihood, num_predictive_samples=NUM_DRAWS)
    return untrained(model, LABELS[likelihood])


def clipped(model, rows):
    return np.clip(rows, model.input_units_.lower, model.input_units_.upper)


@pytest.mark.parametrize("likelihood", bb.BBAlphaRegressor._likelihoods)
def test_a_far_row_is_predicted_as_the_limit_and_bounded(likelihood):
    model, targets = regressor(likelihood), TARGETS[likelihood][: len(FAR)]
    far = model._described(FAR, LEVELS, targets)
    for found, limit in zip(
        far, model._described(clipped(model, FAR), LEVELS, targets), strict=True
    ):
        assert np.isfinite(found).all()
        np.testing.assert_array_equal(found, limit)
    assert (far.std > 0).all()
    assert (np.diff(far.quantiles, axis=-1) >= 0).all()
    outputs = model.posterior_.predict(
        model_of("relu"), model.input_units_.transform(FAR), key=model._key(), num_samples=NUM_DRAWS
    )
    outputs = np.asarray(outputs, np.float64)
    if likelihood in COUNTS:  # rates: linear in what an output exceeds the limit by
        average = TARGETS[likelihood].mean() + HALF_A_COUNT / 64
        excess = np.maximum(outputs[..., 0] - np.log(average) - HIGHEST_COUNT, 0)
        bound = np.exp(HIGHEST_COUNT) * average * (1 + excess)
        assert (far.mean <= bound.mean(axis=0) * 1.0001).all()
        assert excess.max() > 10  # where an exponential would explode
    else:  # means: the outputs themselves, in the units of the targets
        scale, center = model.target_units_.scale[0], model.target_units_.mean[0]
        np.testing.assert_allclose(far.mean, center + scale * outputs[..., 0].mean(0), rtol=1e-4)
        noise = far.std**2 / scale**2 - outputs[..., 0].var(axis=0)
        assert (noise < 4 * (1 + np.abs(outputs).mean())).all()


@pytest.mark.parametrize("likelihood", bb.BBAlphaClassifier._likelihoods)
def test_a_far_row_has_the_probabilities_of_the_limit(likelihood):
    model = classifier(likelihood)
    probabilities, log_densities = model._described(FAR, LABELS[likelihood][: len(FAR)])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    assert (probabilities > 0).all()
    assert np.isfinite(log_densities).all()
    expected = model._described(clipped(model, FAR), LABELS[likelihood][: len(FAR)])
    np.testing.assert_array_equal(probabilities, expected[0])
    np.testing.assert_array_equal(log_densities, expected[1])


def test_rows_beyond_the_limits_are_told():
    for model in (regressor("heteroscedastic"), classifier("softmax")):
        assert model.outside(FAR).tolist() == [True] * len(FAR)
        assert not model.outside(INPUTS).any()
        rows = INPUTS[:3] + np.array([[0.0, 0.0], [0.0, 100.0], [0.0, 0.0]])
        assert model.outside(rows).tolist() == [False, True, False]


def test_a_trained_network_is_as_uncertain_at_a_million_deviations_as_at_the_limits(
    table, fitted_network
):
    model = fitted_network
    far = table.inputs.mean(axis=0) + np.outer([-1e6, 1e6], table.inputs.std(axis=0))
    mean, std = model.predict(far, return_std=True)
    expected = model.predict(clipped(model, far), return_std=True)
    np.testing.assert_array_equal([mean, std], expected)
    assert (np.abs(mean - table.numbers.mean()) < 20 * table.numbers.std()).all()
    assert (std < 10 * table.numbers.std()).all()


@pytest.mark.parametrize("num_rows", [2, 64])
def test_targets_of_few_values_and_tables_of_two_rows_and_one_column_are_accepted(num_rows):
    inputs = np.linspace(0, 1, num_rows)[:, None]
    numbers, labels = np.arange(num_rows) % 3 - 1.0, np.arange(num_rows) % 2
    settings = {"max_epochs": 5, "num_samples": 10, "num_predictive_samples": 50, "random_state": 0}
    regressor = bb.BBAlphaRegressor((5,), **settings).fit(inputs, numbers)
    mean, std = regressor.predict(inputs, return_std=True)
    assert (np.abs(mean) < 3).all()
    assert ((std > 0) & (std < 3)).all()
    assert np.isfinite(regressor.score_samples(inputs, numbers)).all()
    classifier = bb.BBAlphaClassifier((5,), **settings).fit(inputs, labels)
    np.testing.assert_allclose(classifier.predict_proba(inputs).sum(axis=1), 1)
