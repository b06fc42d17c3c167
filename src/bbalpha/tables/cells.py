"""Cells: the columns of a table as arrow arrays of four types, and their values.

A column arrives as an arrow array (from a file) or as a pandas series. It is converted to text,
float64, boolean or timestamp, with nulls for missing cells. `numerals` and `dates` read the texts.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute

pc: Any = pyarrow.compute  # its functions are created at run time, invisible to type checkers

TEXT = pyarrow.large_string()
NUMBER = pyarrow.float64()
BOOLEAN = pyarrow.bool_()
TIME = pyarrow.timestamp("us")

# Always missing, whatever the column holds.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?", "-")
# Missing among numbers, dates and booleans; in a column of text, each may be a category.
MISSING_VALUES = (
    *(".", "..", "...", "--", "---", "*", "\\N", "#", "#DIV/0!", "#VALUE!", "#REF!", "#NUM!"),
    *("na", "Na", "n.a.", "N.A.", "NaT", "Null", "(null)", "nil", "none", "NONE", "missing"),
    *("Missing", "MISSING", "unknown", "Unknown", "UNKNOWN", "not available", "n/d", "N/D"),
    *("–", "—"),
)  # fmt: skip

MICROSECONDS_PER_DAY = 86_400_000_000


def typed_column(column: Any, missing: Sequence[str] = ()) -> Any:
    """The cells of a column as one arrow array of text, float64, boolean or timestamp.

    A missing cell is null. A column of any other type (lists, durations, a mixture) is returned
    unchanged, or as None if arrow has no type for it.

    Args:
        column: An arrow array, in chunks or not, or a pandas series.
        missing: Texts, or numbers as text, that also mark missing cells.
    """
    try:
        if not isinstance(column, pyarrow.Array | pyarrow.ChunkedArray):
            column = _from_pandas(column)
        if isinstance(column, pyarrow.ChunkedArray):
            column = column.combine_chunks()
        return _without(_typed(column), missing)
    except (pyarrow.ArrowException, OverflowError):
        return None


def _from_pandas(column: Any) -> Any:
    """A pandas series as an arrow array; a mixture of texts and numbers becomes text."""
    try:
        return pyarrow.array(column, from_pandas=True)
    except pyarrow.ArrowException:
        present = column.dropna()
        if not all(
            isinstance(value, str | int | float | np.integer | np.floating) for value in present
        ):
            raise
        return pyarrow.array(
            column.where(column.isna(), column.astype(str)), TEXT, from_pandas=True
        )


def _typed(cells: Any) -> Any:
    types, kind = pyarrow.types, cells.type
    if types.is_dictionary(kind):
        return _typed(cells.cast(kind.value_type))
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _trimmed(cells.cast(TEXT))
    if types.is_null(kind):
        return cells.cast(TEXT)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        cells = cells.cast(NUMBER, safe=False)
        return pc.if_else(pc.is_nan(cells), pyarrow.scalar(None, NUMBER), cells)
    if types.is_date(kind) or types.is_timestamp(kind):
        return cells.cast(TIME, safe=False)  # times with a zone are in UTC
    if types.is_duration(kind):
        length = cells.cast(pyarrow.duration("us"), safe=False).cast(pyarrow.int64())
        return pc.divide(length.cast(NUMBER, safe=False), float(MICROSECONDS_PER_DAY))
    return cells


def is_typed(cells: Any) -> bool:
    """Whether a column has one of the four types."""
    return cells is not None and cells.type in (TEXT, NUMBER, BOOLEAN, TIME)


def texts(cells: Any) -> Any:
    """The cells as text; typed values are written as in a CSV file."""
    if cells.type == TEXT:
        return cells
    distinct = pc.unique(cells.drop_null())
    if cells.type == TIME:
        spelled = [_date_text(value) for value in np.datetime_as_string(as_numpy(distinct))]
    else:
        spell = {NUMBER: number_text, BOOLEAN: str}[cells.type]
        spelled = [spell(value) for value in distinct.to_pylist()]
    return pyarrow.array(spelled, TEXT).take(pc.index_in(cells, value_set=distinct))


def codes(cells: Any, values: Sequence[Any]) -> np.ndarray:
    """The index of each cell in `values`, or −1 if it is not there; None stands for missing."""
    where = pc.index_in(cells, value_set=pyarrow.array(values, cells.type))
    return as_numpy(pc.fill_null(where, -1))


def counts(cells: Any) -> dict[str | None, int]:
    """How often each distinct cell occurs; None is missing."""
    found = pc.value_counts(cells)
    pairs = zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True)
    return dict(pairs)


def is_missing(cells: Any) -> np.ndarray:
    """Whether each cell is missing."""
    return as_numpy(cells.is_null())


def matches(cells: Any, pattern: str) -> Any:
    """Whether the pattern matches each cell as a whole; a missing cell does not match."""
    return pc.fill_null(pc.match_substring_regex(cells, rf"\A(?:{pattern})\z"), False)


def only(cells: Any, mask: Any) -> Any:
    """The cells where the mask is true, and null elsewhere."""
    return pc.if_else(mask, cells, pyarrow.scalar(None, cells.type))


def is_text_of_arrow(column: Any) -> bool:
    """Whether a column is an arrow array of text, in chunks or not."""
    types, is_arrow = pyarrow.types, isinstance(column, pyarrow.Array | pyarrow.ChunkedArray)
    return is_arrow and (types.is_string(column.type) or types.is_large_string(column.type))


def without_empty(cells: Any) -> Any:
    """The texts, with null for those without a letter."""
    is_empty = pc.equal(pc.binary_length(cells), 0)
    return only(cells, pc.invert(is_empty)) if pc.any(is_empty).as_py() else cells


def without_missing_values(cells: Any) -> Any:
    """The texts of a column of values, with null for those that mark a missing value."""
    return _without(cells, MISSING_VALUES)


def as_numpy(cells: Any) -> np.ndarray:
    """A writable numpy array."""
    return np.array(cells.to_numpy(zero_copy_only=False))


def number_text(value: float) -> str:
    """The number as people type it: 3 rather than 3.0."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _date_text(value: str) -> str:
    """A time of any year as numpy writes it, without the parts that are zero."""
    return value.replace("T", " ").removesuffix(".000000").removesuffix(" 00:00:00")


def _trimmed(cells):
    """Texts without surrounding white space; null where one of them marks a missing value."""
    return _without(pc.utf8_trim_whitespace(cells), MISSING)


def _without(cells, tokens):
    """The cells, with null for those that are one of the tokens."""
    if not tokens or not is_typed(cells) or cells.type == TIME:
        return cells
    if cells.type == BOOLEAN:
        return typed_again(_without(texts(cells), tokens))
    if cells.type == TEXT:
        values = pyarrow.array(tokens, TEXT)
    else:
        values = pyarrow.array([float(token) for token in tokens if _is_number(token)], NUMBER)
    return only(cells, pc.invert(pc.is_in(cells, value_set=values)))


def typed_again(cells: Any) -> Any:
    """Booleans that were spelled as text."""
    return only(pc.equal(cells, "True"), pc.is_valid(cells))


def _is_number(token):
    try:
        return float(token) == float(token)
    except ValueError:
        return False
