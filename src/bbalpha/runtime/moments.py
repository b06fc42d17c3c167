"""Standardizing rows that do not fit in memory: moments of blocks, merged in double precision."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import PyTree

from bbalpha.data import Standardizer, power_of_two, rounding_of
from bbalpha.runtime.sources import Blocks, Source, as_source

SMALLEST = 2.0**-1022  # the unit of a column of zeros; that of any other column is larger


class Moments(NamedTuple):
    """Moments and ranges of the columns of some rows, in units of `unit`, a power of two.

    The unit has the size of the largest number, so that squares neither overflow nor vanish.
    """

    num_rows: int
    unit: Any
    mean: Any
    squares: Any  # Σ (x − mean)²
    least: Any
    most: Any

    @classmethod
    def of(cls, rows: np.ndarray) -> "Moments":
        """The moments of some rows."""
        values = rows.astype(np.float64)
        largest = np.abs(values).max(axis=0)
        unit = np.where(largest > 0, power_of_two(np.asarray(largest)), SMALLEST)
        values = values / unit
        mean = values.mean(axis=0)
        squares = np.square(values - mean).sum(axis=0)
        return cls(len(rows), unit, mean, squares, values.min(axis=0), values.max(axis=0))

    def merged(self, other: "Moments") -> "Moments":
        """The moments of both sets of rows together (Chan, Golub and LeVeque, 1983)."""
        unit = np.maximum(self.unit, other.unit)
        (mean, squares, *ends), (other_mean, other_squares, *other_ends) = (
            each.in_units(unit) for each in (self, other)
        )
        num_rows = self.num_rows + other.num_rows
        apart = other_mean - mean
        return Moments(
            num_rows=num_rows,
            unit=unit,
            mean=mean + apart * (other.num_rows / num_rows),
            squares=squares
            + other_squares
            + apart**2 * (self.num_rows * other.num_rows / num_rows),
            least=np.minimum(ends[0], other_ends[0]),
            most=np.maximum(ends[1], other_ends[1]),
        )

    def in_units(self, unit: Any) -> tuple[Any, ...]:
        """Mean, squares and both ends in a larger unit; exact, because both are powers of two."""
        ratio = self.unit / unit
        return self.mean * ratio, self.squares * ratio**2, self.least * ratio, self.most * ratio

    def standardizer(self, dtype: Any) -> Standardizer:
        """The map of the columns to mean 0 and variance 1, as `bb.standardize` makes it."""
        scale = np.sqrt(self.squares / self.num_rows)
        ends = np.stack([self.least, self.most])
        is_constant = (self.most - self.least <= rounding_of(ends, dtype)) | (scale == 0)
        scale = np.where(is_constant, 1.0, scale * self.unit)
        return Standardizer(mean=np.asarray(self.mean * self.unit), scale=scale)


class MappedRows:
    """A source whose blocks are passed through a function as they are read.

    Attributes:
        source: The original source.
        function: Maps the rows of a block to as many new rows.
    """

    def __init__(self, source: Source, function: Callable[[PyTree], PyTree]):
        self.source, self.function = source, function
        self.num_rows, self.block_rows = source.num_rows, source.block_rows
        for name in ("place", "identity"):
            if hasattr(source, name):
                setattr(self, name, getattr(source, name))

    def read(self, block: int) -> PyTree:
        """The function's rows of a block."""
        return self.function(self.source.read(block))


def standardize_rows(data: Any) -> tuple[MappedRows, PyTree]:
    """Return rows whose columns have mean 0 and variance 1, and the maps used to standardize them.

    This takes one pass over the rows. Later, columns are standardized block by block as they are
    read.

    Args:
        data: A path, a pyarrow dataset, or a source, as for `bb.fit`. Each array of a block must
            have one or two axes.

    Returns:
        The source to fit, and a tree like its rows with a `bb.Standardizer` for each array, for
        other splits, predictions and log-densities.

    Raises:
        SourceError: If a block cannot be read or breaks a rule.

    >>> import numpy as np
    >>> class Lengths:
    ...     num_rows, block_rows = 4, 2
    ...
    ...     def read(self, block):
    ...         return np.array([[1.0, 3.0], [5.0, 7.0]])[block]
    >>> rows, standardizer = bb.standardize_rows(Lengths())
    >>> rows.read(0).round(3).tolist(), float(standardizer.mean)
    ([-1.342, -0.447], 4.0)
    """
    source = as_source(data)
    blocks = Blocks(source, stay_numpy=True)
    for path, leaf in jax.tree_util.tree_leaves_with_path(blocks.first):
        if leaf.ndim > 2:
            raise ValueError(
                f"data{jax.tree_util.keystr(path)} must have shape (rows,) or (rows, columns); "
                f"got rows of shape {leaf.shape[1:]}."
            )
    merged = None
    for rows in blocks:
        found = [Moments.of(leaf) for leaf in jax.tree.leaves(rows)]
        merged = (
            [old.merged(new) for old, new in zip(merged, found, strict=True)] if merged else found
        )
    leaves, structure = jax.tree.flatten(blocks.first)
    maps = [
        moments.standardizer(leaf.dtype) for moments, leaf in zip(merged or [], leaves, strict=True)
    ]

    def standardized(rows: PyTree) -> PyTree:
        leaves = [
            each.transform(leaf) for each, leaf in zip(maps, jax.tree.leaves(rows), strict=True)
        ]
        return jax.tree.unflatten(structure, leaves)

    return MappedRows(source, standardized), jax.tree.unflatten(structure, maps)
