"""The encoder: the columns of a table as the features of a model.

Numbers, dates, booleans and texts each have their own rules (`value_columns`, `text_column`). A
column that cannot help is ignored, with a reason. The model file stores as JSON what each column
was in training, and a new table must agree with it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bbalpha.tables import cells as cells_of
from bbalpha.tables.blocks import Block, Tally, matrix_of
from bbalpha.tables.effects import outputs_of
from bbalpha.tables.files import decimal_commas, file_of, names_of, select_column
from bbalpha.tables.messages import (
    TableError,
    check_choice,
    check_has_column,
    check_keys,
    check_names,
    check_texts,
    is_text,
    join,
    listing,
    nearest,
    quote,
)
from bbalpha.tables.numerals import PLAIN_NOTATION
from bbalpha.tables.reading import Habits, Reading, first_reading, next_reading
from bbalpha.tables.text_column import TextColumn, why_texts_cannot_help
from bbalpha.tables.value_columns import BooleanColumn, DateColumn, NumberColumn

MAX_FEATURES = 100_000
MAX_TOKENS = 100  # texts that mark missing cells
LONGEST_REASON = 300  # characters
LEAST_ROWS = 5  # rows with a 1, and with a 0, that a feature of zeros and ones needs;
LEAST_SHARE = 20  # in a small table, one row in so many is enough, but at least
LEAST_OF_ALL = 2
UNNAMED = re.compile(r"Unnamed: \d+")  # what pandas and `read_table` call a column without a name


@dataclass(frozen=True)
class IgnoredColumn:
    """A column that is not used.

    Attributes:
        name: The name in the header.
        reason: Why, as the end of a sentence that begins with the name of the column.
    """

    name: str
    reason: str
    kind = "ignored"
    feature_names = ()

    @property
    def words(self) -> str:
        """The column in words."""
        return f"ignored: {self.reason}"

    def to_json(self) -> dict[str, Any]:
        """The column as an object for JSON."""
        return {"name": self.name, "kind": self.kind, "reason": self.reason}

    @classmethod
    def from_json(cls, entry: dict[str, Any], what: str) -> "IgnoredColumn":
        """Return the column that `to_json` described, if it could have."""
        check_keys(entry, ("name", "kind", "reason"), what)
        reason = entry["reason"]
        if not is_text(reason) or not reason.isprintable() or len(reason) > LONGEST_REASON:
            raise TableError(f"the reason of {what} must be a short text; got {quote(reason)}.")
        return cls(entry["name"], reason)


Column = NumberColumn | DateColumn | BooleanColumn | TextColumn | IgnoredColumn
VALUE_COLUMNS = {"number": NumberColumn, "date": DateColumn, "boolean": BooleanColumn}
COLUMNS = VALUE_COLUMNS | {"text": TextColumn, "ignored": IgnoredColumn}


class EncodedRows(NamedTuple):
    """The features of a table, and remarks about its cells.

    Attributes:
        features: The features, float64 of shape (rows, features).
        tallies: Remarks about missing cells and unseen texts, by the name of the column.
        marks: Facts that only all cells of a column together can decide: the decimal mark of
            numbers, and whether the day comes first in dates.
    """

    features: np.ndarray
    tallies: dict[str, tuple[Tally, ...]]
    marks: dict[str, Any]

    @property
    def notes(self) -> tuple[str, ...]:
        """The remarks as sentences, with their counts."""
        return notes_of(self.tallies)


@dataclass(frozen=True)
class Encoder:
    """The columns that a model was fitted to, and how each becomes features.

    Attributes:
        columns: The columns, in the order of the training table.
        missing: Texts that mark missing cells, in addition to the usual ones.

    >>> import pandas
    >>> from bbalpha.tables import Encoder
    >>> frame = pandas.DataFrame({"size": ["$1.5", "$2"] * 3, "color": ["red", "blue"] * 3})
    >>> encoder = Encoder.learn(frame)
    >>> encoder.feature_names
    ['size', 'color=blue', 'color=red']
    >>> encoder.encode(frame)[:2].tolist()
    [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0]]
    >>> encoder.columns[0].words
    'number in $, 1.75 if missing'
    """

    columns: tuple[Column, ...]
    missing: tuple[str, ...] = ()

    @classmethod
    def learn(cls, frame: Any, targets: np.ndarray | None = None, **options: Any) -> "Encoder":
        """Return the encoder of a training table; see `learn_and_encode`."""
        return cls.learn_and_encode(frame, targets, **options)[0]

    @classmethod
    def learn_and_encode(
        cls,
        frame: Any,
        targets: np.ndarray | None = None,
        *,
        text: Sequence[str] = (),
        missing: Sequence[str] = (),
        dayfirst: bool | None = None,
    ) -> tuple["Encoder", np.ndarray]:
        """Return the encoder of a training table, and the features of its rows.

        The features are those of `encode`, except for the effects of categories, which do not use
        the row's own target.

        Args:
            frame: The input columns without the target, as a pandas DataFrame or an arrow table.
            targets: Numbers as floats, or labels of any other type; without them, texts have no
                effects.
            text: Columns to treat as text, whatever they hold.
            missing: Texts that mark missing cells, in addition to the usual ones.
            dayfirst: Whether 03/04/2024 is the 3rd of April; None to decide by each column's
                values.

        Raises:
            TableError: If a column cannot be encoded, or if none can help.
        """
        names = names_of(frame)
        if not names:
            raise TableError("the table has no column other than the target.")
        check_names(names, "the table")
        for name in text:
            check_has_column(names, name, "--text")
        habits = Habits(tuple(missing), dayfirst, decimal_commas(frame), source=file_of(frame))
        outputs = None if targets is None else outputs_of(targets)
        columns, blocks, masks = [], [], set()
        for name in names:
            series = select_column(frame, name)
            reading = first_reading(name, series, habits, as_text=name in text)
            column, block = _learned(reading, outputs, masks)
            columns.append(column)
            blocks += [] if block is None else [block]
        _check_some_help(columns)
        _check_num_features(columns)
        return cls(tuple(columns), habits.missing), matrix_of(blocks)

    def read(
        self, frame: Any, *, unknown: str = "other", allowed: Sequence[str] = ()
    ) -> EncodedRows:
        """Return the features of a table, and remarks about its cells.

        The features of a row depend only on that row; the order of the columns does not matter.

        Args:
            frame: A table with the columns of the training table; ignored ones may be absent.
            unknown: What to do with a text that did not occur in training: "other" pools it with
                the rare ones, "error" refuses it.
            allowed: Further columns that the table may have, such as the target.

        Raises:
            TableError: If the table lacks a column or has another one, or if a cell cannot be
                encoded.
        """
        check_choice(unknown, ("other", "error"), "unknown")
        self._check_columns(names_of(frame), allowed)
        blocks, tallies, marks = [], {}, {}
        for column in self.columns:
            if isinstance(column, IgnoredColumn):
                continue
            reading = self._next_reading(column, frame)
            is_text_column = isinstance(column, TextColumn)
            block = column.encode(reading, unknown) if is_text_column else column.encode(reading)
            blocks.append(block)
            tallies[column.name] = block.tallies
            marks[column.name] = reading.mark
        return EncodedRows(matrix_of(blocks), tallies, marks)

    def encode(
        self, frame: Any, *, unknown: str = "other", allowed: Sequence[str] = ()
    ) -> np.ndarray:
        """Return the features of a table, without the remarks of `read`."""
        return self.read(frame, unknown=unknown, allowed=allowed).features

    @property
    def feature_names(self) -> list[str]:
        """The name of each feature, in the order of `encode`."""
        return [name for column in self.columns for name in column.feature_names]

    @property
    def summary(self) -> dict[str, str]:
        """What each column became, in words."""
        return {column.name: column.words for column in self.columns}

    @property
    def ignored(self) -> tuple[IgnoredColumn, ...]:
        """The columns that are not used."""
        return tuple(column for column in self.columns if isinstance(column, IgnoredColumn))

    def to_json(self) -> dict[str, Any]:
        """The encoder as an object for JSON, with a description of each column for readers."""
        columns = [column.to_json() | {"words": column.words} for column in self.columns]
        return {"columns": columns, "missing": list(self.missing)}

    @classmethod
    def from_json(cls, obj: Any) -> "Encoder":
        """Return the encoder that `to_json` described.

        Args:
            obj: An object read from JSON, which is not trusted.

        Raises:
            TableError: If `to_json` could not have returned it.
        """
        check_keys(obj, ("columns", "missing"), "the encoder")
        entries = obj["columns"]
        if not isinstance(entries, list) or not entries:
            raise TableError(f"the encoder must list its columns; got columns={quote(entries)}.")
        for number, entry in enumerate(entries, start=1):
            check_keys(entry, None, f"column {number} of the encoder")
        check_names([entry.get("name") for entry in entries], "the encoder")
        missing = check_texts(obj["missing"], "the missing texts of the encoder", MAX_TOKENS)
        columns = [_column_from_json(entry) for entry in entries]
        _check_some_help(columns)
        _check_num_features(columns)
        return cls(tuple(columns), missing)

    def _next_reading(self, column: Any, frame: Any) -> Reading:
        dayfirst, source = getattr(column, "dayfirst", None), file_of(frame)
        habits = Habits(self.missing, dayfirst, decimal_commas(frame), source=source)
        notation = getattr(column, "notation", PLAIN_NOTATION)
        series = select_column(frame, column.name)
        return next_reading(column.name, series, column.kind, notation, habits)

    def _check_columns(self, names: list[Any], allowed: Sequence[str]) -> None:
        """Raise if the table lacks a column of the encoder or has one that is not allowed."""
        check_names(names, "the table")
        expected = {column.name: column.kind != "ignored" for column in self.columns}
        known = {*expected, *allowed}
        extra = [name for name in names if name not in known and not UNNAMED.fullmatch(name)]
        present = set(names)
        absent = [name for name, is_needed in expected.items() if is_needed and name not in present]
        if absent:
            raise TableError(
                f"the table lacks {_with_nearest(absent, extra)}, which the training table had."
            )
        if extra:
            raise TableError(
                "the table must have no columns that the training table lacked; "
                f"got {listing(extra)}."
            )


def notes_of(tallies: Mapping[str, Sequence[Tally]]) -> tuple[str, ...]:
    """The remarks about the cells of columns, as sentences."""
    return tuple(
        f"column {quote(name)}: {tally}." for name, found in tallies.items() for tally in found
    )


def drop_columns(frame: Any, names: Sequence[str]) -> Any:
    """Return the table without the columns of these names.

    Raises:
        TableError: If the table lacks one of them; the message suggests the nearest.
    """
    for name in names:
        check_has_column(names_of(frame), name, "--drop")
    kept = [name for name in names_of(frame) if name not in set(names)]
    return frame.select(kept) if hasattr(frame, "select") else frame[kept]


def _learned(
    reading: Reading, outputs: np.ndarray | None, masks: set[bytes]
) -> tuple[Column, Block | None]:
    """A column of the training table and its features.

    Args:
        reading: The cells.
        outputs: The targets, for effects.
        masks: Where cells of earlier columns are missing, so that no indicator occurs twice.
    """
    num_rows = len(reading.cells)
    least = min(LEAST_ROWS, max(LEAST_OF_ALL, math.ceil(num_rows / LEAST_SHARE)))
    if reason := _why_ignored(reading):
        return IgnoredColumn(reading.name, reason), None
    if reading.kind == "text":
        column, effects = TextColumn.learn(reading, least, outputs)
        if reason := column.why_useless(least):
            return IgnoredColumn(reading.name, reason), None
        return column, column.encode(reading, "other", effects)
    column = VALUE_COLUMNS[reading.kind].learn(reading, least)
    if column.indicator:
        mask = np.packbits(reading.missing).tobytes()
        column = replace(column, indicator=mask not in masks)
        masks.add(mask)
    return column, column.encode(reading)


def _why_ignored(reading: Reading) -> str | None:
    """Why a column of the training table cannot help, or None if it may."""
    if reading.kind == "empty":
        return "is empty"
    if reading.kind == "text":
        return why_texts_cannot_help(reading)
    present = reading.values[~reading.missing]
    if present.min() == present.max() and len(present) > 1:
        value = quote(cells_of.texts(reading.cells.drop_null())[0].as_py())
        return f"is {value} in every row that has a value"
    if UNNAMED.fullmatch(reading.name) and np.all(np.diff(np.sort(present)) == 1):
        return "numbers the rows"
    return None


def _check_some_help(columns: Sequence[Column]) -> None:
    """Raise unless some column can be used; the message gives the reasons."""
    ignored = [column for column in columns if isinstance(column, IgnoredColumn)]
    if len(ignored) < len(columns):
        return
    reasons = [f"{quote(column.name)} {column.reason}" for column in ignored[:5]]
    raise TableError(
        f"no column of the table can help to predict: {join(reasons, len(columns) - 5)}."
    )


def _check_num_features(columns: Sequence[Column]) -> None:
    num = sum(len(column.feature_names) for column in columns)
    if num > MAX_FEATURES:
        raise TableError(f"the columns must make at most {MAX_FEATURES} features; got {num}.")


def _with_nearest(absent: list[str], others: list[str]) -> str:
    """The names, each with the most similar one of the others."""
    near = {name: nearest(name, others) for name in absent[:5]}
    words = [quote(n) + (f" (nearest: {quote(m)})" if m else "") for n, m in near.items()]
    return join(words, len(absent) - len(words))


def _column_from_json(entry: dict[str, Any]) -> Column:
    what = f"column {quote(entry['name'])} of the encoder"
    kind: Any = entry.get("kind")
    check_choice(kind, tuple(COLUMNS), f"the kind of {what}")
    words = entry.get("words")
    rest = {key: value for key, value in entry.items() if key != "words"}
    column = COLUMNS[kind].from_json(rest, what)
    if words != column.words:
        raise TableError(f"the words of {what} must describe it; got {quote(words)}.")
    return column
