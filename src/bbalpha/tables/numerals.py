"""Numerals: texts as numbers, with currency signs, percent signs and thousands separators.

$3,750 is 3750, 17% is 17, (1,200) is −1200, and 1.234,50 € is 1234.5. Whether a comma or a point
marks the decimals is decided for a whole column, from cells that allow only one reading.
"""

from typing import Any, NamedTuple

import numpy as np
import pyarrow

from bbalpha.tables import cells as cells_of
from bbalpha.tables.cells import as_numpy, matches, only, pc

PLAIN = r"[+-]?(([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|(?i:inf|infinity))"

SYMBOLS = r"US\$|A\$|C\$|R\$|[$€£¥₹₩₽₺₴₪₫฿]|kr\.?|zł|Fr\.?"
CODES = (
    "USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|INR|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY|SGD|HKD"
)
SPACES = "  \u2009\u202f"  # blank, no-break, thin and narrow no-break space
NUMERAL = (
    rf"(?P<open>\(?)(?P<sign>[+−-]?)[{SPACES}]?(?P<before>(?:{SYMBOLS}|{CODES})?)[{SPACES}]?"
    rf"(?P<sign_after>[+−-]?)(?P<core>[0-9][0-9.,'’{SPACES}]*[0-9.,]|[0-9]|[.,][0-9]+)"
    rf"(?P<power>(?:[eE][+-]?[0-9]+)?)[{SPACES}]?(?P<after>(?:%|{SYMBOLS}|{CODES})?)(?P<close>\)?)"
)
GROUP_MARKS = rf"[{SPACES}'’]"
SPACED = rf"[0-9]{{1,3}}({GROUP_MARKS}[0-9]{{3}})*([.,][0-9]*)?|[0-9]*[.,]?[0-9]*"

WHOLE = r"[0-9]+"
# For each decimal mark: which texts are numbers, which prove the mark, which both marks allow.
VALID = {
    ".": r"([0-9]{1,3}(,[0-9]{3})+|[0-9]*)(\.[0-9]*)?",
    ",": r"([0-9]{1,3}(\.[0-9]{3})+|[0-9]*)(,[0-9]*)?",
}
EITHER = {".": r"[1-9][0-9]{0,2}\.[0-9]{3}", ",": r"[1-9][0-9]{0,2},[0-9]{3}"}
OTHER = {".": ",", ",": "."}


class Notation(NamedTuple):
    """How the numbers of a column are written.

    Attributes:
        decimal: The decimal mark, a point or a comma.
        unit: The currency or percent sign next to the numbers; "" if there is none.
    """

    decimal: str = "."
    unit: str = ""


PLAIN_NOTATION = Notation()


class Numerals(NamedTuple):
    """The numbers in a column of text.

    Attributes:
        values: The numbers, possibly infinite; NaN if a cell is missing or not a number.
        notation: How they are written.
        two_ways: A row with an ambiguous number that no other cell resolves, or None.
    """

    values: np.ndarray
    notation: Notation
    two_ways: int | None = None


def read_numerals(
    cells: Any, known: Notation | None = None, decimal_commas: bool = False
) -> Numerals:
    """Read a column of text as numbers.

    Args:
        cells: An arrow array of text.
        known: The notation of the training table, which decides unless cells prove another.
        decimal_commas: Whether 1,234 may have decimals, because the file does not separate its
            cells by commas; otherwise it is 1234.
    """
    fast = plain_column(cells, known)
    if fast is not None:
        return Numerals(fast, known or PLAIN_NOTATION)
    plain = matches(cells, PLAIN)
    parts = _parts(only(cells, pc.invert(plain)))
    unit = known.unit if known else _most_frequent(parts["unit"])
    marked = pc.coalesce(parts["core"], only(cells, plain))
    decimal, is_open = _decimal_mark(marked, unit, known, decimal_commas)
    if decimal == ",":  # 1.234 looks plain, but its point separates thousands
        plain = pc.and_not(plain, matches(cells, rf"[+-]?{EITHER['.']}"))
        parts = _parts(only(cells, pc.invert(plain)))
    values = _values(parts, Notation(decimal, unit))
    plainly = as_numpy(only(cells, plain).cast(cells_of.NUMBER))
    values = np.where(np.isnan(values), plainly, values)
    unclear = as_numpy(matches(marked, "|".join(EITHER.values())))
    return Numerals(values, Notation(decimal, unit), int(unclear.argmax()) if is_open else None)


