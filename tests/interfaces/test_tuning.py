"""Facts about the power that is chosen by leave-one-out."""

import dataclasses
import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import bbalpha as bb
from bbalpha.interfaces import training, tuning
from bbalpha.interfaces.limits import TUNED

SETTINGS = {"hidden_layer_sizes": (), "likelihood": "gaussian", "alpha": TUNED, "random_state": 0}


def tuned(table, **settings):
    model = bb.BBAlphaRegressor(**SETTINGS | {"max_epochs": 20} | settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(table.inputs, table.numbers)


@pytest.fixture
def calls(monkeypatch):
    """The power and the number of epochs of every fit since the test began."""
    found, fit = [], training.fit

    def noted(*args, **kwargs):
        found.append((kwargs["alpha"], kwargs["num_epochs"]))
        return fit(*args, **kwargs)

    monkeypatch.setattr(training, "fit", noted)
    return found


@pytest.fixture
def scores(monkeypatch):
    """Leave-one-out scores by power, in place of real ones."""
    by_alpha = {"leverage": 0.0}

    def scored(estimator, posterior, rows):
        score = np.full(len(rows.inputs), by_alpha[float(posterior.alpha)])
        leverage = by_alpha["leverage"] if np.isfinite(score[0]) else np.nan
        return score, score, np.full(len(rows.inputs), leverage)

    monkeypatch.setattr(tuning, "scores_of_rows", scored)
    return by_alpha


@pytest.mark.parametrize("chosen", [0.0, 0.5, 1.0])
def test_three_powers_are_tried_and_the_best_is_chosen(table, calls, scores, chosen):
    scores.update({0.5: 1.0, 0.0: 1.0, 1.0: 1.0, chosen: 2.0})
    model = tuned(table)
    assert calls == [(0.5, 20), (0.0, 20), (1.0, 20)]
    assert model.alpha_curve_.chosen == float(model.posterior_.alpha) == chosen
    assert model.alpha_curve_.scores == pytest.approx([scores[x] for x in (0.0, 0.5, 1.0)])


def test_all_powers_share_one_program(table, compilations):
    # No other test has programs for such a network and so many draws.
    settings = {"hidden_layer_sizes": (7,), "num_predictive_samples": 41}
    settings["likelihood"] = "heteroscedastic"
    tuned(table, **settings)
    large = ("run_steps", "_predict_rows", "_effects", "_pulled_back", "_pushed_forward")
    assert [compilations.count(f"jit({name})") for name in large] == [1] * len(large)
    compilations.clear()
    tuned(table, **settings, random_state=1)
    assert compilations == []


def test_rows_of_high_leverage_are_not_compared(table, monkeypatch):
    def scored(estimator, posterior, rows):
        alpha, is_first = float(posterior.alpha), np.arange(len(rows.inputs)) == 0
        score = np.where(is_first, -1e6 * (alpha == 1.0), alpha)
        return score, score, np.where(is_first & (alpha == 1.0), 0.9, 0.1)

    monkeypatch.setattr(tuning, "scores_of_rows", scored)
    curve = tuned(table).alpha_curve_
    assert (curve.chosen, curve.num_rows) == (1.0, 63)


def test_rows_that_all_matter_too_much_are_left_out_by_fitting_again(table, calls, scores):
    scores.update({0.5: 5.0, 0.0: 1.0, 1.0: 1.0, "leverage": 0.9})
    model = tuned(table)
    assert len(calls) == 3 + 3 * tuning.NUM_FOLDS
    curve = model.alpha_curve_
    assert (curve.folds, curve.num_rows) == (5, 64)
    assert max(curve.scores) < 0  # real ones
    assert "in 5 folds" in curve.reason


@pytest.mark.parametrize("others", ["both", "one"])
def test_a_fold_may_lack_a_class(table, scores, others):
    """Without the only row of the rare class, two classes are left to learn from, or just one."""
    scores.update({0.5: 5.0, 0.0: 1.0, 1.0: 1.0, "leverage": 0.9})
    labels = np.where(np.arange(64) == 3, "rare", table.labels if others == "both" else "yes")
    model = bb.BBAlphaClassifier((), alpha=TUNED, max_epochs=5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.inputs, labels)
    assert model.alpha_curve_.folds == 5
    assert np.isfinite(model.alpha_curve_.scores).all()


def test_rows_of_a_large_table_are_scored_in_part(table):
    """Nothing stands for the limits: 1,001 rows are one more than are scored."""
    rows = np.arange(1001) % 64
    model = bb.BBAlphaRegressor(**SETTINGS, max_epochs=1, batch_size=1024)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(table.inputs[rows], table.numbers[rows])
    curve = model.alpha_curve_
    assert (curve.num_rows, curve.num_data, curve.folds) == (1000, 1001.0, 0)


@pytest.mark.parametrize("alpha", [TUNED, "stacked"])
def test_rows_held_out_for_early_stopping_are_not_scored(table, monkeypatch, alpha):
    found, scores_of_rows = [], tuning.scores_of_rows

    def scored(estimator, posterior, rows):
        found.append(rows.inputs)
        return scores_of_rows(estimator, posterior, rows)

    monkeypatch.setattr(tuning, "scores_of_rows", scored)
    model = tuned(table, alpha=alpha, early_stopping=True, validation_fraction=0.25)
    trained = training.hold_out(
        model, model._rows(table.inputs, table.numbers[:, None], None, False)
    )[0]
    assert model.alpha_curve_.num_data == 48
    for inputs in found:
        np.testing.assert_array_equal(inputs, trained.inputs)


def test_the_estimator_predicts_with_the_posterior_whose_score_it_keeps(table, tmp_path):
    model = tuned(table)
    curve = model.alpha_curve_
    found = bb.leave_one_out(model, table.inputs, table.numbers)
    assert found.mean == pytest.approx(curve.scores[curve.alphas.index(curve.chosen)], abs=1e-5)
    model.save(tmp_path / "model.safetensors")
    loaded = bb.BBAlphaRegressor.load(tmp_path / "model.safetensors")
    assert loaded.alpha_curve_ == curve
    np.testing.assert_array_equal(loaded.predict(table.new), model.predict(table.new))
    model.alpha_curve_ = dataclasses.replace(curve, scores=tuple(-x for x in curve.scores))
    model.save(tmp_path / "forged.safetensors")
    with pytest.raises(ValueError, match=r"alpha_curve chooses \S+, but alpha is"):
        bb.BBAlphaRegressor.load(tmp_path / "forged.safetensors")


def test_few_rows_get_alpha_zero_and_a_sentence(table, calls):
    few = table._replace(inputs=table.inputs[:9], numbers=table.numbers[:9])
    model = tuned(few)
    assert calls == [(0.0, 20)]
    assert model.alpha_curve_.reason == "9 rows are too few to choose a power."
    light = bb.BBAlphaRegressor(**SETTINGS, max_epochs=5)
    light.fit(table.inputs, table.numbers, sample_weight=np.full(64, 0.1))
    assert float(light.posterior_.alpha) == 0.0  # 6.4 data points, whose energy has no bound at 7
    reason = "64 rows that stand for 6.4 data points are too few to choose a power."
    assert light.alpha_curve_.reason == reason


@pytest.fixture
def failing(monkeypatch):
    """The powers at which the energy of a fit to that many rows is not finite."""
    found, fit = {}, training.fit

    def failed(*args, **kwargs):
        if (kwargs["alpha"], len(args[2].inputs)) in found:
            raise bb.NonFiniteEnergyError(3, None)
        return fit(*args, **kwargs)

    monkeypatch.setattr(training, "fit", failed)
    return found


@pytest.mark.parametrize("broken", [0.0, 0.5, 1.0])
def test_a_power_whose_energy_is_not_finite_is_no_candidate(table, failing, scores, broken):
    failing[broken, 64] = True
    scores.update({0.5: -3.2, 0.0: -3.1, 1.0: -3.0})
    curve = tuned(table).alpha_curve_
    assert curve.alphas == tuple(alpha for alpha in (0.0, 0.5, 1.0) if alpha != broken)
    assert curve.scores == pytest.approx([scores[alpha] for alpha in curve.alphas])


def test_energies_that_are_finite_at_no_power_are_an_error(table, failing):
    failing.update({(alpha, 64): True for alpha in (0.0, 0.5, 1.0)})
    with pytest.raises(bb.NonFiniteEnergyError):
        tuned(table)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("broken", [0.0, 0.5, 1.0])
def test_a_power_without_finite_scores_is_no_candidate(table, scores, broken, bad):
    scores.update({0.5: -3.2, 0.0: -3.1, 1.0: -3.0})
    scores[broken] = bad
    curve = tuned(table).alpha_curve_
    assert curve.alphas == tuple(alpha for alpha in (0.0, 0.5, 1.0) if alpha != broken)
    assert curve.scores == pytest.approx([scores[alpha] for alpha in curve.alphas])
    assert curve.folds == 0
    stacked = tuned(table, alpha="stacked")
    assert stacked.alpha_curve_.alphas == curve.alphas


def test_without_finite_scores_nothing_is_chosen_and_a_warning_says_so(table, scores):
    scores.update({0.5: np.nan, 0.0: np.nan, 1.0: np.nan})
    with pytest.warns(UserWarning, match="have no finite scores at any power, so none was chosen"):
        model = bb.BBAlphaRegressor(**SETTINGS, max_epochs=20).fit(table.inputs, table.numbers)
    assert model.alpha_curve_ is None
    assert float(model.posterior_.alpha) == 0.0


@pytest.mark.parametrize("num_rows", [51, 52])  # four fifths of 64 rows
def test_a_power_that_fails_in_a_fold_is_no_candidate(table, failing, scores, num_rows):
    failing[0.5, num_rows] = True
    scores.update({0.5: 5.0, 0.0: 1.0, 1.0: 1.0, "leverage": 0.9})
    curve = tuned(table).alpha_curve_
    assert (curve.folds, curve.alphas) == (5, (0.0, 1.0))
    assert max(curve.scores) < 0  # real ones


def test_ctrl_c_ends_the_sweep_and_keeps_what_was_reached(table, monkeypatch, scores):
    fit = training.fit

    def interrupted(*args, **kwargs):
        posterior = fit(*args, **kwargs)
        stopped = "interrupted" if kwargs["alpha"] == 0.0 else posterior.info.stopped
        info = dataclasses.replace(posterior.info, stopped=stopped)
        return dataclasses.replace(posterior, info=info)

    monkeypatch.setattr(training, "fit", interrupted)
    scores[0.5] = 1.0
    with pytest.warns(UserWarning, match="^fit was interrupted after"):
        model = tuned(table)
    assert model.alpha_curve_.alphas == (0.5,)
    assert model.alpha_curve_.reason == "No other value could be compared."


def test_partial_fit_goes_on_at_the_power_that_was_chosen(table, calls, scores):
    scores.update({0.5: 1.0, 0.0: 0.5, 1.0: 2.0})
    model = tuned(table)
    calls.clear()
    model.partial_fit(table.inputs, table.numbers)
    assert calls == [(1.0, 20)]
    assert model.alpha_curve_ is None


def test_each_power_has_a_checkpoint_of_its_own(table, calls, tmp_path):
    first = bb.BBAlphaRegressor(**SETTINGS, max_epochs=5)
    first.fit(table.inputs, table.numbers, checkpoint=tmp_path)
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert folders == sorted(f"alpha_{alpha:g}" for alpha, _ in calls)
    again = bb.BBAlphaRegressor(**SETTINGS, max_epochs=5)
    again.fit(table.inputs, table.numbers, checkpoint=bb.Checkpoint(tmp_path))
    np.testing.assert_array_equal(again.predict(table.new), first.predict(table.new))
    assert again.alpha_curve_ == first.alpha_curve_
