"""Steps over minibatches that are prepared elsewhere, one chunk of them on the device at a time.

The counterpart of `epochs` for rows that do not all fit on the device. The batch of a step depends
only on the step, so it does not matter where chunks begin.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bbalpha.engine.compiling import Compiled
from bbalpha.engine.draws import Noise
from bbalpha.engine.epochs import kept_noise, next_noise


class SourceError(ValueError):
    """A source of rows cannot be read or holds invalid values; the result so far is kept.

    Attributes:
        step: The number of steps that the fit had taken, if it had begun.
        posterior: The posterior after these steps.
    """

    step: int | None = None
    posterior: Any = None
    state: Any = None  # the state of the loop after its last complete chunk


class Chunk(NamedTuple):
    """The batches of some consecutive steps."""

    begin: Int[Array, ""]  # the first step
    data: PyTree  # of shape (steps, batch, …)
    weights: Float[Array, "steps batch"]  # N/|S|, and 0 for padding


class ChunkCarry(NamedTuple):
    """What passes from one minibatch to the next."""

    state: Any
    noise: Noise | None  # if several steps share it
    energies: Float[Array, " steps"]
    finite: Bool[Array, ""]


@partial(Compiled)
def run_chunk(
    state: Any, chunk: Chunk, num_steps: Int[Array, ""]
) -> tuple[Any, Float[Array, " steps"], Bool[Array, ""]]:
    """The state after some steps on batches of a chunk, their energies, and whether all are finite.

    The energies are in the order of the batches in the chunk. The loop ends at the first step that
    is not finite.
    """
    span_begin, end = state.step, state.step + num_steps

    def run_batch(carry: ChunkCarry) -> ChunkCarry:
        state, place = carry.state, carry.state.step - chunk.begin
        batch, weights = _at(chunk, place)
        noise = next_noise(state, carry.noise, span_begin)
        state, info = state.advance(batch, weights.astype(state.dtype), noise)
        energy = info.energy.astype(carry.energies.dtype)
        energies = jax.lax.dynamic_update_index_in_dim(carry.energies, energy, place, axis=0)
        return ChunkCarry(state, kept_noise(state, noise), energies, info.finite)

    last = jax.lax.while_loop(
        lambda carry: (carry.state.step < end) & carry.finite,
        run_batch,
        ChunkCarry(
            state=state,
            noise=state.noise_at(state.step) if state.resample_every > 1 else None,
            energies=jnp.zeros(len(chunk.weights), state.dtype),
            finite=jnp.array(True),
        ),
    )
    return last.state, last.energies, last.finite


# For runs that would take less time than compiling for speed.
quick_chunk = Compiled(run_chunk.function, is_rare=True)


@partial(Compiled, is_rare=True)
def energies_of_chunk(state: Any, chunk: Chunk) -> Float[Array, " steps"]:
    """The energy on each batch of a chunk, with the draws of the next step."""

    def energy_at(place: Int[Array, ""]) -> Float[Array, ""]:
        batch, weights = _at(chunk, place)
        return state.energy(batch, weights.astype(state.dtype))

    return jax.lax.map(energy_at, jnp.arange(len(chunk.weights)))


def _at(chunk: Chunk, place: Int[Array, ""]) -> tuple[PyTree, Float[Array, " batch"]]:
    """A batch of a chunk, and its weights."""
    return jax.tree.map(
        lambda leaf: jax.lax.dynamic_index_in_dim(leaf, place, keepdims=False),
        (chunk.data, chunk.weights),
    )
