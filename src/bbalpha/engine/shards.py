"""Rows spread over devices, which exchange nothing but sums over the rows.

Every device holds some of the rows and all of q. It computes what its rows add to a sum, and the
sums are added up over the devices, of this process and of others. The number of processes changes
nothing but the order in which they are added.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, PyTree

from bbalpha.engine.arrays import library_of

AXIS = "rows"  # of the mesh
EVERYWHERE, SPREAD = PartitionSpec(), PartitionSpec(AXIS)


class Failed(Exception):
    """A process of several was lost, or they no longer agree.

    Attributes:
        reason: In a sentence.
        writes: Whether this process saves the run.
        state: Of the loop, after its last whole chunk.
    """

    state: Any = None

    def __init__(self, reason: str, writes: bool):
        self.reason = reason
        self.writes = writes
        super().__init__(reason)


def mesh_of(devices: list[Any]) -> Mesh:
    """The mesh of some devices: one line of them, along which rows are spread."""
    return Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))


def summed(mesh: Mesh | None, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function of some rows and of arguments that all devices have, summed over the devices.

    Args:
        mesh: The devices; None for one, which has all rows.
        function: Called with the rows of a device, arrays whose first axis is spread over them, and
            with all other arguments; what it returns must be a sum over rows.

    >>> from bbalpha.engine.shards import mesh_of, summed
    >>> mesh = mesh_of(jax.devices()[:2])
    >>> print(jax.jit(summed(mesh, jnp.sum))(jnp.arange(4.0)))
    6.0
    """
    if mesh is None:
        return function

    def of_shard(rows: PyTree, *shared: PyTree) -> PyTree:
        return jax.lax.psum(function(rows, *shared), AXIS)

    def of_all(rows: PyTree, *shared: PyTree) -> PyTree:
        # Without the check of what varies, a derivative is summed once, at the arguments; with it,
        # where they first meet the rows, and so once for each draw.
        specs = (SPREAD, *(EVERYWHERE for _ in shared))
        mapped = jax.shard_map(
            of_shard, mesh=mesh, in_specs=specs, out_specs=EVERYWHERE, check_vma=False
        )
        return mapped(rows, *shared)

    return of_all


def whole(mesh: Mesh | None, tree: PyTree) -> PyTree:
    """Arrays inside a program that every device is to have whole."""
    if mesh is None:
        return tree
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, EVERYWHERE))


def padded(mesh: Mesh, batch: PyTree, weights: Any) -> tuple[PyTree, Any]:
    """The batch with its last row repeated at weight 0, so that devices have equally many rows."""
    missing = -len(weights) % mesh.size
    if missing == 0:
        return batch, weights

    numpy = library_of(batch)

    def repeated(leaf: Any) -> Any:
        return numpy.pad(leaf, [(0, missing)] + [(0, 0)] * (leaf.ndim - 1), mode="edge")

    return jax.tree.map(repeated, batch), numpy.pad(weights, (0, missing))


def over(
    mesh: Mesh,
    program: Any,
    failed: Callable[[Exception], Exception],
    wait: Callable[[], None] | None = None,
) -> Callable[..., PyTree]:
    """The program on the mesh: every process calls it with arrays of its own, equal on all.

    Results are arrays of each process again. Arrays that are spread over the mesh stay as they are.

    Args:
        mesh: The devices of all processes.
        program: What to call.
        failed: Makes the error to raise of one that a device reports.
        wait: Called after the program was compiled and before it runs, if it waits for others.
    """

    def call(*args: Any, **kwargs: Any) -> PyTree:
        args, kwargs = everywhere(mesh, (args, kwargs))
        if wait is not None:
            program.program.lower(*args, **kwargs).compile()
            wait()
        try:
            return here(mesh, jax.block_until_ready(program(*args, **kwargs)))
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            raise failed(error) from None

    return call


def everywhere(mesh: Mesh, tree: PyTree) -> PyTree:
    """Arrays of this process as arrays of all, which have the same; nothing is sent."""
    sharding = NamedSharding(mesh, EVERYWHERE)

    def copies(leaf: Array) -> Array:
        if leaf.sharding.device_set == sharding.device_set:
            return leaf
        parts = [jax.device_put(leaf, device) for device in sharding.addressable_devices]
        return jax.make_array_from_single_device_arrays(leaf.shape, sharding, parts)

    return _placed(tree, copies)


def here(mesh: Mesh, tree: PyTree) -> PyTree:
    """Arrays of the mesh as arrays of this process; what all have is not sent."""

    def own(leaf: Array) -> Array:
        if not leaf.is_fully_replicated:
            leaf = jax.device_put(leaf, NamedSharding(mesh, EVERYWHERE))
        return leaf.addressable_data(0)

    return _placed(tree, own)


def spread(mesh: Mesh, tree: PyTree, axis: int = 0) -> PyTree:
    """The rows of this process, along an axis of NumPy arrays, as its part of the rows of all."""
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, AXIS))
    return jax.tree.map(partial(jax.make_array_from_process_local_data, sharding), tree)


def shared_out(mesh: Mesh, tree: PyTree) -> PyTree:
    """NumPy arrays that every process has, with rows along the first axis; each keeps its own."""
    sharding = NamedSharding(mesh, SPREAD)

    def part(leaf: np.ndarray) -> Array:
        return jax.make_array_from_callback(leaf.shape, sharding, lambda place: leaf[place])

    return jax.tree.map(part, tree)


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
