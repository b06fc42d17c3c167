"""Facts about the curve of α: which power is taken, and why."""

import re

import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb

ROWS = np.random.default_rng(0).normal(size=40)
WIGGLE = np.tile([-0.1, 0.1], 20)  # differences of standard error 0.016


def curve_of(offsets, *, weights=None, folds=0, num_rows=40):
    """A curve whose scores are the same rows, shifted and wiggled a little."""
    scores = {
        alpha: (ROWS + offset + place * WIGGLE)[:num_rows]
        for place, (alpha, offset) in enumerate(offsets.items())
    }
    return bb.AlphaCurve.of(scores, np.ones(num_rows) if weights is None else weights, folds)


def test_means_and_errors_are_those_of_paired_rows():
    curve = curve_of({0.5: 0.05, 0.0: 0.0})
    assert curve.alphas == (0.0, 0.5)
    assert curve.scores == pytest.approx((ROWS.mean(), ROWS.mean() + 0.05))
    assert curve.behind == pytest.approx((0.05, 0.0))
    expected = (bb.metrics.standard_error(WIGGLE), 0.0)
    assert curve.behind_errors == pytest.approx(expected)
    error = bb.metrics.standard_error(ROWS + WIGGLE)
    assert curve.standard_errors[0] == pytest.approx(error)


