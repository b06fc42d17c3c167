"""The encoder: the columns of a table as the features of a model.

A column of numbers is one feature, and so is a column of dates (days since 1970-01-01). A column of
text is one feature per category, of which at most one is 1. The model file stores as JSON what each
column was in training, and a new table must agree with it.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas

from bbalpha.tables import cells as cells_of
from bbalpha.tables.messages import (
    TableError,
    check_choice,
    check_has_column,
    check_keys,
    check_names,
    is_text,
    join,
    listing,
    nearest,
    option,
    quote,
)

KINDS = ("number", "date", "text")
COLUMN_KEYS = ("name", "kind", "categories", "fill")

MAX_CATEGORIES = 1000
MAX_NEW_CATEGORIES = 20  # allowed even if most rows bring a category of their own
MAX_FEATURES = 100_000


@dataclass(frozen=True)
class Column:
    """One column of the training table.

    Attributes:
        name: Its name in the header.
        kind: "number", "date" or "text".
        categories: The distinct texts of a text column, sorted; a last entry None stands for
            missing texts if the training table had any.
        fill: The replacement for a missing number or date (in days); None to refuse missing cells.
    """

    name: str
    kind: str
    categories: tuple[str | None, ...] = ()
    fill: float | None = None

    @property
    def feature_names(self) -> list[str]:
        """The name of each feature: the name of the column, or color=red for each category."""
        if self.kind != "text":
            return [self.name]
        return [f"{self.name}={'' if text is None else text}" for text in self.categories]


@dataclass(frozen=True)
class Encoder:
    """The columns that a model was fitted to, and how each becomes features.

    Attributes:
        columns: In the order of the training table.

    >>> import pandas
    >>> from bbalpha.tables import Encoder
    >>> frame = pandas.DataFrame({"size": ["1.5", "2"], "color": ["red", "blue"]})
    >>> encoder = Encoder.learn(frame)
    >>> encoder.feature_names
    ['size', 'color=blue', 'color=red']
    >>> encoder.encode(frame).tolist()
    [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0]]
    """

    columns: tuple[Column, ...]

    @classmethod
    def learn(
        cls, frame: pandas.DataFrame, *, text: Sequence[str] = (), impute: str | None = None
    ) -> "Encoder":
        """Return the encoder of a training table.

        A column holds numbers, or dates as in ISO 8601, if more than half of its present cells do;
        any other cell in it is then refused. Otherwise it holds text. Booleans are text.

        Args:
            frame: The input columns, as `read_table` returns them, without the target.
            text: Columns to treat as text, whatever they hold.
            impute: "median" to fill missing numbers and dates with the median of their column, here
                and in new tables; None to refuse them.

        Raises:
            TableError: If a column cannot be encoded.
        """
        check_choice(impute, (None, "median"), "impute")
        names = list(frame.columns)
        if not names:
            raise TableError("the table has no column besides the target.")
        check_names(names, "the table")
        for name in text:
            check_has_column(names, name, "--text")
        readings = [_Reading(name, frame[name], as_text=name in text) for name in names]
        _check_some_present(readings)
        if impute is None:
            _check_present([reading for reading in readings if reading.kind != "text"])
        columns = tuple(reading.column(impute=impute is not None) for reading in readings)
        _check_num_features(columns)
        return cls(columns)

    def encode(
        self, frame: pandas.DataFrame, *, unknown: str = "error", allowed: Sequence[str] = ()
    ) -> np.ndarray:
        """Return the features of a table, float64 of shape (rows, features).

        A row's features depend on that row alone; the order of the columns does not matter.

        Args:
            frame: A table with the columns of the training table.
            unknown: "error" to refuse a text that the training table did not have, "ignore" to
                encode it as zeros.
            allowed: Other columns that the table may have, such as the target.

        Raises:
            TableError: If the table lacks a column or has another one, or if a cell cannot be
                encoded.
        """
        check_choice(unknown, ("error", "ignore"), "unknown")
        self._check_columns(list(frame.columns), allowed)
        readings = [_Reading(c.name, frame[c.name], known=c) for c in self.columns]
        pairs = list(zip(readings, self.columns, strict=True))
        _check_present([r for r, c in pairs if c.kind != "text" and c.fill is None], known=True)
        blocks = [reading.features(column, unknown) for reading, column in pairs]
        return np.concatenate(blocks, axis=1)

    @property
    def feature_names(self) -> list[str]:
        """The name of each feature, in the order of `encode`."""
        return [name for column in self.columns for name in column.feature_names]

    def to_json(self) -> dict[str, Any]:
        """The encoder as an object for JSON."""
        return {
            "columns": [
                {"name": c.name, "kind": c.kind, "categories": list(c.categories), "fill": c.fill}
                for c in self.columns
            ]
        }

    @classmethod
    def from_json(cls, obj: Any) -> "Encoder":
        """Return the encoder that `to_json` described.

        Args:
            obj: An object read from JSON, which is not trusted.

        Raises:
            TableError: If `to_json` could not have returned it.
        """
        check_keys(obj, ("columns",), "the encoder")
        if not isinstance(obj["columns"], list) or not obj["columns"]:
            raise TableError(
                f"the encoder must list its columns; got columns={quote(obj['columns'])}."
            )
        for number, entry in enumerate(obj["columns"], start=1):
            check_keys(entry, COLUMN_KEYS, f"column {number} of the encoder")
        check_names([entry["name"] for entry in obj["columns"]], "the encoder")
        columns = tuple(_column_from_json(**entry) for entry in obj["columns"])
        _check_num_features(columns)
        return cls(columns)

    def _check_columns(self, names: list[Any], allowed: Sequence[str]) -> None:
        """Raise if the table lacks a column of the encoder or has one that is not allowed."""
        check_names(names, "the table")
        present, expected = set(names), {column.name for column in self.columns}
        extra = [name for name in names if name not in expected and name not in allowed]
        absent = [column.name for column in self.columns if column.name not in present]
        if absent:
            raise TableError(
                f"the table lacks {_with_nearest(absent, extra)}, which the training table had."
            )
        if extra:
            raise TableError(
                "the table must have no columns that the training table lacked; "
                f"got {listing(extra)}."
            )


class _Reading:
    """The cells of one column, and their values if they are numbers or dates."""

    def __init__(self, name, series, as_text=False, known=None):
        self.name, self.known = name, known
        self.cells = cells_of.column_cells(series)
        found = cells_of.kind_of(self.cells)
        if found is None:
            raise TableError(
                f"column {quote(name)} must hold numbers, dates or texts; "
                f"got {_type_name(self.cells, series)}{self._remedy('--drop')}."
            )
        self.missing = cells_of.is_missing(self.cells)
        self.kind = known.kind if known else "text" if as_text else found
        self.values: Any = self._checked_values()

    def column(self, impute):
        """The column as the training table defines it."""
        if self.kind == "text":
            return Column(self.name, "text", self._categories())
        return Column(self.name, self.kind, fill=self._median() if impute else None)

    def features(self, column, unknown):
        """The block of the matrix for this column."""
        if self.kind != "text":
            return np.where(self.missing, column.fill or 0.0, self.values)[:, None]
        codes = cells_of.codes(cells_of.texts(self.cells), column.categories)
        if unknown == "error" and (codes < 0).any():
            self._refuse_unseen(int((codes < 0).argmax()), column)
        block = np.zeros((len(codes), len(column.categories)))
        (rows,) = np.nonzero(codes >= 0)
        block[rows, codes[rows]] = 1.0
        return block

    def _checked_values(self):
        """The numbers or days, NaN where missing; any other cell is refused."""
        if self.kind == "text":
            return None
        values = {"number": cells_of.numbers, "date": cells_of.days}[self.kind](self.cells)
        bad = ~np.isfinite(values) & ~self.missing
        if bad.any():
            rule = {"number": "finite numbers", "date": "dates like 2024-12-31"}[self.kind]
            value = cells_of.texts(self.cells)[int(bad.argmax())].as_py()
            others = f", the first of {bad.sum()}" if bad.sum() > 1 else ""
            raise TableError(
                f"column {quote(self.name)} must hold {rule}; got {quote(value)} in row "
                f"{bad.argmax() + 1}{others}{self._remedy('--text', '--drop')}."
            )
        return values

    def _categories(self):
        texts = cells_of.texts(self.cells)
        categories = cells_of.distinct_texts(texts)
        remedy = f"; drop it with {option('--drop', self.name)}"
        consequence = "it cannot help to predict new rows"
        check_repeats(categories, len(texts), f"column {quote(self.name)}", consequence, remedy)
        return (*categories, None) if self.missing.any() else tuple(categories)

    def _median(self):
        # Halved first, so that the mean of two large numbers does not overflow.
        return 2 * float(np.median(self.values[~self.missing] / 2))

    def _remedy(self, *flags):
        """What to add to the command; for a fitted model, only the file can change."""
        if self.known:
            return " (correct it in the file)"
        effects = {"--text": "treats the column as text", "--drop": "leaves it out"}
        return " (" + ", ".join(f"{option(f, self.name)} {effects[f]}" for f in flags) + ")"

    def _refuse_unseen(self, row, column):
        value = cells_of.texts(self.cells)[row].as_py()
        found = "a missing value" if value is None else quote(value)
        known = [text for text in column.categories if text is not None]
        raise TableError(
            f"column {quote(self.name)} has {found} in row {row + 1}, but the training table had "
            f"only {listing(known)} (--unknown ignore treats it as none of them)."
        )


def drop_columns(frame: pandas.DataFrame, names: Sequence[str]) -> pandas.DataFrame:
    """Return the table without the columns of these names.

    Raises:
        TableError: If the table lacks one of them; the message suggests the nearest.
    """
    for name in names:
        check_has_column(list(frame.columns), name, "--drop")
    return frame.drop(columns=list(names))


def check_repeats(
    texts: Sequence[str], num_rows: int, what: str, consequence: str, remedy: str = ""
) -> None:
    """Raise if there are so many distinct texts that new rows will hardly repeat them.

    Args:
        texts: The distinct texts.
        num_rows: The rows of the table.
        what: The column that holds them, for the message.
        consequence: What follows if rows do not share their texts, for the message.
        remedy: What to do about it, for the message.
    """
    num = len(texts)
    if num > MAX_CATEGORIES:
        raise TableError(
            f"{what} has {num} different texts, more than the limit of {MAX_CATEGORIES}{remedy}."
        )
    if num > MAX_NEW_CATEGORIES and 2 * num > num_rows:
        found = f"{num} different texts in {num_rows} rows"
        found = "a different text in every row" if num == num_rows else found
        raise TableError(f"{what} has {found}, so {consequence}{remedy}.")


def _check_some_present(readings: Sequence[_Reading]) -> None:
    """Raise if all cells of a column are missing, naming every such column."""
    empty = [reading.name for reading in readings if reading.missing.all()]
    if empty:
        drops = " ".join(option("--drop", name) for name in empty)
        names = join([quote(name) for name in empty])
        if len(empty) == 1:
            raise TableError(f"column {names} is empty; drop it with {drops}.")
        raise TableError(f"columns {names} are empty; drop them with {drops}.")


def _check_present(readings: Sequence[_Reading], known: bool = False) -> None:
    """Raise if numbers or dates are missing, with the count for every column."""
    counts = [(r.name, int(r.missing.sum())) for r in readings if r.missing.any()]
    if not counts:
        return
    found = join([f"{count} in {quote(name)}" for name, count in counts])
    remedy = "a model fitted with --impute median" if known else "--impute median"
    raise TableError(
        f"numbers and dates must not be missing; got missing cells: {found} "
        f"({remedy} fills them with the median of their column)."
    )


def _check_num_features(columns: Sequence[Column]) -> None:
    num = sum(len(c.categories) if c.kind == "text" else 1 for c in columns)
    if num > MAX_FEATURES:
        raise TableError(f"the columns must make at most {MAX_FEATURES} features; got {num}.")


def _with_nearest(absent: list[str], others: list[str]) -> str:
    """The names, each with the most similar of the others."""
    near = {name: nearest(name, others) for name in absent[:5]}
    words = [quote(n) + (f" (nearest: {quote(m)})" if m else "") for n, m in near.items()]
    return join(words, len(absent) - len(words))


def _type_name(cells: Any, series: Any) -> str:
    return f"the type {series.dtype if cells is None else cells.type}"


def _column_from_json(name: str, kind: Any, categories: Any, fill: Any) -> Column:
    what = f"column {quote(name)} of the encoder"
    check_choice(kind, KINDS, f"the kind of {what}")
    if kind == "text":
        _check_categories(categories, what)
    elif categories != []:
        raise TableError(f"{what} must have no categories; got {quote(categories)}.")
    return Column(name, kind, tuple(categories), _checked_fill(fill, kind, what))


def _check_categories(categories: Any, what: str) -> None:
    if not isinstance(categories, list) or not 0 < len(categories) <= MAX_CATEGORIES + 1:
        raise TableError(
            f"{what} must list 1 to {MAX_CATEGORIES + 1} categories; got {quote(categories)}."
        )
    for text in categories:
        if text is not None and not is_text(text):
            raise TableError(f"{what} must have texts for categories; got {quote(text)}.")
    if len(set(categories)) < len(categories):
        raise TableError(f"{what} must have distinct categories; got {listing(categories)}.")


def _checked_fill(fill: Any, kind: str, what: str) -> float | None:
    if fill is None:
        return None
    if kind == "text" or isinstance(fill, bool) or not isinstance(fill, int | float):
        raise TableError(f"{what} must have a number to fill in, or none; got {quote(fill)}.")
    if not abs(fill) <= sys.float_info.max:  # refuses NaN, too
        raise TableError(f"{what} must have a finite number to fill in; got {quote(fill)}.")
    return float(fill)
