"""The power chosen by leave-one-out on the training rows.

Two whole fits, at α = 0 and ½, then short ones outwards from the better of them, each from the
result of its neighbor. Whole ones, because a short fit at ½ from the result at 0, or the other way
round, ends in a worse optimum on some tables. What is scored is what is returned.
"""

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.fitting import NonFiniteEnergyError
from bbalpha.interfaces.alpha_curve import FEWEST_ROWS, AlphaCurve
from bbalpha.interfaces.left_out import RowsToScore, rows_to_score, scores_of_rows
from bbalpha.interfaces.training import Training
from bbalpha.posterior import Posterior

WHOLE = (0.5, 0.0)
NEIGHBORS = {1.0: 0.5, -0.5: 0.0, -1.0: -0.5}  # the power whose result is the start
SHARE = 0.25  # length of the short fits


def tuned(
    training: Training, last: Posterior | None, checkpoint: Any
) -> tuple[Posterior, AlphaCurve]:
    """The posterior at the power with the best leave-one-out score, and the scores of all tried.

    Args:
        training: The fit.
        last: The posterior to start from; by default the start is random.
        checkpoint: Where to save the fits, each in a folder of its own.
    """
    rows = training.rows
    is_few = min(len(rows.inputs), rows.sample_weight.sum()) < FEWEST_ROWS
    sweep = _Sweep(training, checkpoint)
    for alpha in (0.0,) if is_few else WHOLE:
        sweep.add(alpha, last, None)
    for alpha, neighbor in NEIGHBORS.items():
        if not is_few and sweep.curve.best == neighbor:
            sweep.add(alpha, sweep.found[neighbor], SHARE)
    posterior = sweep.found[sweep.curve.chosen]
    if sweep.was_interrupted:
        info = dataclasses.replace(posterior.info, stopped="interrupted")
        posterior = dataclasses.replace(posterior, info=info)
    return posterior, sweep.curve


class _Sweep:
    """The posteriors so far, and their scores on the same rows."""

    def __init__(self, training: Training, checkpoint: Any):
        """Choose the rows."""
        self.training, self.checkpoint, rows = training, checkpoint, training.rows
        numbers = rows_to_score(training.estimator, len(rows.inputs))
        self.rows = RowsToScore(*(column[numbers] for column in rows))
        self.found: dict[float, Posterior] = {}
        self.scores: dict[float, np.ndarray] = {}
        self.leverages: dict[float, np.ndarray] = {}
        self.was_interrupted = False

    def add(self, alpha: float, last: Posterior | None, share: float | None) -> None:
        """Fit and score one more power; it is no candidate if its energy or a score is not finite.

        Args:
            alpha: The power.
            last: The posterior to start from.
            share: Length of the fit relative to the first.
        """
        if self.was_interrupted:
            return
        whole = 0 if share is None else len(self.found[WHOLE[0]].info.energies)
        num_epochs = None if share is None else max(1, math.ceil(share * whole))
        folder = _folder(self.checkpoint, alpha)
        try:
            posterior = self.training.posterior(alpha, last, num_epochs, folder)
        except NonFiniteEnergyError:
            if self.found:
                return
            raise
        self.was_interrupted = posterior.info.stopped == "interrupted"
        if self.was_interrupted and self.found:
            return
        scores, _, leverages = scores_of_rows(self.training.estimator, posterior, self.rows)
        if np.isfinite(scores).all() or not self.found:
            self.found[alpha], self.leverages[alpha] = posterior, leverages
            self.scores[alpha] = np.nan_to_num(scores)

    @property
    def curve(self) -> AlphaCurve:
        """The curve so far."""
        return AlphaCurve.of(self.scores, self.leverages, self.rows.weights)


def _folder(checkpoint: Any, alpha: float) -> Any:
    """The folder of one of the fits."""
    if checkpoint is None:
        return None
    name = f"alpha_{alpha:g}"
    if isinstance(checkpoint, str | Path):
        return Path(checkpoint) / name
    return dataclasses.replace(checkpoint, folder=Path(checkpoint.folder) / name)
