"""Facts about the constant and the linear model: refitting without each row gives their scores."""

import numpy as np
import pytest
from scipy.stats import nbinom, norm
from sklearn.linear_model import BayesianRidge, LogisticRegression, PoissonRegressor

from bbalpha.interfaces import simple_models as simple

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(40, 3))
NUMBERS = INPUTS @ [1.0, -0.5, 0.0] + RANDOM.normal(size=40)
LABELS = (NUMBERS > 0).astype(int) + (NUMBERS > 1)
COUNTS = RANDOM.negative_binomial(2, 1 / (1 + np.exp(INPUTS[:, 0]))).astype(float)


def without(row):
    return np.arange(len(INPUTS)) != row


def test_the_constant_number_is_a_gaussian_of_the_other_rows():
    scores = [
        norm.logpdf(NUMBERS[n], NUMBERS[without(n)].mean(), NUMBERS[without(n)].std(ddof=1))
        for n in range(40)
    ]
    np.testing.assert_allclose(simple.constant_number(NUMBERS), scores, atol=1e-10)


@pytest.mark.parametrize("num_columns", [3, 60])  # fewer and more than rows
def test_the_linear_number_is_ridge_regression_refitted_without_each_row(num_columns):
    X = RANDOM.normal(size=(40, num_columns))
    y = X[:, 0] + RANDOM.normal(size=40)
    centered, target = X - X.mean(axis=0), y - y.mean()
    left, sizes = simple._principal(centered)
    along = left.T @ target
    noise, weight = simple._ridge_variances(
        sizes, along, float(target @ target - along @ along), 40, np.var(y)
    )
    scores = []
    for n in range(40):
        rest = np.arange(40) != n
        design = np.column_stack([np.ones(39), X[rest]])
        precision = design.T @ design / noise + np.diag([0.0] + [1 / weight] * num_columns)
        mean = np.linalg.solve(precision, design.T @ y[rest] / noise)
        row = np.append(1.0, X[n])
        variance = noise + row @ np.linalg.solve(precision, row)
        scores.append(norm.logpdf(y[n], row @ mean, np.sqrt(variance)))
    np.testing.assert_allclose(simple.linear_number(X, y), scores, rtol=1e-6, atol=1e-6)


def test_the_variances_of_ridge_regression_maximize_the_evidence():
    model = BayesianRidge(tol=1e-8, max_iter=3000).fit(INPUTS, NUMBERS)
    centered, target = INPUTS - INPUTS.mean(axis=0), NUMBERS - NUMBERS.mean()
    left, sizes = simple._principal(centered)
    along = left.T @ target
    rest = float(target @ target - along @ along)
    noise, weight = simple._ridge_variances(sizes, along, rest, 40, np.var(NUMBERS))
    assert (noise, weight) == pytest.approx((1 / model.alpha_, 1 / model.lambda_), rel=0.01)


def test_the_constant_class_has_the_frequencies_of_the_other_rows():
    scores = [np.log((np.sum(LABELS[without(n)] == LABELS[n]) + 1) / (39 + 3)) for n in range(40)]
    np.testing.assert_allclose(simple.constant_class(LABELS, 3), scores, atol=1e-10)


def test_the_linear_class_is_penalized_logistic_regression():
    scores = np.empty(40)
    for training, test in simple._folds(40):
        model = LogisticRegression(tol=1e-8).fit(INPUTS[training], LABELS[training])
        found = model.predict_log_proba(INPUTS[test])
        scores[test] = found[np.arange(len(test)), LABELS[test]]
    np.testing.assert_allclose(simple.linear_class(INPUTS, LABELS, 3), scores, atol=2e-3)


def test_the_linear_count_has_the_rates_of_penalized_poisson_regression():
    training, test = next(simple._folds(40))
    model = PoissonRegressor(alpha=1 / len(training), tol=1e-8, max_iter=1000)
    model.fit(INPUTS[training], COUNTS[training])
    rates = model.predict(INPUTS[training]), model.predict(INPUTS[test])
    size = simple._count_size(COUNTS[training], rates[0])
    scores = simple._log_count(COUNTS[test], rates[1], size)
    np.testing.assert_allclose(simple.linear_count(INPUTS, COUNTS)[test], scores, atol=2e-3)


def test_counts_have_the_density_of_a_negative_binomial_of_maximal_likelihood():
    rates = np.linspace(0.5, 5, 40)
    expected = nbinom.logpmf(COUNTS, 1.5, 1.5 / (1.5 + rates))
    np.testing.assert_allclose(simple._log_count(COUNTS, rates, 1.5), expected, atol=1e-10)
    size = simple._count_size(COUNTS, rates)
    best = simple._log_count(COUNTS, rates, size).sum()
    for other in (0.9 * size, 1.1 * size):
        assert simple._log_count(COUNTS, rates, other).sum() < best


def test_counts_of_zero_and_columns_without_values_have_finite_scores():
    zeros = np.zeros(12)
    zeros[3] = 1
    nothing = np.zeros((12, 2))
    found = [simple.constant_count(zeros), simple.linear_count(nothing, zeros)]
    found.append(simple.linear_number(nothing, np.arange(12.0)))
    assert np.isfinite(found).all()
    constant = simple.constant_number(np.arange(12.0))
    np.testing.assert_allclose(found[2].mean(), constant.mean(), atol=0.1)
