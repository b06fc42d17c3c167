"""The host's loop over compiled chunks of steps.

Between chunks, the host records energies, shows progress, saves the run, asks a watch whether to
stop, and reacts to Ctrl-C. `epochs` and `chunks` have the compiled part.
"""

import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from bbalpha.engine.arrays import on_device, on_host
from bbalpha.engine.batches import Rows, no_order, order_under_way
from bbalpha.engine.chunks import SourceError
from bbalpha.engine.epochs import CHUNK_EPOCHS
from bbalpha.engine.interrupts import deferred
from bbalpha.engine.progress import progress_bar
from bbalpha.engine.shards import Failed

CHUNK_SECONDS = 0.5  # how long the compiled loop runs before the host looks again
PART_STEPS = 256  # fewest steps whose energies are recorded as one part of an epoch
MOST_PARTS = 64  # of an epoch
STOPPED_BY = {signal.SIGINT: "interrupted", signal.SIGTERM: "terminated", None: None}


class Plan(NamedTuple):
    """How a run goes through the rows."""

    batch_size: int
    num_batches: int
    num_epochs: int

    @property
    def num_steps(self) -> int:
        """The number of minibatches in the whole run."""
        return self.num_epochs * self.num_batches

    @property
    def num_parts(self) -> int:
        """The parts of an epoch, whose energies show whether a run of few epochs has settled."""
        return max(1, min(self.num_batches // PART_STEPS, MOST_PARTS))

    def part_of(self, place: int) -> int:
        """The part of its epoch in which a step is, given its place in the epoch."""
        return place * self.num_parts // self.num_batches

    def most_steps(self, step: int) -> int:
        """The most steps of one call, which must end where a part of an epoch does."""
        if self.num_parts == 1:
            return CHUNK_EPOCHS * self.num_batches
        place = step % self.num_batches
        return -(-(self.part_of(place) + 1) * self.num_batches // self.num_parts) - place

    def next_look(self, step: int, every: int) -> int:
        """The next step at which the host looks at the state, as it does every `every` epochs."""
        epoch = (step // (every * self.num_batches) + 1) * every
        return min(epoch * self.num_batches, self.num_steps)


@runtime_checkable
class Keeper(Protocol):
    """An object that saves a run."""

    writes: bool  # whether it writes files in this process

    def save_if_due(self, state: Any, energies: np.ndarray, stopped: str | None) -> None:
        """Save the run if enough time has passed or if the run ends."""
        ...


@runtime_checkable
class Team(Protocol):
    """Several processes that run the same loop."""

    def agreed(self, stopped: str | None, chunk: int, state: Any) -> tuple[str | None, int]:
        """The reason for all processes to stop, if any, and the number of steps they take next."""
        ...

    def difference(self, start: Any, rows: Any) -> str | None:
        """A sentence about what differs between the processes at the start, or None."""
        ...

    def wait(self) -> None:
        """Wait for the others."""
        ...

    def leave(self) -> None:
        """Tell the others that this process takes part in no further step."""
        ...


class Start(NamedTuple):
    """Where a run begins or continues, why it has ended if so, who saves it and who shares it."""

    state: Any
    order: Any  # an `Order`, or whatever passes from one call to the next
    # Of each epoch up to the end of each of its parts; zero for parts that have not run yet.
    energies: np.ndarray
    stopped: str | None = None
    keeper: Keeper | None = None
    team: Team | None = None


@runtime_checkable
class Watch(Protocol):
    """What the loop needs of an object that watches a run."""

    @property
    def every(self) -> int:
        """How many epochs may pass between two looks."""
        ...

    def look(self, state: Any, energies: np.ndarray) -> tuple[Any, str | None]:
        """The state to continue with, and the reason to stop now, if there is one."""
        ...


def start_at(
    state: Any, rows: Any, plan: Plan, energies: np.ndarray | None = None, stopped: Any = None
) -> Start:
    """The start of a run at this state, after epochs with these energies.

    For rows that are not in memory, their method `order_at` gives what is passed between calls.
    """
    if energies is None:
        energies = np.zeros((*state.step.shape, plan.num_epochs, plan.num_parts))
    if not isinstance(rows, Rows):
        return Start(state, rows.order_at(state, plan, energies), energies, stopped)
    epoch, place = divmod(int(on_host(state.step).max()), plan.num_batches)
    if place == 0:
        order = no_order(rows, plan.batch_size, state.step.shape)
    else:
        so_far = energies[..., epoch, plan.part_of(place - 1)]
        order = order_under_way(state.key, epoch, so_far, rows, plan.batch_size)
    return Start(state, order, energies, stopped)


def train(
    run: Callable[..., tuple[Any, Any, Any, Any]],
    start: Start,
    plan: Plan,
    watch: Watch,
    progress: bool,
) -> tuple[Any, np.ndarray, str]:
    """The state at the end, the energy of every part of an epoch, and why the run ended."""
    state, order, energies, stopped, keeper, team = start
    agreed = team.agreed if team else _alone
    done, chunk, running = int(np.max(state.step)), 1, None
    signals = (signal.SIGINT, signal.SIGTERM) if keeper else (signal.SIGINT,)
    with progress_bar(progress, "epoch", plan.num_epochs) as show, deferred(*signals) as arrived:
        try:
            stopped = stopped or STOPPED_BY[arrived()]  # a signal that an outer block recorded
            if done < plan.num_steps and stopped is None:
                compiled = run(state, order=order, num_steps=on_device(0))
                running = jax.block_until_ready(compiled)
            stopped, chunk = agreed(stopped or STOPPED_BY[arrived()], chunk, state)
            while done < plan.num_steps and stopped is None:
                started = time.perf_counter()
                end = plan.next_look(done, watch.every)
                num_steps = min(chunk, plan.most_steps(done), end - done)
                running = run(state, order=order, num_steps=on_device(num_steps))
                state, order, sums, finite = jax.block_until_ready(running)
                _note_energies(energies, plan, done, np.asarray(sums))
                done += num_steps
                _show_energy(show, energies, done / plan.num_batches)
                if not np.asarray(finite).any():
                    stopped = "non-finite"
                elif done == end:
                    state, stopped = watch.look(state, energies)
                chunk = _next_chunk(chunk, num_steps, time.perf_counter() - started)
                stopped, chunk = agreed(stopped or STOPPED_BY[arrived()], chunk, state)
                if keeper:
                    ended = "finished" if done == plan.num_steps else None
                    keeper.save_if_due(state, energies, stopped or ended)
                    _wait(team)
        except KeyboardInterrupt:
            stopped = _interrupted(running, team)
        except (SourceError, Failed) as error:
            _keep_what_stands(error, state, energies, keeper)
            raise
    if stopped == "terminated":
        signal.raise_signal(signal.SIGTERM)
        stopped = "interrupted"  # the user's own signal handler returned
    return state, energies, stopped or "finished"


def _wait(team: Team | None) -> None:
    """Wait for the process that writes, because sums of the next chunk would time out."""
    if team:
        team.wait()


def _interrupted(running: Any, team: Team | None) -> str:
    """The reason to stop after Ctrl-C in this process only, once nothing runs any more."""
    if team:
        team.leave()
    jax.block_until_ready(running)  # otherwise, the interpreter could crash at exit
    return "interrupted"


def _alone(stopped: str | None, chunk: int, _: Any) -> tuple[str | None, int]:
    return stopped, chunk


def _keep_what_stands(
    error: SourceError | Failed, state: Any, energies: np.ndarray, keeper: Keeper | None
) -> None:
    """Attach the last good state to an error, and save that state."""
    error.state = state
    if keeper is None:
        return
    if isinstance(error, Failed):
        keeper.writes = error.writes
    keeper.save_if_due(state, energies, "interrupted")


def _note_energies(energies: np.ndarray, plan: Plan, step: int, sums: np.ndarray) -> None:
    """Record the energies of the epochs of a chunk that began at `step`."""
    epoch, place = divmod(step, plan.num_batches)
    num_epochs = 1 if plan.num_parts > 1 else sums.shape[-1]
    seen = energies[..., epoch : epoch + num_epochs, plan.part_of(place)]
    seen[...] = sums[..., : seen.shape[-1]]


def _show_energy(show: Callable[[float, str], None], energies: np.ndarray, epochs: float) -> None:
    """Show the energy of the last complete epoch, averaged over replicas."""
    if epochs >= 1:
        show(epochs, f"energy {np.mean(energies[..., int(epochs) - 1, -1]):.4g}")


def _next_chunk(chunk: int, num_steps: int, seconds: float) -> int:
    """The steps that take `CHUNK_SECONDS` at the last speed; at most four times the last number."""
    return max(1, min(int(num_steps / seconds * CHUNK_SECONDS), 4 * chunk))
