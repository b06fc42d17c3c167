"""Facts about the repair: a spread that is wrong is mended by the factor that undoes it."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.interfaces import left_out, repair
from bbalpha.interfaces.left_out import rows_of


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
