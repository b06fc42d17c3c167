"""Data: arrays with one row per data point, checked and standardized.

The first file of the pipeline: everything that `fit` or an estimator receives passes its checks.
Data can be any pytree of arrays that share their leading axis; `Dataset` is the usual choice.
"""

import contextlib
import reprlib
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Float

from bbalpha.engine.arrays import AnyArray, library_of, on_host
from bbalpha.engine.checks import note_hidden_targets

ROUNDINGS = 2  # units in the last place by which values of a constant column may differ


class Dataset(NamedTuple):
    """Inputs and targets, one row of each per data point.

    A pytree, accepted wherever data are expected. It is a pair, so its `len` is always 2.

    Attributes:
        inputs: What to predict from; an array or a pytree of arrays.
        targets: What to predict.

    >>> import jax, jax.numpy as jnp, bbalpha as bb
    >>> data = bb.Dataset(inputs=jnp.ones((4, 3)), targets=jnp.arange(4.0))
    >>> first_half = jax.tree.map(lambda array: array[:2], data)
    >>> first_half.inputs.shape, first_half.targets.shape
    ((2, 3), (2,))
    """

    inputs: Any
    targets: Any


class Standardizer(eqx.Module):
    """The affine map z = (y − mean)/scale of each column, and its inverse.

    The statistics are float64 numpy arrays, so a large mean loses no digits. Each method takes a
    numpy or jax array whose last axis is the columns (or any array, if a vector was standardized).

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

    mean: AnyArray
    scale: AnyArray

    def transform(self, array: ArrayLike) -> AnyArray:
        """Return the array in standardized units."""
        array = as_array(array)
        return in_units(array, self._align(self.mean, array), self._align(self.scale, array))

    def inverse(self, array: ArrayLike) -> AnyArray:
        """Return a standardized array in its original units."""
        array = as_array(array)
        return array * self._align(self.scale, array) + self._align(self.mean, array)

    def inverse_variance(self, variance: ArrayLike) -> AnyArray:
        """Return variances of standardized quantities in squared original units."""
        variance = as_array(variance)
        return variance * self._align(self.scale, variance) ** 2

    @property
    def log_scale(self) -> AnyArray:
        """Σⱼ log scaleⱼ, to subtract from a log-density: log p(y) = log p(z) − log_scale."""
        numpy = jnp if isinstance(self.scale, Array) else np
        return numpy.asarray(numpy.log(self.scale).sum())

    def _align(self, statistic: AnyArray, array: AnyArray) -> AnyArray:
        """The statistic with the leading axes it lacks; jax may be set not to promote ranks."""
        if self.mean.ndim and array.shape[-1:] != self.mean.shape:
            raise ValueError(
                f"array must have shape (..., {self.mean.size}), with the columns that were "
                f"standardized; got shape {array.shape}."
            )
        return statistic.reshape((1,) * (array.ndim - statistic.ndim) + statistic.shape)


def standardize(
    array: ArrayLike, sample_weight: ArrayLike | None = None
) -> tuple[AnyArray, Standardizer]:
    """Return the array with columns of mean 0 and variance 1, and the map used to standardize it.

    Args:
        array: The training split, of shape (rows,) or (rows, columns), numpy or jax. A column
            that is constant up to rounding is centered but not scaled.
        sample_weight: How many data points each row stands for; 1 by default.

    Returns:
        The standardized array, of the same kind, and the `Standardizer` for other splits,
        predictions and log-densities.

    Raises:
        ValueError: If the array has more than two axes, no rows, or values that are not finite
            numbers, or if the weights have another length, are negative or are all zero.

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
    unit = power_of_two(np.asarray(np.abs(values).max(axis=0)))
    values = values / unit  # exact; otherwise squares of 1e200 or 1e-200 would be lost
    mean = np.average(values, axis=0, weights=weights)
    scale = np.sqrt(np.average(np.square(values - mean), axis=0, weights=weights))
    # A column such as 0.3, 0.1 + 0.2 counts as constant: if scaled, it would map 0.31 to 10¹⁴.
    constant = (np.ptp(values, axis=0) <= rounding_of(values, array.dtype)) | (scale == 0)
    standardizer = Standardizer(
        mean=np.asarray(mean * unit), scale=np.where(constant, 1.0, scale * unit)
    )
    return standardizer.transform(array), standardizer


