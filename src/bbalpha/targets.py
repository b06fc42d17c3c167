"""What a likelihood asks of its targets: their values, and a shape that goes with its outputs."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float


class TargetError(ValueError):
    """A target is not one of the values of the likelihood."""


def check_values(targets: ArrayLike, rule: str, obeys: Callable, remedy: str = "") -> None:
    """Raise at the first target that breaks the rule, if there are values to look at."""
    if isinstance(targets, Tracer) or not getattr(targets, "is_fully_addressable", True):
        return
    values = np.asarray(targets)
    wrong = values[~obeys(values)]
    if wrong.size:
        raise TargetError(f"targets must be {rule}; got {wrong[0]}.{remedy}")


def aligned(targets: ArrayLike, outputs: Float[Array, "..."], dtype: type | None = None) -> Array:
    """The targets with an axis of length 1 for each axis of draws of the outputs."""
    if outputs.ndim < 2:
        remedy = "Give a single column its axis by outputs[:, None]."
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
