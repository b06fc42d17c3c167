"""Facts about what a model says: the same as the estimator's own methods say."""

import numpy as np
import pytest

import bbalpha as bb
from bbalpha.explorer import outcomes
from bbalpha.explorer.columns import columns_of_matrix

CASES = ("priced", "counted", "sorted_in_three", "sorted_in_two")


@pytest.mark.parametrize("case", CASES)
def test_scores_of_rows_left_out_are_those_of_the_judge(case, request):
    model, table = request.getfixturevalue(case)
    found = outcomes.left_out(model, table.inputs, table.targets)
    verdict = bb.judge(model, table.inputs, table.targets)
    assert found.held_out.mean() == pytest.approx(verdict.held_out, abs=1e-6)
    assert found.training.mean() == pytest.approx(verdict.training, abs=1e-6)


@pytest.mark.parametrize("case", ["sorted_in_three", "sorted_in_two"])
def test_probabilities_left_out_are_those_of_the_scores(case, request):
    model, table = request.getfixturevalue(case)
    found = outcomes.left_out(model, table.inputs, table.targets)
    labels = np.searchsorted(model.classes_, table.targets)
    given = found.mean[np.arange(len(labels)), labels]
    assert np.log(given) == pytest.approx(found.held_out, abs=1e-5)
    assert found.mean.sum(axis=1) == pytest.approx(1, abs=1e-5)


def test_a_count_has_the_probability_between_its_two_ends(counted):
    model, table = counted
    found = outcomes.left_out(model, table.inputs, table.targets)
    assert np.log(found.up_to - found.below) == pytest.approx(found.held_out, abs=1e-3)


def test_rows_of_numbers_are_the_estimators_predictions(priced):
    model, table = priced
    features = model.encoder_.transform(table.inputs)
    found, parts = outcomes.rows_of(model, features), model.decompose(table.inputs)
    assert found.mean == pytest.approx(model.predict(table.inputs), rel=1e-5)
    assert found.interval == pytest.approx(model.predict_interval(table.inputs), rel=1e-4)
    assert found.noise**2 == pytest.approx(parts.aleatoric, rel=1e-4)
    assert found.doubt**2 == pytest.approx(parts.epistemic, rel=1e-4)


@pytest.mark.parametrize("case", ["sorted_in_three", "sorted_in_two"])
def test_rows_of_classes_are_the_estimators_predictions(case, request):
    model, table = request.getfixturevalue(case)
    found, parts = outcomes.rows_of(model, table.inputs), model.decompose(table.inputs)
    assert found.mean == pytest.approx(model.predict_proba(table.inputs), abs=1e-6)
    assert found.noise == pytest.approx(parts.aleatoric, abs=1e-6)
    assert found.doubt == pytest.approx(parts.epistemic, abs=1e-6)


def replaced(X, column, value):
    X = X.copy()
    X[:, column] = value
    return X


@pytest.mark.parametrize("case", ["counted", "sorted_in_three"])
def test_a_curve_is_the_average_prediction_of_rows_with_that_value(case, request):
    """The models have fewer draws than a curve takes, so both average over the same ones."""
    model, table = request.getfixturevalue(case)
    columns = columns_of_matrix(table.inputs, ["a", "b"], [0, 1])
    curves = outcomes.curves_along(model, columns, table.inputs, np.array([2, 0]))
    for index, (column, curve) in enumerate(zip(columns, curves, strict=True)):
        rows = [replaced(table.inputs, index, value) for value in column.grid]
        if outcomes.is_classifier(model):
            expected = np.array([model.predict_proba(X)[:, [2, 0]].mean(axis=0) for X in rows])
        else:
            expected = np.array([model.predict(X).mean() for X in rows])
        assert curve.mean == pytest.approx(expected, rel=1e-4)
        assert (curve.doubt[..., 0] <= curve.mean).all()
        assert (curve.mean <= curve.doubt[..., 1]).all()


def test_the_doubt_of_a_line_is_its_deviation_over_the_draws():
    """The mean of a linear model over rows is that of the average row, and nearly Gaussian."""
    random = np.random.default_rng(4)
    X = random.normal(size=(50, 1))
    y = X[:, 0] + random.normal(size=50)
    settings = {"likelihood": "gaussian", "num_predictive_samples": 200, "random_state": 0}
    model = bb.BBAlphaRegressor((), max_epochs=50, **settings).fit(X, y)
    (column,) = columns_of_matrix(X, ["x"], [0])
    (curve,) = outcomes.curves_along(model, [column], X[:5], np.zeros(1, int))
    deviation = np.sqrt(model.decompose(column.grid[:, None]).epistemic)
    half = (curve.doubt[:, 1] - curve.doubt[:, 0]) / 2
    # The quantile of 200 Gaussian draws at level p has the deviation √(p (1 − p)/200)/φ(z).
    error = np.sqrt(0.05 * 0.95 / 200) / 0.103 / np.sqrt(2)
    assert half / deviation == pytest.approx(1.645, abs=4 * error)
