"""Epochs: many steps over the rows inside one compiled loop.

The loop knows nothing of the method: it advances any state that implements `Trainable`. Only shapes
and functions determine what is compiled, never α, the data or the number of steps.
"""

from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from bbalpha.engine.batches import Order, Rows, order_of_epoch
from bbalpha.engine.compiling import Compiled
from bbalpha.engine.draws import Noise
from bbalpha.engine.shards import whole

CHUNK_EPOCHS = 256  # most epochs whose energies one call can report
ENERGY_ROWS = 1024  # rows per chunk when the energy is computed on the full data


@runtime_checkable
class Trainable(Protocol):
    """What the loop needs of a state: its noise, its next step, and its energy."""

    step: Int[Array, "..."]
    key: Key[Array, "..."]

    @property
    def dtype(self) -> Any:
        """The type of energies and weights."""
        ...

    @property
    def mesh(self) -> Mesh | None:
        """The devices that share the rows of a batch, if there are several."""
        ...

    @property
    def resample_every(self) -> int:
        """How many steps share the same noise."""
        ...

    def noise_at(self, step: Int[Array, ""]) -> Noise:
        """The noise of a step, or keys to draw it from."""
        ...

    def advance(
        self, batch: PyTree, weights: Float[Array, " batch"] | None, noise: Noise
    ) -> tuple[Any, Any]:
        """The state after one step on a minibatch, and a report with `energy` and `finite`."""
        ...

    def energy(
        self, batch: PyTree, weights: Float[Array, " batch"] | None = None
    ) -> Float[Array, ""]:
        """The energy on a minibatch, with the draws of the next step."""
        ...


class Span(NamedTuple):
    """The steps that one call takes: from `begin` up to, not including, `end`."""

    begin: Int[Array, ""]
    end: Int[Array, ""]


class BatchCarry(NamedTuple):
    """The values carried from one minibatch to the next."""

    state: Any
    noise: Noise | None  # if several steps share it
    energy: Float[Array, ""]  # summed over the epoch so far, each batch by its share of the rows
    finite: Bool[Array, ""]


class EpochCarry(NamedTuple):
    """What passes from one epoch to the next."""

    state: Any
    order: Order
    noise: Noise | None  # if several steps share it
    energies: Float[Array, " epochs"]
    num_epochs: Int[Array, ""]  # begun so far
    finite: Bool[Array, ""]


@partial(Compiled, static_argnames=("batch_size",))
def run_steps(
    state: Any, rows: Rows, order: Order, num_steps: Int[Array, ""], batch_size: int
) -> tuple[Any, Order, Float[Array, " epochs"], Bool[Array, ""]]:
    """The state after some steps, the order, the energy of each epoch, and whether all are finite.

    The key and the epoch determine the order of the rows, so a run may stop and resume anywhere.
    There are two reasons to pass the order from call to call: drawing it for a million rows takes
    as long as a thousand steps, and it carries the energy of an epoch that began in an earlier
    call. At the start of an epoch, `no_order` is enough. A batch of all rows needs no order, which
    makes the program smaller. The loop ends at the first step that is not finite.
    """
    span = Span(state.step, state.step + num_steps)
    run_epoch = _run_batch_of_all if batch_size == len(rows.sample_weight) else _run_epoch
    end = jax.lax.while_loop(
        lambda carry: (carry.state.step < span.end) & carry.finite,
        partial(run_epoch, rows, batch_size, span),
        EpochCarry(
            state=state,
            order=order,
            noise=state.noise_at(state.step) if state.resample_every > 1 else None,
            energies=jnp.zeros(CHUNK_EPOCHS + 1, state.dtype),
            num_epochs=jnp.array(0),
            finite=jnp.array(True),
        ),
    )
    return end.state, end.order, end.energies, end.finite


# For runs that would take less time than compiling for speed.
quick_steps = Compiled(run_steps.function, run_steps.static_argnames, is_rare=True)
whole_steps = Compiled(run_steps.function, run_steps.static_argnames, is_whole=True)


