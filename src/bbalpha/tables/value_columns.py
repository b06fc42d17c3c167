"""Columns of values: numbers, dates and booleans as features.

A missing value is replaced by the median. If values were missing in training often enough to learn
from it, a feature of zeros and ones says where they are missing.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bbalpha.tables.blocks import Block, Tally
from bbalpha.tables.calendar import DAYS_PER_WEEK, DAYS_PER_YEAR, turns
from bbalpha.tables.messages import (
    TableError,
    check_choice,
    check_finite,
    check_keys,
    is_text,
    quote,
)
from bbalpha.tables.numerals import PLAIN_NOTATION, Notation
from bbalpha.tables.reading import Reading
from bbalpha.tables.tails import UNCHANGED, Tails

NUM_DATES = 20  # distinct days needed to add phases of the calendar
PARTS = ("year", "week", "day")  # periods whose phase may become features
LONGEST_UNIT = 10


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers: one feature, and another where numbers were missing.

    Attributes:
        name: Its name in the header.
        fill: The replacement for a missing number, the median.
        indicator: Whether a feature says that a number is missing.
        notation: The decimal mark, and the currency or percent sign.
        tails: How extreme numbers are pulled in.
    """

    name: str
    fill: float = 0.0
    indicator: bool = False
    notation: Notation = PLAIN_NOTATION
    tails: Tails = UNCHANGED
    kind = "number"

    @classmethod
    def learn(cls, reading: Reading, least: int) -> "NumberColumn":
        """Return the column of a training table; `least` missing cells make an indicator."""
        present = reading.values[~reading.missing]
        indicator = least <= reading.missing.sum() <= len(reading.values) - least
        fill = 2 * float(np.median(present / 2))  # halved, so that large numbers do not overflow
        return cls(reading.name, fill, bool(indicator), reading.notation, Tails.learn(present))

    def encode(self, reading: Reading) -> Block:
        """Return the features of cells that were read as numbers."""
        feature = self.tails.apply(np.where(reading.missing, self.fill, reading.values))
        return _with_indicator(self, [feature], reading, f"filled with the median {self.fill:g}")

    @property
    def feature_names(self) -> list[str]:
        """The name of the column, perhaps with "log", and the name of the indicator."""
        name = self.name if self.tails.log_from is None else f"log {self.name}"
        return [name, *_indicator_names(self)]

    @property
    def words(self) -> str:
        """The column in words."""
        unit = f" in {self.notation.unit}" if self.notation.unit else ""
        comma = " with decimal commas" if self.notation.decimal == "," else ""
        shape = f", {self.tails.words}" if self.tails.words else ""
        return f"number{unit}{comma}{shape}, {self.fill:g} if missing{_marked(self)}"

    def to_json(self) -> dict[str, Any]:
        """The column as an object for JSON."""
        tails = vars(self.tails)
        return _common_json(self) | {"notation": list(self.notation), "tails": dict(tails)}

    @classmethod
    def from_json(cls, entry: dict[str, Any], what: str) -> "NumberColumn":
        """Return the column that `to_json` described, if it could have."""
        check_keys(entry, ("name", "kind", "fill", "indicator", "notation", "tails"), what)
        notation = checked_notation(entry["notation"], what)
        tails = _tails(entry["tails"], what)
        return cls(entry["name"], *_common(entry, what), notation, tails)


