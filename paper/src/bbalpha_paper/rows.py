"""Rows: one line of JSON per run of an experiment. A report is made from nothing else.

A results folder holds `<experiment>/<data set>.jsonl`. Rows are appended; if a process was killed
while it wrote one, the incomplete last line does not count.
"""

import json
import math
import os
import reprlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from bbalpha_paper.writing import writing

NEWLINE = b"\n"
LONGEST_NAME = 200
LARGEST = 2**63  # whole number, beyond any split or seed
KINDS = {str: str, int: int, float: int | float}  # of fields, as JSON has them; others are dicts


@dataclass(frozen=True, kw_only=True)
class Row:
    """What was run, with which settings, and the result.

    Attributes:
        experiment: Name of the experiment.
        configuration: Name of the kind of run within the experiment.
        dataset: Name of the data set.
        split: Number of the split into training and test data, from 0.
        seed: Seed of all randomness of the run.
        alpha: The power α; 0 is variational Bayes.
        settings: Everything else that decides the result.
        metrics: Numbers, or lists of them for curves; None where one is not finite.
        seconds: How long the run took; an equal share if several were trained together.
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
    """The file that holds the rows of one data set."""
    return folder / experiment / f"{dataset}.jsonl"


def read_folder(folder: Path) -> list[Row]:
    """All rows of a results folder, sorted by the names of experiments and data sets.

    Raises:
        FileNotFoundError: If there is no such folder, or no row in it.
        ValueError: If a line of a file is not a row.
    """
    if not folder.is_dir():
        found = "the file" if folder.exists() else "nothing at"
        raise FileNotFoundError(f"RESULTS must be a folder; got {found} {folder}.")
    rows = [row for file in sorted(folder.glob("*/*.jsonl")) for row in read_file(file)]
    if not rows:
        raise FileNotFoundError(
            f"RESULTS must hold rows of experiments; got none in {folder}. "
            f"Make some with: bbalpha-paper run all --scale smoke --output {folder}"
        )
    return rows


def read_file(file: Path) -> list[Row]:
    """The rows of one file; none if there is no file.

    Raises:
        ValueError: If a complete line is not a row.
    """
    if not file.is_file():
        return []
    *lines, _ = file.read_bytes().split(NEWLINE)  # the rest after the last newline is incomplete
    return [_row(line, f"line {number} of {file}") for number, line in enumerate(lines, 1)]


def append_rows(file: Path, rows: Iterable[Row]) -> None:
    """Add rows to a file, in place of an incomplete last line, and wait until they are on disk."""
    text = "".join(json.dumps(_plain(asdict(row)), ensure_ascii=False) + "\n" for row in rows)
    with writing(file), file.open("a+b") as stream:
        stream.seek(0)
        content = stream.read()
        stream.truncate(content.rfind(NEWLINE) + 1)
        stream.write(text.encode())
        stream.flush()
        os.fsync(stream.fileno())


def _row(line: bytes, place: str) -> Row:
    try:
        values = json.loads(line, parse_constant=_finite, parse_float=_finite)
        json.dumps(values, ensure_ascii=False).encode()  # half of a surrogate pair is no text
    except (ValueError, RecursionError):
        raise ValueError(
            f"{place} must be a row in JSON, with finite numbers; got {line[:40]!r}."
        ) from None
    names = [field.name for field in fields(Row)]
    if not isinstance(values, dict) or sorted(values) != sorted(names):
        found = ", ".join(values)[:LONGEST_NAME] if isinstance(values, dict) else line[:40]
        raise ValueError(f"{place} must have the fields {', '.join(names)}; got {found!r}.")
    for field in fields(Row):
        value = values[field.name]
        if not isinstance(value, KINDS.get(field.type, dict)) or isinstance(value, bool):
            raise _wrong(field.name, place, _kind_name(field.type), value)
        if isinstance(value, str) and not (value.isprintable() and len(value) <= LONGEST_NAME):
            raise _wrong(field.name, place, f"at most {LONGEST_NAME} printable characters", value)
        if isinstance(value, int) and abs(value) > LARGEST:
            raise _wrong(field.name, place, f"at most {LARGEST:g} in size", value)
    if not isinstance(values["settings"].get("scale"), str):
        raise _wrong(
            "settings", place, "an object with a text field named scale", values["settings"]
        )
    return Row(**values)


def _wrong(name: str, place: str, rule: str, value: Any) -> ValueError:
    return ValueError(f"the field {name} of {place} must be {rule}; got {reprlib.repr(value)}.")


def _finite(text: str) -> float:
    """The number that a text in JSON stands for; JSON itself has no infinity."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError
    return value


def _kind_name(kind: Any) -> str:
    """The kind of a field in words."""
    return {str: "a text", int: "a whole number", float: "a number"}.get(kind, "an object")


def _plain(value: Any) -> Any:
    """The value in JSON's kinds, with None for numbers that are not finite."""
    if isinstance(value, Mapping):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
