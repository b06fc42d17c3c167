"""The columns of a page: their values in the rows, and a grid of values to try in every row.

A column here is a column of the user's table, not a feature that an encoder makes of it. For wide
tables, the page shows only the columns to which the network with mean weights responds most.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pyarrow
from jaxtyping import Array

from bbalpha.files.wording import one_line
from bbalpha.interfaces.network import model_of

MOST_COLUMNS = 12  # columns to show
MOST_CATEGORIES = 12  # texts of a column to compare
GRID = 31  # values of a column at which to predict
TAILS = (0.01, 0.99)  # quantiles at the ends of a grid
LONGEST = 60  # characters of a cell or a name
MISSING = "(missing)"
MICROSECONDS_PER_DAY = 86_400_000_000


@dataclass(frozen=True)
class ShownColumn:
    """A column of the page.

    Attributes:
        name: Its name.
        kind: "number", "date" (days since 1970), "boolean" or "text".
        unit: The currency or percent sign of its numbers.
        is_log: Whether the model sees the logarithm of its numbers.
        first: The index of the first of its features.
        features: The features of each grid value.
        grid: The grid values; for texts and booleans, the numbers of the labels.
        labels: The labels of texts and booleans.
        cells: The values in the rows: numbers, with NaN for missing ones, or texts.
        positions: The positions of the cells on the grid; NaN for cells that are not on it.
    """

    name: str
    kind: str
    unit: str
    is_log: bool
    first: int
    features: np.ndarray
    grid: np.ndarray
    labels: tuple[str, ...]
    cells: Any
    positions: np.ndarray


def shortened(text: Any) -> str:
    """The text on one line, truncated if it is long."""
    line = one_line(text)
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def columns_of_matrix(
    features: np.ndarray, names: Sequence[Any], chosen: Sequence[int]
) -> list[ShownColumn]:
    """The chosen columns of a matrix of numbers."""
    return [
        _number_column(str(names[index]), index, features[:, index], lambda grid: grid[:, None])
        for index in chosen
    ]


def columns_of_frame(encoder: Any, frame: Any, chosen: Sequence[int]) -> list[ShownColumn]:
    """The chosen columns of a table, with the features that the encoder makes of their grids."""
    found, first = [], 0
    for index, column in enumerate(_used(encoder)):
        if index in chosen:
            found.append(_column_of_frame(encoder, frame, column, first))
        first += len(column.feature_names)
    return found


def influential(model: Any, encoder: Any, features: np.ndarray) -> np.ndarray:
    """The numbers of the columns to show, the most influential first.

    The influence of a feature is the mean square, over the rows, of the slope of the network with
    mean weights, times the variance of the feature. The influence of a column is the sum over its
    features.
    """
    sizes = [1] * features.shape[1]
    if encoder is not None:
        sizes = [len(column.feature_names) for column in _used(encoder)]
    parts = np.split(_influence_of_features(model, features), np.cumsum(sizes)[:-1])
    totals = np.array([part.sum() for part in parts])
    return np.argsort(-totals, kind="stable")[:MOST_COLUMNS]


def num_columns(encoder: Any, features: np.ndarray) -> int:
    """The number of columns to choose from."""
    return features.shape[1] if encoder is None else len(_used(encoder))


def _used(encoder: Any) -> list[Any]:
    return [column for column in encoder.columns if column.kind != "ignored"]


def _influence_of_features(model: Any, features: np.ndarray) -> np.ndarray:
    units, posterior = model.input_units_, model.posterior_
    slopes = _slopes(model_of(model.activation), posterior.mean, units.transform(features))
    slopes = np.asarray(slopes, np.float64)
    num = units.mean.size
    along = slopes[:, num:] @ units.axes.T if units.axes.size else 0
    return np.square(slopes[:, :num] + along).mean(axis=0) * units.standardize(features).var(axis=0)


@eqx.filter_jit
def _slopes(model: Any, params: Any, inputs: Any) -> Array:
    """The slope of the first output of each row, or of the largest logit against their mean."""

    def total(inputs: Array) -> Array:
        outputs = model(params, inputs)
        if outputs.shape[-1] <= 2:  # one of two logits, or the mean of a mean and a log-variance
            return jnp.sum(outputs[:, 0])
        return jnp.sum(jnp.max(outputs, axis=-1) - jnp.mean(outputs, axis=-1))

    leaf = jax.tree.leaves(params)[0]
    return jax.grad(total)(jnp.asarray(inputs, leaf.dtype))


def _column_of_frame(encoder: Any, frame: Any, column: Any, first: int) -> ShownColumn:
    reading = encoder._next_reading(column, frame)

    def features(values: Any) -> np.ndarray:
        """The features of a column of typed values."""
        table = pyarrow.table({column.name: values})
        cells = encoder._next_reading(column, table)
        block = column.encode(cells, "other") if column.kind == "text" else column.encode(cells)
        return block.features

    if column.kind == "text":
        return _text_column(column, first, reading.cells.to_pylist(), features)
    values = reading.values
    if column.kind == "boolean":
        grid = np.array([0.0, 1.0])
        labels, texts = ("no", "yes"), [_yes_or_no(value) for value in values]
        block = features(pyarrow.array(grid == 1))
        return ShownColumn(
            column.name, "boolean", "", False, first, block, grid, labels, texts, values
        )
    if column.kind == "date":
        return _number_column(
            column.name, first, values, lambda grid: features(_timestamps(grid)), "date"
        )
    return _number_column(
        column.name,
        first,
        values,
        lambda grid: features(pyarrow.array(grid)),
        unit=column.notation.unit,
        is_log=column.tails.log_from is not None,
    )


def _number_column(
    name: str,
    first: int,
    values: np.ndarray,
    features: Any,
    kind: str = "number",
    unit: str = "",
    is_log: bool = False,
) -> ShownColumn:
    present = values[np.isfinite(values)]
    is_log = is_log and bool((present > 0).all())
    grid = _grid(present, is_log) if present.size else np.zeros(1)
    return ShownColumn(name, kind, unit, is_log, first, features(grid), grid, (), values, values)


def _grid(present: np.ndarray, is_log: bool) -> np.ndarray:
    """All values if there are few, otherwise evenly spaced ones."""
    distinct = np.unique(present)
    if len(distinct) <= GRID:
        return distinct
    low, high = np.quantile(present, TAILS)
    if low == high:  # nearly all cells are equal
        low, high = distinct[0], distinct[-1]
    return np.geomspace(low, high, GRID) if is_log else np.linspace(low, high, GRID)


def _text_column(column: Any, first: int, texts: list[Any], features: Any) -> ShownColumn:
    distinct, counts = np.unique([text or "" for text in texts], return_counts=True)
    frequent = distinct[np.argsort(-counts, kind="stable")[:MOST_CATEGORIES]]
    shown = sorted(frequent, key=lambda text: (text == "", text))
    codes = {text: float(code) for code, text in enumerate(shown)}
    return ShownColumn(
        column.name,
        "text",
        "",
        False,
        first,
        features(pyarrow.array([text or None for text in shown], pyarrow.large_string())),
        np.arange(len(shown), dtype=float),
        tuple(shortened(text) if text else MISSING for text in shown),
        [text and shortened(text) for text in texts],
        np.array([codes.get(text or "", np.nan) for text in texts]),
    )


def _timestamps(days: np.ndarray) -> Any:
    moments = np.round(days * MICROSECONDS_PER_DAY).astype(np.int64)
    return pyarrow.array(moments, pyarrow.timestamp("us"))


def _yes_or_no(value: float) -> str | None:
    return None if np.isnan(value) else "yes" if value else "no"
