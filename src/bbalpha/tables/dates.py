"""Dates: texts and timestamps as days since 1970-01-01.

Known forms are 2024-12-31, 31/12/2024, 12/31/2024, 31.12.2024, 31 Dec 2024 and December 31, 2024,
each with or without a time and an offset; a time without an offset counts as UTC. Whether the day
or the month comes first in 03/04/2024 is decided for the whole column, from unambiguous cells.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow

from bbalpha.tables.cells import (
    MICROSECONDS_PER_DAY,
    TEXT,
    TIME,
    as_numpy,
    only,
    pc,
)

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
MONTH_NAMES = (
    "jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|"
    "sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?"
)
WEEKDAY = r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? )?"
TIME_OF_DAY = (
    r"(?:(?:T|,? )(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})(?::(?P<second>[0-9]{2}(?:\.[0-9]+)?))?"
    r" ?(?P<half>(?:[ap]\.?m\.?)?) ?(?P<zone>(?:Z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?)?))?"
)
FORMS = (
    r"(?P<year>[0-9]{4})[-/.](?P<month>[0-9]{1,2})[-/.](?P<day>[0-9]{1,2})",
    r"(?P<first>[0-9]{1,2})(?:[/-](?P<later>[0-9]{1,2})[/-]|\.(?P<dotted>[0-9]{1,2})\.)"
    r"(?P<year>[0-9]{4}|[0-9]{2})",
    rf"{WEEKDAY}(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?\.?[- /]?(?P<name>{MONTH_NAMES})\.?,?[- /]?"
    r"(?P<year>[0-9]{4}|[0-9]{2})",
    rf"{WEEKDAY}(?P<name>{MONTH_NAMES})\.? (?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?,? "
    r"(?P<year>[0-9]{4})",
    r"(?P<year>[0-9]{4})-(?P<month>[0-9]{2})",
    rf"(?P<name>{MONTH_NAMES})\.?,? (?P<year>[0-9]{{4}})",
)
YEAR = "[0-9]{2}"  # occurs in every date, and is quick to search for
FIRST_OF_CENTURY = 69  # two-digit years from 69 on are in the 20th century, as in POSIX
MONTHS_PER_YEAR = 12
NOON = 12


class Dates(NamedTuple):
    """The dates of a column.

    Attributes:
        days: Days since 1970-01-01 UTC; NaN if a cell is missing or not a date.
        dayfirst: Whether the day comes first in 03/04/2024; None if no cell is of this form.
        two_ways: A row with an ambiguous date that no other cell resolves, or None.
    """

    days: np.ndarray
    dayfirst: bool | None = None
    two_ways: int | None = None


def read_dates(cells: Any, dayfirst: bool | None = None) -> Dates:
    """Read a column as dates.

    Args:
        cells: An arrow array of text or timestamps.
        dayfirst: Whether 03/04/2024 is the 3rd of April; None to decide by the column's values.
    """
    if cells.type == TIME:
        return Dates(_days_of_times(cells))
    if cells.type != TEXT:
        return Dates(np.full(len(cells), np.nan))
    cells = only(cells, pc.match_substring_regex(cells, YEAR))
    days, order, two_ways = np.full(len(cells), np.nan), None, None
    for form in FORMS:
        if cells.null_count == len(cells):
            break
        found = pc.extract_regex(cells, rf"\A(?i:{form}{TIME_OF_DAY})\z")
        matched = as_numpy(pc.is_valid(found))
        if not matched.any():
            continue
        parts = {f.name: pc.struct_field(found, f.name) for f in found.type}
        if "first" in parts:
            order, two_ways = _order(parts, dayfirst)
        days = np.where(matched, _days(parts, order), days)
        cells = only(cells, pyarrow.array(~matched))
    return Dates(days, order, two_ways)


def _days_of_times(cells):
    times = as_numpy(cells.cast(pyarrow.int64()).fill_null(0))
    return np.where(as_numpy(cells.is_null()), np.nan, times / MICROSECONDS_PER_DAY)


def _order(parts, dayfirst):
    """Whether the day comes first, and an ambiguous row if that remains undecided."""
    first, second = _whole(parts["first"]), _whole(parts["later"], parts["dotted"])
    if dayfirst is not None:
        return dayfirst, None
    num_day, num_month = np.sum(first > MONTHS_PER_YEAR), np.sum(second > MONTHS_PER_YEAR)
    if num_day or num_month:
        return bool(num_day >= num_month), None
    if as_numpy(pc.fill_null(pc.not_equal(parts["dotted"], ""), False)).any():
        return True, None  # countries that write dates with points put the day first
    differs = (first != second) & ~np.isnan(first)
    return True, int(differs.argmax()) if differs.any() else None


def _days(parts, dayfirst):
    """Days since 1970; NaN for a day that does not exist in the calendar."""
    year = _whole(parts["year"])
    short = as_numpy(pc.equal(pc.utf8_length(parts["year"]), 2).fill_null(False))
    year = year + short * np.where(year < FIRST_OF_CENTURY, 2000, 1900)
    if "first" in parts:
        first, second = _whole(parts["first"]), _whole(parts["later"], parts["dotted"])
        day, month = (first, second) if dayfirst else (second, first)
    else:
        day = _whole(parts["day"]) if "day" in parts else np.ones(len(year))
        month = _whole(parts["month"]) if "month" in parts else _months(parts["name"])
    exists = (month >= 1) & (month <= MONTHS_PER_YEAR) & (day >= 1) & (year >= 1)
    months = np.where(exists, (year - 1970) * MONTHS_PER_YEAR + month - 1, 0).astype(np.int64)
    starts = months.astype("datetime64[M]")
    dates = starts.astype("datetime64[D]") + np.where(exists, day - 1, 0).astype(np.int64)
    exists &= dates.astype("datetime64[M]") == starts
    return np.where(exists, dates.astype(np.int64) + _fractions(parts), np.nan)


def _months(names):
    short = pc.utf8_lower(pc.utf8_slice_codeunits(names, 0, 3))
    where = pc.index_in(short, value_set=pyarrow.array(MONTHS, short.type))
    return as_numpy(where.cast(pyarrow.float64())) + 1


def _fractions(parts):
    """The time of day as a fraction of a day in UTC; NaN for an impossible time."""
    hour, minute, second = (_whole(parts[name], "0") for name in ("hour", "minute", "second"))
    half = pc.utf8_lower(pc.utf8_slice_codeunits(parts["half"], 0, 1))
    in_halves = as_numpy(pc.fill_null(pc.not_equal(half, ""), False))
    after_noon = as_numpy(pc.fill_null(pc.equal(half, "p"), False))
    exists = (hour < 24) & (minute < 60) & (second < 61)
    exists &= ~in_halves | ((hour >= 1) & (hour <= NOON))
    hour = np.where(in_halves, hour % NOON + NOON * after_noon, hour)
    seconds = hour * 3600 + minute * 60 + second - _offsets(parts["zone"])
    return np.where(exists, seconds / 86_400, np.nan)


def _offsets(zones):
    """The seconds by which a clock is ahead of UTC."""
    digits = pc.replace_substring_regex(zones, "[^0-9]", "")
    hours = _whole(pc.utf8_slice_codeunits(digits, 0, 2), "0")
    minutes = _whole(pc.utf8_slice_codeunits(digits, 2, 4), "0")
    behind = as_numpy(pc.fill_null(pc.starts_with(zones, "-"), False))
    return np.where(behind, -1, 1) * (hours * 3600 + minutes * 60)


def _whole(digits, instead=None):
    """Digits as numbers; NaN if missing; an empty text becomes `instead`."""
    if instead is not None:
        digits = pc.if_else(pc.equal(digits, ""), instead, digits)
    return as_numpy(digits.cast(pyarrow.float64()))
