"""Scores and calibration of a model on left-out rows.

For a count, the probability integral transform is not a single number but a range, from P(Y < y) to
P(Y ≤ y). As in the histogram of Czado, Gneiting and Held (2009), each row is spread evenly over its
range, so that a calibrated model of counts has a flat histogram, too.
"""

from typing import Any

import numpy as np

from bbalpha import metrics
from bbalpha.interfaces.without import RowsLeftOut

LEVELS = np.linspace(0, 1, 41)  # of central intervals
COVERAGES = (0.5, 0.8, 0.9, 0.95)
NUM_BINS = 10


def scores_of_numbers(found: RowsLeftOut, targets: np.ndarray) -> dict[str, float]:
    """The scores of a model of numbers, by the names that the page uses."""
    inside = {
        f"coverage_{level * 100:g}": float(np.mean(_is_inside(found, level))) for level in COVERAGES
    }
    distance = np.abs(covered(found, metrics.LEVELS) - metrics.LEVELS)
    return {
        **_log_likelihoods(found),
        **inside,
        "calibration_error": float(distance.mean()),
        "rmse": metrics.rmse(found.mean, targets),
    }


def scores_of_classes(found: RowsLeftOut, labels: np.ndarray) -> dict[str, float]:
    """The scores of a model of classes, given the number of each row's class."""
    return {
        **_log_likelihoods(found),
        "accuracy": 1 - metrics.error_rate(found.mean, labels),
        "confidence": float(found.mean.max(axis=1).mean()),
        "calibration_error": metrics.expected_calibration_error(found.mean, labels),
    }


def covered(found: RowsLeftOut, levels: np.ndarray) -> np.ndarray:
    """The share of rows in the central interval of each level."""
    return transform_share(found, (1 + levels) / 2) - transform_share(found, (1 - levels) / 2)


def histogram(found: RowsLeftOut) -> np.ndarray:
    """The share of rows in each tenth of the probability integral transform."""
    return np.diff(transform_share(found, np.linspace(0, 1, NUM_BINS + 1)))


def transform_share(found: RowsLeftOut, ends: np.ndarray) -> np.ndarray:
    """For each end, the share of rows whose probability of a smaller target is at most that."""
    below, up_to = found.below[:, None], found.up_to[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        part = np.clip((ends - below) / (up_to - below), 0, 1)
    shares = np.where(up_to > below, part, up_to <= ends).mean(axis=0)
    return np.where(ends <= 0, 0.0, shares)


def reliability(probabilities: np.ndarray, labels: np.ndarray) -> list[dict[str, Any]]:
    """For each tenth of confidence that occurs: confidence, accuracy and the number of rows."""
    confidence = probabilities.max(axis=1)
    is_right = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    return [
        {
            "confidence": float(confidence[bins == each].mean()),
            "accuracy": float(is_right[bins == each].mean()),
            "rows": int(np.sum(bins == each)),
        }
        for each in np.unique(bins)
    ]


def given_to_truth(probabilities: np.ndarray, labels: np.ndarray) -> list[list[float]]:
    """The shares of right and of wrong rows, by tenths of the true class's probability."""
    given = probabilities[np.arange(len(labels)), labels]
    is_right = probabilities.argmax(axis=1) == labels
    edges = np.linspace(0, 1, NUM_BINS + 1)
    return [
        (np.histogram(given[part], edges)[0] / len(labels)).tolist()
        for part in (is_right, ~is_right)
    ]


def _is_inside(found: RowsLeftOut, level: float) -> np.ndarray:
    """Whether each target lies between the quantiles (1 ∓ level)/2, ends included."""
    return (found.up_to >= (1 - level) / 2) & (found.below <= (1 + level) / 2)


def _log_likelihoods(found: RowsLeftOut) -> dict[str, float]:
    with np.errstate(invalid="ignore"):
        return {
            "log_likelihood": float(found.held_out.mean()),
            "log_likelihood_error": metrics.standard_error(found.held_out),
            "training_log_likelihood": float(found.training.mean()),
        }
