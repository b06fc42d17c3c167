"""Facts about the curve of α: which power is taken, and why."""

import re

import numpy as np
import pytest

import bbalpha as bb

ROWS = np.random.default_rng(0).normal(size=40)
WIGGLE = np.tile([-0.1, 0.1], 20)  # differences of standard error 0.016


def curve_of(offsets, *, weights=None, leverage=0.1, num_rows=40):
    """A curve whose scores are the same rows, shifted and wiggled a little."""
    scores = {
        alpha: (ROWS + offset + place * WIGGLE)[:num_rows]
        for place, (alpha, offset) in enumerate(offsets.items())
    }
    leverages = {alpha: np.full(num_rows, leverage) for alpha in offsets}
    return bb.AlphaCurve.of(scores, leverages, np.ones(num_rows) if weights is None else weights)


def test_means_and_errors_are_those_of_paired_rows():
    curve = curve_of({0.5: 0.05, 0.0: 0.0})
    assert curve.alphas == (0.0, 0.5)
    assert curve.scores == pytest.approx((ROWS.mean(), ROWS.mean() + 0.05))
    assert curve.behind == pytest.approx((0.05, 0.0))
    expected = (bb.metrics.standard_error(WIGGLE), 0.0)
    assert curve.behind_errors == pytest.approx(expected)
    error = bb.metrics.standard_error(ROWS + WIGGLE)
    assert curve.standard_errors[0] == pytest.approx(error)


def test_a_row_of_weight_two_has_the_mean_of_two_rows():
    weights = np.where(np.arange(40) < 10, 2.0, 1.0)
    repeated = np.repeat(ROWS, weights.astype(int))
    assert curve_of({0.0: 0.0}, weights=weights).scores == pytest.approx((repeated.mean(),))


@pytest.mark.parametrize(
    ("offsets", "chosen", "reason"),
    [
        ({0.0: 0.0, 0.5: 0.05}, 0.5, r"^Left-out rows are predicted best, 0.050 ± 0.016 nats bet"),
        ({0.0: 0.0, 0.5: 0.01}, 0.0, r"^α = 0.5 predicts left-out rows best, but not clearly: 0"),
        ({0.0: 0.05, 0.5: 0.0}, 0.0, r"better than at α = 0\.5\.$"),
        ({0.0: 0.0, 0.5: 0.06, 1.0: 0.061}, 0.5, r"^α = 1 predicts left-out rows best, but not cl"),
        ({0.0: 0.0, 0.5: 0.04, 1.0: 0.1}, 1.0, r"better than at α = 0\.$"),
        ({0.5: 0.0, 0.0: 0.02, -0.5: 0.1, -1.0: 0.09}, -0.5, r"better than at α = 0\.$"),
        ({0.0: 0.0}, 0.0, r"^No other value was tried\.$"),
    ],
)
def test_the_power_nearest_zero_wins_within_a_standard_error(offsets, chosen, reason):
    curve = curve_of(offsets)
    assert curve.chosen == chosen
    assert re.search(reason, curve.reason)


def test_few_rows_and_rows_of_high_leverage_choose_nothing():
    few = curve_of({0.0: 0.0, 0.5: 0.5}, num_rows=9)
    assert (few.chosen, few.reason) == (0.0, "9 rows are too few to choose a power by.")
    decisive = curve_of({0.0: 0.0, 0.5: 0.5}, leverage=0.6)
    assert decisive.chosen == 0.0
    assert decisive.reason == "Single rows matter too much to choose by leaving them out."


def test_a_curve_prints_a_line_for_each_power():
    lines = str(curve_of({0.0: 0.0, 0.5: 0.05})).splitlines()
    assert len(lines) == 4
    assert lines[2].endswith("0.000 ± 0.000  chosen")


GOOD = curve_of({0.0: 0.0, 0.5: 0.05}).to_json()
BAD = {
    "no dictionary": ([], "does not have the fields of a curve"),
    "a missing field": ({"alphas": [0.0]}, "does not have the fields of a curve"),
    "a number": (GOOD | {"scores": 1.0}, "does not hold lists"),
    "a short list": (GOOD | {"scores": [1.0]}, "does not have one score for each of a few powers"),
    "no power": (
        {name: [] for name in GOOD} | {"num_rows": 40},
        "does not have one score for each of a few powers",
    ),
    "many powers": (
        {name: [0.1 * x for x in range(101)] for name in GOOD} | {"num_rows": 40},
        "does not have one score for each of a few powers",
    ),
    "infinity": (GOOD | {"behind": [np.inf, 0.0]}, "holds something other than finite numbers"),
    "a text": (GOOD | {"behind": ["x", 0.0]}, "holds something other than finite numbers"),
    "a whole number": (GOOD | {"alphas": [0, 0.5]}, "holds something other than finite numbers"),
    "another order": (GOOD | {"alphas": [0.5, 0.0]}, "does not have ascending powers"),
    "a large power": (GOOD | {"alphas": [0.0, 1e16]}, "does not have ascending powers"),
    "no rows": (GOOD | {"num_rows": 0}, "does not have a number of rows"),
    "rows as a flag": (GOOD | {"num_rows": True}, "does not have a number of rows"),
}


def test_a_curve_comes_back_from_a_file():
    assert bb.AlphaCurve.from_json(GOOD) == curve_of({0.0: 0.0, 0.5: 0.05})


@pytest.mark.parametrize("name", BAD)
def test_a_curve_that_cannot_be_one_is_refused(name):
    described, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        bb.AlphaCurve.from_json(described)
