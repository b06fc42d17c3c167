"""The training table: the rows that a model is fitted to, encoded."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.tables import Encoder, TableError, Target, drop_columns, read_table
from bbalpha.tables.files import COMPRESSED_SUFFIXES

NUM_SCORED = 5000  # training rows that are scored and drawn; all rows could outlast the fit


@dataclass(frozen=True)
class TrainingTable:
    """A table as an estimator takes it, and how it was encoded.

    Attributes:
        encoder: How the input columns become features.
        target: The column to predict.
        dropped: Columns that were left out.
        inputs: The features of every row.
        targets: The target of every row: numbers, or labels as text.
    """

    encoder: Encoder
    target: Target
    dropped: tuple[str, ...]
    inputs: np.ndarray
    targets: np.ndarray

    def some_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """The inputs and targets of all rows, or of `NUM_SCORED` evenly spread ones."""
        num_rows = len(self.inputs)
        rows = np.linspace(0, num_rows - 1, min(num_rows, NUM_SCORED)).astype(int)
        return self.inputs[rows], self.targets[rows]


def read_training_table(
    data: Path,
    target_name: str,
    task: str | None,
    text: Sequence[str],
    drop: Sequence[str],
    impute: str | None,
) -> TrainingTable:
    """Read a file and encode it as the options say; refuse it if that is not possible."""
    if target_name in drop:
        raise Refusal(f"--drop must not name the target; got {target_name!r}.")
    with refusing(TableError):
        frame = read_table(data)
        target = Target.learn(frame, target_name, task)
        inputs = drop_columns(frame, [*drop, target_name])
        encoder = Encoder.learn(inputs, text=text, impute=impute)
        features, targets = encoder.encode(inputs), labels_of(target, target.encode(frame))
    return TrainingTable(encoder, target, tuple(drop), features, targets)


def labels_of(target: Target, encoded: np.ndarray) -> np.ndarray:
    """Encoded targets as an estimator takes them: classes as text, numbers as they are."""
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


def model_name(data: Path) -> Path:
    """The name of a model file: the name of the table, with another suffix."""
    name = Path(data.name)
    if name.suffix.lower() in COMPRESSED_SUFFIXES:
        name = name.with_suffix("")
    return name.with_suffix(".safetensors")