class Splits(NamedTuple):
    """Row numbers of the training and test parts of each split.

    Attributes:
        train: Integers of shape (num_splits, num_train).
        test: Integers of shape (num_splits, num_data − num_train).
    """

    train: np.ndarray
    test: np.ndarray


def splits(num_data: int, num_splits: int, train_fraction: float = 0.9, seed: int = 1) -> Splits:
    """Return random splits of the rows into a training and a test part.

    The defaults use the stream behind the published splits of the UCI regression sets (numpy's
    legacy generator, seed 1): the first twenty splits are the published ones.

    Args:
        num_data: Number of rows to split.
        num_splits: Number of splits; a larger number does not change the earlier ones.
        train_fraction: Fraction of the rows to train on, rounded to whole rows.
        seed: Seed of the stream.

    Returns:
        The row numbers of each split, in the order drawn.

    Raises:
        ValueError: If a part would be empty or `num_splits` is less than 1.

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


def in_units(array: AnyArray, mean: AnyArray, scale: AnyArray) -> AnyArray:
    """(array − mean)/scale; with numpy arrays, even if the difference of huge numbers overflows."""
    if any(isinstance(value, Array) for value in (array, mean, scale)):
        return (array - mean) / scale
    with np.errstate(over="ignore"):
        found = (array - mean) / scale
    is_finite = np.isfinite(found)
    return found if is_finite.all() else np.where(is_finite, found, array / scale - mean / scale)


def check_data(data: Any, name: str = "data", *, stay_numpy: bool = False) -> int:
    """Return the number of rows, or raise an error that explains the problem with the data.

    Args:
        data: A pytree of numeric arrays that share their leading axis.
        name: The name of the argument, for the messages.
        stay_numpy: Whether numpy arrays will stay numpy arrays. If not, values must fit the types
            of jax, which have 32 bits by default.

    Returns:
        The length of the leading axis.

    Raises:
        ValueError: If there are no arrays or no rows, if an array has no leading axis or is not
            numeric, if lengths differ, or if a value is NaN, infinite or out of range.

    >>> import numpy as np
    >>> from bbalpha.data import check_data
    >>> check_data((np.ones((5, 2)), np.zeros(5)))
    5
    >>> check_data((np.ones((5, 2)), np.zeros(4)), name="X")
    Traceback (most recent call last):
    ValueError: X must have the same number of rows in every array; got X[0] with 5, X[1] with 4.
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


def as_weights(weights: Any, name: str) -> np.ndarray:
    """The weights as an array of real numbers.

    Raises:
        ValueError: If one of them is not a real number, or is too large for 64 bits.
    """
    array = np.asarray(weights)
    if array.dtype.kind == "O":
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            array = array.astype(np.float64)
    if array.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must hold real numbers of at most 64 bits; got {reprlib.repr(weights)}."
        )
    return array


def check_weights(weights: np.ndarray, shape: tuple[int, ...], name: str) -> None:
    """Raise unless the weights have this shape, are not negative, and are not all zero.

    With a leading axis of replicas, no replica may have only zeros.

    Raises:
        ValueError: If they do not; the message shows their shape or values.
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


def check_values(targets: ArrayLike, rule: str, obeys: Callable, remedy: str = "") -> None:
    """Raise at the first target that breaks a likelihood's rule, unless the targets are traced."""
    if isinstance(targets, Tracer):
        note_hidden_targets()
        return
    if not getattr(targets, "is_fully_addressable", True):
        return
    values = np.asarray(targets)
    wrong = values[~obeys(values)]
    if wrong.size:
        raise ValueError(f"targets must be {rule}; got {wrong[0]}.{remedy}")


