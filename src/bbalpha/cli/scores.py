"""Scores of a model on rows with known targets."""

from typing import Any

import numpy as np

from bbalpha import metrics
from bbalpha.cli.saved import Model

LEVEL = 0.9  # of the intervals whose coverage is measured
NUM_DRAWS = 1000  # of each target, for scores without a closed form
ROWS_AT_ONCE = 2000  # rows whose draws are in memory


def scores_of(model: Model, features: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """All scores under their names in JSON; the standard error of a single row is NaN."""
    scores_of_task = {
        "classification": _scores_of_classes,
        "regression": _scores_of_numbers,
    }[model.target.task]
    log_densities, scores = scores_of_task(model, features, targets)
    several = len(log_densities) > 1
    return {
        "rows": len(log_densities),
        "log_likelihood": float(log_densities.mean()),
        "log_likelihood_standard_error": (
            metrics.standard_error(log_densities) if several else np.nan
        ),
    } | scores


def levels_needed(pit: np.ndarray) -> np.ndarray:
    """The level of the narrowest central interval that contains each target."""
    return np.abs(2 * pit - 1)


def pit_and_crps(
    estimator: Any, features: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, float]:
    """`metrics.pit` of every target and `metrics.crps` of all, from draws of new targets."""
    pit, total = [], 0.0
    for start in range(0, len(targets), ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        draws = estimator.sample_y(features[rows], NUM_DRAWS).T
        pit.append(metrics.pit(draws, targets[rows]))
        total += metrics.crps(draws, targets[rows]) * len(targets[rows])
    return np.concatenate(pit), total / len(targets)


def interval(level: float) -> tuple[float, float]:
    """The levels of the quantiles between which a central interval lies."""
    return (1 - level) / 2, (1 + level) / 2


def _scores_of_classes(
    model: Model, features: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, dict[str, float]]:
    """The log-densities of the targets, and the scores of classes."""
    probabilities, log_densities = model.probabilities_and_scores(features, targets)
    labels = np.array([model.target.classes.index(label) for label in targets])
    return log_densities, {
        "error_rate": metrics.error_rate(probabilities, labels),
        "expected_calibration_error": metrics.expected_calibration_error(probabilities, labels),
    }


def _scores_of_numbers(
    model: Model, features: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, dict[str, float]]:
    """The log-densities of the targets, and the scores of numbers."""
    described = model.estimator._described(features, interval(LEVEL), targets)
    lower, upper = described.quantiles.T
    pit, crps = pit_and_crps(model.estimator, features, targets)
    covered = np.mean(levels_needed(pit)[:, None] <= metrics.LEVELS, axis=0)
    return described.log_densities, {
        "rmse": metrics.rmse(described.mean, targets),
        "crps": crps,
        "coverage_90": float(np.mean((lower <= targets) & (targets <= upper))),
        "calibration_error": float(np.abs(covered - metrics.LEVELS).mean()),
    }
