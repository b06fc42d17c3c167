"""Exploring: fit a model at several α and collect its predictions and scores as data for a page.

The data are plain numbers and texts, which `page` writes. Scores and calibration are those of
left-out rows (`interfaces.left_out`); the predictions shown are those of the fitted rows.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from bbalpha.engine.progress import progress_bar
from bbalpha.explorer import columns as columns_of
from bbalpha.explorer import outcomes, scores
from bbalpha.explorer.columns import ShownColumn, shortened
from bbalpha.explorer.page import check_replaceable, write_page
from bbalpha.explorer.words import (
    mixture_in_words,
    notes_in_words,
    power_in_words,
    reason_in_words,
)
from bbalpha.fitting import NonFiniteEnergyError
from bbalpha.interfaces.door import checked
from bbalpha.interfaces.finite import NonFinitePredictionError
from bbalpha.interfaces.left_out import evenly_spread, rows_to_score
from bbalpha.interfaces.limits import POWERS
from bbalpha.interfaces.settings import COUNTS
from bbalpha.interfaces.stacking import is_stacked
from bbalpha.interfaces.without import RowsLeftOut

ALPHAS = (*POWERS, -1.0, 0.25)  # in addition to the model's own
SAME = 1e-9  # two values of α that differ by less are the same
MOST_ROWS = 500  # rows to show
MOST_CLASSES = 6  # classes whose curves to show
FAILURES = (NonFiniteEnergyError, NonFinitePredictionError)


@dataclass(frozen=True)
class Table:
    """The rows that a model was fitted to.

    Attributes:
        inputs: The inputs that were given to `fit`.
        targets: The targets that were given to `fit`.
        sample_weight: The weights that were given to `fit`, or None.
        name: The name of the target.
        encoder: How the columns of `frame` become features; None if the inputs are the columns.
        frame: The table, if there is an encoder.
        ids: The name of each row; if empty, rows are numbered from 1.
    """

    inputs: Any
    targets: Any
    sample_weight: Any = None
    name: str = "target"
    encoder: Any = None
    frame: Any = None
    ids: Sequence[Any] = ()

    @classmethod
    def of(cls, model: Any, X: Any, y: Any, sample_weight: Any = None) -> "Table":
        """The table that a model was fitted to in Python."""
        check_is_fitted(model)
        encoder, frame = model.encoder_, None
        if encoder is not None:
            encoder, frame = encoder.encoder_, encoder._frame(X, reset=False)
        name = getattr(y, "name", None)
        return cls(X, y, sample_weight, "target" if name is None else str(name), encoder, frame)

    def some(self, rows: np.ndarray) -> "Table":
        """The table of these rows only, without weights."""
        frame, ids = self.frame, self.ids
        if frame is not None:
            frame = frame.take(rows) if hasattr(frame, "column_names") else frame.iloc[rows]
        return Table(
            _safe_indexing(self.inputs, rows),
            _safe_indexing(self.targets, rows),
            None,
            self.name,
            self.encoder,
            frame,
            [ids[row] if len(ids) else row + 1 for row in rows],
        )


def explore(path: Path, model: Any, table: Table, *, show: bool, force: bool) -> None:
    """Write the page of a fitted model.

    Args:
        path: The page to write. A file that is not such a page is replaced only with `force`.
        model: The estimator.
        table: The rows that it was fitted to.
        show: Whether to show a progress bar, if standard error is a terminal.
        force: Whether to replace the file, whatever it holds.

    Raises:
        ValueError: If the file must not be replaced, or if the table does not suit the model or a
            page.
        KeyboardInterrupt: If a fit is interrupted; then nothing is written.
    """
    if not force:
        check_replaceable(path)
    write_page(path, explored(model, table, show))


def explored(model: Any, table: Table, show: bool) -> dict[str, Any]:
    """The data of the page of a fitted model.

    Raises:
        ValueError: If the table does not suit the model or a page.
        KeyboardInterrupt: If a fit is interrupted.
    """
    if getattr(model, "n_outputs_", 1) > 1:
        raise ValueError(f"y must have one column for a page; got {model.n_outputs_}.")
    view = View.of(model, table)
    own = _own_alpha(model)
    found, failed = _fits(model, table, view, show)
    held_out = {alpha: left_out.held_out for alpha, (_, left_out) in found.items()}
    num_rows = _num_rows(table.inputs)
    return view.facts(model) | {
        "rows_in_all": num_rows,
        "alphas": list(found),
        "chosen": list(found).index(own),
        "reason": reason_in_words(model, own, held_out),
        "notes": mixture_in_words(model, own) + notes_in_words(view, num_rows, failed),
        "fits": [fit for fit, _ in found.values()],
    }


def _own_alpha(model: Any) -> float | None:
    """The α of the model; None for a mixture of several."""
    return None if is_stacked(model.posterior_) else float(model.posterior_.alpha)


def _fits(
    model: Any, table: Table, view: Any, show: bool
) -> tuple[dict[float | None, Any], list[float]]:
    """The data of the fit at every α, and the values of α at which the fit did not stay finite."""
    own, failed, found = _own_alpha(model), [], {}
    alphas = _alphas(model)
    with progress_bar(show, "values of α", len(alphas)) as update:
        for number, alpha in enumerate(alphas):
            update(number, power_in_words(alpha))
            try:
                fit = model if alpha is None or alpha == own else fitted_at(model, alpha, table)
                found[alpha] = view.of_fit(fit)
            except FAILURES:
                if alpha is None or alpha == own:
                    raise
                failed.append(alpha)
    return found, failed


def fitted_at(model: Any, alpha: float, table: Table) -> Any:
    """The model at another α: a clone, fitted to the same rows from the same start."""
    other: Any = clone(model)
    other.set_params(alpha=alpha, random_state=model.random_state, verbose=False, warm_start=False)
    if not isinstance(model.random_state, int | np.integer):
        other.set_params(random_state=model._seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the page says whether a fit has converged
        other.fit(table.inputs, table.targets, table.sample_weight)
    if other.posterior_.info.stopped == "interrupted":
        raise KeyboardInterrupt
    return other


def _num_rows(inputs: Any) -> int:
    return inputs.shape[0] if hasattr(inputs, "shape") else len(inputs)


def _alphas(model: Any) -> Sequence[float | None]:
    """The values of α to compare, the model's own among them; a mixture comes last, as None."""
    own, most = _own_alpha(model), float(model.posterior_.num_data)
    allowed = [alpha for alpha in ALPHAS if alpha <= most]
    if own is None:
        return [*sorted(allowed), None]
    return sorted([own, *(alpha for alpha in allowed if abs(alpha - own) > SAME)])


