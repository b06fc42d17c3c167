"""Cells: the columns of a table as numbers, days and text.

A column arrives as a pandas series: text from a CSV file, typed values from a Parquet file. It is
first converted to one of three arrow types: text, float64 or timestamp. From there it is read as
the kind that the encoder asks for; a cell that cannot be read becomes NaN, for the caller to
report.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas
import pyarrow
import pyarrow.compute

pc: Any = pyarrow.compute  # makes its functions at run time, so a type checker sees none of them

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "null", "NULL", "None", "?", "-")

NUMBER = r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity))"
DECIMAL_COMMA = r"[+-]?[0-9]+,[0-9]+([eE][+-]?[0-9]+)?"
DECIMAL_POINT = r"[+-]?[0-9]*\.[0-9]+([eE][+-]?[0-9]+)?"
THOUSANDS = r"[+-]?[1-9][0-9]{0,2},[0-9]{3}"
WHOLE = r"[+-]?[0-9]+"
GROUPED = r"[+-]?[0-9]+([.,][0-9]+)*,[0-9]+([.,][0-9]+)*"  # looks like a number, but is none
DATE = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]+)?)? ?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?"
)

MICROSECONDS_PER_DAY = 86_400_000_000


def column_cells(column: pandas.Series) -> Any:
    """The cells of a column as an arrow array of text, float64 or timestamp, null if missing.

    Booleans become the texts True and False, as pandas writes them to CSV. A column of any other
    type (lists, durations, a mixture) is returned as it is, or as None if arrow has no type for it;
    `kind_of` then returns None.
    """
    try:
        cells = pyarrow.array(column, from_pandas=True)
        whole = isinstance(cells, pyarrow.Array)
        return typed_cells(cells if whole else cells.combine_chunks())
    except (pyarrow.ArrowException, OverflowError):
        return None


def typed_cells(cells: Any) -> Any:
    """An arrow array converted to text, float64 or timestamp; other types stay as they are."""
    types, kind = pyarrow.types, cells.type
    if types.is_dictionary(kind):
        return typed_cells(cells.cast(kind.value_type))
    if types.is_boolean(kind):
        return pc.if_else(cells, "True", "False").cast(pyarrow.large_string())
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _trimmed(cells.cast(pyarrow.large_string()))
    if types.is_null(kind):
        return cells.cast(pyarrow.large_string())
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return cells.cast(pyarrow.float64(), safe=False)
    if types.is_date(kind) or types.is_timestamp(kind):
        return cells.cast(pyarrow.timestamp("us"), safe=False)  # times with a zone are in UTC
    return cells


def with_decimal_points(cells: Any) -> Any:
    """Text cells with decimal commas turned into points, unless the commas are ambiguous.

    A column is left alone if it has both commas and points, or both whole numbers and commas that
    could all separate thousands: 1,234 may then mean 1234 rather than 1.234.
    """
    commas = _matches(cells, DECIMAL_COMMA)
    thousands = pc.all(pc.invert(pc.and_not(commas, _matches(cells, THOUSANDS)))).as_py()
    mixed = _any(_matches(cells, DECIMAL_POINT)) or (thousands and _any(_matches(cells, WHOLE)))
    if mixed or not _any(commas):
        return cells
    return pc.if_else(commas, pc.replace_substring(cells, ",", "."), cells)


def kind_of(cells: Any) -> str | None:
    """The kind of most present cells: "number", "date" or "text"; None for other types."""
    if cells is None:
        return None
    if not pyarrow.types.is_large_string(cells.type):
        kinds = {pyarrow.float64(): "number", pyarrow.timestamp("us"): "date"}
        return kinds.get(cells.type)
    num_present = len(cells) - cells.null_count
    for kind, pattern in (("number", f"{NUMBER}|{GROUPED}"), ("date", DATE)):
        if 2 * (pc.sum(_matches(cells, pattern)).as_py() or 0) > num_present:
            return kind
    return "text"


def numbers(cells: Any) -> np.ndarray:
    """The cells as float64, possibly infinite; NaN if a cell is missing or not a number."""
    if cells.type == pyarrow.float64():
        return _as_numpy(cells)
    if not pyarrow.types.is_large_string(cells.type):
        return np.full(len(cells), np.nan)
    nothing = pyarrow.scalar(None, cells.type)
    parsed = pc.if_else(_matches(cells, NUMBER), cells, nothing).cast(pyarrow.float64())
    return _as_numpy(parsed)


def days(cells: Any) -> np.ndarray:
    """The cells as days since 1970-01-01 UTC; NaN if a cell is missing or not a date.

    A time without an offset counts as UTC.
    """
    if cells.type == pyarrow.float64():
        return np.full(len(cells), np.nan)
    if pyarrow.types.is_large_string(cells.type):
        nothing = pyarrow.scalar(None, cells.type)
        dates = pc.if_else(_matches(cells, DATE), cells, nothing)
        # With nine decimals pandas would count in nanoseconds, which span only six centuries.
        dates = pc.replace_substring_regex(dates, r"(\.[0-9]{6})[0-9]+", r"\1")
        times = pandas.to_datetime(
            dates.to_pandas(), format="ISO8601", utc=True, errors="coerce"
        ).dt.tz_localize(None)
    else:
        times = cells.to_pandas()
    times = times.to_numpy("datetime64[us]")
    return np.where(np.isnat(times), np.nan, times.astype(np.int64) / MICROSECONDS_PER_DAY)


def texts(cells: Any) -> Any:
    """The cells as text; numbers and dates from Parquet are spelled as they would be in CSV."""
    if pyarrow.types.is_large_string(cells.type):
        return cells
    distinct = pc.unique(cells.drop_null())
    if cells.type == pyarrow.float64():
        spelled = [number_text(value) for value in distinct.to_pylist()]
    else:
        spelled = [_date_text(value) for value in distinct.to_pylist()]
    where = pc.index_in(cells, value_set=distinct)
    return pyarrow.array(spelled, pyarrow.large_string()).take(where)


def distinct_texts(cells: Any) -> list[str]:
    """The distinct texts, sorted; missing cells are left out."""
    return sorted(pc.unique(cells.drop_null()).to_pylist())


def codes(cells: Any, categories: Sequence[Any]) -> np.ndarray:
    """The index of each cell in `categories`, −1 if it is not there; None stands for missing."""
    where = pc.index_in(cells, value_set=pyarrow.array(categories, cells.type))
    return _as_numpy(pc.fill_null(where, -1))


def is_missing(cells: Any) -> np.ndarray:
    """Whether each cell is missing."""
    return _as_numpy(cells.is_null())


def number_text(value: float) -> str:
    """The number as it would be typed: 3 rather than 3.0."""
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _date_text(value: Any) -> str:
    return value.isoformat(sep=" ").removesuffix(" 00:00:00")


def _trimmed(cells):
    """Texts without surrounding white space; null where one of them marks a missing value."""
    cells = pc.utf8_trim_whitespace(cells)
    missing = pc.is_in(cells, value_set=pyarrow.array(MISSING, cells.type))
    return pc.if_else(missing, pyarrow.scalar(None, cells.type), cells)


def _matches(cells, pattern):
    """Whether the pattern matches each cell as a whole; a missing cell does not match."""
    return pc.fill_null(pc.match_substring_regex(cells, rf"\A(?:{pattern})\z"), False)


def _any(mask):
    return bool(pc.any(mask).as_py())


def _as_numpy(cells):
    """A writable numpy array, whether the cells are in one chunk or several."""
    return np.array(cells.to_numpy(zero_copy_only=False))
