"""The processes that fit together: how they agree, and what they do when one is lost.

Every process runs the same loop on the same state. Anything that depends on a clock, a signal or a
callback is decided by process 0, or shared with all, before any process takes the next step;
otherwise one process could wait forever in a sum that the others never enter.
"""

import contextlib
import dataclasses
import itertools
import socket
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh
from jaxtyping import PyTree

from bbalpha.engine.batches import Rows
from bbalpha.engine.loop import Start
from bbalpha.engine.shards import (
    Failed,
    everywhere,
    mesh_of,
    over,
    padded,
    shared_out,
    spread,
)
from bbalpha.files.wording import one_line
from bbalpha.runtime import coordinator
from bbalpha.runtime.failures import ProcessError, aborting
from bbalpha.runtime.fingerprints import digest
from bbalpha.runtime.roll_call import host_and_port, in_words
from bbalpha.runtime.row_order import readers_of

REASONS = (
    None,
    *("interrupted", "terminated", "finished", "converged", "diverged", "early", "callback"),
    "non-finite",
)
COMPARED_EVERY = 8  # agreements between two comparisons of q
LOOK = 1.0  # seconds between two checks whether another process has left
ALL_ANSWER = "A sum over the processes failed, although all of them answer"
# Words in an error of a sum that failed because another process is lost.
OF_PEERS = ("gloo", "collective", "unavailable", "deadline", "aborted", "cancelled", "timed out")
ROLL_CALL = 1.5  # seconds in which survivors must answer after a failure

_numbers = itertools.count()  # of teams; the same in every process, because all fit alike


