"""scikit-learn's own checks of an estimator."""

import warnings

import pytest
from sklearn.utils.estimator_checks import check_estimator

import bbalpha as bb

# What scikit-learn itself lists for its own stochastic-gradient estimators (SGDRegressor,
# SGDClassifier, Perceptron), and why: minibatches and their noise differ when a row is there twice.
# That weights and repetitions have the same energy and optimum is tested in test_estimators.py.
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": (
        "sample_weight is not equivalent to removing/repeating samples."
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [bb.BBAlphaRegressor, bb.BBAlphaClassifier])
def test_scikit_learns_checks_pass(kind):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the checks provoke warnings of scikit-learn's own
        results = check_estimator(
            kind(max_epochs=20), expected_failed_checks=EXPECTED_FAILURES, on_fail=None
        )
    failed = {row["check_name"]: row["exception"] for row in results if row["status"] == "failed"}
    assert not failed
    assert sum(row["status"] == "passed" for row in results) > 50
