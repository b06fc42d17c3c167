"""Options that several commands share, and parsers for the values of options.

We parse values ourselves rather than let typer do it, so that every refusal has the same form:
`--epochs must be a whole number from 1 on; got '0'.`
"""

import math
import reprlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from bbalpha.cli.doors import Refusal
from bbalpha.engine.limits import MOST
from bbalpha.files.naming import is_query
from bbalpha.interfaces.limits import (
    LARGEST_ALPHA,
    LOWEST_LEVEL,
    MOST_LAYERS,
    MOST_UNITS,
    STACKED,
    TUNED,
)

MAX_SEED = 2**32 - 1  # the largest seed that scikit-learn takes
LONGEST = 200  # characters of a wrong value that a message repeats
NONE = "none"  # an empty list, as users type it


def choice(option: str, names: Sequence[str]) -> Callable[[Any], str]:
    """A parser for an option whose value must be one of these names."""

    def parse(value: Any) -> str:
        if value not in names:
            *others, last = names
            rule = f"{', '.join(others)} or {last}" if others else last
            raise Refusal(f"{option} must be {rule}; got {_shown(value)}.")
        return value

    return parse


def whole_number(option: str, lowest: int, highest: int) -> Callable[[Any], int]:
    """A parser for an option whose value must be a whole number in this range, ends included."""

    def parse(value: Any) -> int:
        number = _parsed(int, value)
        if number is None or not lowest <= number <= highest:
            rule = f"a whole number from {lowest} to {highest}"
            raise Refusal(f"{option} must be {rule}; got {_shown(value)}.")
        return number

    return parse


def number_or(
    words: tuple[str, ...], parse: Callable[[Any], float]
) -> Callable[[Any], float | str]:
    """A parser for an option whose value must be one of these words or pass another parser."""
    return lambda value: value if value in words else parse(value)


def finite_number(
    option: str, positive: bool = False, below: float = math.inf
) -> Callable[[Any], float]:
    """A parser for an option whose value must be a finite number.

    Args:
        option: The name of the option.
        positive: Whether the number must be positive.
        below: A bound that the absolute value of the number must not reach.
    """

    def parse(value: Any) -> float:
        number = _parsed(float, value)
        if number is None or not math.isfinite(number) or (positive and number <= 0):
            rule = "positive and finite" if positive else "a finite number"
            raise Refusal(f"{option} must be {rule}; got {_shown(value)}.")
        if abs(number) >= below:
            rule = f"less than {below:g}{'' if positive else ' in size'}"
            raise Refusal(f"{option} must be {rule}; got {_shown(value)}.")
        return number

    return parse


def numbers(text: str) -> tuple[float, ...]:
    """The numbers in a comma-separated list; a word that is not a number becomes NaN."""
    parsed = (_parsed(float, word) for word in text.split(","))
    return tuple(math.nan if number is None else number for number in parsed)


def hidden_sizes(text: str) -> tuple[int, ...]:
    """The sizes of the hidden layers: "100,50" is two layers, "none" or "0" a linear model."""
    if text.strip().lower() in ("0", NONE):
        return ()
    sizes = [word.strip() for word in text.split(",")]
    if len(sizes) > MOST_LAYERS:
        raise Refusal(f"--hidden must name at most {MOST_LAYERS:,} layers; got {len(sizes):,}.")
    found = tuple(_parsed(int, size) if size.isascii() and size.isdigit() else 0 for size in sizes)
    if not all(size and size <= MOST_UNITS for size in found):
        raise Refusal(
            f"--hidden must be whole numbers from 1 to {MOST_UNITS}, separated by commas, or none; "
            f"got {_shown(text)}."
        )
    return found


def quantile_levels(text: str) -> tuple[float, ...]:
    """The levels of the quantiles; () for "none"."""
    if text.strip().lower() == NONE:
        return ()
    levels = numbers(text)
    if not all(0 < level < 1 for level in levels) or len(set(levels)) < len(levels):
        raise Refusal(
            "--quantiles must be different numbers between 0 and 1, separated by commas, or none; "
            f"got {_shown(text)}."
        )
    if min(levels) < LOWEST_LEVEL:
        raise Refusal(f"--quantiles must be at least {LOWEST_LEVEL:g}; got {_shown(text)}.")
    return levels


