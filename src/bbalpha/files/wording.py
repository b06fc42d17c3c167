"""Text from files, made safe to print: control characters must not reach a terminal."""

from typing import Any

LONGEST = 200  # characters from a file that a message repeats


def printable(text: str) -> str:
    r"""The text with a space in place of anything that could affect a terminal, except line ends.

    These are control characters, which begin escape sequences, and invisible characters that change
    the direction of text.

    >>> from bbalpha.files.wording import printable
    >>> printable("red \x1b[31m, reversed \u202e")
    'red  [31m, reversed  '
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def one_line(value: Any) -> str:
    """Text from a file or an error, shortened and made printable for use in a sentence."""
    text = str(value)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    return printable(text).replace("\n", " ")


def printable_json(text: str) -> str:
    r"""JSON text with escapes such as \u009b in place of anything that could affect a terminal."""
    if text.isprintable():
        return text
    return "".join(x if x.isprintable() or x == "\n" else _escaped(x) for x in text)


def _escaped(letter: str) -> str:
    """The character as JSON writes it in ASCII: one or two units of UTF-16."""
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[start : start + 4]}" for start in range(0, len(units), 4))
