"""Printing: styled on a terminal, plain and never truncated in a pipe."""

import contextlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer

from bbalpha.files.wording import printable, printable_json


def print_facts(facts: Mapping[str, str]) -> None:
    """Print names and values in two columns."""
    if not facts:
        return
    if not sys.stdout.isatty():
        width = max(map(len, facts))
        typer.echo(
            printable("\n".join(f"{name:<{width}}  {value}" for name, value in facts.items()))
        )
        return
    from bbalpha.cli.terminal import show_facts

    show_facts(facts)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a header."""
    if not sys.stdout.isatty():
        widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
        for row in (header, *rows):
            cells = (f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
            typer.echo(printable("  ".join(cells).rstrip()))
        return
    from bbalpha.cli.terminal import show_table

    show_table(header, rows)


def print_json(value: Any) -> None:
    """Print one JSON object, with null for numbers that are not finite."""
    typer.echo(printable_json(json.dumps(_finite(value), indent=2, ensure_ascii=False)))


def print_bytes(data: bytes) -> None:
    """Print the bytes unchanged or, on a terminal, without unprintable characters."""
    if sys.stdout.isatty():
        data = printable(data.decode()).encode()
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def note(text: str, quiet: bool = False) -> None:
    """Print a remark, which is not part of the result, to standard error.

    If standard error cannot be written (a full device), the remark is lost, not the work.
    """
    if not quiet:
        with contextlib.suppress(OSError):
            typer.echo(printable(text), err=True)


def count(number: int, noun: str) -> str:
    """The number with its noun, as in "1 row" and "2,000 rows"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _finite(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