def test_scores_of_held_out_rows_need_no_weights_and_may_be_arrays_of_jax():
    scores = {0.0: jnp.asarray(ROWS), 1.0: jnp.asarray(ROWS + 0.25)}
    curve = bb.AlphaCurve.of(scores)
    assert (curve.chosen, curve.num_rows, curve.num_data) == (1.0, 40, 40.0)
    assert curve.behind == pytest.approx((0.25, 0.0), abs=1e-6)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({0.0: ROWS, 0.5: np.where(ROWS > 1, np.nan, ROWS)}, "must be finite; got NaN or infinity"),
        ({0.0: ROWS, 0.5: ROWS[1:]}, "must have one number for each row at every power"),
        ({0.0: 1.0}, "must have one number for each row at every power"),
        ({0.0: []}, "must have one number for each row at every power"),
        ({}, "must have one number for each row at every power"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused(scores, message):
    with pytest.raises(ValueError, match=f"^scores {message}"):
        bb.AlphaCurve.of(scores)


def test_a_row_of_weight_two_has_the_mean_of_two_rows():
    weights = np.where(np.arange(40) < 10, 2.0, 1.0)
    repeated = np.repeat(ROWS, weights.astype(int))
    assert curve_of({0.0: 0.0}, weights=weights).scores == pytest.approx((repeated.mean(),))


@pytest.mark.parametrize(
    ("offsets", "chosen", "reason"),
    [
        ({0.0: 0.0, 0.5: 0.05}, 0.5, r"^Left-out rows are predicted best, 0.050 ± 0.016 nats bet"),
        ({0.0: 0.0, 0.5: 0.01}, 0.5, r"^Left-out rows are predicted best, 0.010 ± 0.016 nats bet"),
        ({0.0: 0.05, 0.5: 0.0}, 0.0, r"better than at α = 0\.5\.$"),
        ({0.0: 0.0, 0.5: 0.06, 1.0: 0.061}, 1.0, r"better than at α = 0\.$"),
        ({0.0: 0.0, 0.5: 0.04, 1.0: 0.1}, 1.0, r"better than at α = 0\.$"),
        ({0.5: 0.0, 0.0: 0.02, -0.5: 0.1, -1.0: 0.09}, -0.5, r"better than at α = 0\.$"),
        ({0.0: 0.0}, 0.0, r"^No other value could be compared\.$"),
    ],
)
def test_the_best_power_is_chosen_and_compared_with_zero(offsets, chosen, reason):
    curve = curve_of(offsets)
    assert curve.chosen == chosen
    assert re.search(reason, curve.reason)


def test_few_rows_choose_nothing_and_folds_are_said():
    few = curve_of({0.0: 0.0, 0.5: 0.5}, num_rows=9)
    assert (few.chosen, few.reason) == (0.0, "9 rows are too few to choose a power.")
    one = curve_of({0.0: 0.0}, num_rows=1)
    assert one.reason == "1 row is too few to choose a power."
    light = curve_of({0.0: 0.0, 0.5: 0.5}, weights=np.full(40, 0.1))
    assert light.chosen == 0.0
    assert light.reason == "40 rows that stand for 4 data points are too few to choose a power."
    folded = curve_of({0.0: 0.0, 0.5: 0.5}, folds=5)
    assert folded.chosen == 0.5
    assert folded.reason.endswith("the model was refitted without them, in 5 folds.")


def test_shares_of_a_mixture_maximize_the_score_of_left_out_rows():
    random = np.random.default_rng(1)
    scores = {alpha: random.normal(size=60) for alpha in (0.0, 0.5, 1.0)}
    weights = np.where(np.arange(60) < 20, 2.0, 1.0)
    curve = bb.AlphaCurve.of(scores, weights).stacked(scores, weights)
    densities, parts = np.exp([scores[alpha] for alpha in curve.alphas]), weights / weights.sum()
    mixed = np.array(curve.weights) @ densities
    slopes = (densities / mixed) @ parts  # of the mean log-density, by each share
    np.testing.assert_allclose(slopes[np.array(curve.weights) > 0], 1.0, atol=1e-3)
    assert (slopes < 1 + 1e-3).all()
    assert curve.gain == pytest.approx(parts @ np.log(mixed) - max(curve.scores))
    assert curve.gain > 0
    assert curve.reason.startswith("Left-out rows are predicted best by a mixture of ")
    assert "%" in str(curve)
    assert curve.members == list(curve.alphas)
    assert bb.AlphaCurve.from_json(curve.to_json()) == curve


def test_a_power_that_is_always_worse_gets_no_share():
    scores = {alpha: ROWS - alpha for alpha in (0.0, 0.5, 1.0)}
    curve = bb.AlphaCurve.of(scores, np.ones(40)).stacked(scores, np.ones(40))
    assert curve.weights == (1.0, 0.0, 0.0)
    assert "mixture" not in curve.reason
    few = {alpha: score[:9] for alpha, score in scores.items()}
    curve = bb.AlphaCurve.of(few, np.ones(9)).stacked(few, np.ones(9))
    assert curve.weights == (1.0, 0.0, 0.0)
    assert curve.gain == pytest.approx(0.0, abs=1e-12)


def test_a_curve_prints_a_line_for_each_power():
    lines = str(curve_of({0.0: 0.0, 0.5: 0.05})).splitlines()
    assert len(lines) == 4
    assert lines[2].endswith("0.000 ± 0.000  chosen")


GOOD = curve_of({0.0: 0.0, 0.5: 0.05}).to_json()
COUNTS = {"num_rows": 40, "num_data": 40.0, "folds": 0, "weights": [], "gain": 0.0}
BAD = {
    "no dictionary": ([], "does not have the fields of a curve"),
    "a missing field": ({"alphas": [0.0]}, "does not have the fields of a curve"),
    "a number": (GOOD | {"scores": 1.0}, "does not hold lists"),
    "a short list": (GOOD | {"scores": [1.0]}, "does not have one score for each of a few powers"),
    "no power": (
        {name: [] for name in GOOD} | COUNTS,
        "does not have one score for each of a few powers",
    ),
    "many powers": (
        {name: [0.1 * x for x in range(101)] for name in GOOD} | COUNTS,
        "does not have one score for each of a few powers",
    ),
    "infinity": (GOOD | {"behind": [np.inf, 0.0]}, "holds something other than finite numbers"),
    "a text": (GOOD | {"behind": ["x", 0.0]}, "holds something other than finite numbers"),
    "a whole number": (GOOD | {"alphas": [0, 0.5]}, "holds something other than finite numbers"),
    "another order": (GOOD | {"alphas": [0.5, 0.0]}, "does not have ascending powers"),
    "a large power": (GOOD | {"alphas": [0.0, 1e16]}, "does not have ascending powers"),
    "no rows": (GOOD | {"num_rows": 0}, "does not have a number of rows"),
    "no data": (GOOD | {"num_data": 0.0}, "does not have a number of data points"),
    "endless data": (GOOD | {"num_data": np.inf}, "holds something other than finite numbers"),
    "half of the shares": (GOOD | {"weights": [0.5, 0.0]}, "does not have one share for each"),
    "three shares": (GOOD | {"weights": [0.5, 0.5, 0.0]}, "does not have one share for each"),
    "a negative share": (GOOD | {"weights": [1.5, -0.5]}, "does not have one share for each"),
    "rows as a flag": (GOOD | {"num_rows": True}, "does not have a number of rows"),
}


def test_a_curve_comes_back_from_a_file():
    assert bb.AlphaCurve.from_json(GOOD) == curve_of({0.0: 0.0, 0.5: 0.05})


@pytest.mark.parametrize("name", BAD)
def test_a_curve_that_cannot_be_one_is_refused(name):
    described, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        bb.AlphaCurve.from_json(described)
