"""Workers of SNEP as Ray actors: each holds its part of the data on some machine of a cluster.

What changes in a worker travels with every call: the site, where the chains are, and the key. An
actor that dies is started again by Ray with its data, takes the call again, and the result has the
same bits as if it had not died.
"""

import importlib
import os
from typing import Any

from bbalpha.message_passing.workers import LocalWorker, Message, WorkerState

MAX_RESTARTS = 3


class RayWorker:
    """What stands for a worker in the server's process.

    `bb.snep(..., place=RayWorker)` makes one for each part of the data, in the Ray cluster that
    `ray.init` has joined; with `functools.partial` you set options. The extra `ray` installs Ray.

    Attributes:
        actor: Ray's handle of the actor.
    """

    def __init__(self, worker: LocalWorker, max_restarts: int = MAX_RESTARTS, **options: Any):
        """Start an actor and hand the worker over to it.

        Args:
            worker: The worker, whose data travel to the actor once.
            max_restarts: How often Ray starts a dead actor again and repeats the call that it did
                not answer; −1 for always.
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
        """The worker's present site."""
        return self._state.site

    def update(self, q: Message, step: float) -> Message:
        """The worker's site after one step, given what the server holds."""
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
