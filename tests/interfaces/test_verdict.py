"""Facts about verdicts: rows are left out without fitting again, and simpler models may win."""

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import bbalpha as bb
from bbalpha.interfaces import left_out, simple_models

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(50, 2))
TARGETS = {
    "gaussian": INPUTS @ [1.0, 2.0] + RANDOM.normal(size=50),
    "poisson": RANDOM.poisson(np.exp(INPUTS[:, 0])).astype(float),
    "softmax": np.array(["no", "yes"])[(INPUTS[:, 0] + RANDOM.normal(size=50) > 0).astype(int)],
}


@pytest.fixture(scope="module", params=TARGETS)
def fitted(request):
    kind = bb.BBAlphaClassifier if request.param == "softmax" else bb.BBAlphaRegressor
    model = kind((), likelihood=request.param, max_epochs=1000, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(INPUTS, TARGETS[request.param]), TARGETS[request.param]


def test_scores_are_those_of_the_three_models_from_one_pass_over_the_draws(fitted, passes):
    model, targets = fitted
    found = bb.judge(model, INPUTS, targets)
    assert passes == [50]
    training = model.score_samples(INPUTS, targets).mean()
    assert found.training == pytest.approx(training, abs=1e-4)
    assert found.held_out < found.training
    assert found.num_rows == 50
    if hasattr(model, "classes_"):
        constant = simple_models.constant_class((targets == "yes").astype(int), 2)
    elif model.likelihood == "poisson":
        constant = simple_models.constant_count(targets)
    else:
        constant = simple_models.constant_number(targets)
    assert found.constant == pytest.approx(constant.mean())
    # A linear network is a linear model, whose weights here have almost the same prior.
    assert found.held_out == pytest.approx(found.linear, abs=0.1)
    assert found.held_out > found.constant


def test_long_tables_are_judged_by_some_rows(fitted, monkeypatch, passes):
    monkeypatch.setattr(left_out, "MOST_ROWS", 20)
    assert bb.judge(fitted[0], INPUTS, fitted[1]).num_rows == 20
    assert passes == [20]


def test_a_simpler_model_that_wins_is_named():
    scores = {"training": -5.2, "held_out": -5.3, "constant": -3.2, "linear": -2.8}
    errors = {"constant_error": 0.3, "linear_error": 0.2}
    lost = bb.Verdict(**scores, **errors, num_rows=24)
    assert lost.warning is not None
    assert lost.warning.startswith(
        "a linear model predicts rows that are left out better than this model: log-likelihood "
        "-2.800 against -5.300 per row (difference 2.500 ± 0.200)."
    )
    lost_to_constant = dataclasses.replace(lost, linear=-4.0).warning
    assert lost_to_constant is not None
    assert lost_to_constant.startswith("a constant predicts")
    assert dataclasses.replace(lost, held_out=-2.9).warning is None  # within the standard error
    close = dataclasses.replace(lost, held_out=-2.84, linear_error=0.01)
    assert close.warning is None  # within what the approximation may be off
    assert dataclasses.replace(close, held_out=-2.86).warning is not None
    assert dataclasses.replace(lost, held_out=-2.0).warning is None
    assert len(str(lost).splitlines()) == 2


def test_a_verdict_prints_the_calibration_and_the_repair(fitted):
    model, targets = fitted
    found = bb.judge(model, INPUTS, targets)
    lines = str(found).splitlines()
    assert lines[0].startswith("log-likelihood per row: training ")
    assert lines[1].startswith("left out, simpler models: constant ")
    assert lines[2:] == [str(found.calibration)]
    wider = dataclasses.replace(found.calibration, factor=1.25)
    said = str(dataclasses.replace(found, calibration=wider))
    assert said.endswith("; spread multiplied by 1.25")


def test_a_model_of_noise_loses_to_the_constant(fitted):
    model, targets = fitted
    # The targets in another order have nothing to do with the inputs.
    shuffled = np.random.default_rng(1).permutation(targets)
    found = bb.judge(model, INPUTS, shuffled)
    assert found.warning is not None
    assert "predicts rows that are left out better" in found.warning


def test_two_rows_and_models_that_are_not_fitted_are_refused(fitted):
    model, targets = fitted
    with pytest.raises(ValueError, match=r"X must have at least 3 rows to leave one out; got 2\."):
        bb.judge(model, INPUTS[:2], targets[:2])
    with pytest.raises(NotFittedError):
        bb.judge(bb.BBAlphaRegressor(), INPUTS, TARGETS["gaussian"])
