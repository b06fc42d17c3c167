"""Long tables are predicted a part at a time, with a progress bar."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np

from bbalpha.engine.progress import progress_bar

ROWS_AT_ONCE = 8192  # the fewest rows of a part; below about half, programs are compiled to be rare


def in_parts(function: Callable[..., Any], *arrays: np.ndarray, show: bool) -> Any:
    """`function` of all rows: an array, or a tuple of arrays (or None), with the rows first.

    Args:
        function: Takes as many arrays as are given, and returns something about each of their rows.
        arrays: Inputs and, if needed, targets.
        show: Whether to show a bar, if standard error is a terminal.
    """
    num_rows = len(arrays[0])
    # Parts of nearly equal length, so that all of them run the same compiled program.
    ends = np.linspace(0, num_rows, max(1, num_rows // ROWS_AT_ONCE) + 1).astype(int)
    found = []
    with progress_bar(show, "rows", num_rows) as update:
        for start, end in pairwise(ends):
            found.append(function(*(array[start:end] for array in arrays)))
            update(end, "")
    return found[0] if len(found) == 1 else _joined(found)


def _joined(found: list[Any]) -> Any:
    if found[0] is None:
        return None
    if not isinstance(found[0], tuple):
        return np.concatenate(found)
    fields = map(_joined, map(list, zip(*found, strict=True)))
    kind = type(found[0])
    return kind(*fields) if hasattr(kind, "_fields") else kind(fields)
