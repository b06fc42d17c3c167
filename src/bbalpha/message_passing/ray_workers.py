"""Workers of SNEP as Ray actors: each holds its part of the data on some machine of a cluster.

The changing state of a worker (its site, its chains and its key) is sent with every call. If an
actor dies, Ray restarts it with its data and repeats the call, so the result has the same bits as
if it had not died.
"""

import importlib
import os
from typing import Any

from bbalpha.message_passing.workers import LocalWorker, Message, WorkerState

MAX_RESTARTS = 3


class RayWorker:
    """The server's stand-in for a worker that runs in a Ray actor.

    `bb.snep(..., place=RayWorker)` creates one for each part of the data, in the Ray cluster that
    `ray.init` has joined; use `functools.partial` to set options. The extra `ray` installs Ray.

    Attributes:
        actor: Ray's handle of the actor.
    """

    def __init__(self, worker: LocalWorker, max_restarts: int = MAX_RESTARTS, **options: Any):
        """Start an actor and hand the worker over to it.

        Args:
            worker: The worker; its data are sent to the actor once.
            max_restarts: How many times Ray restarts a dead actor and repeats the call that it did
                not answer; −1 for no limit.
            options: Further options of the actor, such as `num_cpus` or `runtime_env`.

        Raises:
            ImportError: If ray is not installed.
        """
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            remedy = "pip install 'bbalpha[ray]'"
            raise ImportError(f"RayWorker needs ray: {remedy}.") from None
        self._ray, self._state = ray, worker.state()
        limits = {"max_restarts": max_restarts, "max_task_retries": max_restarts}
        self.actor: Any = ray.remote(Seat).options(**limits, **options).remote(worker)

    def site(self) -> Message:
        """The worker's current site."""
        return self._state.site

    def update(self, q: Message, step: float) -> Message:
        """The worker's site after one step, given the server's q."""
        self._state = self._ray.get(self.actor.update.remote(self._state, q, step))
        return self._state.site


class Seat:
    """The worker in its actor."""

    def __init__(self, worker: LocalWorker):
        """Store the worker."""
        self._worker = worker

    def process(self) -> int:
        """The number of the actor's process."""
        return os.getpid()

    def update(self, state: WorkerState, q: Message, step: float) -> WorkerState:
        """The state after one step from the given one."""
        self._worker.restore(state)
        self._worker.update(q, step)
        return self._worker.state()