def aligned(targets: ArrayLike, outputs: Float[Array, "..."], dtype: type | None = None) -> Array:
    """The targets in the shape of the outputs, with length 1 along each axis of draws."""
    if outputs.ndim < 2:
        remedy = "For a single column, use outputs[:, None]."
        rule = f"shape (..., data, columns); got outputs.ndim={outputs.ndim}"
        raise ValueError(f"outputs must have {rule}. {remedy}")
    num_data, num_columns = outputs.shape[-2:]
    shapes = [(num_data, num_columns), (num_data,)][: 2 if num_columns == 1 else 1]
    if jnp.shape(targets) not in shapes:
        rule = f"shape {' or '.join(map(str, shapes))} to match the outputs"
        raise ValueError(f"targets must have {rule}; got shape {jnp.shape(targets)}.")
    axes_of_draws = (1,) * (outputs.ndim - 2)
    array = jnp.asarray(targets).astype(dtype or outputs.dtype)
    return array.reshape(*axes_of_draws, num_data, num_columns)


def as_array(value: Any) -> AnyArray:
    """The value itself if it is a jax array (or tracer), otherwise a numpy array of it."""
    return value if isinstance(value, Array) else np.asarray(value)


def _check_kind(label: str, array: AnyArray) -> None:
    """Raise unless the array is numeric and has a leading axis."""
    if not (jnp.issubdtype(array.dtype, np.number) or array.dtype == bool):
        raise ValueError(f"{label} must be numeric; got an array of dtype {array.dtype}.")
    if jnp.issubdtype(array.dtype, np.complexfloating):
        raise ValueError(f"{label} must be real; got an array of dtype {array.dtype}.")
    if array.ndim == 0:
        raise ValueError(
            f"{label} must be an array with one row per data point; got the single value {array}. "
            "Convert lists with numpy.asarray."
        )


def _shared_length(name: str, arrays: dict[str, AnyArray]) -> int:
    """The number of rows, which all arrays must share and which must be at least 1."""
    lengths = {label: len(array) for label, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{label} with {length}" for label, length in lengths.items())
        raise ValueError(f"{name} must have the same number of rows in every array; got {found}.")
    label, num_rows = next(iter(lengths.items()))
    if num_rows == 0:
        raise ValueError(
            f"{name} must have at least one row; got {label} of shape {arrays[label].shape}."
        )
    return num_rows


def _check_finite(label: str, array: AnyArray) -> None:
    """Raise, with the number of the first such row, if a value is NaN or infinite."""
    array = on_host(array)
    bad = ~library_of(array).isfinite(array)  # a jax array elsewhere is checked on its own device
    if bad.any():
        first = int(bad.reshape(len(array), -1).any(axis=1).argmax())
        raise ValueError(
            f"{label} must be finite; got {int(bad.sum())} NaN or infinite values, "
            f"the first in row {first}."
        )


def _check_range(label: str, array: AnyArray) -> None:
    """Raise if a number would wrap around or overflow in jax, which has 32 bits by default."""
    used = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.dtype == used or not array.size or used.kind == "b":
        return
    is_whole = jnp.issubdtype(used, np.integer)
    limits = np.iinfo(used) if is_whole else np.finfo(used)
    low, high = limits.min, limits.max
    if array.min() < low or array.max() > high:
        remedy = "Convert them to floating point or standardize" if is_whole else "Standardize"
        raise ValueError(
            f"{label} must lie between {low} and {high}, the range of {used}; got values from "
            f"{array.min()} to {array.max()}. {remedy} them."
        )


def power_of_two(sizes: np.ndarray) -> np.ndarray:
    """The largest power of two that does not exceed each size; 1 for zero."""
    return np.where(sizes > 0, np.ldexp(1.0, np.frexp(sizes)[1] - 1), 1.0)


def rounding_of(values: np.ndarray, dtype: Any = np.float64) -> Any:
    """How far apart the values of a column may lie if they differ only by rounding to a type."""
    if dtype not in (np.float32, np.float64):
        return 0.0
    return ROUNDINGS * np.spacing(np.abs(values).max(axis=0).astype(dtype))