def _parts(cells):
    """The parts of the cells that look like numerals; null for all others."""
    found = pc.extract_regex(cells, rf"\A{NUMERAL}\z")
    part = {field.name: pc.struct_field(found, field.name) for field in found.type}
    core = only(part["core"], matches(part["core"], rf"{SPACED}|[0-9.,]+"))
    part["core"] = pc.replace_substring_regex(core, GROUP_MARKS, "")
    part["unit"] = _joined(part["before"], part["after"])
    part["signs"] = _joined(part["sign"], part["sign_after"])
    return part


def _values(part, notation):
    """The numbers, NaN where a part breaks a rule."""
    core, signs = part["core"], part["signs"]
    has_unit = pc.is_in(part["unit"], value_set=_texts(notation.unit, ""))
    has_unit = pc.and_(has_unit, pc.or_(*(pc.equal(part[end], "") for end in ("before", "after"))))
    is_negative = pc.or_(pc.is_in(signs, value_set=_texts("-", "−")), pc.equal(part["open"], "("))
    closes = pc.equal(pc.equal(part["open"], "("), pc.equal(part["close"], ")"))
    good = pc.and_(pc.and_(closes, has_unit), pc.less(pc.utf8_length(signs), 2))
    core = only(core, pc.and_(good, matches(core, VALID[notation.decimal])))
    core = pc.replace_substring(core, OTHER[notation.decimal], "")
    core = pc.replace_substring(core, ",", ".")
    core = only(core, matches(core, r"[0-9]+\.?[0-9]*|\.[0-9]+"))
    values = as_numpy(_joined(core, part["power"]).cast(cells_of.NUMBER))
    return np.where(as_numpy(pc.fill_null(is_negative, False)), -values, values)


def plain_column(cells: Any, known: Notation | None = None) -> np.ndarray | None:
    """The numbers of a column that has only plain numbers; None for any other column.

    If the training table had decimal commas, a number with a point is not plain.
    """
    has_commas = known is not None and known.decimal == ","
    if has_commas and pc.any(pc.match_substring(cells, ".")).as_py():
        return None
    try:
        values = as_numpy(cells.cast(cells_of.NUMBER))
    except pyarrow.ArrowInvalid:
        return None
    is_read = ~np.isnan(values) | cells_of.is_missing(cells)
    return values if is_read.all() else None


def _most_frequent(units):
    found = {unit: n for unit, n in cells_of.counts(units).items() if unit}
    return max(found, key=lambda unit: (found[unit], unit)) if found else ""


def _decimal_mark(core, unit, known, decimal_commas):
    """The decimal mark of a column, and whether it remains undecided."""
    core = pc.replace_substring_regex(core, r"^[+-]|[eE].*$", "")
    either = {mark: matches(core, EITHER[mark]) for mark in ".,"}
    num_whole = _num(matches(core, WHOLE))
    unclear = pc.or_(*either.values())
    proofs = {m: _num(pc.and_not(matches(core, VALID[m]), unclear)) - num_whole for m in ".,"}
    if max(proofs.values()) > 0:
        return max(proofs, key=lambda mark: proofs[mark]), False
    points, commas = _num(either["."]), _num(either[","])
    is_money = unit not in ("", "%")
    if known:
        return known.decimal, False
    if points:
        return ".", bool(commas) or is_money
    if commas and decimal_commas and not is_money:
        return ",", num_whole > 0
    return ".", False


def _num(mask):
    return int(pc.sum(mask).as_py() or 0)


def _texts(*values):
    return pyarrow.array(values, cells_of.TEXT)


def _joined(start, end):
    return pc.binary_join_element_wise(start, end, pyarrow.scalar("", cells_of.TEXT))
