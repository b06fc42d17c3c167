"""Options that several commands share, and those that hold more than one number."""

import math
from pathlib import Path
from typing import Annotated, Literal

import typer

from bbalpha.cli.doors import Refusal

ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that fit has written.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Unknown = Annotated[
    Literal["error", "ignore"],
    typer.Option(
        metavar="error|ignore",
        help="What to do with a text that training did not see: refuse it, or treat it as none of "
        "the known ones.",
    ),
]


def hidden_sizes(text: str) -> tuple[int, ...]:
    """The sizes of the hidden layers: 100,50 are two, none or 0 the linear model."""
    if text.strip().lower() in ("0", "none"):
        return ()
    sizes = [word.strip() for word in text.split(",")]
    if not all(size.isascii() and size.isdigit() and int(size) > 0 for size in sizes):
        raise Refusal(
            "--hidden must be whole numbers from 1 on, separated by commas, or none; "
            f"got --hidden {text!r}."
        )
    return tuple(map(int, sizes))


def numbers(text: str) -> tuple[float, ...]:
    """The numbers of a list that is separated by commas; NaN if it is none."""
    try:
        return tuple(float(word) for word in text.split(","))
    except ValueError:
        return (math.nan,)


def quantile_levels(text: str) -> tuple[float, ...]:
    """The levels of the quantiles; none for none."""
    if text.strip().lower() == "none":
        return ()
    levels = numbers(text)
    if not all(0 < level < 1 for level in levels) or len(set(levels)) < len(levels):
        raise Refusal(
            "--quantiles must be different numbers between 0 and 1, separated by commas, or none; "
            f"got --quantiles {text!r}."
        )
    return levels
