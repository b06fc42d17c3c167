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
    log_densities = model.estimator.score_samples(features, targets)
    several = len(log_densities) > 1
    scores = {
        "rows": len(log_densities),
        "log_likelihood": float(log_densities.mean()),
        "log_likelihood_standard_error": (
            metrics.standard_error(log_densities) if several else np.nan
        ),
    }
    if model.target.task == "classification":
        return scores | _scores_of_classes(model, features, targets)
    return scores | _scores_of_numbers(model.estimator, features, targets)


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


def _scores_of_classes(model: Model, features: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    probabilities = model.probabilities(features)
    labels = np.array([model.target.classes.index(label) for label in targets])
    return {
        "error_rate": metrics.error_rate(probabilities, labels),
        "expected_calibration_error": metrics.expected_calibration_error(probabilities, labels),
    }


def _scores_of_numbers(
    estimator: Any, features: np.ndarray, targets: np.ndarray
) -> dict[str, float]:
    lower, upper = estimator.predict_interval(features, LEVEL).T
    pit, crps = pit_and_crps(estimator, features, targets)
    covered = np.mean(levels_needed(pit)[:, None] <= metrics.LEVELS, axis=0)
    return {
        "rmse": metrics.rmse(estimator.predict(features), targets),
        "crps": crps,
        "coverage_90": float(np.mean((lower <= targets) & (targets <= upper))),
        "calibration_error": float(np.abs(covered - metrics.LEVELS).mean()),
    }
