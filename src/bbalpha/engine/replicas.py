"""Replicas: many fits of one shape in one program, spread over the cores of a CPU."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bbalpha.engine.batches import Order, Rows
from bbalpha.engine.compiling import Compiled
from bbalpha.engine.epochs import full_energy, run_steps
from bbalpha.engine.options import on_cpu


@partial(Compiled, static_argnames=("batch_size", "data_axis"))
def run_steps_many(
    state: Any,
    rows: Rows,
    order: Order,
    num_steps: Int[Array, ""],
    batch_size: int,
    data_axis: int | None,
) -> tuple[Any, Order, Float[Array, "replicas epochs"], Bool[Array, " replicas"]]:
    """`run_steps` for every replica."""
    run = partial(run_steps.function, batch_size=batch_size)
    axes = (0, _axes(data_axis), 0, None)
    return jax.vmap(run, in_axes=axes)(state, rows, order, num_steps)


def replica_runner(
    rows: Rows, num_replicas: int, batch_size: int, data_axis: int | None
) -> Callable[..., tuple]:
    """`run_steps_many` on these rows; on CPU, each core runs one part of the replicas.

    If the cores shared the small kernels of one loop, they would wait for each other. All parts
    have the same size, so that they share a program; the last two may therefore overlap.
    """
    size = -(-num_replicas // _num_threads())
    if size == num_replicas:
        return partial(run_steps_many, rows=rows, batch_size=batch_size, data_axis=data_axis)
    starts = [min(start, num_replicas - size) for start in range(0, num_replicas, size)]
    num_common = len(starts) * size - num_replicas

    def part(tree: PyTree, start: int) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[start : start + size], tree)

    def rows_of_part(start: int) -> Rows:
        if data_axis is None:
            return rows
        return Rows(part(rows.data, start), part(rows.sample_weight, start), rows.num_rows)

    rows_of_parts = [rows_of_part(start) for start in starts]

    def run(state: Any, order: Order, num_steps: Int[Array, ""]) -> tuple:
        parts = [
            (part(state, start), some_rows, part(order, start), num_steps)
            for start, some_rows in zip(starts, rows_of_parts, strict=True)
        ]
        # Compiled here, because settings made by `with` hold only in the user's own thread.
        program = run_steps_many.program.lower(*parts[0], batch_size, data_axis).compile()
        with ThreadPoolExecutor(len(parts)) as threads:
            results = list(threads.map(lambda part: jax.block_until_ready(program(*part)), parts))
        results[-1] = jax.tree.map(lambda leaf: leaf[num_common:], results[-1])
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *results)

    return run


@partial(jax.jit, static_argnames="data_axis")
def full_energy_many(state: Any, rows: Rows, data_axis: int | None) -> Float[Array, " replicas"]:
    """`full_energy` of every replica."""
    return jax.vmap(full_energy, in_axes=(0, _axes(data_axis)))(state, rows)


def _num_threads() -> int:
    """One thread per available core, or a single thread when jax checks for NaNs."""
    debugs = any(getattr(jax.config, name) for name in ("jax_debug_nans", "jax_debug_infs"))
    if debugs or not on_cpu():
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _axes(data_axis: int | None) -> Any:
    """The axis of replicas in each field of `Rows`."""
    return cast(Any, Rows)(data_axis, data_axis, None)
