"""From a source to the compiled loop: a thread prepares batches while earlier ones are running.

A chunk holds the batches of some consecutive steps. The key and the step determine their rows
(`row_order`), so a run that resumes at any step sees the same batches.
"""

import math
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Key, PyTree

from bbalpha.engine.arrays import on_device
from bbalpha.engine.chunks import Chunk, SourceError, energies_of_chunk, quick_chunk, run_chunk
from bbalpha.engine.epochs import CHUNK_EPOCHS
from bbalpha.engine.loop import Plan
from bbalpha.runtime.row_order import RowOrder, num_batches_of, words_of_key
from bbalpha.runtime.sources import Blocks

MOST_READERS = 32
WINDOW_BYTES = 2**22  # of rows that a reader shuffles together; one block if that is larger
MOST_BYTES = 2**27  # in the windows of all readers together
CHUNK_BYTES, CHUNK_ROWS = 2**24, 2**17  # limits on the size of a chunk
FEWEST_STEPS = 16  # in a chunk, even if that is more than an epoch
NUM_AHEAD = 2  # chunks that may wait in the queue
PATIENCE = 0.1  # seconds between two checks of the thread whether to end


class Batches(NamedTuple):
    """The batches of consecutive steps on the host, and the share of the rows in each."""

    begin: int
    leaves: list[np.ndarray]
    weights: np.ndarray
    shares: np.ndarray  # |S|/N

    @property
    def end(self) -> int:
        """The step after the last."""
        return self.begin + len(self.weights)


