"""The order of rows that are too many for memory, or spread over hosts: a function of the step.

V readers own V ranges of rows, equal in length up to one row. A range is divided into blocks, the
pieces in which a source is read. In each epoch, a reader permutes its blocks, takes a window of a
few of them at a time, and shuffles the rows of the window. A batch takes B/V rows from each reader.

All of this follows from the key and the epoch. So nothing needs to be stored, a run may resume at
any step, and P processes with V/P readers each see the same batches as one process, although each
reads only its own rows.
"""

import dataclasses
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key

from bbalpha.engine import streams, threefry

NUM_ROUNDS = 8  # of the Feistel network
WINDOWS = 2**31  # first number of the keys of windows, apart from those of the rounds


class Window(NamedTuple):
    """Rows that a reader shuffles together.

    Attributes:
        begin: The number of rows that the reader has taken before in this epoch.
        starts: The first row of each piece of a block.
        sizes: The number of rows in each piece.
        key: The key of the shuffle.
    """

    begin: int
    starts: np.ndarray
    sizes: np.ndarray
    key: np.ndarray

    @property
    def num_rows(self) -> int:
        """The number of rows in the window."""
        return int(self.sizes.sum())

    def shuffle(self) -> np.ndarray:
        """The order of the rows of the pieces, laid end to end."""
        return lots(self.key, self.num_rows)

    def rows(self) -> np.ndarray:
        """The rows in the order in which they are taken."""
        places = np.repeat(self.starts - (np.cumsum(self.sizes) - self.sizes), self.sizes)
        return (places + np.arange(self.num_rows))[self.shuffle()]


