"""What is checked at the door: one sentence with real values, before anything is compiled."""

import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from bbalpha.distributions import CappedGaussian, Family
from bbalpha.targets import TargetError

Shape = tuple[int, ...]

ROUNDING = 1e-6  # of weights that should sum to a whole number


def check_counts(**counts: Any) -> None:
    """Refuse what is not a whole number from 1 on.

    Raises:
        TypeError: if a count is not a whole number.
        ValueError: if it is less than 1.
    """
    for name, count in counts.items():
        if not isinstance(count, int | np.integer):
            raise TypeError(f"{name} must be a whole number; got {name}={count!r}.")
        if count < 1:
            raise ValueError(f"{name} must be at least 1; got {name}={count}.")


def check_optional_counts(**counts: Any) -> None:
    """Refuse what is neither None, which stands for a default, nor a whole number from 1 on."""
    check_counts(**{name: count for name, count in counts.items() if count is not None})


def check_num_data(num_data: Any) -> None:
    """Refuse a number of data points, or total weight, that is not positive and finite."""
    if not isinstance(num_data, Tracer) and not 0 < num_data < math.inf:
        raise ValueError(f"num_data must be positive and finite; got num_data={num_data}.")


def check_alpha(alpha: Any, num_data: Any, num_samples: int) -> None:
    """Refuse a power for which the energy has no lower bound; warn where it has no effect.

    A schedule is left to the caller, who knows the steps; a traced power cannot be checked.
    """
    if callable(alpha) or isinstance(alpha, Tracer) or isinstance(num_data, Tracer):
        return
    if np.shape(alpha) or not np.issubdtype(np.asarray(alpha).dtype, np.number):
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


def check_parts(log_likelihood: Any, family: Any, optimizer: Any) -> None:
    """Refuse what is not of the kind that a fit is put together from.

    Raises:
        TypeError: naming the argument and what it should be.
    """
    if not callable(log_likelihood):
        raise TypeError(
            "log_likelihood must be a function of params and batch; "
            f"got {type(log_likelihood).__name__}."
        )
    if isinstance(family, type) or not callable(family):
        raise TypeError(
            "family must be a function of the mean and the prior, such as "
            f"bb.DiagonalGaussian.init; got {family!r}."
        )
    if not (optimizer is None or (hasattr(optimizer, "init") and hasattr(optimizer, "update"))):
        raise TypeError(
            f"optimizer must be one of optax, such as optax.adam(1e-3); got {optimizer!r}."
        )


def without_jit(function: Any) -> Any:
    """The function inside `jax.jit` or `eqx.filter_jit`, which would hide targets from checks."""
    while hasattr(function, "lower") and hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return function


def check_family(q: Any) -> None:
    """Refuse a start of q that is no distribution, or has fields that cannot be trained.

    Raises:
        TypeError: naming what was found.
    """
    if not isinstance(q, Family | CappedGaussian):
        raise TypeError(f"family must return a bb.Family; got {type(q).__name__}.")
    for path, leaf in jax.tree_util.tree_leaves_with_path(q):
        if not jnp.issubdtype(getattr(leaf, "dtype", object), jnp.floating):
            raise TypeError(
                "family must return a module whose fields are arrays of floating-point numbers or "
                f"static; got {type(q).__name__}{jax.tree_util.keystr(path)} of type "
                f"{type(leaf).__name__}."
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


def check_finite(tree: PyTree, name: str) -> None:
    """Refuse NaN and infinity in a tree of arrays, where there are values to look at."""
    for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
        bad = 0 if isinstance(leaf, Tracer) else np.sum(~np.isfinite(leaf))
        if bad:
            raise ValueError(
                f"{name}{jax.tree_util.keystr(path)} must be finite; "
                f"got {bad} NaN or infinite values."
            )


def check_log_likelihood(
    log_likelihood: Callable[[PyTree], Any], data: PyTree, batch_size: int
) -> None:
    """Check the shape of what the user's function returns, and the targets, computing nothing.

    A function that looks past its batch, at data of its own, is right for all rows and wrong for
    a batch, so both are tried.

    Args:
        log_likelihood: the function of the data alone, to be called under `jax.eval_shape`.
        data: all rows.
        batch_size: how many of them make a batch.
    """
    data = jax.tree.map(jnp.asarray, data)
    for rows in (data, jax.tree.map(lambda leaf: leaf[:batch_size], data)):
        num_rows = len(jax.tree.leaves(rows)[0])
        result = jax.eval_shape(lambda rows=rows: log_likelihood(rows))
        check_one_per_datum(getattr(result, "shape", type(result).__name__), (num_rows,))
    check_targets(log_likelihood, data)


def check_one_per_datum(found: Shape | str, expected: Shape | None = None) -> None:
    """Refuse a log-likelihood whose shape, or kind, is not one number per data point.

    Raises:
        ValueError: if the shape is not a single axis, or not the expected one.
    """
    if isinstance(found, tuple) and len(found) == 1 and expected in (None, found):
        return
    kind = f"shape {found}" if isinstance(found, tuple) else found
    given = "" if expected is None else f" for {expected[0]} data points"
    raise ValueError(f"log_likelihood must return one number per data point; got {kind}{given}.")


def check_targets(log_likelihood: Callable[[PyTree], Any], data: PyTree) -> None:
    """Let a likelihood refuse its targets before anything is compiled.

    Data are numpy arrays here, whose values stay visible while the parameters are abstract. A
    function that cannot take numpy arrays has no targets that could be seen.
    """
    try:
        jax.eval_shape(lambda: log_likelihood(jax.tree.map(np.asarray, data)))
    except TargetError:
        raise
    except Exception:
        return


def warn(message: str) -> None:
    """Warn about the line that called into bbalpha."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("bbalpha."):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, stacklevel=level)
