"""The time that jax spends compiling, so that it can be reported apart from running programs."""

import threading
import time
from functools import cache

import jax

PREFIX = "/jax/core/compile"  # of the events that jax reports while tracing and compiling
LOWERED = f"{PREFIX}/jaxpr_to_mlir_module_duration"

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


def lowered(name: str) -> threading.Event:
    """An event that is set once a function of this name has been traced and lowered.

    >>> from bbalpha.engine.clock import lowered
    >>> is_lowered = lowered("double")
    >>> def double(x):
    ...     return x + x
    >>> print(jax.jit(double)(1.0), is_lowered.is_set())
    2.0 True
    """
    is_lowered = threading.Event()

    def listen(event: str, duration_secs: float, **details: str | int) -> None:
        if event == LOWERED and details.get("fun_name") == f"jit({name})":
            is_lowered.set()

    jax.monitoring.register_event_duration_secs_listener(listen)
    return is_lowered


@cache
def _listen() -> None:
    """Record events from now on; there is no public way to stop."""

    def record(event: str, duration_secs: float, **_: str | int) -> None:
        if event.startswith(PREFIX):
            end = time.perf_counter()
            _events.append((end - duration_secs, end, threading.get_ident()))

    jax.monitoring.register_event_duration_secs_listener(record)
