"""Facts about the repair: a spread that is wrong is mended by the factor that undoes it."""

import dataclasses
import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bbalpha as bb
from bbalpha.interfaces import left_out, repair
from bbalpha.interfaces.left_out import rows_of

RANDOM = np.random.default_rng(0)


def with_noise(model, log_factor):
    """A copy of a fitted regressor whose noise is that many times as wide."""
    other = type(model)(**model.get_params())
    vars(other).update(vars(model))
    noise = bb.Gaussian(model.posterior_.hyperparams.log_variance + 2 * log_factor)
    other.posterior_ = dataclasses.replace(model.posterior_, hyperparams=noise)
    return other


def test_a_spread_that_is_right_stays(fitted, table):
    rows = rows_of(fitted, *fitted._validated(table.inputs, table.numbers, reset=False))
    posterior, calibration = repair.repaired(fitted, rows)
    assert posterior is fitted.posterior_
    assert calibration.is_calibrated
    assert calibration.factor == 1


@pytest.mark.parametrize("log_factor", [-0.5, 0.5])
def test_a_spread_that_is_wrong_is_mended(fitted, table, log_factor, tmp_path):
    wrong = with_noise(fitted, log_factor)
    rows = rows_of(wrong, *wrong._validated(table.inputs, table.numbers, reset=False))
    before = wrong.score_samples(table.inputs, table.numbers).mean()
    wrong.posterior_, wrong.calibration_ = repair.repaired(wrong, rows)
    assert np.log(wrong.calibration_.factor) == pytest.approx(-log_factor, abs=0.25)
    assert wrong.calibration_.is_calibrated
    assert "spread multiplied by" in str(wrong.calibration_)
    assert wrong.score_samples(table.inputs, table.numbers).mean() > before
    found = bb.leave_one_out(wrong, table.inputs, table.numbers)
    np.testing.assert_allclose(
        found.training, wrong.score_samples(table.inputs, table.numbers), atol=1e-4
    )
    wrong.save(tmp_path / "model.safetensors")
    loaded = bb.BBAlphaRegressor.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        loaded.predict_interval(table.new), wrong.predict_interval(table.new)
    )
    assert loaded.calibration_.to_json() == wrong.calibration_.to_json()
    with pytest.raises(ValueError, match="one that a predictor can hold; got one with a spread"):
        wrong.export(tmp_path / "model.predictor")
    large = dataclasses.replace(wrong.posterior_.hyperparams, log_factor=jnp.array(5.0))
    wrong.posterior_ = dataclasses.replace(wrong.posterior_, hyperparams=large)
    wrong.save(tmp_path / "large.safetensors")
    with pytest.raises(ValueError, match=r"hyperparams\.log_factor is too large"):
        bb.BBAlphaRegressor.load(tmp_path / "large.safetensors")


def test_a_gain_that_hangs_on_few_rows_is_not_taken():
    """Narrower intervals gain a little at all rows and lose much at one far outside."""
    gains = np.full(100, 0.05)
    scores = np.stack([gains, np.zeros(100), -gains])
    assert repair.best_of(scores, np.ones(100), plain=1) == 0
    scores[0, 7] = -4.0  # the mean gain, 0.0095, is still positive; its standard error is 0.04
    assert repair.best_of(scores, np.ones(100), plain=1) == 1
    assert repair.best_of(scores, np.where(np.arange(100) == 7, 1e-6, 1.0), plain=1) == 0


def test_what_leaving_out_rows_does_is_found_once(fitted, table, monkeypatch):
    calls, responses_of = [], left_out.responses_of

    def counted(*args):
        calls.append(args)
        return responses_of(*args)

    monkeypatch.setattr(left_out, "responses_of", counted)
    wrong = with_noise(fitted, 0.5)
    rows = rows_of(wrong, *wrong._validated(table.inputs, table.numbers, reset=False))
    assert repair.repaired(wrong, rows)[1].factor < 1
    assert len(calls) == 1


def test_fit_checks_and_keeps_the_calibration(table):
    model = bb.BBAlphaClassifier((), max_epochs=40, calibrate=True, random_state=0)
    model.fit(table.inputs, table.labels)
    assert model.calibration_.num_rows == 64
    few = bb.BBAlphaRegressor((), max_epochs=40, calibrate=True, random_state=0)
    assert few.fit(table.inputs[:2], table.numbers[:2]).calibration_ is None


def test_rows_held_out_for_early_stopping_are_not_left_out(table):
    settings = {"early_stopping": True, "validation_fraction": 0.25, "max_epochs": 5}
    model = bb.BBAlphaRegressor((), **settings, calibrate=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.inputs, table.numbers)
    assert model.calibration_.num_rows == 48


def test_partial_fit_forgets_the_calibration_and_the_repair(fitted, table, tmp_path):
    model = with_noise(fitted, 0.5)
    model.set_params(max_epochs=5)
    rows = rows_of(model, *model._validated(table.inputs, table.numbers, reset=False))
    model.posterior_, model.calibration_ = repair.repaired(model, rows)
    assert model.calibration_.factor < 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.partial_fit(table.inputs, table.numbers)
    assert isinstance(model.posterior_.hyperparams, bb.Gaussian)
    assert model.calibration_ is None
    model.save(tmp_path / "model.safetensors")
    assert bb.BBAlphaRegressor.load(tmp_path / "model.safetensors").calibration_ is None


def with_and_without(kind, inputs, targets, **settings):
    """The first 150 rows fitted without and with the repair, and the scores of the others."""
    models = [kind((), **settings, calibrate=x, random_state=0) for x in (False, True)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        models = [model.fit(inputs[:150], targets[:150]) for model in models]
    return *models, [model.score_samples(inputs[150:], targets[150:]).mean() for model in models]


def test_fit_narrows_numbers_that_alpha_one_makes_too_wide():
    """The targets have hardly any noise, and α = 1 leaves the weights uncertain."""
    inputs = RANDOM.normal(size=(400, 3))
    targets = inputs @ [1.0, 2.0, 0.0] + 0.05 * np.sin(3 * inputs[:, 0])
    settings = {"likelihood": "gaussian", "alpha": 1.0, "max_epochs": 200}
    plain, model, scores = with_and_without(bb.BBAlphaRegressor, inputs, targets, **settings)
    verdict = bb.judge(plain, inputs[:150], targets[:150])
    assert plain.calibration_ is None
    assert str(verdict).endswith("left-out rows: too wide")
    assert model.calibration_.factor < 0.7
    assert scores[1] > scores[0] + 0.1
    factor = f"spread multiplied by {model.calibration_.factor:.2f}"
    assert str(bb.judge(model, inputs[:150], targets[:150])).endswith(factor)


def test_fit_makes_classes_less_certain_that_a_wide_prior_makes_too_certain():
    """The labels hardly depend on the inputs, of which there are many."""
    inputs = RANDOM.normal(size=(400, 30))
    labels = inputs[:, 0] + 3 * RANDOM.normal(size=400) > 0
    settings = {"alpha": 0.0, "learn_prior": False, "prior_scale": 8.0, "max_epochs": 200}
    plain, model, scores = with_and_without(bb.BBAlphaClassifier, inputs, labels, **settings)
    before = bb.judge(plain, inputs[:150], labels[:150]).calibration
    assert str(before).endswith("left-out rows: overconfident")
    assert model.calibration_.factor > 1.5
    assert model.calibration_.confidence < before.confidence
    assert scores[1] > scores[0] + 0.05
