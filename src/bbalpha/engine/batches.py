"""Minibatches: padded rows on the device, and the order in which an epoch visits them.

A minibatch is a row of indices into the data. It always has the same length, so that it compiles
once: a short batch is padded, and the weight of each entry says how many data points it stands for
(N/|S| for real entries, 0 for padding).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Int, Key, PRNGKeyArray, PyTree, UInt32

from bbalpha.engine import streams, threefry
from bbalpha.engine.arrays import on_device, on_host

SHORTEST_LENGTH = 8  # of padded rows
FINE_LENGTH = 1024  # above this, padding to powers of two would waste too much


class Order(NamedTuple):
    """An epoch under way: the rows of its batches with their weights, and its energy so far."""

    taken: Int[Array, "*replicas batches batch"]
    weights: Float[Array, "*replicas batches batch"]
    energy: Float[Array, "*replicas"]


class Rows(NamedTuple):
    """The padded data on the device, the weight of each row, and how many rows are real."""

    data: PyTree
    sample_weight: Float[Array, "*replicas rows"]
    num_rows: Int[Array, ""]

    def total_weight(self) -> np.ndarray:
        """N, summed on the host in double precision."""
        return np.asarray(np.asarray(self.sample_weight, np.float64).sum(axis=-1))

    def num_batches(self, batch_size: int) -> Int[Array, ""]:
        """The number of minibatches in an epoch."""
        return jax.lax.div(self.num_rows + (batch_size - 1), self.num_rows.dtype.type(batch_size))

    def take(self, taken: Int[Array, " batch"]) -> tuple[PyTree, Float[Array, " batch"]]:
        """Some rows of the data, and their weights."""
        # The indices are known to be valid, so the program need not check them.
        return jax.tree.map(
            lambda leaf: leaf.at[taken].get(mode="promise_in_bounds"),
            (self.data, self.sample_weight),
        )


def padded_rows(data: PyTree, sample_weight: np.ndarray) -> Rows:
    """The data on the device, padded along the last axis of `sample_weight`.

    Padding repeats the first row, so that the log-likelihood of padding is finite, too.
    """
    axis = sample_weight.ndim - 1
    num_rows = sample_weight.shape[-1]
    num_slots = padded_length(num_rows)
    taken = np.where(np.arange(num_slots) < num_rows, np.arange(num_slots), 0)
    padding = [(0, 0)] * axis + [(0, num_slots - num_rows)]

    def padded(leaf: ArrayLike) -> Array:
        leaf = on_host(leaf)
        return on_device(leaf if num_rows == num_slots else leaf.take(taken, axis=axis))

    weights = on_device(np.pad(sample_weight, padding).astype(float))
    return Rows(jax.tree.map(padded, data), weights, on_device(num_rows))


def padded_length(num_rows: int) -> int:
    """The length to pad rows to. There are few lengths, so that similar sizes share a program.

    They are powers of two up to `FINE_LENGTH`, and four per octave above, to waste less memory.

    >>> from bbalpha.engine.batches import padded_length
    >>> [padded_length(num_rows) for num_rows in (5, 33, 506, 1030, 10**6)]
    [8, 64, 512, 1280, 1048576]
    """
    octave = 2 ** (num_rows - 1).bit_length()
    unit = octave if octave <= FINE_LENGTH else octave // 8
    return max(SHORTEST_LENGTH, -(-num_rows // unit) * unit)


def order_of_epoch(key: PRNGKeyArray, epoch: Int[Array, ""], rows: Rows, batch_size: int) -> Order:
    """The order at the start of an epoch: a function of the key and the epoch."""
    key = threefry.fold_in(threefry.fold_in(key, streams.ORDER), epoch)
    num_slots = rows.sample_weight.shape[-1]
    return Order(*minibatch_rows(key, rows.num_rows, num_slots, batch_size), jnp.zeros(()))


def order_under_way(
    keys: Key[Array, "..."], epoch: int, energy: np.ndarray, rows: Rows, batch_size: int
) -> Order:
    """The order in the middle of an epoch with this energy so far, of one run or of replicas."""

    def draw(key: PRNGKeyArray) -> Order:
        return order_of_epoch(key, jnp.asarray(epoch), rows, batch_size)

    order = jax.vmap(draw)(keys) if keys.ndim else draw(keys)
    return order._replace(energy=on_device(energy, order.energy.dtype))


def no_order(rows: Rows, batch_size: int, replicas: tuple[int, ...] = ()) -> Order:
    """Zeros in the shape of an epoch's order."""
    shape = (*replicas, -(-rows.sample_weight.shape[-1] // batch_size), batch_size)
    taken, weights, energy = np.zeros(shape, int), np.zeros(shape), np.zeros(replicas)
    return Order(on_device(taken), on_device(weights), on_device(energy))


def minibatch_rows(
    key: PRNGKeyArray, num_rows: ArrayLike, num_slots: int, batch_size: int
) -> tuple[Int[Array, "batches size"], Float[Array, "batches size"]]:
    """Return the rows of each minibatch of one epoch, and how many data points each stands for.

    A fresh permutation of the rows is cut into batches S_b of `batch_size`; the last may be shorter
    and is padded with row 0 at weight 0. A real entry weighs N/|S_b|, where |S_b| counts the real
    entries of its batch. So Σᵢ weight·g(row) is an unbiased estimate of Σₙ g(n), and the mean of
    these estimates over the epoch, each batch counted |S_b|/N, equals it.

    Pure and jit-able; `num_slots` and `batch_size` are static. The order depends on the key and
    `num_rows` alone: data padded to more slots give the same batches, followed by empty ones.

    Args:
        key: Random key of the epoch.
        num_rows: Number of data points N, at most `num_slots`; may be traced.
        num_slots: Length of the arrays; slots from `num_rows` on are padding and never drawn.
        batch_size: Number of entries per batch.

    Returns:
        Integer rows and float weights, each of shape (⌈num_slots / batch_size⌉, batch_size).

    >>> from bbalpha.engine.batches import minibatch_rows
    >>> rows, weights = minibatch_rows(jax.random.key(0), num_rows=5, num_slots=5, batch_size=3)
    >>> sorted(rows[weights > 0].tolist())
    [0, 1, 2, 3, 4]
    >>> weights.round(3).tolist()[1]
    [2.5, 2.5, 0.0]
    """
    num_batches = -(-num_slots // batch_size)
    lot = threefry.bits(key, num_slots)
    # The sort is stable, so padding follows even a real row that drew the largest lot.
    lot = jnp.where(jnp.arange(num_slots) < num_rows, lot, np.uint32(2**32 - 1))
    order = stable_argsort(lot)
    order = jnp.pad(order, (0, num_batches * batch_size - num_slots))
    real = (jnp.arange(order.size) < num_rows).reshape(num_batches, batch_size)
    sizes = jnp.maximum(real.sum(axis=1, keepdims=True), 1)  # |S_b|, or 1 if the batch is empty
    return jnp.where(real, order.reshape(real.shape), 0), jnp.where(real, num_rows / sizes, 0.0)


def stable_argsort(words: UInt32[Array, " num"]) -> Int[Array, " num"]:
    """Return `jnp.argsort(words, stable=True)`, two or three times as fast on CPU.

    On CPU, XLA sorts a single array of integers several times faster than an array with its
    indices. So a few bits of each word, the lowest first, are packed with its index into one
    integer.
    """
    num_bits = max(1, (len(words) - 1).bit_length())  # of an index
    places = jax.lax.iota(jnp.uint32, len(words))
    order = places.astype(int)
    for shift in range(0, 32, 32 - num_bits):
        packed = jnp.sort(((words[order] >> shift) << num_bits) | places, stable=False)
        order = order[packed & np.uint32(2**num_bits - 1)]
    return order
