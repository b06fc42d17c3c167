"""Epochs: many steps over the rows inside one compiled loop.

The loop knows nothing of the method: it moves any state that fulfils `Trainable`. Shapes and
functions determine what is compiled, never α, the data or the number of steps.
"""

from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from bbalpha.engine.batches import Order, Rows, order_of_epoch
from bbalpha.engine.compiling import Compiled
from bbalpha.engine.draws import Noise

CHUNK_EPOCHS = 256  # the most epochs that one call reports on
ENERGY_ROWS = 1024  # rows per chunk when the energy is computed on the full data


@runtime_checkable
class Trainable(Protocol):
    """What the loop asks of a state: to make noise, to take a step, and to know its energy."""

    step: Int[Array, "..."]
    key: Key[Array, "..."]

    @property
    def dtype(self) -> Any:
        """The type of energies and weights."""
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


class BatchCarry(NamedTuple):
    """What passes from one minibatch to the next."""

    state: Any
    noise: Noise
    energy: Float[Array, ""]  # summed over the epoch so far, each batch by its share of the rows
    finite: Bool[Array, ""]


class EpochCarry(NamedTuple):
    """What passes from one epoch to the next."""

    state: Any
    order: Order
    noise: Noise
    energies: Float[Array, " epochs"]
    num_epochs: Int[Array, ""]  # begun so far
    finite: Bool[Array, ""]


@partial(Compiled, static_argnames=("batch_size",))
def run_steps(
    state: Any, rows: Rows, order: Order, num_steps: Int[Array, ""], batch_size: int
) -> tuple[Any, Order, Float[Array, " epochs"], Bool[Array, ""]]:
    """The state after some steps, the order it is in, the energy of each epoch, and if all is well.

    The key and the epoch determine the order of the rows, so a run may stop and resume anywhere.
    The order is passed on only because drawing it for a million rows takes as long as a thousand
    steps; at the start of an epoch `no_order` will do. The loop ends at the first step that is not
    finite. The energy of an epoch counts only the steps taken here.
    """
    num_batches = rows.num_batches(batch_size)
    first_step, last_step = state.step, state.step + num_steps

    def run_batch(order: Order, carry: BatchCarry) -> BatchCarry:
        state = carry.state
        taken, weights = jax.tree.map(lambda leaf: leaf[state.step % num_batches], order)
        share = jnp.sum(weights > 0) / rows.num_rows
        batch = jax.tree.map(lambda leaf: leaf[taken], rows.data)
        weights = (weights * rows.sample_weight[taken]).astype(state.dtype)
        noise = next_noise(state, carry.noise, first_step)
        state, info = state.advance(batch, weights, noise)
        energy = carry.energy + share.astype(carry.energy.dtype) * info.energy
        return BatchCarry(state, noise, energy, info.finite)

    def run_epoch(carry: EpochCarry) -> EpochCarry:
        state = carry.state
        epoch = state.step // num_batches
        order = jax.lax.cond(
            state.step % num_batches == 0,
            lambda: order_of_epoch(state.key, epoch, rows, batch_size),
            lambda: carry.order,
        )
        end = jnp.minimum((epoch + 1) * num_batches, last_step)
        batches = jax.lax.while_loop(
            lambda batches: (batches.state.step < end) & batches.finite,
            partial(run_batch, order),
            BatchCarry(state, carry.noise, jnp.zeros((), state.dtype), jnp.array(True)),
        )
        return EpochCarry(
            state=batches.state,
            order=order,
            noise=batches.noise,
            energies=carry.energies.at[carry.num_epochs].set(batches.energy),
            num_epochs=carry.num_epochs + 1,
            finite=batches.finite,
        )

    energies = jnp.zeros(CHUNK_EPOCHS + 1, state.dtype)
    noise = state.noise_at(state.step)
    end = jax.lax.while_loop(
        lambda carry: (carry.state.step < last_step) & carry.finite,
        run_epoch,
        EpochCarry(state, order, noise, energies, jnp.array(0), jnp.array(True)),
    )
    return end.state, end.order, end.energies, end.finite


def next_noise(state: Any, noise: Noise, begin: Int[Array, ""]) -> Noise:
    """The noise of the next step, given that of the step before, or of step `begin` itself."""
    if state.resample_every == 1:
        return state.noise_at(state.step)

    def redraw(turn: Int[Array, ""], _: Noise) -> Noise:
        # The turn is 0; without it XLA would draw before the loop, and so at every step.
        return state.noise_at(state.step + turn)

    # A loop of zero or one turns, because `jax.lax.cond` would copy the noise that is kept.
    is_due = (state.step % state.resample_every == 0) & (state.step > begin)
    return jax.lax.fori_loop(0, is_due.astype(int), redraw, noise)


@jax.jit
def full_energy(state: Any, rows: Rows) -> Float[Array, ""]:
    """The energy on all data, with the draws of the next step, a chunk of rows at a time."""
    num_slots = len(rows.sample_weight)
    chunk = min(num_slots, ENERGY_ROWS)

    def energy_of_chunk(start: Int[Array, ""]) -> Float[Array, ""]:
        taken = start + jnp.arange(chunk)
        real = taken < rows.num_rows
        taken = jnp.minimum(taken, num_slots - 1)
        weights = jnp.where(real, rows.sample_weight[taken], 0.0).astype(state.dtype)
        return state.energy(jax.tree.map(lambda leaf: leaf[taken], rows.data), weights)

    return jnp.sum(jax.lax.map(energy_of_chunk, jnp.arange(0, num_slots, chunk)))
