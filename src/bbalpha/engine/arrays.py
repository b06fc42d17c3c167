"""Arrays created and read on the host.

Outside a compiled program, every jax operation is a small program of its own, which takes about
20 ms to compile. If the values are in the host's memory anyway, NumPy does the same immediately.
"""

from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, PyTree

from bbalpha.engine.forks import check_not_forked

AnyArray = Array | np.ndarray


def on_device(values: Any, dtype: Any = None) -> Array:
    """The values as a jax array of that type, moved to the default device without a program.

    The type is never weak, because compiled programs are cached by that, too.

    >>> from bbalpha.engine.arrays import on_device
    >>> on_device([1.0, 2.0]).dtype
    dtype('float32')
    """
    check_not_forked()
    if isinstance(values, Array):
        if dtype in (None, values.dtype) and not getattr(values, "weak_type", False):
            return values
        dtype, values = dtype or values.dtype, on_host(values)
        if isinstance(values, Array):
            return values.astype(dtype)
    # A copy, because on CPU jax may use the memory of a NumPy array as its own.
    return jax.device_put(np.array(values, dtype))


def on_host(values: Any) -> AnyArray:
    """The values as a NumPy array if that moves nothing; otherwise the jax array or tracer itself.

    >>> from bbalpha.engine.arrays import on_host
    >>> type(on_host(jnp.ones(2))).__name__
    'ndarray'
    """
    if isinstance(values, Array) and not _is_readable(values):
        return values
    return np.asarray(values)


def library_of(tree: PyTree) -> ModuleType:
    """`numpy` if all arrays of the tree are NumPy's, otherwise `jax.numpy`."""
    return jnp if any(isinstance(leaf, Array) for leaf in jax.tree.leaves(tree)) else np


def _is_readable(array: Array) -> bool:
    """Whether the array holds numbers on the default device, and that is the host's CPU."""
    if isinstance(array, Tracer) or jnp.issubdtype(array.dtype, jax.dtypes.extended):
        return False
    default: Any = jax.config.jax_default_device  # pyright: ignore[reportAttributeAccessIssue]
    device = default if isinstance(default, jax.Device) else jax.local_devices(backend=default)[0]
    return device.platform == "cpu" and array.sharding.device_set == {device}
