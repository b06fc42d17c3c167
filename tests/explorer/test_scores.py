"""Facts about scores and calibration."""

import numpy as np
import pytest
from scipy import stats

from bbalpha.explorer import scores
from bbalpha.explorer.outcomes import RowsLeftOut


def left_out(below, up_to=None):
    below = np.asarray(below, float)
    zeros = np.zeros(len(below))
    return RowsLeftOut(zeros, zeros, zeros, below, below if up_to is None else np.asarray(up_to))


def test_the_histogram_of_calibrated_counts_is_flat():
    """Weighted with their probabilities, the counts of a Poisson distribution fill it evenly."""
    counts = np.arange(40)
    weights = stats.poisson.pmf(counts, 2.5)
    rows = zip(stats.poisson.cdf(counts - 1, 2.5), stats.poisson.cdf(counts, 2.5), strict=True)
    bars = np.array([scores.histogram(left_out([below], [up_to])) for below, up_to in rows])
    assert weights @ bars == pytest.approx(np.full(scores.NUM_BINS, 0.1), abs=1e-12)


def test_numbers_fall_into_the_bars_of_their_probabilities():
    bars = scores.histogram(left_out([0.0, 0.05, 0.15, 0.95]))
    assert bars.tolist() == pytest.approx([0.5, 0.25, 0, 0, 0, 0, 0, 0, 0, 0.25])


def test_evenly_spread_probabilities_are_covered_as_they_should_be():
    found = left_out((np.arange(1000) + 0.5) / 1000)
    one_row = 1.001e-3
    assert scores.covered(found, scores.LEVELS) == pytest.approx(scores.LEVELS, abs=one_row)
    numbers = scores.scores_of_numbers(found, np.full(1000, 2.0))
    assert [numbers[f"coverage_{level}"] for level in (50, 80, 90, 95)] == [0.5, 0.8, 0.9, 0.95]
    assert numbers["calibration_error"] <= one_row
    assert numbers["rmse"] == 2


def test_an_interval_of_counts_holds_its_ends():
    found = left_out([0.0, 0.96], [0.9, 1.0])
    numbers = scores.scores_of_numbers(found, np.zeros(2))
    assert (numbers["coverage_90"], numbers["coverage_95"]) == (0.5, 1.0)


PROBABILITIES = np.array([[0.92, 0.08], [0.96, 0.04], [0.45, 0.55]])
LABELS = np.array([0, 1, 1])


def test_reliability_compares_confidence_with_accuracy():
    low, high = scores.reliability(PROBABILITIES, LABELS)
    assert low == {"confidence": 0.55, "accuracy": 1.0, "rows": 1}
    assert high == {"confidence": pytest.approx(0.94), "accuracy": 0.5, "rows": 2}


def test_the_probability_of_the_true_class_is_split_by_the_prediction():
    right, wrong = scores.given_to_truth(PROBABILITIES, LABELS)
    assert right == pytest.approx([0, 0, 0, 0, 0, 1 / 3, 0, 0, 0, 1 / 3])
    assert wrong == pytest.approx([1 / 3, 0, 0, 0, 0, 0, 0, 0, 0, 0])


def test_scores_of_classes_count_right_predictions():
    zeros = np.zeros(3)
    found = RowsLeftOut(zeros, np.array([-1.0, -2.0, -3.0]), PROBABILITIES, zeros, zeros)
    classes = scores.scores_of_classes(found, LABELS)
    assert classes["log_likelihood"] == -2
    assert classes["log_likelihood_error"] == pytest.approx(1 / np.sqrt(3))
    assert classes["accuracy"] == pytest.approx(2 / 3)
    assert classes["confidence"] == pytest.approx(0.81)
