"""Blocks: the features of one column each, and the matrix of the features of all columns.

Most features of a table with texts are zeros, and there may be hundreds of them. So each column
keeps a compact form, and the matrix is written once at the end, a few rows at a time.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

ROWS_AT_ONCE = 512  # rows of the matrix that are written together, because they fit into a cache


class Tally(NamedTuple):
    """A remark about some cells of a column, with their number.

    Attributes:
        kind: The kind of the remark; remarks of the same kind can be added up.
        num: The number of cells.
        words: The end of the sentence.
        num_rows: The number of rows in which they were counted; None to leave it out.
    """

    kind: str
    num: int
    words: str
    num_rows: int | None = None

    def __str__(self) -> str:
        rows = "" if self.num_rows is None else f" of {self.num_rows:,}"
        return f"{self.num:,}{rows} {self.words}"


class Block(NamedTuple):
    """The features of one column, and remarks about its cells.

    Attributes:
        columns: Features with a value in every row, each of shape (rows,).
        hot: For each row, the number of the feature that is one among the features of zeros and
            ones, which come first; −1 if none is. None without such features.
        num_hot: The number of features of zeros and ones.
        tallies: Remarks about the cells.
    """

    columns: tuple[np.ndarray, ...] = ()
    hot: np.ndarray | None = None
    num_hot: int = 0
    tallies: tuple[Tally, ...] = ()

    @property
    def num_features(self) -> int:
        """The number of features."""
        return self.num_hot + len(self.columns)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self.columns[0] if self.hot is None else self.hot)

    @property
    def features(self) -> np.ndarray:
        """The features alone, of shape (rows, features)."""
        return matrix_of([self])

    def write(self, matrix: np.ndarray, first: int, rows: slice) -> None:
        """Write the features of some rows into a matrix of zeros.

        Args:
            matrix: The matrix, of shape (some rows, features of all columns), contiguous.
            first: The index of the first feature of this column.
            rows: The rows of the column to write.
        """
        if self.hot is not None:
            hot = self.hot[rows]
            (places,) = np.nonzero(hot >= 0)
            matrix.reshape(-1)[places * matrix.shape[1] + first + hot[places]] = 1.0
        for number, column in enumerate(self.columns, start=first + self.num_hot):
            matrix[:, number] = column[rows]


def matrix_of(blocks: Sequence[Block]) -> np.ndarray:
    """The features of all columns side by side: float64 of shape (rows, features)."""
    num_rows = blocks[0].num_rows
    ends = list(itertools.accumulate(block.num_features for block in blocks))
    matrix = np.zeros((num_rows, ends[-1]))
    for start in range(0, num_rows, ROWS_AT_ONCE):
        rows = slice(start, start + ROWS_AT_ONCE)
        for block, end in zip(blocks, ends, strict=True):
            block.write(matrix[rows], end - block.num_features, rows)
    return matrix
