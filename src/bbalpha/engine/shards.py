"""Rows spread over devices, which exchange only sums over rows.

Every device holds some of the rows and all of q. It computes the part of each sum that is due to
its rows; the parts are then added over all devices, in this process and in others. The number of
processes changes only the order of these additions.
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
    """One of several processes was lost, or the processes no longer agree.

    Attributes:
        reason: What happened, in a sentence.
        writes: Whether this process saves the run.
        state: The state of the loop after its last complete chunk.
    """

    state: Any = None

    def __init__(self, reason: str, writes: bool):
        self.reason = reason
        self.writes = writes
        super().__init__(reason)


def mesh_of(devices: list[Any]) -> Mesh:
    """The mesh of some devices: a single axis, along which rows are spread."""
    return Mesh(np.array(devices), (AXIS,), axis_types=(AxisType.Auto,))


def summed(mesh: Mesh | None, function: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function of rows and of arguments that all devices share, summed over the devices.

    Args:
        mesh: The devices, or None for a single device, which has all rows.
        function: Called on each device with its rows (arrays whose first axis is spread over the
            devices) and with all other arguments. It must return a sum over rows.

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
        # Without the check for varying values, a derivative is summed once, at the arguments. With
        # it, the sum happens where the arguments first meet the rows, that is, once per draw.
        specs = (SPREAD, *(EVERYWHERE for _ in shared))
        mapped = jax.shard_map(
            of_shard, mesh=mesh, in_specs=specs, out_specs=EVERYWHERE, check_vma=False
        )
        return mapped(rows, *shared)

    return of_all


def whole(mesh: Mesh | None, tree: PyTree) -> PyTree:
    """Arrays inside a program, copied in full to every device."""
    if mesh is None:
        return tree
    return jax.lax.with_sharding_constraint(tree, NamedSharding(mesh, EVERYWHERE))


def padded(mesh: Mesh, batch: PyTree, weights: Any) -> tuple[PyTree, Any]:
    """The batch, padded with its last row at weight 0 so that all devices have as many rows."""
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
    """The program on the mesh: every process calls it with its own copy of the same arrays.

    Results are local arrays of each process. Arrays that are spread over the mesh stay spread.

    Args:
        mesh: The devices of all processes.
        program: The program to call.
        failed: Turns an error that a device reports into the error to raise.
        wait: Called between compiling and running the program, to wait for other processes.
    """

    def call(*args: Any, **kwargs: Any) -> PyTree:
        args, kwargs = everywhere(mesh, (args, kwargs))
        if wait is not None:
            program.program.lower(*args, **kwargs).compile()
            wait()
        try:
            return here(mesh, jax.block_until_ready(program(*args, **kwargs)))
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            failure = failed(error)
            raise failure from failure.__cause__

    return call


def everywhere(mesh: Mesh, tree: PyTree) -> PyTree:
    """Arrays of this process as arrays of all processes, which have equal ones; sends nothing."""
    sharding = NamedSharding(mesh, EVERYWHERE)

    def copies(leaf: Array) -> Array:
        if leaf.sharding.device_set == sharding.device_set:
            return leaf
        parts = [jax.device_put(leaf, device) for device in sharding.addressable_devices]
        return jax.make_array_from_single_device_arrays(leaf.shape, sharding, parts)

    return _placed(tree, copies)


def here(mesh: Mesh, tree: PyTree) -> PyTree:
    """Arrays of the mesh as local arrays of this process; arrays that all have are not sent."""

    def own(leaf: Array) -> Array:
        if not leaf.is_fully_replicated:
            leaf = jax.device_put(leaf, NamedSharding(mesh, EVERYWHERE))
        return leaf.addressable_data(0)

    return _placed(tree, own)


def spread(mesh: Mesh, tree: PyTree, axis: int = 0) -> PyTree:
    """The rows of this process (an axis of NumPy arrays) as its part of the rows of all."""
    sharding = NamedSharding(mesh, PartitionSpec(*[None] * axis, AXIS))
    return jax.tree.map(partial(jax.make_array_from_process_local_data, sharding), tree)


def shared_out(mesh: Mesh, tree: PyTree) -> PyTree:
    """NumPy arrays that every process holds in full, spread by rows; each keeps its part."""
    sharding = NamedSharding(mesh, SPREAD)

    def part(leaf: np.ndarray) -> Array:
        return jax.make_array_from_callback(leaf.shape, sharding, lambda place: leaf[place])

    return jax.tree.map(part, tree)


def _placed(tree: PyTree, place: Callable[[Array], Array]) -> PyTree:
    """The tree with its arrays placed on devices; random keys are placed as raw words."""

    def placed(leaf: Any) -> Any:
        if not isinstance(leaf, Array):
            return leaf
        if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            return place(leaf)
        words = place(jax.random.key_data(leaf))
        return jax.random.wrap_key_data(words, impl=str(jax.random.key_impl(leaf)))

    return jax.tree.map(placed, tree)
