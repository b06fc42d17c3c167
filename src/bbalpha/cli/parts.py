"""Predicting long tables one part at a time, with a progress bar."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from bbalpha.cli.doors import Refusal
from bbalpha.cli.printing import count
from bbalpha.engine.progress import progress_bar
from bbalpha.interfaces.finite import NonFinitePredictionError
from bbalpha.tables.messages import join

NUM_NAMED = 5  # rows that a message names
ROWS_AT_ONCE = 8192  # fewest rows in a part; far fewer would not repay compiling for speed


def in_parts(function: Callable[..., Any], *arrays: np.ndarray, show: bool) -> Any:
    """`function` of all rows: an array, or a tuple of arrays (or None); rows are the first axis.

    Args:
        function: Takes as many arrays as are given here; returns a result for each of their rows.
        arrays: Inputs and, if needed, targets.
        show: Whether to show a bar, if standard error is a terminal.

    Raises:
        Refusal: If the result for a row is not finite; names such rows, counted from 1.
    """
    num_rows = len(arrays[0])
    ends = ends_of_parts(num_rows)
    parts = ([array[start:end] for array in arrays] for start, end in pairwise(ends))
    found = list(each_part(lambda some: function(*some), parts, ends, show))
    return found[0] if len(found) == 1 else _joined(found)


def ends_of_parts(num_rows: int) -> list[int]:
    """The numbers of rows before and after each part.

    All parts have nearly the same length, so that they run the same compiled program.
    """
    return np.linspace(0, num_rows, max(1, num_rows // ROWS_AT_ONCE) + 1).astype(int).tolist()


def each_part(
    function: Callable[[Any], Any], parts: Iterable[Any], ends: Sequence[int], show: bool
) -> Iterator[Any]:
    """Yield `function` of one part after the other.

    Args:
        function: Takes a part and returns a result for each of its rows.
        parts: The rows between `ends`.
        ends: As returned by `ends_of_parts`.
        show: Whether to show a bar, if standard error is a terminal.

    Raises:
        Refusal: At the end, if the result for a row is not finite; names such rows.
    """
    num_rows, num_bad, bad = ends[-1], 0, []
    with progress_bar(show, "rows", num_rows) as update:
        for (start, end), part in zip(pairwise(ends), parts, strict=True):
            try:
                yield function(part)
            except NonFinitePredictionError as error:
                num_bad += len(error.rows)
                bad += [str(start + row + 1) for row in error.rows[:NUM_NAMED]]
            update(end, "")
    if num_bad:
        few = join(bad[:NUM_NAMED], num_bad - NUM_NAMED)
        verb, noun = ("has", "row") if num_bad == 1 else ("have", "rows")
        raise Refusal(
            f"{count(num_bad, 'row')} of {num_rows:,} {verb} no finite prediction or score: "
            f"{noun} {few}."
        )


def _joined(found: list[Any]) -> Any:
    if found[0] is None:
        return None
    if not isinstance(found[0], tuple):
        return np.concatenate(found)
    fields = map(_joined, map(list, zip(*found, strict=True)))
    kind = type(found[0])
    return kind(*fields) if hasattr(kind, "_fields") else kind(fields)
