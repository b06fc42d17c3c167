"""Rows: one line of JSON for every run of an experiment, which is all that a report is made from.

A results folder holds `<experiment>/<data set>.jsonl`. Lines are appended whole; what a killed
process left of its last line is not a row.
"""

import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

NEWLINE = b"\n"
KINDS = {str: str, int: int, float: int | float}  # of fields, as JSON has them; others are dicts


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was run, with which settings, and what came out of it.

    Attributes:
        experiment: Name of the experiment.
        configuration: Name of the kind of run within the experiment.
        dataset: Name of the data set.
        split: Number of the split into training and test data, from 0.
        seed: Seed of all randomness of the run.
        alpha: The power α; 0 is variational Bayes.
        settings: All else that decides the result.
        metrics: Numbers, or lists of them for curves; None where one is not finite.
        seconds: How long the run took, its share of the time when several were trained together.
        version: Version of bbalpha.
    """

    experiment: str
    configuration: str
    dataset: str
    split: int
    seed: int
    alpha: float
    settings: dict[str, Any]
    metrics: dict[str, Any]
    seconds: float
    version: str


def rows_file(folder: Path, experiment: str, dataset: str) -> Path:
    """The file of the rows of one data set."""
    return folder / experiment / f"{dataset}.jsonl"


def read_folder(folder: Path) -> list[Row]:
    """All rows of a results folder, by experiment and data set in the order of their names.

    Raises:
        FileNotFoundError: If there is no such folder, or no row in it.
        ValueError: If a line of a file is not a row.
    """
    if not folder.is_dir():
        found = "the file" if folder.exists() else "nothing at"
        raise FileNotFoundError(f"the results must be a folder; got {found} {folder}.")
    rows = [row for file in sorted(folder.glob("*/*.jsonl")) for row in read_file(file)]
    if not rows:
        raise FileNotFoundError(
            f"the results must hold rows of experiments; got none in {folder}. "
            f"bbalpha reproduce all --scale smoke --output {folder} makes some."
        )
    return rows


def read_file(file: Path) -> list[Row]:
    """The rows of one file; none if there is no file.

    Raises:
        ValueError: If a line that ends is not a row.
    """
    if not file.is_file():
        return []
    *lines, _ = file.read_bytes().split(NEWLINE)  # what follows the last newline is not whole
    return [_row(line, f"line {number} of {file}") for number, line in enumerate(lines, 1)]


def append_rows(file: Path, rows: Iterable[Row]) -> None:
    """Add rows to a file, whose last line is dropped if it is not whole, and see them on disk."""
    text = "".join(json.dumps(_plain(asdict(row)), ensure_ascii=False) + "\n" for row in rows)
    with writing(file), file.open("a+b") as stream:
        stream.seek(0)
        content = stream.read()
        stream.truncate(content.rfind(NEWLINE) + 1)
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Make the folder of a file that is to be written; what prevents that is told in a sentence.

    Raises:
        OSError: If there is no room, or no permission.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(f"{file} must be a file that can be written; got: {reason}.") from error


def _row(line: bytes, place: str) -> Row:
    try:
        values = json.loads(line)
    except ValueError:
        raise ValueError(f"{place} must be a row in JSON; got {line[:40]!r}.") from None
    names = [field.name for field in fields(Row)]
    if not isinstance(values, dict) or sorted(values) != sorted(names):
        raise ValueError(
            f"{place} must have the fields {', '.join(names)}; "
            f"got {', '.join(values) if isinstance(values, dict) else line[:40]!r}."
        )
    for field in fields(Row):
        if not isinstance(values[field.name], KINDS.get(field.type, dict)):
            raise ValueError(
                f"{place} must have the field {field.name} as a row has it; "
                f"got {values[field.name]!r}."
            )
    return Row(**values)


def _plain(value: Any) -> Any:
    """The value in JSON's kinds, with None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
