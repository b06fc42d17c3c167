"""Repair: multiply the spread of predictions that are too wide or too narrow by one factor.

This is what `calibrate=True` of the estimators does; `calibration` has the tests that decide.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

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


def calibration_of(model: Any, found: RowsLeftOut, rows: RowsToScore) -> Calibration:
    """The calibration of a fitted estimator on left-out rows."""
    labels = np.asarray(rows.targets)[:, 0].astype(int) if hasattr(model, "classes_") else None
    factor = float(np.exp(log_factor_of(model.posterior_.hyperparams)))
    return dataclasses.replace(Calibration.of(found, labels), factor=factor)


def repaired(model: Any, rows: Any) -> tuple[Posterior, Calibration | None]:
    """The posterior of a fitted estimator and its calibration, repaired if it fails the tests.

    The factor is the one with the best mean leave-one-out score, over the rows that can be left out
    without refitting.

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
    weights = np.where(is_compared, rows.weights, 0.0)
    log_factor = LOG_FACTORS[int(np.argmax(weights @ scores))]
    if log_factor == 0:
        return posterior, calibration
    changed = with_factor(posterior.hyperparams, float(log_factor))
    model.posterior_ = dataclasses.replace(posterior, hyperparams=changed)
    return model.posterior_, checked()


def _scores_by_factor(
    likelihood: Any, outputs: Array, targets: Array
) -> Float[Array, "rows factors"]:
    """The log-density of every row for every factor."""

    def score(log_factor: Array) -> Array:
        changed = with_factor(likelihood, log_factor)
        return log_mean_exp(jax.vmap(changed.log_prob, (0, None))(outputs, targets))

    return jax.lax.map(score, jnp.asarray(LOG_FACTORS, outputs.dtype)).T
