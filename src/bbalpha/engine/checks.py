"""Checks of arguments before anything is compiled; a message is one sentence with real values."""

import math
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from bbalpha.engine.arrays import on_device
from bbalpha.engine.limits import MOST, MOST_SAMPLES

Shape = tuple[int, ...]

ROUNDING = 1e-6  # relative; weights that should sum to a whole number may miss it by this much

_hidden_targets: ContextVar[list[bool] | None] = ContextVar("hidden_targets", default=None)


def check_counts(**counts: Any) -> None:
    """Raise unless every count is a whole number from 1 to the largest of 32 bits.

    Raises:
        TypeError: if a count is not a whole number.
        ValueError: if it is less than 1 or too large.
    """
    for name, count in counts.items():
        if isinstance(count, bool) or not isinstance(count, int | np.integer):
            raise TypeError(f"{name} must be a whole number; got {name}={count!r}.")
        if count < 1:
            raise ValueError(f"{name} must be at least 1; got {name}={count}.")
        most = MOST_SAMPLES if name.endswith("samples") else MOST
        if count > most:
            raise ValueError(f"{name} must be at most {most:,}; got {name}={count}.")


def check_optional_counts(**counts: Any) -> None:
    """`check_counts`, except that None is allowed and stands for a default."""
    check_counts(**{name: count for name, count in counts.items() if count is not None})


def check_num_data(num_data: Any) -> None:
    """Raise unless the number of data points, or their total weight, is positive and finite."""
    if not isinstance(num_data, Tracer) and not 0 < num_data < math.inf:
        raise ValueError(f"num_data must be positive and finite; got num_data={num_data}.")


def check_alpha(alpha: Any, num_data: Any, num_samples: int) -> None:
    """Raise if the energy has no lower bound at this power; warn if the power has no effect.

    Schedules are left to the caller, who knows the steps; traced powers cannot be checked.
    """
    if callable(alpha) or isinstance(alpha, Tracer) or isinstance(num_data, Tracer):
        return
    kind = np.asarray(alpha).dtype
    if np.shape(alpha) or not np.issubdtype(kind, np.number) or kind.kind == "c":
        raise TypeError(f"alpha must be a number or a function of the step; got alpha={alpha!r}.")
    alpha = float(alpha)
    if not math.isfinite(alpha):
        raise ValueError(f"alpha must be a finite number; got alpha={alpha}.")
    if alpha > num_data * (1 + ROUNDING):
        raise ValueError(
            "alpha must not exceed the number of data points, beyond which the energy has no lower "
            f"bound; got alpha={alpha} with {float(num_data):g} data points."
        )
    if num_samples == 1 and alpha != 0:
        warn(
            "num_samples should exceed 1 when alpha is not 0, because with one draw the energy "
            f"does not depend on alpha; got num_samples=1 with alpha={alpha}."
        )


def check_optimizer(optimizer: Any) -> None:
    """Raise unless the optimizer is None, which stands for a default, or looks like optax's."""
    if not (optimizer is None or (hasattr(optimizer, "init") and hasattr(optimizer, "update"))):
        raise TypeError(
            "optimizer must be an optax optimizer, such as optax.adam(1e-3); "
            f"got optimizer={optimizer!r}."
        )


def check_finite(tree: PyTree, name: str) -> None:
    """Raise if a tree of arrays holds NaN or infinity; traced arrays cannot be checked."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        bad = 0 if isinstance(leaf, Tracer) else np.sum(~np.isfinite(leaf))
        if bad:
            raise ValueError(
                f"{name}{jax.tree_util.keystr(path)} must be finite; "
                f"got {bad} NaN or infinite values."
            )


def as_keys(keys: Any, ndim: int, name: str) -> Array:
    """The key, or vector of keys, as typed keys; `jax.random.PRNGKey` makes the older kind.

    Raises:
        TypeError: if it is something else.
    """
    dtype, shape = getattr(keys, "dtype", None), np.shape(keys)
    if dtype == jnp.uint32 and len(shape) == ndim + 1:
        return jax.random.wrap_key_data(keys)
    if not jnp.issubdtype(dtype or object, jax.dtypes.prng_key) or len(shape) != ndim:
        example = "jax.random.key(0)"
        example = f"jax.random.split({example}, 10)" if ndim else example
        got = f"an array of shape {shape} and type {dtype}" if dtype else repr(keys)
        raise TypeError(f"{name} must be made by jax.random, such as {example}; got {got}.")
    return keys


def without_jit(function: Any) -> Any:
    """The function without its `jax.jit` or `eqx.filter_jit`, which would hide its targets."""
    while hasattr(function, "lower") and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def check_log_likelihood(
    log_likelihood: Callable[[PyTree, PyTree], Any],
    params: PyTree,
    data: PyTree,
    batch_size: int | None = None,
) -> None:
    """Raise unless the user's function returns one number per row and accepts the targets.

    The parameters are abstract, so nothing is computed, and a likelihood can check its targets if
    they are passed to it unchanged. If it gets values computed from the targets, these are computed
    here, in small programs that take some time to compile. Both all rows and a batch are tried,
    because a function that ignores its argument and uses other data fits only the former.

    Args:
        log_likelihood: a function of the parameters and some rows.
        params: the parameters, or their shapes.
        data: all rows.
        batch_size: number of rows in a batch; if None, only all rows are tried.
    """
    data = jax.tree.map(on_device, data)
    num_rows = len(jax.tree.leaves(data)[0])

    def of_data(params: PyTree) -> Any:
        return log_likelihood(params, data)

    def of_computed_data(params: PyTree) -> Any:
        with jax.ensure_compile_time_eval():
            return log_likelihood(params, data)

    with _noting_hidden_targets() as hidden:
        result = jax.eval_shape(of_data, params)
    if hidden:
        jax.eval_shape(of_computed_data, params)
    _check_result(result, num_rows)
    if batch_size not in (None, num_rows):
        batch = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((batch_size, *leaf.shape[1:]), leaf.dtype), data
        )
        _check_result(jax.eval_shape(log_likelihood, params, batch), batch_size)


def note_hidden_targets() -> None:
    """Remember that a likelihood could not check its targets, because they are traced."""
    hidden = _hidden_targets.get()
    if hidden is not None:
        hidden.append(True)


@contextmanager
def _noting_hidden_targets() -> Iterator[list[bool]]:
    """A list that `note_hidden_targets` fills while the context lasts."""
    hidden: list[bool] = []
    token = _hidden_targets.set(hidden)
    try:
        yield hidden
    finally:
        _hidden_targets.reset(token)


def _check_result(result: Any, num_rows: int) -> None:
    check_one_per_datum(getattr(result, "shape", type(result).__name__), (num_rows,))


def check_one_per_datum(found: Shape | str, expected: Shape | None = None) -> None:
    """Raise unless a log-likelihood has one number per data point.

    Args:
        found: the shape of the result, or its kind if it is not an array.
        expected: the shape it must have; any single axis by default.

    Raises:
        ValueError: if the shape is wrong.
    """
    if isinstance(found, tuple) and len(found) == 1 and expected in (None, found):
        return
    kind = f"shape {found}" if isinstance(found, tuple) else found
    given = "" if expected is None else f" for {expected[0]} data points"
    raise ValueError(f"log_likelihood must return one number per data point; got {kind}{given}.")


def warn(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, with the line of the user's code that called bbalpha."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("bbalpha."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
