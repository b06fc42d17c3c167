"""The estimators work with the tools of scikit-learn and keep its conventions."""

import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes, load_iris
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

import bbalpha as bb


def small(kind, **settings):
    """A linear model and few epochs, since these tests are not about the quality of the fit."""
    return kind(hidden_layer_sizes=(), max_epochs=5, random_state=0, **settings)


@pytest.fixture(scope="module")
def numbers():
    return load_diabetes(return_X_y=True)


@pytest.fixture(scope="module")
def classes():
    return load_iris(return_X_y=True)


def test_a_pipeline_predicts_what_its_last_step_predicts(numbers):
    inputs, targets = numbers
    pipeline = make_pipeline(StandardScaler(), small(bb.BBAlphaRegressor)).fit(inputs, targets)
    scaled = StandardScaler().fit_transform(inputs)
    expected = small(bb.BBAlphaRegressor).fit(scaled, targets).predict(scaled, return_std=True)
    found = pipeline.predict(inputs, return_std=True)
    np.testing.assert_array_equal(found, expected)


def test_grid_search_over_alpha_scores_each_and_refits_the_best(numbers):
    search = GridSearchCV(small(bb.BBAlphaRegressor), {"alpha": [0.0, 0.5, 1.0]}, cv=3)
    search.fit(*numbers)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert float(search.best_estimator_.posterior_.alpha) == search.best_params_["alpha"]


def test_log_density_serves_as_a_score_of_cross_validation(numbers):
    def log_likelihood(model, inputs, targets):
        return model.score_samples(inputs, targets).mean()

    scores = cross_val_score(small(bb.BBAlphaRegressor), *numbers, cv=3, scoring=log_likelihood)
    targets = numbers[1]
    unconditional = -0.5 * (np.log(2 * np.pi * targets.var()) + 1)
    assert (scores > unconditional).all()  # better than one Gaussian for all rows


def test_a_clone_has_the_settings_and_nothing_learned(classes):
    model = small(bb.BBAlphaClassifier, alpha=0.25, likelihood="softmax").fit(*classes)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "posterior_")


def test_probabilities_can_be_calibrated(classes):
    calibrated = CalibratedClassifierCV(small(bb.BBAlphaClassifier), cv=3).fit(*classes)
    probabilities = calibrated.predict_proba(classes[0])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    assert calibrated.score(*classes) > 0.8


def test_targets_can_be_transformed(numbers):
    inputs, targets = numbers
    model = TransformedTargetRegressor(small(bb.BBAlphaRegressor), func=np.log, inverse_func=np.exp)
    plain = small(bb.BBAlphaRegressor).fit(inputs, np.log(targets))
    np.testing.assert_allclose(
        model.fit(inputs, targets).predict(inputs), np.exp(plain.predict(inputs))
    )


def test_frames_are_taken_by_their_names(numbers):
    frame, targets = load_diabetes(return_X_y=True, as_frame=True)
    model = small(bb.BBAlphaRegressor, encoder=None).fit(frame, targets)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(
        model.predict(frame), small(bb.BBAlphaRegressor).fit(*numbers).predict(numbers[0])
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])


def test_frames_are_encoded_as_the_encoder_does(numbers):
    """By the names of their columns, which may be numbers."""
    frame, targets = load_diabetes(return_X_y=True, as_frame=True)
    features = bb.TableEncoder().fit_transform(frame, targets)
    expected = small(bb.BBAlphaRegressor).fit(features, targets).predict(features)
    model = small(bb.BBAlphaRegressor).fit(frame, targets)
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    np.testing.assert_array_equal(model.predict(frame), expected)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame[frame.columns[::-1]])
    model.fit(pd.DataFrame(numbers[0]), targets)
    assert not hasattr(model, "feature_names_in_")
    np.testing.assert_array_equal(model.predict(pd.DataFrame(numbers[0])), expected)


def test_transformers_that_return_frames_fit_into_a_pipeline():
    frame, targets = load_diabetes(return_X_y=True, as_frame=True)
    frame = frame[["age", "bmi", "bp", "s5"]]  # with products ten features, as in the other tests
    terms = PolynomialFeatures(2, interaction_only=True, include_bias=False)
    pipeline = make_pipeline(terms, small(bb.BBAlphaRegressor)).set_output(transform="pandas")
    pipeline.fit(frame, targets)
    names = pipeline[-1].feature_names_in_.tolist()
    assert names == [*frame.columns, *map(" ".join, itertools.combinations(frame.columns, 2))]
    assert isinstance(pipeline[0].transform(frame), pd.DataFrame)


@pytest.mark.parametrize("kind", [bb.BBAlphaRegressor, bb.BBAlphaClassifier])
def test_a_pickled_model_predicts_the_same(kind, numbers, classes):
    inputs, targets = numbers if kind is bb.BBAlphaRegressor else classes
    model = small(kind).fit(inputs, targets)
    copy = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(copy.predict(inputs), model.predict(inputs))


def test_weights_reach_the_estimator_through_cross_validation(classes):
    inputs, labels = classes
    weights = np.where(labels == 0, 1.0, 1e-3)  # the other classes are hardly seen
    model, folds = small(bb.BBAlphaClassifier), StratifiedKFold(3)
    found = cross_val_score(model, inputs, labels, cv=folds, params={"sample_weight": weights})
    weighted, plain = [], []
    for train, test in folds.split(inputs, labels):
        model.fit(inputs[train], labels[train], sample_weight=weights[train])
        weighted.append(model.score(inputs[test], labels[test]))
        plain.append(model.fit(inputs[train], labels[train]).score(inputs[test], labels[test]))
    np.testing.assert_array_equal(found, weighted)
    assert weighted != plain
