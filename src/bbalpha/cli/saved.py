"""Saved models: an estimator together with the encoding of its training table."""

import contextlib
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.printing import count, note
from bbalpha.cli.training_table import labels_of
from bbalpha.interfaces import estimator_file
from bbalpha.interfaces.classifier import BBAlphaClassifier
from bbalpha.interfaces.finite import check_finite_rows
from bbalpha.interfaces.regressor import BBAlphaRegressor
from bbalpha.tables import (
    Encoder,
    TableError,
    Target,
    drop_unknown_targets,
)
from bbalpha.tables.blocks import Tally
from bbalpha.tables.encoder import EncodedRows, notes_of
from bbalpha.tables.messages import listing

KEYS = {"encoder", "target", "dropped", "id"}
ESTIMATORS = {"regression": BBAlphaRegressor, "classification": BBAlphaClassifier}
CLASSES = {kind.__name__: kind for kind in ESTIMATORS.values()}


@dataclass(frozen=True)
class Model:
    """An estimator and the encoding that it needs to read a table.

    Attributes:
        estimator: The regressor or the classifier; a classifier's labels are texts.
        encoder: How the input columns become features.
        target: The column to predict.
        dropped: Columns left out in training, which a new table may have or not.
        id: The dropped column that names the rows, if any.
    """

    estimator: Any
    encoder: Encoder
    target: Target
    dropped: tuple[str, ...]
    id: str | None = None

    def features(
        self, frame: Any, unknown: str, id: str | None = None, quiet: bool = False
    ) -> np.ndarray:
        """The inputs of a new table, which may also have the target and the dropped columns.

        Args:
            frame: The table.
            unknown: What to do with a text that did not occur in training.
            id: Another column that the table may have.
            quiet: Whether to print no notes about missing cells, unseen texts and far inputs.
        """
        with refusing(TableError):
            rows = self.read(frame, unknown, id)
        remarks = Remarks()
        remarks.add(self, rows)
        remarks.note(self, quiet)
        return rows.features

    def read(self, frame: Any, unknown: str, id: str | None = None) -> EncodedRows:
        """`features` together with the remarks about them, which are not printed yet.

        Raises:
            TableError: If the table does not suit the model.
        """
        allowed = (self.target.name, *self.dropped, *(() if id is None else (id,)))
        return self.encoder.read(frame, unknown=unknown, allowed=allowed)

    def rows_with_target(self, frame: Any) -> tuple[Any, int]:
        """The rows of a table whose target is known, and the number of other rows."""
        target = self.target
        with refusing(TableError):
            return drop_unknown_targets(frame, target.name, target.task, target.missing)

    def targets(self, frame: Any) -> np.ndarray:
        """The targets of a table in the form that the estimator takes."""
        with refusing(TableError):
            return labels_of(self.target, self.target.encode(frame))

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """The probability of every class, in the order of the target's classes."""
        return self.estimator.predict_proba(features)[:, self._order()]

    def probabilities_and_scores(
        self, features: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`probabilities`, and the log-probability of every target."""
        probabilities, log_densities = self.estimator._described(features, targets)
        check_finite_rows(log_densities)
        return probabilities[:, self._order()], log_densities

    def _order(self) -> list[int]:
        return [self.estimator.classes_.tolist().index(label) for label in self.target.classes]


class Remarks:
    """The notes about the inputs of a table, added up over its parts."""

    def __init__(self):
        """Start with no part."""
        self.num_rows = self.num_outside = 0
        self.tallies: dict[str, dict[str, Tally]] = {}
        self.outside: Any = False
        self.marks: dict[str, set[Any]] = {}

    def add(self, model: Model, rows: EncodedRows) -> None:
        """Count the remarks of one more part."""
        is_outside = model.estimator.input_units_.is_outside(rows.features)
        self.num_rows += len(rows.features)
        self.num_outside += int(is_outside.any(axis=1).sum())
        self.outside = self.outside | is_outside.any(axis=0)
        for name, tallies in rows.tallies.items():
            sums = self.tallies.setdefault(name, {})
            for tally in tallies:
                first = sums.get(tally.kind, tally._replace(num=0))
                sums[tally.kind] = first._replace(num=first.num + tally.num)
        for name, mark in rows.marks.items():
            self.marks.setdefault(name, set()).update(set() if mark is None else {mark})

    def agree(self) -> bool:
        """Whether all parts were read alike, as if the table had been read whole."""
        return all(len(marks) <= 1 for marks in self.marks.values())

    def note(self, model: Model, quiet: bool) -> None:
        """Print notes about missing cells, unseen texts and far inputs."""
        tallies = {
            name: [
                tally if tally.num_rows is None else tally._replace(num_rows=self.num_rows)
                for tally in sums.values()
            ]
            for name, sums in self.tallies.items()
        }
        for sentence in notes_of(tallies):
            note(f"Note: {sentence}", quiet)
        if self.num_outside == 0:
            return
        features = model.encoder.feature_names
        names = [features[index] for index in self.outside.nonzero()[0]]
        verb = "has" if self.num_outside == 1 else "have"
        note(
            f"Note: {count(self.num_outside, 'row')} {verb} inputs far outside the training "
            f"range, which are replaced by the nearest limit: {listing(names)}.",
            quiet,
        )


def write_model(path: Path, model: Model) -> None:
    """Write a model to a file, whole or not at all; if that fails, keep it elsewhere.

    Raises:
        Refusal: If the file could not be written; says why and where the model is instead.
    """
    try:
        _write(path, model)
    except Exception as error:
        is_told = isinstance(error, Refusal)
        reason = error.message if is_told else f"{path} cannot be written: {error!r}."
        kept = _kept_elsewhere(path.name, model)
        if kept is None:
            raise Refusal(f"{reason} The model could not be kept elsewhere either.") from error
        raise Refusal(f"{reason} The model was kept in {kept} instead.") from None


def _write(path: Path, model: Model) -> None:
    table = {
        "encoder": model.encoder.to_json(),
        "target": model.target.to_json(),
        "dropped": list(model.dropped),
        "id": model.id,
    }
    with refusing(OSError):
        estimator_file.write(path, model.estimator, table)


def _kept_elsewhere(name: str, model: Model) -> Path | None:
    """Write the model to another folder; return the path, or None if that failed everywhere."""
    for place in (tempfile.gettempdir, Path.home):
        with contextlib.suppress(Exception):
            folder = Path(tempfile.mkdtemp(prefix="bbalpha-", dir=place()))
            try:
                _write(folder / name, model)
            except Exception:
                folder.rmdir()
                raise
            return folder / name
    return None


def read_model(path: Path) -> Model:
    """The model in a file, whose contents are checked because they are not trusted."""
    with refusing(OSError, ValueError):
        estimator, table = estimator_file.read(path, CLASSES)
    if table is None:
        raise Refusal(
            f"{path} was saved from Python, so it does not say how columns become features; this "
            "command needs a model file written by bbalpha fit."
        )
    try:
        return _checked_model(estimator, table)
    except TableError as error:
        raise Refusal(f"{path} is not a valid bbalpha model: {error}") from None


def _checked_model(estimator: Any, table: Any) -> Model:
    if not isinstance(table, dict) or set(table) != KEYS:
        raise TableError(
            "its table is not described by an encoder, a target, dropped columns and an id."
        )
    encoder, target = Encoder.from_json(table["encoder"]), Target.from_json(table["target"])
    dropped = table["dropped"]
    if not isinstance(dropped, list) or not all(isinstance(name, str) for name in dropped):
        raise TableError("the dropped columns are not a list of names.")
    if table["id"] is not None and table["id"] not in dropped:
        raise TableError("the column that names the rows is not one of the dropped ones.")
    if {target.name, *dropped} & {column.name for column in encoder.columns}:
        raise TableError("the target or a dropped column is also an input.")
    if not isinstance(estimator, ESTIMATORS[target.task]):
        raise TableError(f"a {type(estimator).__name__} has the target of a {target.task}.")
    num_features = len(encoder.feature_names)
    if estimator.n_features_in_ != num_features:
        raise TableError(
            f"the estimator has {estimator.n_features_in_} features, but its table {num_features}."
        )
    if set(getattr(estimator, "classes_", ())) != set(target.classes):
        raise TableError("the classes of the estimator and of its target differ.")
    if target.task == "regression" and not estimator._is_vector:
        raise TableError(f"the estimator has {estimator.n_outputs_} targets.")
    return Model(estimator, encoder, target, tuple(dropped), table["id"])
