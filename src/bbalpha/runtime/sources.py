"""Sources of rows: arrays, memory-mapped files, Parquet, or an object of your own.

A source consists of blocks, the pieces in which it is read. `Blocks` reads them and checks that
each has the expected rows, arrays and types, and only finite numbers.
"""

import mmap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import jax
import numpy as np
from jaxtyping import PyTree

from bbalpha.data import check_data
from bbalpha.engine.checks import check_counts
from bbalpha.engine.chunks import SourceError

BLOCK_BYTES = 2**18  # in a block of arrays: at most a quarter of a mebibyte
FEW_BLOCKS = 32  # into which arrays are divided at least: one for each reader
MOST_BLOCKS = 2**16  # at most, even if blocks are then larger


@runtime_checkable
class Source(Protocol):
    """Rows that are read one block at a time; write your own class with these members.

    Two more methods are optional: `place(block, row)` describes in words where a row is, for
    messages; `identity()` returns a text that changes with the data, by which a checkpoint
    recognizes them.

    >>> import numpy as np
    >>> class Squares:
    ...     num_rows = 1000
    ...     block_rows = 300  # the last block has only 100
    ...
    ...     def read(self, block):
    ...         numbers = np.arange(300 * block, min(300 * (block + 1), 1000))
    ...         return bb.Dataset(numbers / 1000, (numbers / 1000) ** 2)
    >>> isinstance(Squares(), bb.Source)
    True
    """

    @property
    def num_rows(self) -> int:
        """N, the number of rows."""
        ...

    @property
    def block_rows(self) -> int | Sequence[int]:
        """The number of rows in each block; a single number if all but the last have as many."""
        ...

    def read(self, block: int) -> PyTree:
        """The rows of a block, counted from 0: a tree of arrays like a batch."""
        ...


