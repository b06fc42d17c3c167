"""The connection to jax's coordinator, and who has left: a process that none must wait for.

Processes wait for each other without a time-out, because any of them may be busy for long. So one
that leaves a fit, or ends, says so, and those that wait learn it.
"""

import contextlib
import ctypes
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import jax

LEFT = "bbalpha/left"
END = "bbalpha/end"
LONGEST_WAIT = 24 * 3600  # seconds; heartbeats show earlier if a process is lost
PATIENCE = 2.0  # seconds in which the coordinator must answer
PAUSE = 0.05  # seconds between two checks whether to go on waiting
AT_REST = 0.2  # seconds until a thread in which jax has just aborted does nothing more


class _Here:
    """What this process has told the others."""

    has_left = False


def client() -> Any:
    """The connection to jax's coordinator, for which jax has no public name, or None."""
    found = getattr(_state(), "client", None)
    names = ("wait_at_barrier", "key_value_set", "key_value_dir_get")
    return found if all(hasattr(found, name) for name in names) else None


def address() -> str:
    """The address of the coordinator, or an empty text."""
    return getattr(_state(), "coordinator_address", None) or ""


def leave() -> None:
    """Tell the others not to wait for this process, which takes part in no further fit."""
    connection = client()
    if connection is None or _Here.has_left:
        return
    _Here.has_left = True
    name, told = f"{LEFT}/{jax.process_index()}", threading.Event()

    def tell() -> None:
        with contextlib.suppress(Exception):  # if nobody is there to be told
            connection.key_value_set(name, "", allow_overwrite=True)
        told.set()

    in_background(tell)  # because a coordinator that hangs would not answer
    told.wait(PATIENCE)


def has_left() -> bool:
    """Whether this process has left the others."""
    return _Here.has_left


def those_who_left() -> set[int]:
    """The numbers of the processes that have left."""
    connection = client()
    found = [] if connection is None else connection.key_value_dir_get(LEFT)
    return {int(key.rpartition("/")[2]) for key, _ in found}


def all_end(lost: threading.Event) -> bool:
    """Wait until all processes have come to their end; false if that will never be.

    Args:
        lost: Is set when jax has noticed that a process is lost.
    """
    connection, over, met = client(), threading.Event(), []
    if connection is None:  # jax waits by itself
        return True

    def meet() -> None:
        with contextlib.suppress(Exception):
            connection.wait_at_barrier(END, LONGEST_WAIT * 1000)
            met.append(True)
        over.set()

    in_background(meet)
    while not (over.wait(PAUSE) or lost.is_set()):
        pass
    return bool(met)


def abandon() -> None:
    """Let Python end with its own exit code, without the others.

    At exit, jax would wait for them and abort this process if one is lost.
    """
    state = _state()
    for connection in (getattr(state, "client", None), getattr(state, "service", None)):
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # its deletion would wait, too
    if state is not None:
        state.client = state.service = None
    with contextlib.suppress(AttributeError, OSError):  # only the C library of GNU has on_exit
        library = ctypes.CDLL(None)
        library.on_exit(library._exit, None)  # ends with the exit code, before C++ cleans up
        # A thread in which jax aborts must not need Python, which is about to end.
        library.signal(int(signal.SIGABRT), library.pause)
        time.sleep(AT_REST)


def in_background(work: Callable[[], None]) -> None:
    """Call a function in a thread that does not keep Python from ending."""
    try:
        threading.Thread(target=work, daemon=True).start()
    except RuntimeError:  # Python is ending and may start no more threads
        work()


def _state() -> Any:
    try:
        from jax._src.distributed import global_state
    except ImportError:
        return None
    return global_state
