"""Rows spread over devices, which exchange nothing but sums over the rows.

Every device holds some of the rows and all of q. It computes what its rows add to a sum, and the
sums are added up over the devices, of this process and of others. The number of processes changes
nothing but the order in which they are added.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

AXIS = "rows"  # of the mesh
EVERYWHERE, SPREAD = PartitionSpec(), PartitionSpec(AXIS)


def mesh_of(devices: list[Any]) -> Mesh:
    """The mesh of some devices: one line of them, along which rows are spread."""
    return Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))


def summed(
    mesh: Mesh | None, function: Callable[..., PyTree], rows: PyTree, *shared: PyTree
) -> PyTree:
    """The sum over all devices of what `function` makes of the rows of each.

    Args:
        mesh: The devices; None for one, which has all rows.
        function: Called with some rows and all of `shared`; what it returns must be a sum over
            rows.
        rows: Arrays whose first axis is spread over the devices.
        *shared: Further arguments, the same on every device.

    >>> from bbalpha.engine.shards import mesh_of, summed
    >>> mesh = mesh_of(jax.devices()[:2])
    >>> print(jax.jit(lambda rows: summed(mesh, jnp.sum, rows))(jnp.arange(4.0)))
    6.0
    """
    if mesh is None:
        return function(rows, *shared)

    def of_shard(rows: PyTree, *shared: PyTree) -> PyTree:
        return jax.lax.psum(function(rows, *shared), AXIS)

    # Without the check of what varies, a derivative is summed once, at the arguments; with it, where
    # they first meet the rows, and so once for each draw.
    specs = (SPREAD, *(EVERYWHERE for _ in shared))
    return jax.shard_map(of_shard, mesh=mesh, in_specs=specs, out_specs=EVERYWHERE, check_vma=False)(
        rows, *shared
    )


def everywhere(mesh: Mesh, tree: PyTree) -> PyTree:
    """Arrays of this process as arrays of all, which have the same; nothing is sent."""
    return _placed(tree, lambda leaf: _copies(leaf, NamedSharding(mesh, EVERYWHERE)))


def here(tree: PyTree) -> PyTree:
    """Arrays that all processes have as arrays of this process; nothing is sent."""
    return _placed(tree, lambda leaf: leaf.addressable_data(0))


def _copies(leaf: Array, sharding: NamedSharding) -> Array:
    copies = [jax.device_put(leaf, device) for device in sharding.addressable_devices]
    return jax.make_array_from_single_device_arrays(leaf.shape, sharding, copies)


def _placed(tree: PyTree, place: Callable[[Array], Array]) -> PyTree:
    """The tree with its arrays placed; random keys by the words that they are made of."""

    def placed(leaf: Any) -> Any:
        if not isinstance(leaf, Array):
            return leaf
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return place(leaf)
        words = place(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(words, impl=str(jax.random.key_impl(leaf)))

    return jax.tree.map(placed, tree)
