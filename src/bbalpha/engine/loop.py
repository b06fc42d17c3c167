"""The host's loop over compiled chunks of steps.

Between chunks the host adds up energies, shows progress, asks whether to stop and notices Ctrl-C.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from bbalpha.engine.arrays import on_device
from bbalpha.engine.batches import Order
from bbalpha.engine.epochs import CHUNK_EPOCHS
from bbalpha.engine.progress import progress_bar

CHUNK_SECONDS = 0.5  # how long the host leaves the compiled loop alone


class Plan(NamedTuple):
    """How a run goes through the rows."""

    batch_size: int
    num_batches: int
    num_epochs: int

    @property
    def num_steps(self) -> int:
        """How many minibatches the run goes through."""
        return self.num_epochs * self.num_batches

    def next_look(self, step: int, every: int) -> int:
        """The next step after which the host looks at the state, `every` epochs apart."""
        epoch = (step // (every * self.num_batches) + 1) * every
        return min(epoch * self.num_batches, self.num_steps)


@runtime_checkable
class Watch(Protocol):
    """What the loop asks of whoever watches a run."""

    @property
    def every(self) -> int:
        """How many epochs may pass between two looks."""
        ...

    def look(self, state: Any, energies: np.ndarray) -> tuple[Any, str | None]:
        """The state to go on with, and the reason to stop now, if there is one."""
        ...


def train(
    run: Callable[..., tuple[Any, Order, Any, Any]],
    state: Any,
    order: Order,
    plan: Plan,
    watch: Watch,
    progress: bool,
) -> tuple[Any, np.ndarray, str]:
    """The state at the end, the energy of every epoch, and why the run ended."""
    energies = np.zeros((*state.step.shape, plan.num_epochs))
    done, chunk, stopped, running = 0, 1, None, None
    with progress_bar(progress, "epoch", plan.num_epochs) as show:
        try:
            while done < plan.num_steps and stopped is None:
                started = time.perf_counter()
                end = plan.next_look(done, watch.every)
                num_steps = min(chunk, CHUNK_EPOCHS * plan.num_batches, end - done)
                running = run(state, order=order, num_steps=on_device(num_steps))
                state, order, sums, finite = jax.block_until_ready(running)
                _add_energies(energies, done // plan.num_batches, np.asarray(sums))
                done += num_steps
                _show_energy(show, energies, done / plan.num_batches)
                if not np.asarray(finite).any():
                    stopped = "non-finite"
                elif done == end:
                    state, stopped = watch.look(state, energies)
                chunk = _next_chunk(chunk, num_steps, time.perf_counter() - started)
        except KeyboardInterrupt:
            stopped = "interrupted"
            jax.block_until_ready(running)  # left running, it could crash the interpreter's exit
    return state, energies, stopped or "finished"


def _add_energies(energies: np.ndarray, epoch: int, sums: np.ndarray) -> None:
    """Add what a chunk that began in `epoch` reports."""
    seen = energies[..., epoch : epoch + sums.shape[-1]]
    seen += sums[..., : seen.shape[-1]]


def _show_energy(show: Callable[[float, str], None], energies: np.ndarray, epochs: float) -> None:
    """Show the energy of the last complete epoch, averaged over replicas."""
    if epochs >= 1:
        show(epochs, f"energy {np.mean(energies[..., int(epochs) - 1]):.4g}")


def _next_chunk(chunk: int, num_steps: int, seconds: float) -> int:
    """As many steps as take `CHUNK_SECONDS` at the speed just seen, growing at most fourfold."""
    return max(1, min(int(num_steps / seconds * CHUNK_SECONDS), 4 * chunk))