@dataclass(frozen=True)
class View:
    """The rows and columns of the page, which are the same for all α.

    Attributes:
        table: The rows to score.
        features: The features of these rows.
        shown: The numbers of the rows to show.
        columns: The columns to show.
        first: The number of the most influential of these columns.
        num_columns: The number of all columns.
        labels: The number of each row's class; empty for numbers.
        classes: The numbers of the classes whose curves are shown.
    """

    table: Table
    features: np.ndarray
    shown: np.ndarray
    columns: list[ShownColumn]
    first: int
    num_columns: int
    labels: np.ndarray
    classes: np.ndarray

    @classmethod
    def of(cls, model: Any, table: Table) -> "View":
        """The view of the rows of a table, or of a sample if there are many."""
        rows = rows_to_score(model, _num_rows(table.inputs))
        table = table.some(rows)
        features = checked(model, table.inputs, reset=False)
        ranked = columns_of.influential(model, table.encoder, features)
        chosen = np.sort(ranked).tolist()
        if table.encoder is None:
            default = [f"x{number}" for number in range(features.shape[1])]
            names = getattr(model, "feature_names_in_", default)
            columns = columns_of.columns_of_matrix(features, names, chosen)
        else:
            columns = columns_of.columns_of_frame(table.encoder, table.frame, chosen)
        labels = np.zeros(0, int)
        if outcomes.is_classifier(model):
            labels = np.searchsorted(model.classes_, np.asarray(table.targets))
        return cls(
            table,
            features,
            evenly_spread(len(features), MOST_ROWS),
            columns,
            chosen.index(ranked[0]),
            columns_of.num_columns(table.encoder, features),
            labels,
            _classes_to_show(labels),
        )

    def facts(self, model: Any) -> dict[str, Any]:
        """The data that are the same for all α."""
        is_classes = outcomes.is_classifier(model)
        targets = np.asarray(self.table.targets)[self.shown]
        kind = "class" if is_classes else "count" if model.likelihood_ in COUNTS else "number"
        classes = [shortened(model.classes_[each]) for each in self.classes] if is_classes else []
        return {
            "target": shortened(self.table.name),
            "kind": kind,
            "classes": classes,
            "num_classes": len(model.classes_) if is_classes else 0,
            "scored": len(self.features),
            "num_columns": self.num_columns,
            "first": self.first,
            "columns": [
                {
                    "name": shortened(column.name),
                    "kind": column.kind,
                    "unit": column.unit,
                    "log": column.is_log,
                    "labels": list(column.labels),
                    "grid": column.grid,
                }
                for column in self.columns
            ],
            "rows": {
                "id": [shortened(self.table.ids[row]) for row in self.shown],
                "observed": list(map(shortened, targets)) if is_classes else targets.astype(float),
                **{
                    f"cell{number}": [column.cells[row] for row in self.shown]
                    for number, column in enumerate(self.columns)
                },
                **{
                    f"place{number}": column.positions[self.shown]
                    for number, column in enumerate(self.columns)
                    if column.labels
                },
            },
        }

    def of_fit(self, fit: Any) -> tuple[dict[str, Any], RowsLeftOut]:
        """The data of one fit, and its predictions for the left-out rows."""
        left_out = outcomes.left_out(fit, self.table.inputs, self.table.targets)
        background = self.features[evenly_spread(len(self.features), outcomes.NUM_BACKGROUND)]
        curves = outcomes.curves_along(fit, self.columns, background, self.classes)
        found = outcomes.rows_of(fit, self.features[self.shown])
        about = self._about_classes if outcomes.is_classifier(fit) else self._about_numbers
        own_scores, calibration, rows = about(fit, left_out, found)
        converged = bool(fit.posterior_.info.converged)
        return {
            "scores": own_scores | {"converged": converged},
            "calibration": calibration,
            "rows": rows | {"noise": found.noise, "doubt": found.doubt},
            "curves": [curve._asdict() for curve in curves],
        }, left_out

    def _about_numbers(self, fit: Any, left_out: Any, found: outcomes.Rows) -> tuple[dict, ...]:
        targets = np.asarray(self.table.targets, float)
        calibration = {
            "levels": scores.LEVELS,
            "covered": scores.covered(left_out, scores.LEVELS),
            "histogram": scores.histogram(left_out),
        }
        low, high = found.interval[:, 0], found.interval[:, 1]
        rows = {"predicted": found.mean, "low": low, "high": high}
        return scores.scores_of_numbers(left_out, targets), calibration, rows

    def _about_classes(self, fit: Any, left_out: Any, found: outcomes.Rows) -> tuple[dict, ...]:
        right, wrong = scores.given_to_truth(left_out.mean, self.labels)
        calibration = {
            "reliability": scores.reliability(left_out.mean, self.labels),
            "histogram": right,
            "wrong": wrong,
        }
        predicted, labels = found.mean.argmax(axis=1), self.labels[self.shown]
        rows = {
            "predicted": [shortened(fit.classes_[each]) for each in predicted],
            "right": (predicted == labels).astype(int),
            "sure": found.mean.max(axis=1),
            "given": found.mean[np.arange(len(labels)), labels],
        }
        return scores.scores_of_classes(left_out, self.labels), calibration, rows


def _classes_to_show(labels: np.ndarray) -> np.ndarray:
    """The numbers of the most frequent classes; of two classes, only the second is needed."""
    if not labels.size:
        return np.zeros(1, int)
    counts = np.bincount(labels, minlength=2)
    if len(counts) == 2:
        return np.array([1])
    return np.sort(np.argsort(-counts, kind="stable")[:MOST_CLASSES])
