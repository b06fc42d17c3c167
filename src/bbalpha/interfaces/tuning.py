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
from bbalpha.engine.checks import warn
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
) -> tuple[Posterior, AlphaCurve | None]:
    """The posterior with the best leave-one-out score, and the scores of all powers tried.

    It belongs to a single power or, for `alpha="stacked"`, is the best mixture. If no power has
    finite scores, the power nearest to 0 is taken, and there is no curve.

    Args:
        training: The fit, without a power.
        last: The posterior to start from; by default the start is random.
        checkpoint: Where to save the fits, each in its own folder.
    """
    sweep = _Sweep(training, last, checkpoint)
    is_few = min(len(training.rows.inputs), sweep.num_data) < FEWEST_ROWS
    for alpha in (0.0,) if is_few else POWERS:
        sweep.add(alpha)
    if not is_few:
        sweep.check_reliable()
    posterior, curve = sweep.chosen()
    if sweep.was_interrupted:
        posterior = _interrupted(posterior)
    return posterior, curve


class _Sweep:
    """The posteriors fitted so far, and the scores of the candidates, all on the same rows.

    A power whose energy or scores are not finite is not a candidate.
    """

    def __init__(self, training: Training, last: Posterior | None, checkpoint: Any):
        """Choose the rows to score."""
        self.training, self.last, self.checkpoint = training, last, checkpoint
        rows = training.rows
        numbers = rows_to_score(training.estimator, len(rows.inputs))
        self.rows = RowsToScore(*(column[numbers] for column in rows))
        self.num_data = float(rows.sample_weight.sum())
        self.fitted: dict[float, Posterior] = {}
        self.scores: dict[float, np.ndarray] = {}
        self.leverages: dict[float, np.ndarray] = {}
        self.failure: NonFiniteEnergyError | None = None
        self.folds = 0
        self.was_interrupted = False

    def add(self, alpha: float) -> None:
        """Fit and score one more power."""
        if self.was_interrupted:
            return
        folder = _folder(self.checkpoint, f"alpha_{alpha:g}")
        try:
            posterior = self.training.posterior(alpha, self.last, checkpoint=folder)
        except NonFiniteEnergyError as failure:
            self.failure = self.failure or failure
            return
        self.was_interrupted = posterior.info.stopped == "interrupted"
        if self.was_interrupted and self.fitted:
            return
        scores, _, leverages = scores_of_rows(self.training.estimator, posterior, self.rows)
        self.fitted[alpha] = posterior
        if np.isfinite(scores).all() and np.isfinite(leverages).all():
            self.scores[alpha], self.leverages[alpha] = scores, leverages

    def check_reliable(self) -> None:
        """Score by cross-validation instead if too few rows can be left out without refitting."""
        if self.was_interrupted or len(self.scores) < 2 or self._compared().sum() >= self._enough():
            return
        scores = {alpha: self._cross_validated(alpha) for alpha in self.scores}
        if self.was_interrupted:
            return
        self.scores = {alpha: each for alpha, each in scores.items() if np.isfinite(each).all()}
        self.folds, self.rows = NUM_FOLDS, RowsToScore(*self.training.rows)
        self.leverages = {alpha: np.zeros(len(each)) for alpha, each in self.scores.items()}

    def chosen(self) -> tuple[Posterior, AlphaCurve | None]:
        """The posterior that the estimator's settings ask for, and the curve.

        Raises:
            NonFiniteEnergyError: If no power has a finite energy.
        """
        if not self.scores:
            return self._without_scores(), None
        rows = self._compared() if self._compared().sum() >= FEWEST_ROWS else slice(None)
        weights = self.rows.weights[rows]
        scores = {alpha: score[rows] for alpha, score in self.scores.items()}
        curve = AlphaCurve.of(scores, weights, self.folds, self.num_data)
        if self.training.estimator.alpha != STACKED:
            return self.fitted[curve.chosen], curve
        curve = curve.stacked(scores, weights)
        members = [self.fitted[alpha] for alpha in curve.members]
        return stacked(members, [share for share in curve.weights if share]), curve

    def _without_scores(self) -> Posterior:
        """The posterior nearest to α = 0, with a warning that nothing was chosen."""
        if not self.fitted and self.failure:
            raise self.failure
        alpha = min(self.fitted, key=abs)
        warn(
            "left-out rows have no finite scores at any power, so none was chosen; alpha is "
            f"{alpha:g}."
        )
        return self.fitted[alpha]

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
            try:
                posterior = part.posterior(alpha, None, checkpoint=folder)
            except NonFiniteEnergyError:
                return np.full(len(order), np.nan)
            self.was_interrupted |= posterior.info.stopped == "interrupted"
            if self.was_interrupted:
                break
            scores[test] = posterior.log_density(
                log_likelihood_of(estimator.activation),
                Dataset(rows.inputs[test], rows.targets[test]),
                key=estimator._key(),
                num_samples=estimator.num_predictive_samples,
            )
        return scores - float(estimator.target_units_.log_scale)


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
