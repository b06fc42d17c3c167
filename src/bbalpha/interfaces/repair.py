"""Repair: multiply the spread of predictions that are too wide or too narrow by one factor.

This is what `calibrate=True` of the estimators does; `calibration` has the tests that decide. A
failed test is not enough: narrower intervals cost much at single rows far outside, so the gain must
also exceed twice its standard error, which such rows enlarge (docs/alpha.md).
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from bbalpha.interfaces.alpha_curve import mean_and_error
from bbalpha.interfaces.calibration import Calibration
from bbalpha.interfaces.left_out import (
    FEWEST_ROWS,
    RowsToScore,
    rows_to_score,
    summary_without,
)
from bbalpha.interfaces.leverage import are_reliable
from bbalpha.interfaces.spread import log_factor_of, with_factor
from bbalpha.interfaces.stacking import weights_of
from bbalpha.interfaces.without import RowsLeftOut, responses_of, said_without
from bbalpha.posterior import Posterior, log_mean_exp

LOG_FACTORS = np.linspace(-1.0, 1.0, 41)  # the candidates
ENOUGH_ROWS = 10  # needed to choose a factor
NUM_ERRORS = 2.0  # standard errors that a factor must gain


def calibration_of(model: Any, found: RowsLeftOut, rows: RowsToScore) -> Calibration:
    """The calibration of a fitted estimator on left-out rows."""
    labels = np.asarray(rows.targets)[:, 0].astype(int) if hasattr(model, "classes_") else None
    factor = float(np.exp(log_factor_of(model.posterior_.hyperparams)))
    return dataclasses.replace(Calibration.of(found, labels), factor=factor)


def repaired(model: Any, rows: Any) -> tuple[Posterior, Calibration | None]:
    """The posterior of a fitted estimator and its calibration, repaired if it fails the tests.

    The factor is the one with the best mean leave-one-out score, over the rows that can be left out
    without refitting. It is 1 unless another one gains more than two standard errors.

    Args:
        model: The estimator.
        rows: Its training rows. With one or two rows nothing is tested or repaired.
    """
    if len(rows.inputs) < FEWEST_ROWS:
        return model.posterior_, None
    numbers = rows_to_score(model, len(rows.inputs))
    rows = RowsToScore(*(column[numbers] for column in rows))
    posterior, found = model.posterior_, responses_of(model, rows)

    def checked() -> Calibration:
        return calibration_of(model, said_without(model, found), rows)

    calibration = checked()
    if calibration.is_calibrated or with_factor(posterior.hyperparams, 0.0) is None:
        return posterior, calibration
    is_compared = are_reliable(weights_of(posterior) @ np.stack([each.leverages for each in found]))
    if is_compared.sum() < ENOUGH_ROWS:
        return posterior, calibration
    scores = summary_without(model, found, _scores_by_factor)[1]
    best = best_of(scores[is_compared].T, rows.weights[is_compared], int(np.argmin(LOG_FACTORS**2)))
    if LOG_FACTORS[best] == 0:
        return posterior, calibration
    changed = with_factor(posterior.hyperparams, float(LOG_FACTORS[best]))
    model.posterior_ = dataclasses.replace(posterior, hyperparams=changed)
    return model.posterior_, checked()


def best_of(
    scores: Float64[np.ndarray, "factors rows"], weights: Float64[np.ndarray, " rows"], plain: int
) -> int:
    """The number of the factor with the best mean score, if it is clearly better than no factor.

    Args:
        scores: The leave-one-out scores of each row.
        weights: How many data points each row stands for.
        plain: The number of the factor 1.
    """
    best = int(np.argmax(scores @ weights))
    gains, errors = mean_and_error(scores[[best]] - scores[[plain]], weights)
    return best if gains[0] > NUM_ERRORS * errors[0] else plain


def _scores_by_factor(
    likelihood: Any, outputs: Array, targets: Array
) -> Float[Array, "rows factors"]:
    """The log-density of every row for every factor."""

    def score(log_factor: Array) -> Array:
        changed = with_factor(likelihood, log_factor)
        return log_mean_exp(jax.vmap(changed.log_prob, (0, None))(outputs, targets))

    return jax.lax.map(score, jnp.asarray(LOG_FACTORS, outputs.dtype)).T
