"""Tuning: choose the power α, or a mixture of powers, by leave-one-out on the training rows.

Each of three powers gets a full fit, and the posterior that scores best is returned as it is. Short
fits from the result of a neighboring power ended in worse optima, and powers below 0 hardly ever
won (docs/alpha.md).
"""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.data import Dataset
from bbalpha.fitting import NonFiniteEnergyError
from bbalpha.interfaces.alpha_curve import FEWEST_ROWS, AlphaCurve
from bbalpha.interfaces.left_out import RowsToScore, rows_to_score, scores_of_rows
from bbalpha.interfaces.leverage import are_reliable
from bbalpha.interfaces.limits import POWERS, STACKED
from bbalpha.interfaces.network import log_likelihood_of
from bbalpha.interfaces.stacking import stacked
from bbalpha.interfaces.training import Rows, Training
from bbalpha.posterior import Posterior

NUM_FOLDS = 5


def tuned(
    training: Training, last: Posterior | None, checkpoint: Any
) -> tuple[Posterior, AlphaCurve]:
    """The posterior with the best leave-one-out score, and the scores of all powers tried.

    The posterior is that of a single power or, for `alpha="stacked"`, the best mixture.

    Args:
        training: The fit, without a power.
        last: The posterior to start from; by default the start is random.
        checkpoint: Where to save the fits, each in its own folder.
    """
    sweep = _Sweep(training, last, checkpoint)
    rows = training.rows
    is_few = min(len(rows.inputs), rows.sample_weight.sum()) < FEWEST_ROWS
    for alpha in (0.0,) if is_few else POWERS:
        sweep.add(alpha)
    if not is_few:
        sweep.check_reliable()
    posterior, curve = sweep.chosen()
    if sweep.was_interrupted:
        posterior = _interrupted(posterior)
    return posterior, curve


class _Sweep:
    """The posteriors fitted so far, and their scores, all on the same rows."""

    def __init__(self, training: Training, last: Posterior | None, checkpoint: Any):
        """Choose the rows to score."""
        self.training, self.last, self.checkpoint = training, last, checkpoint
        rows = training.rows
        numbers = rows_to_score(training.estimator, len(rows.inputs))
        self.rows = RowsToScore(*(column[numbers] for column in rows))
        self.found: dict[float, Posterior] = {}
        self.scores: dict[float, np.ndarray] = {}
        self.leverages: dict[float, np.ndarray] = {}
        self.folds = 0
        self.was_interrupted = False

    def add(self, alpha: float) -> None:
        """Fit and score one more power.

        A power whose energy or scores are not finite is not a candidate, unless it is the only one.

        Args:
            alpha: The power.
        """
        if self.was_interrupted:
            return
        folder = _folder(self.checkpoint, f"alpha_{alpha:g}")
        try:
            posterior = self.training.posterior(alpha, self.last, checkpoint=folder)
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

    def check_reliable(self) -> None:
        """Score by cross-validation instead if too few rows can be left out without refitting."""
        if self.was_interrupted or len(self.found) < 2 or self._compared().sum() >= self._enough():
            return
        scores = {alpha: self._cross_validated(alpha) for alpha in self.found}
        if self.was_interrupted:
            return
        self.scores, self.folds, self.rows = scores, NUM_FOLDS, RowsToScore(*self.training.rows)
        self.leverages = {alpha: np.zeros(len(scores[alpha])) for alpha in scores}

    def chosen(self) -> tuple[Posterior, AlphaCurve]:
        """The posterior that the estimator's settings ask for, and the curve."""
        rows = self._compared() if self._compared().sum() >= FEWEST_ROWS else slice(None)
        weights = self.rows.weights[rows]
        scores = {alpha: score[rows] for alpha, score in self.scores.items()}
        curve = AlphaCurve.of(scores, weights, self.folds)
        if self.training.estimator.alpha != STACKED:
            return self.found[curve.chosen], curve
        curve = curve.stacked(scores, weights)
        members = [self.found[alpha] for alpha in curve.members]
        return stacked(members, [share for share in curve.weights if share]), curve

    def _compared(self) -> np.ndarray:
        """Whether each row can be left out without refitting, at every power."""
        return np.all([are_reliable(each) for each in self.leverages.values()], axis=0)

    def _enough(self) -> float:
        return max(FEWEST_ROWS, len(self.rows.inputs) / 2)

    def _cross_validated(self, alpha: float) -> np.ndarray:
        """Scores of all rows from five fits, each without a fifth of the rows."""
        estimator, rows = self.training.estimator, self.training.rows
        order = np.random.default_rng(0).permutation(len(rows.inputs))
        scores = np.empty(len(order))
        for fold, test in enumerate(np.array_split(order, NUM_FOLDS)):
            others = np.setdiff1d(order, test)
            part = dataclasses.replace(self.training, rows=Rows(*(x[others] for x in rows)))
            folder = _folder(self.checkpoint, f"alpha_{alpha:g}_fold_{fold}")
            posterior = part.posterior(alpha, None, checkpoint=folder)
            self.was_interrupted |= posterior.info.stopped == "interrupted"
            if self.was_interrupted:
                break
            scores[test] = posterior.log_density(
                log_likelihood_of(estimator.activation),
                Dataset(rows.inputs[test], rows.targets[test]),
                key=estimator._key(),
                num_samples=estimator.num_predictive_samples,
            )
        return np.nan_to_num(scores - float(estimator.target_units_.log_scale))


def _interrupted(posterior: Posterior) -> Posterior:
    info = dataclasses.replace(posterior.info, stopped="interrupted")
    return dataclasses.replace(posterior, info=info)


def _folder(checkpoint: Any, name: str) -> Any:
    """The folder of one of the fits."""
    if checkpoint is None:
        return None
    if isinstance(checkpoint, str | Path):
        return Path(checkpoint) / name
    return dataclasses.replace(checkpoint, folder=Path(checkpoint.folder) / name)