@dataclasses.dataclass
class Team:
    """All processes of a run.

    Attributes:
        mesh: The devices of all processes.
        process: The number of this process.
        num_processes: The number of processes.
    """

    mesh: Mesh
    process: int
    num_processes: int
    _name: str = ""
    _turn: int = 0

    @property
    def leads(self) -> bool:
        """Whether this is process 0, which decides and writes."""
        return self.process == 0

    def spreading(self, state: Any) -> Any:
        """The state, changed so that its steps spread their rows over all devices."""
        method = dataclasses.replace(state.method, mesh=self.mesh)
        return dataclasses.replace(state, method=method)

    def share(self, rows: Any, plan: Any) -> tuple[Any, Any]:
        """The rows and the plan for this process.

        If the rows are in memory and make up one batch, a process keeps only its own rows;
        minibatches may need any row.
        """
        if not isinstance(rows, Rows):
            rows.readers = readers_of(self.process, self.num_processes, rows.num_readers)
            rows.to_device = partial(spread, self.mesh, axis=1)
            rows.over, rows.wait = self.over, self.wait
            return rows, plan
        if plan.batch_size < len(rows.sample_weight):
            return everywhere(self.mesh, rows), plan
        arrays = jax.tree.map(np.asarray, (rows.data, rows.sample_weight))
        data, weights = shared_out(self.mesh, padded(self.mesh, *arrays))
        return Rows(data, weights, rows.num_rows), plan._replace(batch_size=len(weights))

    def difference(self, start: Start, rows: Any) -> str | None:
        """A sentence about what differs between the processes at the start of a fit, or None."""
        data = (rows.data, rows.sample_weight) if isinstance(rows, Rows) else rows.identity()
        if others := self._that_differ(data):
            return (
                "data must be the same rows in the same order in every process; got other rows in "
                f"{in_words(others, self.num_processes).lower()} than in process 0."
            )
        if self._that_differ((start.state, start.stopped)):
            return (
                "checkpoint must be a folder that every process sees, because all continue from "
                f"the same state; got step {int(start.state.step):,} in process {self.process}."
            )
        return None

    def over(self, program: Callable[..., Any], waits: bool = False) -> Callable[..., Any]:
        """A program of all processes; each calls it with its own copy of the same arrays.

        Args:
            program: The program to call.
            waits: Whether to wait for the others after compiling it, because it starts with a sum.
        """
        return over(self.mesh, program, self.failed, self.wait if waits else None)

    def agreed(self, stopped: str | None, chunk: int, state: Any) -> tuple[str | None, int]:
        """The reason to stop, if any, and the number of next steps, as process 0 decides.

        A signal counts, whichever process it arrived in.

        Raises:
            Failed: If a process is lost, or if q is not the same in all processes.
        """
        self.wait()
        compares = stopped is not None or self._turn % COMPARED_EVERY == 1
        hashed = int(digest(state.variables)[:15], 16) if compares else 0
        words = [REASONS.index(stopped), chunk, compares, hashed >> 31, hashed % 2**31]
        found = self._gathered(np.array(words, np.int32))
        self._compare(found)
        first = int(found[0, 0]) or max((row[0] for row in found if row[0] in (1, 2)), default=0)
        return REASONS[int(first)], int(found[0, 1])

    def wait(self) -> None:
        """Wait until all processes have called this, however long their own work takes.

        Raises:
            Failed: If a process is lost in the meantime.
        """
        self._turn += 1
        name, client = f"{self._name}/{self._turn}", coordinator.client()
        if client is None:
            multihost_utils.sync_global_devices(name)
            return
        self._run(lambda: client.wait_at_barrier(name, coordinator.LONGEST_WAIT * 1000))

    def leave(self) -> None:
        """Tell the others that this process takes part in no further step."""
        coordinator.leave()

    def failed(self, error: Exception) -> Exception:
        """The error to raise for an error in a program of all: `Failed` if a process is lost."""
        text = str(error)
        if "RESOURCE_EXHAUSTED" in text or (
            type(error) is ValueError and "Gloo" not in text and "UNAVAILABLE" not in text
        ):
            return error
        return self._loss(error)

    def _that_differ(self, tree: PyTree) -> set[int]:
        """The processes whose tree differs from the one in process 0."""
        hashed = int(digest(tree)[:15], 16)
        self.wait()
        found = self._gathered(np.array([hashed >> 31, hashed % 2**31], np.int32))
        return set(np.flatnonzero((found != found[0]).any(axis=1)).tolist())

    def _gathered(self, words: np.ndarray) -> np.ndarray:
        """The words of every process, one row for each."""
        try:
            return np.asarray(multihost_utils.process_allgather(words))
        except (jax.errors.JaxRuntimeError, ValueError) as error:
            failure = self.failed(error)
            raise failure from failure.__cause__

    def _compare(self, found: np.ndarray) -> None:
        """Raise unless the hashes are equal in all processes that have computed one."""
        numbers = np.flatnonzero(found[:, 2])
        hashes = found[numbers, 3:]
        others = numbers[(hashes != hashes[:1]).any(axis=1)]
        if len(others):
            raise Failed(
                f"The processes no longer agree: q differs between process {numbers[0]} and "
                f"{in_words(set(others.tolist()), self.num_processes).lower()}. Every process must "
                "call fit with the same arguments, on the same kind of processor.",
                writes=False,
            )

    def _run(self, call: Callable[[], Any]) -> None:
        """Call in a thread a function that waits for others, because jax may never return.

        Another thread looks whether one of the others has left, so that it would never come.
        """
        done, errors, left = threading.Event(), [], set()

        def run() -> None:
            try:
                call()
            except Exception as error:
                errors.append(error)
            done.set()

        def look() -> None:
            with contextlib.suppress(Exception):  # if the coordinator is lost, `run` notices
                while not done.wait(LOOK):
                    found = coordinator.those_who_left() - {self.process}
                    if found and not done.wait(LOOK):  # it may have left when the wait was over
                        left.update(found)
                        done.set()

        for work in (run, look):
            coordinator.in_background(work)
        while not done.wait(coordinator.PAUSE):
            if aborting.is_set():
                raise self._loss()
        if left:  # the first of those that stay saves the run
            first = min(set(range(self.num_processes)) - left)
            reason = f"{in_words(left, self.num_processes)} left the fit."
            raise Failed(reason, writes=self.process == first)
        if errors:
            raise self._loss()

    def _loss(self, error: Exception | None = None) -> Failed:
        """The failure: which processes do not answer, and whether this one saves the run.

        Args:
            error: The error by which this was noticed; told unless it is a consequence of the loss.
        """
        present = self._survivors()
        if present is None:  # process 0 is lost, this one is cut off, or jax has given up
            is_first = not self.leads and not (aborting.is_set() and _is_reachable())
            lost = in_words({0}, self.num_processes) if is_first else "Another process"
            return Failed(f"{lost} did not answer.", writes=True)
        lost = set(range(self.num_processes)) - present
        reason = f"{in_words(lost, self.num_processes)} did not answer" if lost else ALL_ANSWER
        if error is None or (lost and _is_of_peers(error)):
            return Failed(f"{reason}.", writes=self.leads)
        line = one_line(str(error).strip().partition("\n")[0]).rstrip(". ")
        failure = Failed(f"{reason}; the error is: {line}.", writes=self.leads)
        failure.__cause__ = error
        return failure

    def _survivors(self) -> set[int] | None:
        """The processes that answer a roll call; None if process 0 does not."""
        client, name = coordinator.client(), f"{self._name}/survivors"
        if client is None or aborting.is_set():
            return None
        found: set[int] = set()
        done = threading.Event()

        def ask() -> None:
            try:
                client.key_value_set(f"{name}/{self.process}", "here", allow_overwrite=True)
                time.sleep(ROLL_CALL)
                keys = [key for key, _ in client.key_value_dir_get(name)]
                # Whoever answered this runs in process 0.
                found.update({0}, (int(key.rpartition("/")[2]) for key in keys))
            except Exception:
                found.clear()
            done.set()

        coordinator.in_background(ask)
        done.wait(2 * ROLL_CALL)
        return set(found) or None


def team_of_all() -> Team | None:
    """The team of all processes that have joined, or None if this one is alone.

    Raises:
        ProcessError: If this process has left the others.
    """
    if not jax.distributed.is_initialized() or jax.process_count() == 1:
        return None
    if coordinator.has_left():
        raise ProcessError(
            "This process has left the others, because an earlier fit ended with an error here; "
            "start all processes again."
        )
    team = Team(mesh_of(jax.devices()), jax.process_index(), jax.process_count())
    return dataclasses.replace(team, _name=f"bbalpha/{next(_numbers)}")


def _is_reachable() -> bool:
    """Whether process 0 can be connected to."""
    with contextlib.suppress(OSError, ValueError):
        socket.create_connection(host_and_port(coordinator.address()), timeout=1.0).close()
        return True
    return False


def _is_of_peers(error: Exception) -> bool:
    """Whether an error of a sum says that another process is lost."""
    text = str(error).lower()
    return any(word in text for word in OF_PEERS)
