"""The page: one HTML file that contains its data, its style and its program, and loads nothing.

A content security policy in the page forbids every request and every script but its own. Texts from
the user's table are never more than data: the JSON is escaped so that no text in it can end the
element that holds it, and the program shows texts only through `textContent`.
"""

import base64
import hashlib
import json
import math
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.files import replacing

MARK = '<meta name="generator" content="bbalpha explore">'  # identifies a page of bbalpha
HEAD_BYTES = 1000  # at the start of a file, where the mark must be
MOST_BYTES = 2_000_000  # of a page
MOST_WHOLE = 1e15  # whole numbers up to this are written as 2 rather than 2.0
FEWEST_ROWS = 20  # a page is never reduced to fewer rows
DIGITS, CELL_DIGITS = 5, 9  # of predictions, and of cells of the table
SCRIPTS = ("parts.js", "plots.js", "rows.js", "page.js")
# JSON allows all of these, but HTML or JavaScript could take some for the end of a text.
ESCAPES = {ord(letter): f"\\u{ord(letter):04x}" for letter in "<>&\u2028\u2029"}


def write_page(path: Path, data: dict[str, Any]) -> None:
    """Write the page, whole or not at all.

    Raises:
        OSError: If the file cannot be written.
    """
    text = bounded_page(data)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def check_replaceable(path: Path) -> None:
    """Raise if the file holds anything but such a page."""
    if path.is_file() and not is_page(path):
        raise ValueError(
            f"path must not be a file that is not a page of bbalpha, unless force=True; got {path}."
        )


def is_page(path: Path) -> bool:
    """Whether a file is a page that bbalpha has written."""
    with path.open("rb") as file:
        return MARK.encode() in file.read(HEAD_BYTES)


def bounded_page(data: dict[str, Any]) -> str:
    """The page, with fewer rows if it would exceed 2 MB."""
    num_rows = len(data["rows"]["id"])
    text = page(data)
    while len(text.encode()) > MOST_BYTES and num_rows > FEWEST_ROWS:
        num_rows //= 2
        text = page(with_fewer_rows(data, num_rows))
    return text


def page(data: dict[str, Any]) -> str:
    """The page for these data, as HTML."""
    style = _resource("style.css")
    script = "\n".join(_resource(name) for name in SCRIPTS)
    parts = {
        "MARK": MARK,
        "POLICY": (
            f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
            "base-uri 'none'; form-action 'none'"
        ),
        "STYLE": style,
        "DATA": as_json(data),
        "SCRIPT": script,
    }
    pieces = _resource("page.html").split("@@")  # texts and the names of parts, in turn
    return "".join(parts[piece] if odd % 2 else piece for odd, piece in enumerate(pieces))


def with_fewer_rows(data: dict[str, Any], num_rows: int) -> dict[str, Any]:
    """The data with only `num_rows` of their rows, evenly spread."""
    kept = np.linspace(0, len(data["rows"]["id"]) - 1, num_rows).astype(int)

    def thinned(rows: dict[str, Any]) -> dict[str, Any]:
        return {name: [values[row] for row in kept] for name, values in rows.items()}

    fits = [fit | {"rows": thinned(fit["rows"])} for fit in data["fits"]]
    return data | {"rows": thinned(data["rows"]), "fits": fits}


def as_json(data: dict[str, Any]) -> str:
    """JSON that cannot end an HTML element; numbers are rounded, and null if not finite."""
    digits = {"rows": CELL_DIGITS, "columns": CELL_DIGITS}
    plain = {name: _plain(value, digits.get(name, DIGITS)) for name, value in data.items()}
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.translate(ESCAPES)


def _plain(value: Any, digits: int) -> Any:
    """Arrays as lists, and numbers with this many digits; null for those that are not finite."""
    if isinstance(value, dict):
        # Scores are rounded when they are shown, and should not be rounded twice.
        digits_of = {"scores": CELL_DIGITS}
        return {name: _plain(x, digits_of.get(name, digits)) for name, x in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(entry, digits) for entry in value]
    if isinstance(value, float | np.floating):
        if not math.isfinite(value):
            return None
        number = float(f"{value:.{digits}g}")
        return int(number) if number.is_integer() and abs(number) < MOST_WHOLE else number
    return int(value) if isinstance(value, np.integer) else value


def _resource(name: str) -> str:
    return (files("bbalpha.explorer") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The hash by which a policy identifies a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"