class Feed:
    """The rows of a source, fed to the loop in chunks of batches.

    With several processes, each has a feed for its own readers, and `to_device` combines the parts
    of a batch into global arrays. The batches are the same as with one process.

    Attributes:
        blocks: The checked source.
        batch_size: B, the rows per batch.
        num_readers: V, the number of readers; by default the largest power of two that divides B,
            is at most 32 and at most the number of blocks, and keeps the windows of all readers
            within 128 MiB.
        readers: The readers of this process; by default all.
        to_device: Puts a tree of arrays of shape (steps, batch, …) on the device or devices.
        over: Turns a program of one process into a program of all processes.
        wait: Waits for the other processes, which may still be reading, before steps sum over them.

    >>> import numpy as np
    >>> from bbalpha.runtime.feeding import Feed
    >>> from bbalpha.runtime.sources import ArrayRows, Blocks
    >>> feed = Feed(Blocks(ArrayRows(np.arange(10.0), block_rows=5)), batch_size=4)
    >>> feed.num_readers, feed.num_batches
    (2, 3)
    >>> batches = feed.batches(jax.random.key(0), begin=0, num_steps=3)
    >>> batches.leaves[0].shape, batches.weights.sum(axis=1).tolist()
    ((3, 4), [10.0, 10.0, 10.0])
    """

    def __init__(
        self,
        blocks: Blocks,
        batch_size: int,
        num_readers: int | None = None,
        readers: Sequence[int] | None = None,
        to_device: Callable[[PyTree], PyTree] = jax.device_put,
    ):
        self.blocks = blocks
        self.batch_size = batch_size
        sizes = np.diff(blocks.ends, prepend=0)
        block_bytes = float(np.mean(sizes)) * blocks.row_bytes
        self.window_blocks = max(1, int(WINDOW_BYTES / block_bytes))
        window_bytes = float(np.max(sizes)) * blocks.row_bytes * self.window_blocks
        most = min(MOST_READERS, len(sizes), int(MOST_BYTES / window_bytes))
        self.num_readers = num_readers or _num_readers(batch_size, max(1, most))
        self.readers = range(self.num_readers) if readers is None else readers
        self.to_device = to_device
        self.over: Callable[..., Callable[..., Any]] = lambda program, waits=False: program
        self.wait: Callable[[], None] = lambda: None
        self.num_batches = num_batches_of(blocks.num_rows, batch_size, self.num_readers)
        most = int(min(CHUNK_BYTES / blocks.row_bytes, CHUNK_ROWS) / batch_size)
        few = FEWEST_STEPS if self.num_batches > 1 else 1
        self.num_steps = max(1, min(most, max(self.num_batches, few)))  # of a chunk
        self._ahead: _Ahead | None = None
        self._chunk: tuple[Batches, Chunk] | None = None

    @property
    def num_rows(self) -> int:
        """N."""
        return self.blocks.num_rows

    def total_weight(self) -> int:
        """N: every row is one data point."""
        return self.num_rows

    def order(self, key: Key[Array, ""]) -> RowOrder:
        """The order of the rows under a key."""
        return RowOrder(
            block_ends=self.blocks.ends,
            batch_size=self.batch_size,
            num_readers=self.num_readers,
            window_blocks=self.window_blocks,
            key=words_of_key(key),
        )

    def batches(self, key: Key[Array, ""], begin: int, num_steps: int) -> Batches:
        """This process's part of the batches of some steps."""
        return next(self._chunks(self.order(key), begin, num_steps))

    def runner(self, is_quick: bool) -> Callable[..., tuple]:
        """A function that takes steps, like `run_steps`."""
        return partial(self._run, self.over(quick_chunk if is_quick else run_chunk))

    def order_at(self, state: Any, plan: Plan, energies: np.ndarray) -> np.ndarray:
        """The energy so far of the state's epoch, which is passed from call to call."""
        epoch, place = divmod(int(state.step), plan.num_batches)
        return np.asarray(energies[epoch, plan.part_of(place - 1)] if place else 0.0)

    def energy(self, state: Any) -> Array:
        """The energy on all rows, with the draws of the next step."""
        self.close()  # frees its memory before more is needed
        total, ahead = 0.0, self._start(state, 0, self.num_batches)
        energies_of = self.over(energies_of_chunk, waits=True)
        try:
            for begin in range(0, self.num_batches, self.num_steps):
                batches = ahead.next()
                energies = energies_of(state, self._on_device(batches))
                count = min(self.num_steps, self.num_batches - begin)
                total += np.asarray(energies, np.float64)[:count] @ batches.shares[:count]
        except SourceError as error:
            error.state = state
            raise
        finally:
            ahead.close()
        return on_device(total, state.dtype)

    def identity(self) -> PyTree:
        """What determines the batches apart from the key: the data and how they are divided.

        A source without an `identity` method is identified by its first and its last block.
        """
        source: Any = self.blocks.source
        last = len(self.blocks.ends) - 1
        known = source.identity() if hasattr(source, "identity") else self.blocks.read(last)
        cut = (self.blocks.ends, self.batch_size, self.num_readers, self.window_blocks)
        structure = str(jax.tree.structure(self.blocks.first))
        return (known, self.blocks.first, structure, *cut)

    def example(self) -> tuple[PyTree, np.ndarray]:
        """Arrays with the shapes and types of a batch, and weights."""
        shape = (self.batch_size,)
        data = jax.tree.map(
            lambda leaf: np.zeros((*shape, *leaf.shape[1:]), leaf.dtype), self.blocks.first
        )
        return data, np.zeros(shape)

    def close(self) -> None:
        """End the thread."""
        if self._ahead is not None:
            self._ahead.close()
        self._ahead = self._chunk = None

    def _run(
        self, program: Callable, state: Any, order: np.ndarray, num_steps: Array
    ) -> tuple[Any, np.ndarray, np.ndarray, Any]:
        step = int(state.step)
        first, place = divmod(step, self.num_batches)
        end = step + int(num_steps)
        sums = np.zeros(CHUNK_EPOCHS + 1, state.dtype)
        sums[0] = order if place else 0.0
        while True:
            batches, chunk = self._chunk_at(state, step)
            count = min(end, batches.end) - step
            state, energies, finite = program(state, chunk, on_device(count))
            taken = slice(step - batches.begin, step - batches.begin + count)
            parts = np.asarray(energies)[taken] * batches.shares[taken].astype(state.dtype)
            # Added one by one, so that sums do not depend on where chunks and calls begin.
            np.add.at(sums, np.arange(step, step + count) // self.num_batches - first, parts)
            step += count
            if step >= end or not finite:
                return state, np.asarray(sums[end // self.num_batches - first]), sums, finite

    def _chunk_at(self, state: Any, step: int) -> tuple[Batches, Chunk]:
        """The chunk that holds a step; if steps are consecutive, it was prepared ahead.

        A batch of all rows is prepared once, in the order of the first epoch.
        """
        if self.num_batches == 1:
            batches, chunk = self._chunk or self._keep(self.batches(state.key, 0, 1))
            return batches._replace(begin=step), chunk._replace(begin=on_device(np.int32(step)))
        if self._chunk is not None and self._chunk[0].begin <= step < self._chunk[0].end:
            return self._chunk
        follows = self._chunk is not None and self._chunk[0].end == step
        if self._ahead is None or not follows:
            self.close()
            self._ahead = self._start(state, step)
        self._chunk = None  # frees its memory before the next chunk needs more
        return self._keep(self._ahead.next())

    def _keep(self, batches: Batches) -> tuple[Batches, Chunk]:
        """The batches and their chunk, kept until all of them have been used."""
        self._chunk = batches, self._on_device(batches)
        self.wait()
        return self._chunk

    def _start(self, state: Any, step: int, end: int | None = None) -> "_Ahead":
        return _Ahead(self._chunks(self.order(state.key), step, self.num_steps, end))

    def _on_device(self, batches: Batches) -> Chunk:
        structure = jax.tree.structure(self.blocks.first)
        data = jax.tree.unflatten(structure, batches.leaves)
        data, weights = self.to_device((data, batches.weights))
        return Chunk(on_device(np.int32(batches.begin)), data, weights)

    def _chunks(
        self, order: RowOrder, begin: int, num_steps: int, end: int | None = None
    ) -> Iterator[Batches]:
        """The batches of all steps from `begin`, `num_steps` at a time; the last may go beyond."""
        shape = (num_steps, len(self.readers), order.share)
        flat = (num_steps, len(self.readers) * order.share)
        first = jax.tree.leaves(self.blocks.first)
        epoch, place = divmod(begin, order.num_batches)
        streams = self._streams(order, epoch, place)
        while end is None or begin < end:
            leaves = [np.zeros((*shape, *leaf.shape[1:]), leaf.dtype) for leaf in first]
            weights = np.zeros(shape, jax.dtypes.canonicalize_dtype(float))
            shares = np.zeros(num_steps)
            done = 0
            while done < num_steps:
                count = min(num_steps - done, order.num_batches - place)
                some = slice(done, done + count)
                for at, stream in enumerate(streams):
                    stream.fill([leaf[some, at] for leaf in leaves])
                shares[some] = order.batch_sizes[place : place + count] / order.num_rows
                weights[some] = self._weights(order, place, count)
                done, place = done + count, place + count
                if place == order.num_batches:
                    epoch, place = epoch + 1, 0
                    streams = self._streams(order, epoch, place)
            leaves = [leaf.reshape(*flat, *leaf.shape[3:]) for leaf in leaves]
            yield Batches(begin, leaves, weights.reshape(flat), shares)
            begin += num_steps

    def _weights(self, order: RowOrder, place: int, count: int) -> np.ndarray:
        """N/|S| for the rows of some batches of an epoch, of shape (steps, readers, rows)."""
        lengths = np.array([order.length(reader) for reader in self.readers])
        places = (place * order.share + np.arange(count * order.share)).reshape(count, 1, -1)
        batch_sizes = order.batch_sizes[place : place + count]
        scales = (order.num_rows / batch_sizes)[:, None, None]
        return np.where(places < lengths[:, None], scales, 0.0)

    def _streams(self, order: RowOrder, epoch: int, place: int) -> list["_Stream"]:
        begin = place * order.share
        return [_Stream(self.blocks, order, epoch, reader, begin) for reader in self.readers]


class _Stream:
    """The rows of a reader in an epoch, one after another."""

    def __init__(self, blocks: Blocks, order: RowOrder, epoch: int, reader: int, begin: int):
        self.blocks = blocks
        self.rest = self._parts(order.windows(epoch, reader), begin)
        self.data: list[np.ndarray] = jax.tree.leaves(blocks.first)
        self.turn = np.zeros(0, np.int64)  # the rows of the window that are left

    def fill(self, leaves: list[np.ndarray]) -> None:
        """Fill arrays of shape (steps, rows, …) with the next rows, then with padding."""
        steps, share = leaves[0].shape[:2]
        done, count = 0, steps * share
        rows = [np.empty((count, *leaf.shape[2:]), leaf.dtype) for leaf in leaves]
        while done < count:
            if not len(self.turn) and not self._next_window():
                self.turn = np.zeros(count - done, np.int64)  # padding: any row will do
            some, self.turn = self.turn[: count - done], self.turn[count - done :]
            for row, values in zip(rows, self.data, strict=True):
                np.take(values, some, axis=0, out=row[done : done + len(some)], mode="clip")
            done += len(some)
        for leaf, row in zip(leaves, rows, strict=True):
            leaf[...] = row.reshape(leaf.shape)

    def _next_window(self) -> bool:
        part = next(self.rest, None)
        if part is not None:
            self.data, self.turn = part
        return part is not None

    def _parts(self, windows: list, begin: int) -> Iterator[tuple[list[np.ndarray], np.ndarray]]:
        """The rows of each window from a place on, and the order in which to take them."""
        for window in windows:
            if window.begin + window.num_rows > begin:
                self.data = [leaf[:1] for leaf in self.data]  # frees the last window's memory
                pieces = [
                    self._piece(int(start), int(size))
                    for start, size in zip(window.starts, window.sizes, strict=True)
                ]
                joined = [_joined(leaves) for leaves in zip(*pieces, strict=True)]
                yield joined, window.shuffle()[max(0, begin - window.begin) :]

    def _piece(self, start: int, size: int) -> list[np.ndarray]:
        block = int(np.searchsorted(self.blocks.ends, start, side="right"))
        begin = start - self.blocks.start(block)
        leaves = jax.tree.leaves(self.blocks.read(block))
        return [leaf[begin : begin + size] for leaf in leaves]


def _joined(leaves: Sequence[np.ndarray]) -> np.ndarray:
    return leaves[0] if len(leaves) == 1 else np.concatenate(leaves)


def _num_readers(batch_size: int, most: int) -> int:
    """The largest power of two that divides B and is at most `most`."""
    return math.gcd(batch_size, 2 ** (most.bit_length() - 1))


class _Ahead:
    """The items of an iterator, produced by a thread ahead of time."""

    def __init__(self, made: Iterator[Any]):
        self.queue: queue.Queue = queue.Queue(NUM_AHEAD)
        self.is_over = threading.Event()
        is_x64 = bool(jax.config.jax_enable_x64)  # pyright: ignore[reportAttributeAccessIssue]
        self.thread = threading.Thread(target=self._make, args=(made, is_x64), daemon=True)
        self.thread.start()

    def next(self) -> Any:
        """The next item.

        Raises:
            SourceError: If the item could not be produced.
        """
        item = self.queue.get()
        if isinstance(item, BaseException):
            raise item
        return item

    def close(self) -> None:
        """End the thread after the block that it is reading."""
        self.is_over.set()
        self.thread.join()

    def _make(self, made: Iterator[Any], is_x64: bool) -> None:
        with jax.enable_x64(is_x64):  # a setting of the thread
            try:
                for item in made:
                    if not self._put(item):
                        return
            except BaseException as error:
                self._put(error)

    def _put(self, item: Any) -> bool:
        """Put an item into the queue when there is room; false if the thread is to end."""
        while not self.is_over.is_set():
            try:
                self.queue.put(item, timeout=PATIENCE)
                return True
            except queue.Full:
                pass
        return False
