"""The error that an invalid table raises, and the wording that its messages share.

Messages show values from files with `quote`, which keeps them short, on one line and free of
control characters, whoever wrote the file.
"""

import difflib
import re
import reprlib
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

MAX_NAME_LENGTH = 1000
MAX_COLUMNS = 20_000
QUOTED_LENGTH = 60
NUM_COMPARED = 2000  # names compared in the search for the nearest one, which is slow
PYTHON_FLAGS = {
    "--dayfirst": "dayfirst=True",
    "--monthfirst": "dayfirst=False",
    "--unknown other": "unknown='other'",
}

_IN_PYTHON = ContextVar("_IN_PYTHON", default=False)


class TableError(ValueError):
    """A table, or its encoding in a model file, cannot be used; the message says why."""


def quote(value: Any) -> str:
    """The value as Python would write it, shortened, with control characters escaped."""
    if not isinstance(value, str):
        return reprlib.repr(value)  # limits the depth, too
    text = repr(value[: QUOTED_LENGTH + 1])
    return text if len(text) <= QUOTED_LENGTH + 2 else text[:QUOTED_LENGTH] + "…" + text[0]


def listing(values: Sequence[Any], limit: int = 5) -> str:
    """The first `limit` values, quoted, and the number of further ones."""
    return join([quote(value) for value in values[:limit]], len(values) - limit)


def join(words: Sequence[str], num_more: int = 0) -> str:
    """The words as a list in a sentence: a, b and c."""
    words = [*words, f"{num_more} more"] if num_more > 0 else list(words)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def option(flag: str, name: str, effect: str = "") -> str:
    """An option as users type it, on the command line or in Python, with its effect if given.

    --drop 'living area' on the command line is drop=['living area'] in Python. A name that is too
    long for a message is left out.
    """
    if _IN_PYTHON.get():
        typed = PYTHON_FLAGS.get(flag) or f"{flag.removeprefix('--')}=[{quote(name)}]"
    else:
        shown = shlex.quote(name) if len(name) <= QUOTED_LENGTH else "NAME"
        typed = f"{flag} {shown}" if name else flag
    return f"{typed} {effect}".rstrip()


def remedies(*advice: str | None) -> str:
    """The advice in parentheses, as the end of a sentence; empty without advice."""
    given = [words for words in advice if words]
    return f" ({', '.join(given)})" if given else ""


@contextmanager
def for_python() -> Iterator[None]:
    """Let messages name the arguments of Python instead of the options of the command line."""
    token = _IN_PYTHON.set(True)
    try:
        yield
    finally:
        _IN_PYTHON.reset(token)


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The most similar of the names, or None if none is similar."""
    names = list(names)[:NUM_COMPARED]
    by_lower = {other.lower(): other for other in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def check_num_columns(num: int, what: str) -> None:
    """Raise if a file has so many columns that reading and encoding them would take minutes."""
    if num > MAX_COLUMNS:
        raise TableError(f"{what} must have at most {MAX_COLUMNS:,} columns; got {num:,}.")


def check_names(names: Sequence[Any], what: str) -> None:
    """Raise unless the names of the columns are distinct texts that can be printed and typed.

    Args:
        names: The names, of any type.
        what: The owner of the names, for the message.
    """
    for number, name in enumerate(names, start=1):
        if name == "":
            raise TableError(
                f"{what} has no name for column {number} "
                "(pandas writes a column without a name unless to_csv gets index=False)."
            )
        if not isinstance(name, str):
            raise TableError(
                f"{what} must have text as the name of every column; "
                f"got {quote(name)} for column {number}."
            )
        if not name.isprintable() or len(name) > MAX_NAME_LENGTH:
            raise TableError(
                f"{what} must have column names of at most {MAX_NAME_LENGTH} printable characters; "
                f"got {quote(name)} for column {number}."
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(f"{what} has more than one column named {listing(repeated)}.")


def check_has_column(names: Sequence[str], name: str, what: str) -> None:
    """Raise unless the table has a column of that name; the message suggests the nearest.

    Args:
        names: The columns of the table.
        name: The column that is wanted.
        what: The option that names it, for the message, such as "--drop" or "target".
    """
    if name in names:
        return
    near = nearest(name, names)
    hint = f"did you mean {quote(near)}?" if near else f"the columns are {listing(names)}"
    if len(names) == 1 and re.search(rf"\b{re.escape(name)}\b", names[0]):
        hint = (
            f"the only column is {quote(names[0])}; commas, semicolons, tabs, vertical bars or "
            "spaces must separate the cells of a CSV file"
        )
    raise TableError(f"{what} {quote(name)} is not a column of the table ({hint}).")


def check_choice(value: Any, choices: Sequence[Any], what: str) -> None:
    """Raise unless the value is one of the choices."""
    if value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise TableError(f"{what} must be {allowed}; got {quote(value)}.")


def check_finite(value: Any, what: str) -> float:
    """Return a value read from JSON as a float; raise unless it is a finite number."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not abs(value) <= sys.float_info.max:  # refuses NaN, too
        raise TableError(f"{what} must be a finite number; got {quote(value)}.")
    return float(value)


def check_texts(values: Any, what: str, most: int) -> tuple[str, ...]:
    """Return a list read from JSON as a tuple; raise unless it has up to `most` distinct texts."""
    if not isinstance(values, list) or len(values) > most:
        raise TableError(f"{what} must be a list of at most {most} texts; got {quote(values)}.")
    for value in values:
        if not is_text(value):
            raise TableError(f"{what} must be texts; got {quote(value)}.")
    if len(set(values)) < len(values):
        raise TableError(f"{what} must differ; got {listing(values)}.")
    return tuple(values)


def check_keys(obj: Any, keys: Sequence[str] | None, what: str) -> None:
    """Raise unless a value read from JSON is an object, with exactly these keys if given."""
    if not isinstance(obj, dict):
        raise TableError(f"{what} must be an object; got {quote(obj)}.")
    if keys is not None and set(obj) != set(keys):
        found = listing(sorted(map(str, obj))) if obj else "none"
        raise TableError(f"{what} must have the keys {listing(keys)}; got {found}.")


def is_text(value: Any) -> bool:
    """Whether a value read from JSON is a string that can be encoded as UTF-8."""
    # JSON can contain half of a surrogate pair, which would make printing and pyarrow fail later.
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
