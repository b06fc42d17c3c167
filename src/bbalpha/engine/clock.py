"""The time that jax spends compiling, so that it can be reported apart from running programs."""

import threading
import time
from functools import cache

import jax

PREFIX = "/jax/core/compile"  # of the events that jax reports while tracing and compiling

_events: list[tuple[float, float, int]] = []  # when each began and ended, and in which thread


class Compiling:
    """The seconds that this thread has spent tracing and compiling since the object was made."""

    def __init__(self) -> None:
        _listen()
        self._first, self._thread = len(_events), threading.get_ident()

    @property
    def seconds(self) -> float:
        """The length of the union of all events, because they are nested."""
        total, reached = 0.0, 0.0
        for begin, end, thread in sorted(_events[self._first :]):
            if thread != self._thread:
                continue
            total += max(0.0, end - max(begin, reached))
            reached = max(reached, end)
        return total


@cache
def _listen() -> None:
    """Record events from now on; there is no public way to stop."""

    def record(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith(PREFIX):
            end = time.perf_counter()
            _events.append((end - duration_secs, end, threading.get_ident()))

    jax.monitoring.register_event_duration_secs_listener(record)
