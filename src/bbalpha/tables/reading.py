"""Reading: what kind of values a column holds, and the values.

A column of text holds booleans if its texts are a pair such as yes and no; numbers or dates if more
than half of its present cells can be read as such; otherwise text. A cell of a column of numbers or
dates that cannot be read is refused, with its row and what to do about it.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

from bbalpha.files.wording import one_line
from bbalpha.tables import cells as cells_of
from bbalpha.tables.cells import BOOLEAN, NUMBER, TEXT, TIME, as_numpy, pc
from bbalpha.tables.dates import read_dates
from bbalpha.tables.messages import QUOTED_LENGTH, TableError, option, quote, remedies
from bbalpha.tables.numerals import (
    PLAIN_NOTATION,
    Notation,
    Numerals,
    plain_column,
    read_numerals,
)

FALSE = ("false", "no", "n", "f", "off", "0")
TRUE = ("true", "yes", "y", "t", "on", "1")
NUM_SAMPLED = 1000  # cells that show whether a column of text may hold values
HOPELESS = 0.1  # a column with fewer values than this fraction is text
MOST_SPELLINGS = 6  # of a pair, such as yes, Yes, YES, no, No and NO


@dataclass(frozen=True)
class Reading:
    """The cells of one column and their values.

    Attributes:
        name: The name of the column.
        kind: "number", "date", "boolean", "text" or "empty".
        cells: An arrow array of text, float64, boolean or timestamp.
        values: Numbers, days or 0 and 1 as float64, NaN if missing; None for text.
        notation: How numbers are written.
        dayfirst: Whether the day comes first in dates such as 03/04/2024, if there are any.
        unread: Cells of a boolean column that are neither true nor false, counted as missing.
    """

    name: str
    kind: str
    cells: Any
    values: Any = None
    notation: Notation = PLAIN_NOTATION
    dayfirst: bool | None = None
    unread: int = 0

    @property
    def missing(self) -> np.ndarray:
        """Whether each cell is missing."""
        return cells_of.is_missing(self.cells) if self.values is None else np.isnan(self.values)

    @property
    def mark(self) -> str | bool | None:
        """What all cells together decided: the decimal mark, or whether the day comes first."""
        if self.kind == "date":
            return self.dayfirst
        if self.kind != "number" or self.cells.type != TEXT:
            return None
        return self.notation.decimal


@dataclass(frozen=True)
class Habits:
    """How a file is written, as far as its cells do not show it.

    Attributes:
        missing: Texts that mark missing cells, in addition to the usual ones.
        dayfirst: Whether 03/04/2024 is the 3rd of April; None to decide by each column's values.
        decimal_commas: Whether commas may mark decimals, because they do not separate cells.
        role: The word for a column in messages: "column" or "target".
        source: The file, if there is one, for messages about a type.
    """

    missing: tuple[str, ...] = ()
    dayfirst: bool | None = None
    decimal_commas: bool = False
    role: str = "column"
    source: str = ""


def first_reading(name: str, column: Any, habits: Habits, as_text: bool = False) -> Reading:
    """Read a column of a training table.

    Args:
        name: The name of the column.
        column: An arrow array or a pandas series.
        habits: How the table is written.
        as_text: Whether to treat it as text, whatever it holds.

    Raises:
        TableError: If the type is unusable, or a cell does not suit the kind of the others.
    """
    if not as_text and (plain := _plain_numbers(name, column, None, habits)):
        return plain
    cells = typed_or_refused(name, column, habits, option("--drop", name, "leaves it out"))
    if cells.null_count == len(cells):
        return Reading(name, "empty", cells)
    if as_text:
        return Reading(name, "text", cells_of.texts(cells))
    if cells.type == BOOLEAN:
        return Reading(name, "boolean", cells, as_numpy(cells.cast(NUMBER)))
    if cells.type == NUMBER:
        return _numbers(name, cells, None, habits)
    if cells.type == TIME:
        return _dates(name, cells, habits)
    return _reading_of_text(name, cells, habits)


def next_reading(name: str, column: Any, kind: str, notation: Notation, habits: Habits) -> Reading:
    """Read a column of a new table as the kind that it had in training.

    Args:
        name: The name of the column.
        column: An arrow array or a pandas series.
        kind: The kind in training, or "class" for labels.
        notation: How numbers were written in training.
        habits: How the training table was written.

    Raises:
        TableError: If the type is unusable, or a cell does not suit the kind.
    """
    if kind == "number" and (plain := _plain_numbers(name, column, notation, habits)):
        return plain
    cells = typed_or_refused(name, column, habits)
    if kind in ("text", "class"):
        return Reading(name, kind, cells_of.texts(cells))
    if cells.type == TEXT:
        cells = cells_of.without_missing_values(cells)
    if kind == "boolean":
        return _booleans(name, cells)
    if kind == "number":
        return _numbers(name, cells, notation, habits)
    return _dates(name, cells, habits, known=True)


def typed_or_refused(name: str, column: Any, habits: Habits, remedy: str | None = None) -> Any:
    """The cells of a column in one of the four types."""
    try:
        cells = cells_of.typed_column(column, habits.missing)
    except UnicodeEncodeError as error:
        raise TableError(
            f"{habits.role} {quote(name)} must hold Unicode text; got {quote(error.object)}, half "
            f"of a pair of surrogates{remedies(remedy)}."
        ) from None
    if cells_of.is_typed(cells):
        return cells
    found = getattr(column, "dtype", None) if cells is None else cells.type
    place = f" of {habits.source}" if habits.source else ""
    raise TableError(
        f"{habits.role} {quote(name)}{place} must hold numbers, dates or texts; got the type "
        f"{one_line(found)}{remedies(remedy)}."
    )


def _plain_numbers(name, column, known, habits):
    """The reading of a column of text that holds only plain numbers and empty cells.

    The result is what the general rules would find, in a third of the time; None for any other
    column.
    """
    if habits.missing or not cells_of.is_text_of_arrow(column):
        return None
    cells = column.combine_chunks() if isinstance(column, pyarrow.ChunkedArray) else column
    cells = cells_of.without_empty(cells.cast(TEXT))
    values = plain_column(cells, known)
    if values is None or cells.null_count == len(cells):
        return None
    return _numbers(name, cells, known, habits, Numerals(values, known or PLAIN_NOTATION))


def _reading_of_text(name, cells, habits):
    """The reading of a column of text by the kind that most cells have."""
    values = cells_of.without_missing_values(cells)
    num_present = len(values) - values.null_count
    if _is_pair(values):
        return _booleans(name, values)
    if num_present and _may_hold_values(values, habits):
        numerals = _by_spelling(values, lambda v: read_numerals(v, None, habits.decimal_commas))
        if 2 * np.sum(~np.isnan(numerals.values)) > num_present:
            return _numbers(name, values, None, habits, numerals)
        dates = _by_spelling(values, lambda v: read_dates(v, habits.dayfirst))
        if 2 * np.sum(~np.isnan(dates.days)) > num_present:
            return _dates(name, values, habits, dates=dates)
    return Reading(name, "text", cells)


def _is_pair(cells):
    """Whether the texts are a pair such as yes and no."""
    few = pc.unique(cells.slice(0, NUM_SAMPLED))
    distinct = pc.unique(cells).drop_null() if len(few) <= MOST_SPELLINGS else few
    if len(distinct) > MOST_SPELLINGS:
        return False
    found = {text.lower() for text in distinct.to_pylist()}
    return any(found == set(pair) for pair in zip(FALSE[:-1], TRUE[:-1], strict=True))


def _may_hold_values(cells, habits):
    """Whether a sample of the column has numbers or dates, because the search is slow."""
    present = cells.drop_null()
    step = max(len(present) // NUM_SAMPLED, 1)
    sample = present.take(np.arange(0, len(present), step))
    is_number = ~np.isnan(read_numerals(sample, None, habits.decimal_commas).values)
    if is_number.mean() > HOPELESS:  # then dates, which are slower still, decide nothing here
        return True
    is_date = ~np.isnan(read_dates(sample, habits.dayfirst).days)
    return (is_number | is_date).mean() > HOPELESS


def _by_spelling(cells, read):
    """Read each distinct text once if texts repeat."""
    repeats = len(cells) > NUM_SAMPLED and cells.type == TEXT
    repeats = repeats and 2 * len(pc.unique(cells.slice(0, NUM_SAMPLED))) < NUM_SAMPLED
    encoded = cells.dictionary_encode() if repeats else None
    if encoded is None or 2 * len(encoded.dictionary) > len(cells):
        return read(cells)
    found = read(encoded.dictionary)
    rows = as_numpy(encoded.indices.fill_null(-1))
    values = np.append(found[0], np.nan)[rows]
    row = found.two_ways
    row = row if row is None else int((rows == row).argmax())
    return type(found)(values, found[1], row)


def _numbers(name, cells, known, habits, numerals=None):
    if cells.type == NUMBER:
        numerals = Numerals(as_numpy(cells), known or PLAIN_NOTATION)
    elif cells.type != TEXT:
        numerals = Numerals(np.full(len(cells), np.nan), known or PLAIN_NOTATION)
    elif numerals is None:
        numerals = _by_spelling(
            cells, lambda values: read_numerals(values, known, habits.decimal_commas)
        )
    if numerals.two_ways is not None:
        raise TableError(
            f"{habits.role} {quote(name)} has numbers that can be read in two ways, such as "
            f"{_shown(cells, numerals.two_ways)} (write them without separators of thousands)."
        )
    unit = f" in {numerals.notation.unit}" if numerals.notation.unit else ""
    is_read = np.isfinite(numerals.values)
    _check_read(name, cells, is_read, f"finite numbers{unit}", habits, bool(known))
    return Reading(name, "number", cells, numerals.values, numerals.notation)


def _dates(name, cells, habits, known=False, dates=None):
    if dates is None:
        dates = _by_spelling(cells, lambda values: read_dates(values, habits.dayfirst))
    if dates.two_ways is not None and habits.role != "target":  # a target of dates is refused
        remedy = remedies(
            option("--dayfirst", "", "reads the day first"),
            option("--monthfirst", "", "the month"),
        )
        raise TableError(
            f"{habits.role} {quote(name)} has dates that can be read in two ways, such as "
            f"{_shown(cells, dates.two_ways)}{remedy}."
        )
    rule = "dates like 2024-12-31"
    if dates.dayfirst is not None:
        rule = f"dates like {'31/12/2024' if dates.dayfirst else '12/31/2024'}"
    _check_read(name, cells, np.isfinite(dates.days), rule, habits, known)
    return Reading(name, "date", cells, dates.days, dayfirst=dates.dayfirst)


def _booleans(name, cells):
    """A column of booleans; other texts in a new table count as missing."""
    lower = pc.utf8_lower(cells_of.texts(cells))
    is_true, is_false = (
        pc.fill_null(pc.is_in(lower, value_set=pyarrow.array(words, TEXT)), False)
        for words in (TRUE, FALSE)
    )
    is_true, is_false = as_numpy(is_true), as_numpy(is_false)
    values = np.where(is_true, 1.0, np.where(is_false, 0.0, np.nan))
    unread = int(np.sum(np.isnan(values)) - cells.null_count)
    return Reading(name, "boolean", cells, values, unread=unread)


def _check_read(name, cells, is_read, rule, habits, known):
    """Raise if a cell is neither missing nor a value, with a remedy."""
    bad = ~is_read & ~cells_of.is_missing(cells)
    if not bad.any():
        return
    row, num = int(bad.argmax()), int(bad.sum())
    value = cells_of.texts(cells)[row].as_py()
    others = f", the first of {num}" if num > 1 else ""
    is_token = "," not in value and value.isprintable() and len(value) <= QUOTED_LENGTH
    advice = [option("--missing", value, "treats it as missing")] if is_token else []
    if habits.role == "target":
        advice.append("--task classification treats them as classes")
    else:
        advice.append(option("--text", name, "treats the column as text"))
        advice.append(option("--drop", name, "leaves it out"))
    if known:
        advice = ["correct it in the file"]
    raise TableError(
        f"{habits.role} {quote(name)} must hold {rule}; got {quote(value)} in row {row + 1}"
        f"{others}{remedies(*advice)}."
    )


def _shown(cells, row):
    return f"{quote(cells_of.texts(cells)[row].as_py())} in row {row + 1}"
