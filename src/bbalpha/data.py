"""Data: the first step, from arrays to the rows and weights of each minibatch.

Data are any pytree of arrays that share their leading axis, one row per data point; `Dataset` is
the usual one. A minibatch is a row of numbers into them, always of the same length so that it
compiles once: a short batch is padded, and the weight of each entry says how many data points it
stands for (N/|S| for real entries, 0 for padding).
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike
from jaxtyping import Float, Int, PRNGKeyArray, UInt32

from bbalpha.engine import threefry

SHORTEST_LENGTH = 8  # of padded rows
ROUNDINGS = 2  # units in the last place by which values of a constant may differ
FINE_LENGTH = 1024  # above which padding to powers of two would waste too much


class Dataset(NamedTuple):
    """Inputs and targets, one row of each per data point.

    A pytree, to be used wherever data are expected. It is a pair, so `len` is always 2.

    Attributes:
        inputs: What is known of each data point; an array or a pytree of arrays.
        targets: What is to be predicted.

    >>> import jax, jax.numpy as jnp, bbalpha as bb
    >>> data = bb.Dataset(inputs=jnp.ones((4, 3)), targets=jnp.arange(4.0))
    >>> first_half = jax.tree.map(lambda array: array[:2], data)
    >>> first_half.inputs.shape, first_half.targets.shape
    ((2, 3), (2,))
    """

    inputs: Any
    targets: Any


class Standardizer(eqx.Module):
    """The affine map z = (y − mean)/scale of each column, and its inverses.

    Statistics are float64 numpy arrays, so that a large mean loses no digits. Each method takes a
    numpy or jax array whose last axis is the columns (any shape, if a vector was standardized).

    Attributes:
        mean: Mean of each column, of shape (columns,), or () for a vector.
        scale: Standard deviation of each column (ddof 0), 1 where the column is constant.

    >>> import numpy as np, bbalpha as bb
    >>> _, standardizer = bb.standardize(np.array([[10.0, 1.0], [14.0, 1.0]]))
    >>> standardizer.transform(np.array([[16.0, 3.0]])).tolist()
    [[2.0, 2.0]]
    >>> standardizer.inverse(np.array([[2.0, 2.0]])).tolist()
    [[16.0, 3.0]]
    """

    mean: Array | np.ndarray
    scale: Array | np.ndarray

    def transform(self, array: ArrayLike) -> Array | np.ndarray:
        """Return the array in standardized units."""
        array = as_array(array)
        return (array - self._align(self.mean, array)) / self._align(self.scale, array)

    def inverse(self, array: ArrayLike) -> Array | np.ndarray:
        """Return a standardized array in its original units."""
        array = as_array(array)
        return array * self._align(self.scale, array) + self._align(self.mean, array)

    def inverse_variance(self, variance: ArrayLike) -> Array | np.ndarray:
        """Return variances of standardized quantities in the original units, squared."""
        variance = as_array(variance)
        return variance * self._align(self.scale, variance) ** 2

    @property
    def log_scale(self) -> Array | np.ndarray:
        """Σⱼ log scaleⱼ, to be subtracted from a log-density: log p(y) = log p(z) − log_scale."""
        numpy = jnp if isinstance(self.scale, Array) else np
        return numpy.asarray(numpy.log(self.scale).sum())

    def _align(self, statistic, array):
        """The statistic with the leading axes it lacks, for arrays may not be rank-promoted."""
        if self.mean.ndim and array.shape[-1:] != self.mean.shape:
            raise ValueError(
                f"array must have {self.mean.size} columns, as the one that was standardized; "
                f"got shape {array.shape}."
            )
        return statistic.reshape((1,) * (array.ndim - statistic.ndim) + statistic.shape)


def standardize(
    array: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[Array | np.ndarray, Standardizer]:
    """Return the array with columns of mean 0 and variance 1, and the map that did it.

    Args:
        array: The training split, of shape (rows,) or (rows, columns), numpy or jax. A column
            that is constant, to rounding, is centered and not scaled.
        sample_weight: How many data points each row stands for; 1 by default.

    Returns:
        The standardized array, of the same kind, and the `Standardizer` for other splits,
        predictions and log-densities.

    Raises:
        ValueError: If the array has other axes, no rows, or values that are not finite numbers, or
            if the weights are not as many, are negative or all zero.

    >>> import numpy as np, bbalpha as bb
    >>> standardized, standardizer = bb.standardize(np.array([1.0, 3.0, 5.0, 7.0]))
    >>> standardized.round(3).tolist()
    [-1.342, -0.447, 0.447, 1.342]
    >>> float(standardizer.mean), round(float(standardizer.log_scale), 3)
    (4.0, 0.805)
    """
    array = as_array(array)
    check_data(array, name="array", stay_numpy=True)
    if array.ndim > 2:
        raise ValueError(
            f"array must have shape (rows,) or (rows, columns); got shape {array.shape}."
        )
    values = np.asarray(array, dtype=np.float64)
    weights = np.ones(len(values)) if sample_weight is None else np.asarray(sample_weight)
    check_weights(weights, (len(values),), "sample_weight")
    values, weights = values[weights > 0], weights[weights > 0]
    mean = np.average(values, axis=0, weights=weights)
    scale = np.sqrt(np.average(np.square(values - mean), axis=0, weights=weights))
    # A column such as 0.3, 0.1 + 0.2 is constant too: scaled, it would put 0.31 at 10¹⁴.
    largest = np.abs(values).max(axis=0)
    is_rounded = array.dtype in (np.float32, np.float64)
    rounding = ROUNDINGS * np.spacing(largest.astype(array.dtype)) if is_rounded else 0.0
    constant = (np.ptp(values, axis=0) <= rounding) | (scale == 0)
    standardizer = Standardizer(mean=np.asarray(mean), scale=np.where(constant, 1.0, scale))
    return standardizer.transform(array), standardizer


class Splits(NamedTuple):
    """Row numbers of the training and test part of each split.

    Attributes:
        train: Integers of shape (num_splits, num_train).
        test: Integers of shape (num_splits, num_data − num_train).
    """

    train: np.ndarray
    test: np.ndarray


def splits(num_data: int, num_splits: int, train_fraction: float = 0.9, seed: int = 1) -> Splits:
    """Return random splits of the rows into a training and a test part.

    The defaults draw from the stream behind the published splits of the UCI regression sets
    (numpy's legacy generator, seed 1): the first twenty here are those.

    Args:
        num_data: Number of rows to split.
        num_splits: Number of splits; asking for more leaves the earlier ones as they were.
        train_fraction: Part of the rows to train on, rounded to whole rows.
        seed: Seed of the stream.

    Returns:
        The row numbers of each split, in the order drawn.

    Raises:
        ValueError: If a part would be empty, or no split is asked for.

    >>> import bbalpha as bb
    >>> train, test = bb.splits(num_data=506, num_splits=20)
    >>> train.shape, test.shape
    ((20, 455), (20, 51))
    >>> test[0, :4].tolist()
    [431, 115, 470, 216]
    """
    num_train = round(train_fraction * num_data)
    if not 0 < num_train < num_data:
        raise ValueError(
            "train_fraction must leave at least one row to train and one to test; "
            f"got train_fraction={train_fraction} with num_data={num_data}."
        )
    if num_splits < 1:
        raise ValueError(f"num_splits must be at least 1; got num_splits={num_splits}.")
    stream = np.random.RandomState(seed)
    rows = np.stack([stream.permutation(num_data) for _ in range(num_splits)])
    return Splits(train=rows[:, :num_train], test=rows[:, num_train:])


def check_data(data: Any, name: str = "data", *, stay_numpy: bool = False) -> int:
    """Return the number of rows of the data, or say in a sentence what is wrong with them.

    Args:
        data: A pytree of numeric arrays that share their leading axis.
        name: What the caller's user calls them, for the messages.
        stay_numpy: Whether numpy arrays will not become jax arrays, which hold 32 bits by default.

    Returns:
        The length of the leading axis.

    Raises:
        ValueError: If there are no arrays or no rows, if an array has no leading axis or is not
            numeric, if lengths differ, or if a value is NaN, infinite or too large an integer.

    >>> import numpy as np
    >>> from bbalpha.data import check_data
    >>> check_data((np.ones((5, 2)), np.zeros(5)))
    5
    >>> check_data((np.ones((5, 2)), np.zeros(4)))
    Traceback (most recent call last):
    ValueError: data must have as many rows in every array; got data[0] with 5, data[1] with 4.
    """
    paths = jax.tree_util.tree_leaves_with_path(data)
    arrays = {name + jax.tree_util.keystr(path): as_array(leaf) for path, leaf in paths}
    if not arrays:
        raise ValueError(f"{name} must hold at least one array; got {name}={data!r}.")
    for label, array in arrays.items():
        _check_kind(label, array)
    num_rows = _shared_length(name, arrays)
    for label, array in arrays.items():
        _check_finite(label, array)
        if not stay_numpy:
            _check_range(label, array)
    return num_rows


def check_weights(weights: np.ndarray, shape: tuple[int, ...], name: str) -> None:
    """Refuse weights of another shape, negative ones, and none but zeros (for some replica).

    Raises:
        ValueError: With the shape or the values.
    """
    if weights.shape != shape:
        raise ValueError(
            f"{name} must have shape {shape}, one number per data point; got shape {weights.shape}."
        )
    not_negative = np.isfinite(weights).all() and (weights >= 0).all()
    if not (not_negative and weights.any(axis=-1).all()):
        raise ValueError(
            f"{name} must be finite, not negative and not all zero; "
            f"got values from {weights.min()} to {weights.max()}."
        )


def minibatch_rows(
    key: PRNGKeyArray, num_rows: ArrayLike, num_slots: int, batch_size: int
) -> tuple[Int[Array, "batches size"], Float[Array, "batches size"]]:
    """Return the rows of each minibatch of one epoch, and how many data points each stands for.

    A fresh permutation of the rows is cut into batches S_b of `batch_size`; the last may be
    shorter and is padded with row 0 at weight 0. A real entry weighs N/|S_b|, |S_b| being the true
    size of its batch, so that Σᵢ weight·g(row) is an unbiased estimate of Σₙ g(n), and the mean of
    these over the epoch, each batch counted |S_b|/N, is equal to it.

    Pure and jit-able; `num_slots` and `batch_size` are static. The order depends on the key and
    `num_rows` only: data padded to more slots give the same batches, then empty ones.

    Args:
        key: Random key of the epoch.
        num_rows: Number of data points N, at most `num_slots`; may be traced.
        num_slots: Length of the arrays; the slots from `num_rows` on are padding, never drawn.
        batch_size: Number of entries per batch.

    Returns:
        Integer rows and float weights, each of shape (⌈num_slots / batch_size⌉, batch_size).

    >>> import jax
    >>> from bbalpha.data import minibatch_rows
    >>> rows, weights = minibatch_rows(jax.random.key(0), num_rows=5, num_slots=5, batch_size=3)
    >>> sorted(rows[weights > 0].tolist())
    [0, 1, 2, 3, 4]
    >>> weights.round(3).tolist()[1]
    [2.5, 2.5, 0.0]
    """
    num_batches = -(-num_slots // batch_size)
    lot = threefry.bits(key, num_slots)
    # The sort is stable, so a padding slot follows even a real one that drew the largest lot.
    lot = jnp.where(jnp.arange(num_slots) < num_rows, lot, np.uint32(2**32 - 1))
    order = stable_argsort(lot)
    order = jnp.pad(order, (0, num_batches * batch_size - num_slots))
    real = (jnp.arange(order.size) < num_rows).reshape(num_batches, batch_size)
    sizes = jnp.maximum(real.sum(axis=1, keepdims=True), 1)  # |S_b|, 1 if the batch is empty
    return jnp.where(real, order.reshape(real.shape), 0), jnp.where(real, num_rows / sizes, 0.0)


def stable_argsort(words: UInt32[Array, " num"]) -> Int[Array, " num"]:
    """Return `jnp.argsort(words, stable=True)`, two or three times as fast on CPU.

    There XLA sorts one array of integers several times faster than an array with its places. So a
    few bits of each word are packed with its place into one integer, the lowest ones first.
    """
    num_bits = max(1, (len(words) - 1).bit_length())  # of a place
    places = jax.lax.iota(jnp.uint32, len(words))
    order = places.astype(int)
    for shift in range(0, 32, 32 - num_bits):
        packed = jnp.sort(((words[order] >> shift) << num_bits) | places, stable=False)
        order = order[packed & np.uint32(2**num_bits - 1)]
    return order


def padded_length(num_rows: int) -> int:
    """The length to pad rows to: there are few, so that nearby sizes share a compiled program.

    A power of two at first; above `FINE_LENGTH` four lengths per octave, to waste less memory.

    >>> from bbalpha.data import padded_length
    >>> [padded_length(num_rows) for num_rows in (5, 33, 506, 1030, 10**6)]
    [8, 64, 512, 1280, 1048576]
    """
    octave = 2 ** (num_rows - 1).bit_length()
    unit = octave if octave <= FINE_LENGTH else octave // 8
    return max(SHORTEST_LENGTH, -(-num_rows // unit) * unit)


def as_array(value):
    """The value itself if it is a jax array (or tracer), otherwise as a numpy array."""
    return value if isinstance(value, Array) else np.asarray(value)


def _check_kind(label, array):
    """Raise unless the array is numeric and has rows to count."""
    if not (jnp.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"{label} must be numeric; got an array of dtype {array.dtype}.")
    if array.ndim == 0:
        raise ValueError(
            f"{label} must be an array with one row per data point; got the single value {array}. "
            "Make an array of a list by numpy.asarray."
        )


def _shared_length(name, arrays):
    """The number of rows that the arrays have in common, at least one."""
    lengths = {label: len(array) for label, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{label} with {length}" for label, length in lengths.items())
        raise ValueError(f"{name} must have as many rows in every array; got {found}.")
    label, num_rows = next(iter(lengths.items()))
    if num_rows == 0:
        raise ValueError(
            f"{name} must have at least one row; got {label} of shape {arrays[label].shape}."
        )
    return num_rows


def _check_finite(label, array):
    """Raise, naming the first row, if a value is NaN or infinite."""
    numpy = jnp if isinstance(array, Array) else np  # a jax array is checked on its own device
    bad = ~numpy.isfinite(array)
    if bad.any():
        first = int(bad.reshape(len(array), -1).any(axis=1).argmax())
        raise ValueError(
            f"{label} must be finite; got {int(bad.sum())} NaN or infinite values, "
            f"the first in row {first}."
        )


def _check_range(label, array):
    """Raise if jax, which by default computes with 32 bits, would wrap an integer around."""
    used = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype == used or not (jnp.issubdtype(used, np.integer) and array.size):
        return
    low, high = np.iinfo(used).min, np.iinfo(used).max
    if array.min() < low or array.max() > high:
        raise ValueError(
            f"{label} must lie between {low} and {high}, as integers of type {used} do; got values "
            f"from {array.min()} to {array.max()}. Make them floating-point, or standardize them."
        )
