"""Step eight: epochs, many steps over the rows inside one compiled loop.

What compiles depends on shapes and functions alone, never on α, the data or the number of steps.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from bbalpha.engine import threefry
from bbalpha.engine.compiling import Compiled, on_cpu
from bbalpha.data import minibatch_rows
from bbalpha.training import (
    FitState,
    energy_of_batch,
    next_noise,
    noise_keys,
    noise_of_steps,
    step_with_noise,
)

CHUNK_EPOCHS = 256  # the most epochs that one call reports on
ENERGY_ROWS = 1024  # how many rows at a time the energy on the full data takes
ORDER_STREAM = 2**32 - 1  # the order of rows has a stream of its own, beside the noise of each step

Order = tuple[Int[Array, "*replicas batches batch"], Float[Array, "*replicas batches batch"]]


class Rows(NamedTuple):
    """The data on the device, what each row counts, and how many rows there are."""

    data: PyTree
    sample_weight: Float[Array, "*replicas rows"]
    num_rows: Int[Array, ""]

    def total_weight(self) -> np.ndarray:
        """N, summed on the host in double precision."""
        return np.asarray(np.asarray(self.sample_weight, np.float64).sum(axis=-1))


@partial(Compiled, static_argnames=("batch_size",))
def run_steps(
    state: FitState, rows: Rows, order: Order, num_steps: Int[Array, ""], batch_size: int
) -> tuple[FitState, Order, Float[Array, " epochs"], Bool[Array, ""]]:
    """The state after some steps, the energy summed over each epoch's share of them.

    The order of an epoch's rows follows from the key and the epoch, so that a run may stop and go
    on anywhere; it is handed on because drawing it for a million rows takes as long as a thousand
    steps. A state at the start of an epoch needs none: `no_order` will do. The loop ends at the
    first step that is not finite.
    """
    num_batches = -(-rows.num_rows // batch_size)
    first_step, last_step = state.step, state.step + num_steps

    def run_batch(order: Order, carry: tuple) -> tuple:
        state, noise, energy, _ = carry
        taken, weights = jax.tree.map(lambda leaf: leaf[state.step % num_batches], order)
        share = jnp.sum(weights > 0) / rows.num_rows
        batch = jax.tree.map(lambda leaf: leaf[taken], rows.data)
        weights = (weights * rows.sample_weight[taken]).astype(state.num_data.dtype)
        noise = next_noise(state, noise, first_step)
        state, info = step_with_noise(state, batch, weights, noise)
        return state, noise, energy + share.astype(energy.dtype) * info.energy, info.finite

    def run_epoch(carry: tuple) -> tuple:
        state, order, noise, sums, index, _ = carry
        order = jax.lax.cond(
            state.step % num_batches == 0,
            lambda: order_of_epoch(state, rows, batch_size),
            lambda: order,
        )
        end_of_epoch = (state.step // num_batches + 1) * num_batches
        end = jnp.minimum(end_of_epoch, last_step)
        state, noise, energy, finite = jax.lax.while_loop(
            lambda carry: (carry[0].step < end) & carry[3],
            partial(run_batch, order),
            (state, noise, jnp.zeros_like(state.alpha), jnp.array(True)),
        )
        return state, order, noise, sums.at[index].set(energy), index + 1, finite

    sums = jnp.zeros(CHUNK_EPOCHS + 1, state.alpha.dtype)
    state, order, _, sums, _, finite = jax.lax.while_loop(
        lambda carry: (carry[0].step < last_step) & carry[5],
        run_epoch,
        (state, order, noise_of_steps(state), sums, 0, jnp.array(True)),
    )
    return state, order, sums, finite


def order_of_epoch(state: FitState, rows: Rows, batch_size: int) -> Order:
    """The rows and weights of the batches of the epoch that the state is in."""
    num_batches = -(-rows.num_rows // batch_size)
    key = threefry.fold_in(state.key, ORDER_STREAM)
    key = threefry.fold_in(key, state.step // num_batches)
    return minibatch_rows(key, rows.num_rows, len(rows.sample_weight), batch_size)


def no_order(rows: Rows, batch_size: int, replicas: tuple[int, ...] = ()) -> Order:
    """Room for the order of an epoch."""
    shape = (*replicas, -(-rows.sample_weight.shape[-1] // batch_size), batch_size)
    return jnp.asarray(np.zeros(shape, int)), jnp.asarray(np.zeros(shape))


@jax.jit
def full_energy(state: FitState, rows: Rows) -> Float[Array, ""]:
    """The energy on all data, with the draws of the next step, a chunk of rows at a time."""
    num_slots = len(rows.sample_weight)
    chunk = min(num_slots, ENERGY_ROWS)

    def energy_of_chunk(start: Int[Array, ""]) -> Float[Array, ""]:
        taken = start + jnp.arange(chunk)
        real = taken < rows.num_rows
        taken = jnp.minimum(taken, num_slots - 1)
        weights = jnp.where(real, rows.sample_weight[taken], 0.0).astype(state.num_data.dtype)
        batch = jax.tree.map(lambda leaf: leaf[taken], rows.data)
        return energy_of_batch(
            state, state.variables, batch, noise_keys(state), state.last_alpha, weights
        )

    return jnp.sum(jax.lax.map(energy_of_chunk, jnp.arange(0, num_slots, chunk)))


@partial(Compiled, static_argnames=("batch_size", "data_axis"))
def run_steps_many(
    state: FitState,
    rows: Rows,
    order: Order,
    num_steps: Int[Array, ""],
    batch_size: int,
    data_axis: int | None,
) -> tuple[FitState, Order, Float[Array, "replicas epochs"], Bool[Array, " replicas"]]:
    """`run_steps` for every replica."""
    run = partial(run_steps.function, batch_size=batch_size)
    axes = (0, _axes(data_axis), 0, None)
    return jax.vmap(run, in_axes=axes)(state, rows, order, num_steps)


def replica_runner(
    rows: Rows, num_replicas: int, batch_size: int, data_axis: int | None
) -> Callable[..., tuple]:
    """`run_steps_many` on these rows; on CPU with a thread for each core, a part of them for each.

    Cores that shared the small kernels of one loop would wait for each other. The parts are of one
    size and so one program; the last two may have replicas in common.
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

    def run(state: FitState, order: Order, num_steps: Int[Array, ""]) -> tuple:
        parts = [
            (part(state, start), some_rows, part(order, start), num_steps)
            for start, some_rows in zip(starts, rows_of_parts, strict=True)
        ]
        # Compiled here, because what users set by `with` holds for their own thread.
        program = run_steps_many.program.lower(*parts[0], batch_size, data_axis).compile()
        with ThreadPoolExecutor(len(parts)) as threads:
            results = list(threads.map(lambda part: jax.block_until_ready(program(*part)), parts))
        results[-1] = jax.tree.map(lambda leaf: leaf[num_common:], results[-1])
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *results)

    return run


@partial(jax.jit, static_argnames="data_axis")
def full_energy_many(
    state: FitState, rows: Rows, data_axis: int | None
) -> Float[Array, " replicas"]:
    """`full_energy` of every replica."""
    return jax.vmap(full_energy, in_axes=(0, _axes(data_axis)))(state, rows)


def _num_threads() -> int:
    """One for each core of a CPU that is ours; one alone where jax is to say what is not finite."""
    debugs = any(getattr(jax.config, name) for name in ("jax_debug_nans", "jax_debug_infs"))
    if debugs or not on_cpu():
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _axes(data_axis: int | None) -> Any:
    """Which axis of each field of `Rows` is the replicas."""
    return cast(Any, Rows)(data_axis, data_axis, None)
