"""Rows of a table as Python objects (numbers, texts, booleans, dates, None) → features.

The columns are those of the `Encoder` that the model was fitted with. The encoder reads cells from
files, where they may be any text; here, cells already have types, as in JSON.
"""

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np

from bbalpha.tables.calendar import turns
from bbalpha.tables.tails import Tails

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Column = Mapping[str, Any]


@dataclass(frozen=True)
class RowEncoder:
    """How rows become features.

    Attributes:
        columns: Each column as described in JSON by its encoder.
        missing: Texts, or numbers as text, that stand for missing cells.
        others: Further columns that rows may have, such as the target; they are not used.
        missing_values: Texts that stand for missing cells, too, except in columns of text.
    """

    columns: Sequence[Column]
    missing: frozenset[str]
    others: frozenset[str]
    missing_values: frozenset[str] = frozenset()

    @property
    def names(self) -> list[str]:
        """The columns that rows must have."""
        return [column["name"] for column in self.columns if column["kind"] != "ignored"]

    def encode(self, cells: Mapping[str, Sequence[Any]]) -> np.ndarray:
        """Return the features of rows; their cells are given by column.

        Raises:
            ValueError: If a column is missing or unknown, or a cell is of the wrong kind.
        """
        allowed = self.others.union(column["name"] for column in self.columns)
        check_names(cells, self.names, allowed)
        blocks = []
        for column in self.columns:
            if column["kind"] != "ignored":
                is_text = column["kind"] == "text"
                gaps = self.missing if is_text else self.missing | self.missing_values
                found = [self._cell(cell, gaps) for cell in cells[column["name"]]]
                blocks += (_text_features if is_text else _value_features)(column, found)
        return np.stack(blocks, axis=1)

    @cached_property
    def _missing_numbers(self) -> frozenset[float]:
        return frozenset(float(token) for token in self.missing if _is_numeral(token))

    def _cell(self, cell: Any, gaps: frozenset[str]) -> Any:
        """The cell, a text without surrounding white space, or None if it is missing."""
        if isinstance(cell, np.generic):
            cell = cell.item()
        if isinstance(cell, str):
            cell = cell.strip()
            return None if cell in gaps else cell
        if isinstance(cell, bool):
            return None if str(cell) in gaps else cell
        is_code = isinstance(cell, int | float) and cell in self._missing_numbers
        return None if is_code or _is_nothing(cell) else cell


def cells_of(rows: Any) -> Mapping[str, Sequence[Any]] | None:
    """The cells of rows by column; None if the rows have no names.

    Args:
        rows: A list of dictionaries, a dictionary of columns, a DataFrame, or something else.

    Raises:
        ValueError: If a row is not a dictionary, or lacks a name, although others are or have it.
    """
    if hasattr(rows, "columns") and hasattr(rows, "__getitem__"):
        return {name: list(rows[name]) for name in rows.columns}
    if isinstance(rows, Mapping):
        if len({len(column) for column in rows.values()}) > 1:
            raise ValueError("the columns of X must have the same length.")
        return rows
    if not (isinstance(rows, list | tuple) and rows and isinstance(rows[0], Mapping)):
        return None
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise ValueError(f"row {number} of X must be an object, as others are; got {row!r}.")
    names = list(dict.fromkeys(name for row in rows for name in row))
    for number, row in enumerate(rows):
        if len(row) < len(names):
            lacking = next(name for name in names if name not in row)
            raise ValueError(f"row {number} of X lacks {lacking!r}, which other rows have.")
    return {name: [row[name] for row in rows] for name in names}


def check_names(found: Iterable[str], needed: Sequence[str], allowed: Iterable[Any] = ()) -> None:
    """Raise if a column is missing, or one is unknown."""
    names = list(found)
    known = {*needed, *allowed}
    extra = [name for name in names if name not in known]
    absent = [name for name in needed if name not in set(names)]
    if absent:
        nearest = difflib.get_close_matches(absent[0], [str(name) for name in extra], n=1)
        hint = f" (nearest: {nearest[0]!r})" if nearest else ""
        raise ValueError(f"X must have the column {absent[0]!r}; it lacks it{hint}.")
    if extra:
        raise ValueError(f"X must have no columns that the model does not know; got {extra[0]!r}.")


def numbers_of(name: str, cells: Sequence[Any], kind: str = "number") -> np.ndarray:
    """The cells of a column as numbers, NaN where one is missing."""
    readers = {"number": _number, "boolean": _boolean, "date": _days}
    values = np.empty(len(cells))
    for row, cell in enumerate(cells):
        try:
            values[row] = np.nan if cell is None else readers[kind](cell)
        except (TypeError, ValueError, OverflowError):
            raise ValueError(
                f"column {name!r} of X must hold a {kind} in every row, or None; "
                f"got {cell!r} in row {row}."
            ) from None
    return values


def _value_features(column: Column, cells: Sequence[Any]) -> list[np.ndarray]:
    """A number, date or boolean, the phases of the calendar, and whether it is missing."""
    values = numbers_of(column["name"], cells, column["kind"])
    is_missing = np.isnan(values)
    filled = np.where(is_missing, column["fill"], values)
    tails = Tails(**column["tails"]) if column["kind"] != "boolean" else Tails()
    features = [tails.apply(filled)]
    for part in column.get("parts", ()):
        phase = 2 * np.pi * turns(filled, part)
        features += [np.where(is_missing, 0.0, wave(phase)) for wave in (np.sin, np.cos)]
    return [*features, is_missing.astype(float)] if column["indicator"] else features


def _text_features(column: Column, cells: Sequence[Any]) -> list[np.ndarray]:
    """Zeros and ones for each category and for other texts, and the effects of all."""
    for row, cell in enumerate(cells):
        if not (cell is None or isinstance(cell, str)):
            raise ValueError(
                f"column {column['name']!r} of X must hold a text in every row, or None; "
                f"got {cell!r} in row {row}."
            )
    texts = [*column["categories"], *column["pooled"]]
    places = {text: place for place, text in enumerate(texts)}
    codes = np.array([places.get(cell, -1) for cell in cells], int)
    num = len(column["categories"])
    features = [(codes == code).astype(float) for code in range(num)]
    if column["other"]:
        features.append(((codes < 0) | (codes >= num)).astype(float))
    if column["effects"]:
        table = np.array([*column["effects"], [0.0] * len(column["effects"][0])])
        features += list(table[codes].T)  # the last row, −1, is for unseen texts
    return features


def _number(cell: Any) -> float:
    if isinstance(cell, str | bytes) or not math.isfinite(cell):
        raise ValueError
    return float(cell)


def _boolean(cell: Any) -> float:
    if cell not in (0, 1):
        raise ValueError
    return float(cell)


def _days(cell: Any) -> float:
    """Days since 1970-01-01, from a date or from its text in ISO 8601."""
    moment = datetime.fromisoformat(cell) if isinstance(cell, str) else cell
    if not isinstance(moment, datetime):
        moment = datetime(*date.timetuple(moment)[:3])
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    return (moment - EPOCH) / timedelta(days=1)


def _is_numeral(text: str) -> bool:
    try:
        return not math.isnan(float(text))
    except ValueError:
        return False


def _is_nothing(cell: Any) -> bool:
    """Whether a cell is None, NaN or the like, which do not equal themselves."""
    return cell is None or bool(isinstance(cell, float | datetime) and cell != cell)