class ArrayRows:
    """Arrays as a source; memory-mapped arrays are read from their file one block at a time.

    Attributes:
        data: Any tree of arrays whose first axis is the rows.
        num_rows: The number of rows.
        block_rows: The number of rows per block; by default a 32nd of all, but at most 256 KiB.

    >>> import numpy as np
    >>> from bbalpha.runtime.sources import ArrayRows
    >>> rows = ArrayRows((np.ones((10, 3)), np.arange(10)), block_rows=4)
    >>> rows.read(2)[1].tolist()
    [8, 9]
    """

    def __init__(self, data: PyTree, block_rows: int | None = None):
        data = jax.tree.map(lambda leaf: leaf if _is_mapped(leaf) else np.asarray(leaf), data)
        _check_lengths(data)
        leaves = jax.tree.leaves(data)
        self.data = data
        self.num_rows = len(leaves[0])
        row_bytes = sum(leaf.nbytes for leaf in leaves) // self.num_rows
        default = min(BLOCK_BYTES // max(row_bytes, 1), -(-self.num_rows // FEW_BLOCKS))
        default = max(1, default, self.num_rows // MOST_BLOCKS)
        self.block_rows = default if block_rows is None else block_rows

    def read(self, block: int) -> PyTree:
        """The rows of a block, copied."""
        begin = block * self.block_rows
        return jax.tree.map(lambda leaf: _copied(leaf[begin : begin + self.block_rows]), self.data)


def _check_lengths(data: PyTree) -> None:
    """Raise unless there are arrays and all have as many rows; does not read their values."""
    check_data(jax.tree.map(lambda leaf: np.broadcast_to(np.int8(0), leaf.shape[:1]), data))


def _copied(array: Any) -> np.ndarray:
    """A copy; the pages of a mapped file that it was read from are released."""
    copy = np.array(array)
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and array.mode != "c" and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
    return copy


class Blocks:
    """A source whose blocks are checked as they are read; iterating reads all blocks in order.

    Attributes:
        source: The source.
        stay_numpy: Whether arrays keep their types; jax has 32 bits by default.
        ends: The row after each block; the last is N.
        first: The rows of block 0.

    >>> import numpy as np
    >>> from bbalpha.runtime.sources import ArrayRows, Blocks
    >>> blocks = Blocks(ArrayRows(np.arange(5.0), block_rows=2))
    >>> [block.tolist() for block in blocks]
    [[0.0, 1.0], [2.0, 3.0], [4.0]]
    """

    def __init__(self, source: Source, *, stay_numpy: bool = False):
        self.source = source
        self.stay_numpy = stay_numpy
        self.ends = _block_ends(source)
        self.first = None
        self.first = self.read(0)

    @property
    def num_rows(self) -> int:
        """N."""
        return int(self.ends[-1])

    @property
    def row_bytes(self) -> float:
        """The size of a row in memory."""
        leaves = jax.tree.leaves(self.first)
        return sum(leaf.nbytes for leaf in leaves) / len(leaves[0])

    def __iter__(self) -> Iterator[PyTree]:
        for block in range(len(self.ends)):
            yield self.read(block)

    def start(self, block: int) -> int:
        """The first row of a block."""
        return int(self.ends[block - 1]) if block else 0

    def read(self, block: int) -> PyTree:
        """The rows of a block.

        Raises:
            SourceError: If the block cannot be read or breaks a rule; names its place.
        """
        try:
            rows = self.source.read(block)
        except SourceError:
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error}".rstrip(".")
            raise SourceError(f"data cannot be read in {self.place(block)}: {problem}.") from error
        rows = jax.tree.map(np.asarray, rows)
        self._check(rows, block)
        return rows if self.stay_numpy else jax.tree.map(_canonical, rows)

    def place(self, block: int, row: int | None = None) -> str:
        """The place of a block, or of a row in it, in words."""
        source: Any = self.source
        if hasattr(source, "place"):
            return source.place(block, row)
        return f"block {block}" + ("" if row is None else f", row {row}")

    def _check(self, rows: PyTree, block: int) -> None:
        place = self.place(block)
        try:
            found = check_data(rows, stay_numpy=self.stay_numpy)
        except ValueError as error:
            raise self._refusal(rows, block, error) from None
        expected = int(self.ends[block]) - self.start(block)
        if found != expected:
            raise SourceError(
                f"data must have the rows that num_rows={self.num_rows:,} and block_rows announce, "
                f"{expected:,} in {place}; got {found:,}."
            )
        if self.first is None:
            return
        kinds, first = _kinds(rows), _kinds(self.first)
        if kinds != first:
            names = [name for name in {**first, **kinds} if first.get(name) != kinds.get(name)]
            name = names[0] if names else ""
            raise SourceError(
                f"data{name} must be the same kind of array in every block; got "
                f"{kinds.get(name, 'none')} in {place} and {first.get(name, 'none')} in block 0."
            )

    def _refusal(self, rows: PyTree, block: int, error: ValueError) -> SourceError:
        """The error for an invalid block, with the place of the first value that is not finite."""
        for path, leaf in jax.tree_util.tree_leaves_with_path(rows):
            bad = ~np.isfinite(leaf) if leaf.dtype.kind == "f" else np.zeros(1)
            if bad.any():
                row = int(bad.reshape(len(leaf), -1).any(axis=1).argmax())
                return SourceError(
                    f"data{jax.tree_util.keystr(path)} must be finite; got {int(bad.sum())} NaN or "
                    f"infinite values, the first in {self.place(block, row)}."
                )
        return SourceError(f"{str(error).rstrip('.')} in {self.place(block)}.")


def _canonical(array: np.ndarray) -> np.ndarray:
    return np.asarray(array, jax.dtypes.canonicalize_dtype(array.dtype))


def _kinds(rows: PyTree) -> dict[str, str]:
    """The kind of each array of a tree."""
    return {
        jax.tree_util.keystr(path): "rows of shape "
        f"{np.shape(leaf)[1:]} and type {jax.dtypes.canonicalize_dtype(np.asarray(leaf).dtype)}"
        for path, leaf in jax.tree_util.tree_leaves_with_path(rows)
    }


def _block_ends(source: Source) -> np.ndarray:
    """The row after each block.

    Raises:
        SourceError: If the numbers of rows are invalid or contradict each other.
    """
    num_rows, sizes = source.num_rows, source.block_rows
    check_counts(**{"data.num_rows": num_rows})
    if isinstance(sizes, int | np.integer):
        check_counts(**{"data.block_rows": sizes})
        return np.minimum(np.arange(1, -(-num_rows // int(sizes)) + 1) * int(sizes), num_rows)
    sizes = np.asarray(sizes, np.int64)
    if sizes.sum() != num_rows or (sizes < 1).any():
        raise SourceError(
            "data.block_rows must be positive and sum to data.num_rows; got a sum of "
            f"{int(sizes.sum()):,} with num_rows={num_rows:,}."
        )
    return np.cumsum(sizes)


def is_source(data: Any) -> bool:
    """Whether data are anything but arrays in memory.

    >>> from bbalpha.runtime.sources import is_source
    >>> is_source(jnp.ones(3)), is_source("flights.parquet")
    (False, True)
    """
    if isinstance(data, str | Path | Source) or hasattr(data, "get_fragments"):
        return True
    return any(_is_mapped(leaf) for leaf in jax.tree.leaves(data))


def _is_mapped(leaf: Any) -> bool:
    return isinstance(leaf, np.memmap) and getattr(leaf, "_mmap", None) is not None


def as_source(data: Any) -> Source:
    """The source for a path, a pyarrow dataset, a source, or a tree of arrays.

    Raises:
        ValueError: If a path leads to nothing that can be read.
        TypeError: If data are none of these.
    """
    if isinstance(data, Source):
        return data
    if hasattr(data, "get_fragments"):
        return _parquet(data)
    if not isinstance(data, str | Path):
        return ArrayRows(data)
    path = Path(data)
    if not path.exists():
        raise ValueError(f"data must be a file or folder that exists; got {path}.")
    if path.suffix != ".npy":
        return _parquet(path)
    try:
        return ArrayRows(np.load(path, mmap_mode="r", allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as a .npy file: {error}") from None


def _parquet(data: Any) -> Source:
    from bbalpha.runtime.parquet import ParquetRows

    return ParquetRows(data)