@dataclasses.dataclass(frozen=True)
class RowOrder:
    """The rows of the batch of each step.

    Attributes:
        block_ends: The row after each block; the last is N.
        batch_size: B, a multiple of `num_readers`.
        num_readers: V, a multiple of the number of processes.
        window_blocks: The number of blocks that a reader shuffles together.
        key: Two words, as returned by `words_of_key`.

    >>> import numpy as np
    >>> from bbalpha.runtime.row_order import RowOrder, words_of_key
    >>> key = words_of_key(jax.random.key(0))
    >>> order = RowOrder(np.array([4, 8, 10]), 4, num_readers=2, window_blocks=1, key=key)
    >>> order.num_batches, order.batch_sizes.tolist()
    (3, [4, 4, 2])
    >>> rows, real = order.rows(step=0)
    >>> first_process = order.rows(step=0, readers=[0])
    >>> bool((first_process[0] == rows[:2]).all())
    True
    >>> sorted(int(row) for step in range(3) for row in order.rows(step)[0][order.rows(step)[1]])
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    block_ends: np.ndarray
    batch_size: int
    num_readers: int
    window_blocks: int
    key: np.ndarray

    def __post_init__(self):
        check_readers(self.batch_size, self.num_readers)

    @property
    def num_rows(self) -> int:
        """N."""
        return int(self.block_ends[-1])

    @property
    def share(self) -> int:
        """B/V, the number of rows that a batch takes from each reader."""
        return self.batch_size // self.num_readers

    @property
    def num_batches(self) -> int:
        """How many batches make an epoch."""
        return num_batches_of(self.num_rows, self.batch_size, self.num_readers)

    @cached_property
    def batch_sizes(self) -> np.ndarray:
        """|S|, the number of real rows in each batch of an epoch, over all readers."""
        lengths = np.diff(self._bounds)[:, None]
        begins = np.arange(self.num_batches) * self.share
        return np.clip(lengths - begins, 0, self.share).sum(axis=0)

    @cached_property
    def _bounds(self) -> np.ndarray:
        """The first row of each reader's range, and N."""
        numbers = [reader * self.num_rows // self.num_readers for reader in range(self.num_readers)]
        return np.array([*numbers, self.num_rows])

    def length(self, reader: int) -> int:
        """The number of rows that a reader owns."""
        return int(self._bounds[reader + 1] - self._bounds[reader])

    def windows(self, epoch: int, reader: int) -> list[Window]:
        """The windows that a reader takes in an epoch, in order."""
        low, high = self._bounds[reader : reader + 2]
        inner = self.block_ends[(self.block_ends > low) & (self.block_ends < high)]
        bounds = np.concatenate([[low], inner, [high]]) if high > low else np.array([low])
        starts, sizes = bounds[:-1], np.diff(bounds)
        key = folded(folded(folded(self.key, streams.ORDER), epoch), reader)
        turn = permuted(np.arange(len(starts)), len(starts), key)
        starts, sizes = starts[turn], sizes[turn]
        firsts = range(0, len(starts), self.window_blocks)
        windows, begin = [], 0
        for first, window_key in zip(firsts, keys_of(key, len(firsts), WINDOWS), strict=True):
            some = slice(first, first + self.window_blocks)
            windows.append(Window(begin, starts[some], sizes[some], window_key))
            begin += windows[-1].num_rows
        return windows

    def rows(
        self, step: int, readers: Sequence[int] | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows of the batch of a step, reader by reader, and whether each is real.

        Padding is row 0. To stream a whole epoch, use `windows` instead.

        Args:
            step: The step, counted from 0 over all epochs.
            readers: The readers of one process; by default all.
        """
        epoch, place = divmod(step, self.num_batches)
        readers = range(self.num_readers) if readers is None else readers
        taken = np.zeros((len(readers), self.share), np.int64)
        real = np.zeros(taken.shape, bool)
        for at, reader in enumerate(readers):
            begin = place * self.share
            found = [
                window.rows()[max(0, begin - window.begin) : begin + self.share - window.begin]
                for window in self.windows(epoch, reader)
                if window.begin < begin + self.share and begin < window.begin + window.num_rows
            ]
            count = sum(map(len, found))
            taken[at, :count] = np.concatenate([np.zeros(0, np.int64), *found])
            real[at, :count] = True
        return taken.ravel(), real.ravel()


def num_batches_of(num_rows: int, batch_size: int, num_readers: int) -> int:
    """How many batches make an epoch."""
    longest = -(-num_rows // num_readers)
    return -(-longest // (batch_size // num_readers))


def check_readers(batch_size: int, num_readers: int) -> None:
    """Raise unless every batch can take equally many rows from each reader.

    Raises:
        ValueError: If it cannot.
    """
    if batch_size % num_readers:
        raise ValueError(
            f"batch_size must be a multiple of the {num_readers} readers of the data, which each "
            f"batch takes equally many rows from; got batch_size={batch_size}."
        )


def readers_of(process: int, num_processes: int, num_readers: int) -> range:
    """The readers of a process. Their rows are contiguous in every batch.

    Raises:
        ValueError: If the processes cannot share the readers equally.

    >>> from bbalpha.runtime.row_order import readers_of
    >>> readers_of(1, num_processes=2, num_readers=8)
    range(4, 8)
    """
    if num_readers % num_processes:
        raise ValueError(
            f"the number of processes must divide the {num_readers} readers of the data; got "
            f"{num_processes} processes. A batch_size that is a multiple of a larger power of two, "
            "or smaller blocks, allow more readers."
        )
    share = num_readers // num_processes
    return range(process * share, (process + 1) * share)


def permuted(places: np.ndarray, num: int, key: np.ndarray) -> np.ndarray:
    """The images of some places under a random permutation of 0, …, num − 1, exact for any `num`.

    A Feistel network permutes the numbers of 2h bits: each round adds a random function of one half
    to the other half. A number outside the range is mapped again until it is inside (cycle
    walking), at most four times on average. Only the requested places are computed.

    >>> import numpy as np
    >>> from bbalpha.runtime.row_order import permuted
    >>> key = np.array([1, 2], np.uint32)
    >>> sorted(permuted(np.arange(5), 5, key).tolist())
    [0, 1, 2, 3, 4]
    >>> int(permuted(np.array([10**12]), 10**12 + 1, key)[0]) <= 10**12
    True
    """
    if num == 1:
        return np.zeros(np.shape(places), np.int64)
    half = -(-max(2, int(num - 1).bit_length()) // 2)
    keys = keys_of(key, NUM_ROUNDS)
    found = _through_network(np.asarray(places, np.uint64), half, keys)
    while len(outside := np.flatnonzero(found >= num)):
        found[outside] = _through_network(found[outside], half, keys)
    return found.astype(np.int64)


def _through_network(places: np.ndarray, half: int, keys: np.ndarray) -> np.ndarray:
    shift, mask = np.uint64(half), np.uint64(2**half - 1)
    left, right = places >> shift, places & mask
    for key in keys:
        word, _ = threefry.words_on_host(key, right.astype(np.uint32))
        left, right = right, left ^ (word & mask)
    return (left << shift) | right


def lots(key: np.ndarray, num: int) -> np.ndarray:
    """A whole random permutation of 0, …, num − 1: the places in the order of random words.

    >>> import numpy as np
    >>> from bbalpha.runtime.row_order import lots
    >>> sorted(lots(np.array([1, 2], np.uint32), 4).tolist())
    [0, 1, 2, 3]
    """
    word, _ = threefry.words_on_host(key, np.arange(num, dtype=np.uint32))
    # Sorted with its place in the low bits, a word needs no indirect sort, and ties are settled.
    packed = word.astype(np.uint64) << np.uint64(32) | np.arange(num, dtype=np.uint64)
    return (np.sort(packed) & np.uint64(2**32 - 1)).astype(np.int64)


def folded(key: np.ndarray, number: int) -> np.ndarray:
    """The words of the key that `jax.random.fold_in` returns."""
    return np.concatenate(threefry.words_on_host(key, np.array([number], np.uint32)))


def keys_of(key: np.ndarray, num: int, first: int = 0) -> np.ndarray:
    """Keys for many consecutive numbers, each as `folded` returns it."""
    numbers = first + np.arange(num, dtype=np.uint32)
    return np.stack(threefry.words_on_host(key, numbers.astype(np.uint32)), axis=-1)


def words_of_key(key: Key[Array, ""]) -> np.ndarray:
    """Two words for a random key; for generators with longer keys, all of their words count.

    >>> from bbalpha.runtime.row_order import words_of_key
    >>> words_of_key(jax.random.key(7)).tolist()
    [0, 7]
    """
    first, second, *more = np.asarray(jax.random.key_data(key)).tolist()
    words = np.array([first, second], np.uint32)
    for word in more:
        words = folded(words, word)
    return words
