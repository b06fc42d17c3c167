"""Facts about the scorer for model selection."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures

import bbalpha as bb

INPUTS = np.linspace(-2, 2, 30)[:, None]
TARGETS = INPUTS[:, 0] ** 2 + np.random.default_rng(0).normal(size=30)


@pytest.fixture
def model():
    return bb.BBAlphaRegressor((), likelihood="gaussian", max_epochs=20, random_state=0)


@pytest.mark.parametrize("steps", [[], [PolynomialFeatures(2)]])
def test_the_score_of_a_pipeline_is_that_of_its_last_step(model, steps):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        pipeline = make_pipeline(*steps, model).fit(INPUTS, TARGETS)
        features = INPUTS
        for step in steps:
            features = step.fit_transform(features)
        expected = model.fit(features, TARGETS).score_samples(features, TARGETS).mean()
        assert bb.log_likelihood_score(model, features, TARGETS) == expected
        assert bb.log_likelihood_score(pipeline, INPUTS, TARGETS) == pytest.approx(expected)
        scores = cross_val_score(pipeline, INPUTS, TARGETS, scoring=bb.log_likelihood_score, cv=2)
    assert np.isfinite(scores).all()