def table_source(text: Any) -> Path | str:
    """The file, folder or pattern to read a table from, or the text of a query, unchanged."""
    return str(text) if is_query(str(text)) else Path(text)


def missing_tokens(texts: Sequence[str] | None) -> tuple[str, ...]:
    """The texts in all --missing options, each of which is a comma-separated list."""
    words = [word.strip() for text in texts or () for word in text.split(",")]
    return tuple(dict.fromkeys(word for word in words if word))


def _parsed(kind: Callable[[Any], Any], value: Any) -> Any:
    """The value as a number of that kind, or None if it is not one."""
    try:
        return kind(value)
    except ValueError:
        return None


def _shown(value: Any) -> str:
    """The value in quotes; the middle of a very long one is left out."""
    short = reprlib.Repr()
    short.maxstring = LONGEST
    return short.repr(value)


LIKELIHOODS = {
    "regression": ("heteroscedastic", "gaussian", "student_t", "poisson", "negative_binomial"),
    "classification": ("softmax", "probit"),
}
TrainingData = Annotated[
    Any,  # a path, or the text of a query
    typer.Argument(
        metavar="DATA",
        parser=table_source,
        help="CSV, Parquet or JSON-lines file, compressed or not; a folder of them; a pattern such "
        "as 'flights/*.parquet'; or a SELECT over files.",
    ),
]
TargetColumn = Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")]
Alpha = Annotated[
    Any,  # a number, a word or None
    typer.Option(
        metavar=f"NUMBER|auto|{TUNED}|{STACKED}",
        parser=number_or(("auto", TUNED, STACKED), finite_number("--alpha", below=LARGEST_ALPHA)),
        help="The power α: 0 is variational Bayes, 1 is close to expectation propagation. The "
        "default, auto, is ½, or 0 for a table with few rows. tuned chooses α by leave-one-out, "
        "which takes about three times as long; stacked mixes several values.",
    ),
]
Hidden = Annotated[
    str | None,
    typer.Option(
        metavar="SIZES",
        help="Units of each hidden layer, such as 100,50, or none for a linear model; by default "
        "50.",
    ),
]
Epochs = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        parser=whole_number("--epochs", 1, MOST),
        help="Passes over the data; by default 100, but never fewer than 5,000 or more than 10,000 "
        "minibatches in all.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        metavar="NUMBER",
        parser=whole_number("--seed", 0, MAX_SEED),
        help="The same seed gives the same model.",
    ),
]
LikelihoodName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        parser=choice("--likelihood", ("auto", *sum(LIKELIHOODS.values(), ()))),
        help="For numbers: heteroscedastic, gaussian or student_t; for counts: poisson or "
        "negative_binomial; for classes: softmax or probit. The default, auto, uses "
        "negative_binomial for numbers that look like counts, heteroscedastic for most other "
        "numbers, and softmax for classes.",
    ),
]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by fit.")]
NewData = Annotated[
    Any,  # a path, or the text of a query
    typer.Argument(
        metavar="DATA",
        parser=table_source,
        help="A table with the columns of the training table, in any of the forms that fit takes.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
Unknown = Annotated[
    str,
    typer.Option(
        metavar="other|error",
        parser=choice("--unknown", ("other", "error")),
        help="What to do with a text that did not occur in training: treat it like the rare texts "
        "(other) or stop with an error.",
    ),
]
TASKS = ("regression", "classification")
Task = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(TASKS),
        parser=choice("--task", TASKS),
        help="Whether to predict a number or a class; by default, a target is a class if it is "
        "text or has only two distinct numbers.",
    ),
]
Text = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Treat a column of numbers or dates as text; repeatable."),
]
Drop = Annotated[
    list[str] | None, typer.Option(metavar="COLUMN", help="Leave out a column; repeatable.")
]
Id = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="A column that names the rows. It is not an input; predictions contain a copy of it.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXTS",
        help="Texts that mark missing cells, separated by commas, such as -999,unknown. Empty "
        "cells, NA, null, ? and the like are always missing. Repeatable.",
    ),
]
DayFirst = Annotated[
    bool | None,
    typer.Option(
        "--dayfirst/--monthfirst",
        help="How to read dates such as 03/04/2024 if no date in the column settles it.",
    ),
]
SkipMissingTarget = Annotated[
    bool, typer.Option("--skip-missing-target", help="Leave out rows without a target.")
]
