"""The training table: the rows that a model is fitted to, encoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.options import missing_tokens
from bbalpha.cli.printing import count, note
from bbalpha.files.naming import name_of_source
from bbalpha.tables import (
    Encoder,
    TableError,
    Target,
    drop_columns,
    drop_unknown_targets,
    read_table,
)
from bbalpha.tables.files import select_rows
from bbalpha.tables.messages import check_has_column

NUM_SCORED = 5000  # training rows to score and draw; all rows could take longer than the fit


@dataclass(frozen=True)
class TrainingTable:
    """A table in the form that an estimator takes, and how it was encoded.

    Attributes:
        encoder: How the input columns become features.
        target: The column to predict.
        dropped: Columns that were left out.
        inputs: The features of every row.
        targets: The target of every row: numbers, or labels as text.
        id: The column that names the rows, which is also among the dropped ones, or None.
    """

    encoder: Encoder
    target: Target
    dropped: tuple[str, ...]
    inputs: np.ndarray
    targets: np.ndarray
    id: str | None = None

    def some_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The inputs and targets of all rows, or of `NUM_SCORED` evenly spread ones."""
        num_rows = len(self.inputs)
        rows = np.linspace(0, num_rows - 1, min(num_rows, NUM_SCORED)).astype(int)
        return self.inputs[rows], self.targets[rows]


@dataclass(frozen=True)
class Intake:
    """The options that say how to read a table.

    Attributes:
        target: The column to predict.
        task: "regression", "classification", or None to decide by the target's values.
        text: Columns to treat as text.
        drop: Columns to leave out.
        id: The column that names the rows, if any.
        missing: Texts that mark missing cells, in addition to the usual ones.
        dayfirst: Whether the day comes first in dates; None to decide by each column's values.
        skip_missing_target: Whether to leave out rows without a target.
    """

    target: str
    task: str | None = None
    text: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    id: str | None = None
    missing: tuple[str, ...] = ()
    dayfirst: bool | None = None
    skip_missing_target: bool = False

    @property
    def dropped(self) -> tuple[str, ...]:
        """The columns that are neither inputs nor the target."""
        return self.drop if self.id is None or self.id in self.drop else (*self.drop, self.id)


def intake(
    target: str,
    task: str | None,
    text: Sequence[str] | None,
    drop: Sequence[str] | None,
    id: str | None,
    missing: Sequence[str] | None,
    dayfirst: bool | None,
    skip_missing_target: bool,
) -> Intake:
    """The options of `bbalpha fit` that are about the table, as an `Intake`."""
    tokens = missing_tokens(missing)
    columns = tuple(text or ()), tuple(drop or ()), id
    return Intake(target, task, *columns, tokens, dayfirst, skip_missing_target)


class NewRows(NamedTuple):
    """Rows that a model is not fitted to, encoded like the training rows."""

    inputs: np.ndarray
    targets: np.ndarray


def read_training_table(data: Path | str, intake: Intake, quiet: bool = False) -> TrainingTable:
    """Read a file and encode it as the options say; refuse a file that does not allow that."""
    return read_training_table_and_frame(data, intake, quiet)[0]


def read_training_table_and_frame(
    data: Path | str, intake: Intake, quiet: bool = False
) -> tuple[TrainingTable, Any]:
    """The result of `read_training_table`, and the rows as they are in the file."""
    frame, target = _read(data, intake, quiet)
    return _encoded(frame, target, intake), frame


def read_split_table(
    data: Path | str, intake: Intake, share: float, seed: int, quiet: bool = False
) -> tuple[TrainingTable, NewRows | None]:
    """Read a file and hold out a share of its rows; the encoding is learned from the other rows.

    Args:
        data: The file.
        intake: The options about the table.
        share: The share to hold out, at least one row; 0 holds out nothing.
        seed: Seed for the choice of rows.
        quiet: Whether to print no note about rows without a target.
    """
    frame, target = _read(data, intake, quiet)
    if share == 0:
        return _encoded(frame, target, intake), None
    num_rows = frame.num_rows
    is_new = np.zeros(num_rows, bool)
    num_new = max(1, round(share * num_rows))
    is_new[np.random.default_rng(seed).permutation(num_rows)[:num_new]] = True
    if is_new.all():
        raise Refusal(f"--held-out must leave some rows to fit; got {share:g} of {num_rows} rows.")
    table = _encoded(select_rows(frame, ~is_new), target, intake)
    new = select_rows(frame, is_new)
    with refusing(TableError):
        targets = labels_of(target, target.encode(new))
        inputs = table.encoder.encode(drop_columns(new, [*intake.dropped, intake.target]))
    return table, NewRows(inputs, targets)


def _read(data: Path | str, intake: Intake, quiet: bool) -> tuple[Any, Target]:
    """The rows of a file and the target, read as the options say."""
    for flag, names in (("--drop", intake.drop), ("--id", (intake.id,))):
        if intake.target in names:
            raise Refusal(f"{flag} must not name the target; got {intake.target!r}.")
    with refusing(TableError):
        frame = read_table(data)
        about_target = (intake.target, intake.task, intake.missing)
        if intake.skip_missing_target:
            frame, num_skipped = drop_unknown_targets(frame, *about_target)
            note(f"{count(num_skipped, 'row')} without a target left out.", quiet)
        target = Target.learn(frame, *about_target)
        if intake.id is not None:
            check_has_column(frame.column_names, intake.id, "--id")
    return frame, target


def _encoded(frame: Any, target: Target, intake: Intake) -> TrainingTable:
    """The rows in the form that an estimator takes."""
    with refusing(TableError):
        targets = labels_of(target, target.encode(frame))
        encoder, inputs = Encoder.learn_and_encode(
            drop_columns(frame, [*intake.dropped, intake.target]),
            targets,
            text=intake.text,
            missing=intake.missing,
            dayfirst=intake.dayfirst,
        )
    return TrainingTable(encoder, target, intake.dropped, inputs, targets, intake.id)


def labels_of(target: Target, encoded: np.ndarray) -> np.ndarray:
    """Encoded targets in the form that an estimator takes: classes as text, numbers unchanged."""
    if target.task == "regression":
        return encoded
    return np.array(target.classes, dtype=object)[encoded]


def check_likelihood(name: str | None, names: Sequence[str], table: TrainingTable) -> None:
    """Refuse a likelihood that does not suit the target.

    Args:
        name: The likelihood, or None for the default.
        names: The likelihoods for the task.
        table: The table that the model will be fitted to.
    """
    task, values = table.target.task, table.targets
    if name not in (None, *names):
        raise Refusal(f"--likelihood must be one of {', '.join(names)} for a {task}; got {name!r}.")
    if name == "poisson" and (wrong := values[(values < 0) | (values % 1 != 0)]).size:
        raise Refusal(
            f"target {table.target.name!r} must hold counts for --likelihood poisson; "
            f"got {wrong[0]:g}."
        )


def output_name(data: Path | str, suffix: str) -> Path:
    """The default name of a model file or a page: the name of the table with another suffix."""
    return Path(f"{name_of_source(data)}{suffix}")