def _run_epoch(rows: Rows, batch_size: int, span: Span, carry: EpochCarry) -> EpochCarry:
    """The rest of the epoch that the state is in, as far as the span reaches."""
    state = carry.state
    num_batches = rows.num_batches(batch_size).astype(state.step.dtype)
    epoch, place = jax.lax.div(state.step, num_batches), jax.lax.rem(state.step, num_batches)
    order = jax.lax.cond(
        place == 0,
        lambda: order_of_epoch(state.key, epoch, rows, batch_size),
        lambda: carry.order,
    )
    end = jnp.minimum((epoch + 1) * num_batches, span.end)
    order = whole(state.mesh, order)
    batches = jax.lax.while_loop(
        lambda batches: (batches.state.step < end) & batches.finite,
        partial(_run_batch, rows, order, num_batches, span),
        BatchCarry(state, carry.noise, order.energy.astype(state.dtype), jnp.array(True)),
    )
    energy = batches.energy.astype(order.energy.dtype)
    return _after_epoch(carry, batches, order._replace(energy=energy))


def _run_batch_of_all(rows: Rows, batch_size: int, span: Span, carry: EpochCarry) -> EpochCarry:
    """An epoch that is one step on all rows; padding has the weight 0."""
    del batch_size
    noise = next_noise(carry.state, carry.noise, span.begin)
    weights = rows.sample_weight.astype(carry.state.dtype)
    state, info = carry.state.advance(rows.data, weights, noise)
    batch = BatchCarry(state, kept_noise(state, noise), info.energy, info.finite)
    return _after_epoch(carry, batch, carry.order)


def _after_epoch(carry: EpochCarry, batches: BatchCarry, order: Order) -> EpochCarry:
    return EpochCarry(
        state=batches.state,
        order=order,
        noise=batches.noise,
        energies=jax.lax.dynamic_update_index_in_dim(
            carry.energies, batches.energy, carry.num_epochs, axis=0
        ),
        num_epochs=carry.num_epochs + 1,
        finite=batches.finite,
    )


def _run_batch(
    rows: Rows, order: Order, num_batches: Int[Array, ""], span: Span, carry: BatchCarry
) -> BatchCarry:
    """One step."""
    state = carry.state
    place = jax.lax.rem(state.step, num_batches)
    taken, weights = (
        jax.lax.dynamic_index_in_dim(leaf, place, keepdims=False)
        for leaf in (order.taken, order.weights)
    )
    weights = whole(state.mesh, weights)  # if spread like the rows, devices would exchange sums
    share = jnp.sum(weights > 0) / rows.num_rows
    batch, sample_weight = rows.take(taken)
    weights = (weights * sample_weight).astype(state.dtype)
    noise = next_noise(state, carry.noise, span.begin)
    state, info = state.advance(batch, weights, noise)
    energy = carry.energy + share.astype(carry.energy.dtype) * info.energy
    return BatchCarry(state, kept_noise(state, noise), energy, info.finite)


def kept_noise(state: Any, noise: Noise) -> Noise | None:
    """The noise of a step, if the next step may share it; otherwise None."""
    return noise if state.resample_every > 1 else None


def next_noise(state: Any, noise: Noise | None, begin: Int[Array, ""]) -> Noise:
    """The noise of the next step, given the noise of the last one or of step `begin` itself."""
    if state.resample_every == 1:
        return state.noise_at(state.step)

    def redraw(turn: Int[Array, ""], _: Noise) -> Noise:
        # The turn is always 0; without it, XLA would draw before the loop, hence at every step.
        return state.noise_at(state.step + turn)

    # A loop of zero or one turns, because `jax.lax.cond` would copy the noise.
    is_due = (state.step % state.resample_every == 0) & (state.step > begin)
    return jax.lax.fori_loop(0, is_due.astype(int), redraw, noise)


@jax.jit
def full_energy(state: Any, rows: Rows) -> Float[Array, ""]:
    """The energy on all data, with the draws of the next step, one chunk of rows at a time."""
    num_slots = len(rows.sample_weight)
    chunk = min(num_slots, ENERGY_ROWS)

    def energy_of_chunk(start: Int[Array, ""]) -> Float[Array, ""]:
        taken = start + jnp.arange(chunk)
        real = taken < rows.num_rows
        batch, sample_weight = rows.take(jnp.minimum(taken, num_slots - 1))
        weights = jnp.where(real, sample_weight, 0.0).astype(state.dtype)
        return state.energy(batch, weights)

    return jnp.sum(jax.lax.map(energy_of_chunk, jnp.arange(0, num_slots, chunk)))