@dataclass(frozen=True)
class DateColumn:
    """A column of dates: days, the phase of the year, of the week and of the day, and missing.

    Attributes:
        name: Its name in the header.
        fill: The replacement for a missing date in days, the median.
        indicator: Whether a feature says that a date is missing.
        dayfirst: Whether the day comes first in dates such as 03/04/2024, if there were any.
        parts: Periods whose phase is a pair of features, a sine and a cosine.
        tails: How extreme dates are pulled in.
    """

    name: str
    fill: float = 0.0
    indicator: bool = False
    dayfirst: bool | None = None
    parts: tuple[str, ...] = ()
    tails: Tails = UNCHANGED
    kind = "date"

    @classmethod
    def learn(cls, reading: Reading, least: int) -> "DateColumn":
        """Return the column of a training table; `least` missing cells make an indicator."""
        number = NumberColumn.learn(reading, least)
        present = reading.values[~reading.missing]
        tails = _without_logs(present)
        parts = tuple(part for part in PARTS if _varies(present, part))
        return cls(reading.name, number.fill, number.indicator, reading.dayfirst, parts, tails)

    def encode(self, reading: Reading) -> Block:
        """Return the features of cells that were read as dates."""
        filled = np.where(reading.missing, self.fill, reading.values)
        features = [self.tails.apply(filled)]
        for part in self.parts:
            phase = 2 * np.pi * turns(filled, part)
            features += [np.where(reading.missing, 0.0, f(phase)) for f in (np.sin, np.cos)]
        return _with_indicator(self, features, reading, f"filled with the median {self._date}")

    @property
    def feature_names(self) -> list[str]:
        """The name of the column, of each sine and cosine, and of the indicator."""
        parts = [f"{self.name} {f} of {part}" for part in self.parts for f in ("sine", "cosine")]
        return [self.name, *parts, *_indicator_names(self)]

    @property
    def words(self) -> str:
        """The column in words."""
        parts = f" with the phase of the {', the '.join(self.parts)}" if self.parts else ""
        return f"date{parts}, {self._date} if missing{_marked(self)}"

    @property
    def _date(self) -> str:
        """The median as a date, if it has one."""
        if abs(self.fill) > 3e6:  # the years 0 to 9999
            return f"{self.fill:g} days after 1970-01-01"
        return str(np.datetime64(int(self.fill // 1), "D"))

    def to_json(self) -> dict[str, Any]:
        """The column as an object for JSON."""
        own = {
            "dayfirst": self.dayfirst,
            "parts": list(self.parts),
            "tails": dict(vars(self.tails)),
        }
        return _common_json(self) | own

    @classmethod
    def from_json(cls, entry: dict[str, Any], what: str) -> "DateColumn":
        """Return the column that `to_json` described, if it could have."""
        keys = ("name", "kind", "fill", "indicator", "dayfirst", "parts", "tails")
        check_keys(entry, keys, what)
        parts = entry["parts"]
        if not isinstance(parts, list) or parts != [part for part in PARTS if part in parts]:
            raise TableError(f"{what} must have parts of {list(PARTS)}; got {quote(parts)}.")
        if entry["dayfirst"] is not None:
            _check_flag(entry["dayfirst"], f"dayfirst of {what}")
        common, tails = _common(entry, what), _tails(entry["tails"], what)
        return cls(entry["name"], *common, entry["dayfirst"], tuple(parts), tails)


@dataclass(frozen=True)
class BooleanColumn:
    """A column of true and false, yes and no, or the like: one feature of zeros and ones.

    Attributes:
        name: Its name in the header.
        fill: The replacement for a missing value, the more frequent one.
        indicator: Whether a feature says that a value is missing.
    """

    name: str
    fill: float = 0.0
    indicator: bool = False
    kind = "boolean"

    @classmethod
    def learn(cls, reading: Reading, least: int) -> "BooleanColumn":
        """Return the column of a training table; `least` missing cells make an indicator."""
        number = NumberColumn.learn(reading, least)
        return cls(reading.name, float(number.fill > 0.5), number.indicator)

    def encode(self, reading: Reading) -> Block:
        """Return the features of cells that were read as booleans."""
        feature = np.where(reading.missing, self.fill, reading.values)
        return _with_indicator(self, [feature], reading, f"counted as {bool(self.fill)}")

    @property
    def feature_names(self) -> list[str]:
        """The names of the column and of the indicator."""
        return [self.name, *_indicator_names(self)]

    @property
    def words(self) -> str:
        """The column in words."""
        return f"true or false, {bool(self.fill)} if missing{_marked(self)}"

    def to_json(self) -> dict[str, Any]:
        """The column as an object for JSON."""
        return _common_json(self)

    @classmethod
    def from_json(cls, entry: dict[str, Any], what: str) -> "BooleanColumn":
        """Return the column that `to_json` described, if it could have."""
        check_keys(entry, ("name", "kind", "fill", "indicator"), what)
        fill, indicator = _common(entry, what)
        check_choice(fill, (0.0, 1.0), f"the fill of {what}")
        return cls(entry["name"], fill, indicator)


def checked_notation(obj: Any, what: str) -> Notation:
    """Return the notation that a list read from JSON describes, if it does."""
    if not isinstance(obj, list) or len(obj) != 2:
        raise TableError(f"{what} must have a decimal mark and a unit; got {quote(obj)}.")
    check_choice(obj[0], (".", ","), f"the decimal mark of {what}")
    if not is_text(obj[1]) or not obj[1].isprintable() or len(obj[1]) > LONGEST_UNIT:
        raise TableError(f"the unit of {what} must be a short text; got {quote(obj[1])}.")
    return Notation(*obj)


def _with_indicator(column: Any, features: list[np.ndarray], reading: Reading, how: str) -> Block:
    """The features with the indicator, if there is one, or else a remark about missing cells."""
    missing = reading.missing
    if column.indicator:
        features = [*features, missing]
    tallies = []
    if missing.any() and not column.indicator:
        words = f"cells are missing, {how}"
        tallies.append(Tally("missing", int(missing.sum()), words, len(missing)))
    if reading.unread:
        tallies.append(Tally("unread", reading.unread, "of these are neither true nor false"))
    return Block(tuple(features), tallies=tuple(tallies))


def _indicator_names(column: Any) -> list[str]:
    return [f"{column.name} is missing"] if column.indicator else []


def _marked(column: Any) -> str:
    return ", with a feature that says so" if column.indicator else ""


def _without_logs(values: np.ndarray) -> Tails:
    """The tails of dates, without logarithms."""
    shift = float(np.median(values))
    tails = Tails.learn(values - shift)  # around zero, so that dates are not all positive
    return replace(tails, center=tails.center + shift)


def _varies(days: np.ndarray, part: str) -> bool:
    """Whether the dates show enough of a period to learn from its phase."""
    whole = np.unique(np.floor(days))
    if whole.size < NUM_DATES:
        return False
    if part == "year":
        return bool(whole[-1] - whole[0] >= DAYS_PER_YEAR)
    if part == "week":
        return np.unique(whole % DAYS_PER_WEEK).size == DAYS_PER_WEEK
    return np.unique(np.floor(days % 1 * 24)).size > 2


def _common_json(column: Any) -> dict[str, Any]:
    own = {"fill": column.fill, "indicator": column.indicator}
    return {"name": column.name, "kind": column.kind} | own


def _common(entry: dict[str, Any], what: str) -> tuple[float, bool]:
    _check_flag(entry["indicator"], f"the indicator of {what}")
    return check_finite(entry["fill"], f"the fill of {what}"), entry["indicator"]


def _check_flag(value: Any, what: str) -> None:
    if not isinstance(value, bool):
        raise TableError(f"{what} must be true or false; got {quote(value)}.")


def _tails(obj: Any, what: str) -> Tails:
    what = f"the tails of {what}"
    check_keys(obj, ("center", "width", "knee", "log_from"), what)
    center = check_finite(obj["center"], f"the center of {what}")
    width = _positive(obj["width"], f"the width of {what}")
    knee, log_from = (
        None if obj[name] is None else _positive(obj[name], f"{name} of {what}")
        for name in ("knee", "log_from")
    )
    return Tails(center, width, knee, log_from)


def _positive(value: Any, what: str) -> float:
    number = check_finite(value, what)
    if number <= 0:
        raise TableError(f"{what} must be positive; got {number}.")
    return number
