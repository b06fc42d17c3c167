"""The error of a table, and the words that its sentences share.

A value from a file is shown by `quote`, which keeps it on one line, short and free of control
characters, whoever wrote the file.
"""

import difflib
import re
import reprlib
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

MAX_NAME_LENGTH = 1000
QUOTED_LENGTH = 60
NUM_COMPARED = 2000  # names among which the nearest is sought; the search is slow


class TableError(ValueError):
    """A table, or what was kept of one in a model file, cannot be used; the message says why."""


def quote(value: Any) -> str:
    """The value in quotes, shortened, with control characters escaped."""
    if not isinstance(value, str):
        return reprlib.repr(value)  # which bounds the depth, too
    text = repr(value[: QUOTED_LENGTH + 1])
    return text if len(text) <= QUOTED_LENGTH + 2 else text[:QUOTED_LENGTH] + "…" + text[0]


def listing(values: Sequence[Any], limit: int = 5) -> str:
    """The first values, quoted, and how many more there are."""
    return join([quote(value) for value in values[:limit]], len(values) - limit)


def join(words: Sequence[str], num_more: int = 0) -> str:
    """The words in a row: a, b and c."""
    words = [*words, f"{num_more} more"] if num_more > 0 else list(words)
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def option(flag: str, name: str) -> str:
    """An option of the command line as it would be typed: --drop 'living area'."""
    return f"{flag} {shlex.quote(name)}"


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of the names that is most alike, if any is."""
    names = list(names)[:NUM_COMPARED]
    by_lower = {other.lower(): other for other in names}
    found = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return by_lower[found[0]] if found else None


def check_names(names: Sequence[Any], what: str) -> None:
    """Raise unless the names of columns are distinct texts that can be printed and typed.

    Args:
        names: The names, which may be of any type.
        what: What holds them, for the message.
    """
    for number, name in enumerate(names, start=1):
        if not isinstance(name, str) or not name:
            raise TableError(
                f"{what} must name every column; got {quote(name)} as the name of column {number} "
                "(pandas writes an unnamed one unless to_csv is told index=False)."
            )
        if not name.isprintable() or len(name) > MAX_NAME_LENGTH:
            raise TableError(
                f"{what} must name its columns by at most {MAX_NAME_LENGTH} printable characters; "
                f"got {quote(name)} as the name of column {number}."
            )
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise TableError(
            f"{what} must give each column another name; got {listing(repeated)} twice."
        )


def check_has_column(names: Sequence[str], name: str, what: str) -> None:
    """Raise unless the name is among the names, telling the nearest of them."""
    if name in names:
        return
    near = nearest(name, names)
    hint = f"the nearest is {quote(near)}" if near else f"the columns are {listing(names)}"
    if len(names) == 1 and re.search(rf"\b{re.escape(name)}\b", names[0]):
        hint = (
            f"the only one is {quote(names[0])}; cells of a CSV file are told apart by comma, "
            "semicolon, tab, bar or blank"
        )
    raise TableError(f"{what} must be a column of the table; got {quote(name)} ({hint}).")


def check_choice(value: Any, choices: Sequence[Any], what: str) -> None:
    """Raise unless the value is one of the choices."""
    if value not in choices:
        allowed = " or ".join(repr(choice) for choice in choices)
        raise TableError(f"{what} must be {allowed}; got {quote(value)}.")


def check_keys(obj: Any, keys: Sequence[str], what: str) -> None:
    """Raise unless the value from a JSON text is an object of exactly these keys."""
    if not isinstance(obj, dict):
        raise TableError(f"{what} must be an object; got {quote(obj)}.")
    if set(obj) != set(keys):
        found = listing(sorted(map(str, obj))) if obj else "none"
        raise TableError(f"{what} must have the keys {listing(keys)}; got {found}.")


def is_text(value: Any) -> bool:
    """Whether a value from a JSON text is a string that can be written out as UTF-8."""
    # JSON can spell half of a surrogate pair, on which printing and pyarrow would fail later.
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
