"""How a process ends when its peers are gone: with a sentence and an exit code instead of a crash.

When the process that coordinates the others dies, jax aborts the rest: from a separate thread,
whatever the process is doing. Here, that thread first waits a while, so that the main thread can
save.
"""

import atexit
import contextlib
import ctypes
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import Any

import jax

from bbalpha.engine.loop import Start
from bbalpha.engine.shards import Failed
from bbalpha.runtime import coordinator

EXIT_CODE = 75  # temporary failure: try again (EX_TEMPFAIL in sysexits.h)
FAILED = 1
GRACE = 20.0  # seconds beyond the time-out that an abort waits for the main thread to save

aborting = threading.Event()  # jax has given up this process


class ProcessError(RuntimeError):
    """One of several processes was lost, or they no longer agree.

    Attributes:
        step: The number of steps that the fit had taken.
        posterior: The posterior after these steps.
    """

    def __init__(self, message: str, step: int | None = None, posterior: Any = None):
        self.step = step
        self.posterior = posterior
        super().__init__(message)


def process_error(failure: Failed, start: Start) -> ProcessError:
    """The error for users, with the result so far and where it was saved."""
    if failure.state is None:
        return ProcessError(failure.reason)
    step = int(failure.state.step)
    words = f"{failure.reason} The fit ended after {step:,} steps"
    keeper: Any = start.keeper
    if keeper is not None:
        words += f"; the same call goes on from {keeper.checkpoint.folder}"
    return ProcessError(f"{words}.", step, failure.state.posterior())


class _Kept:
    """References that must outlive their use in C, and how this process ends."""

    handler: Any = None
    has_failed = False


def end_well(timeout: float) -> None:
    """From now on, end this process with a sentence and without waiting for lost peers."""
    if _Kept.handler is None:
        _delay_aborts(timeout + GRACE)
        sys.excepthook = _after(sys.excepthook)
        atexit.register(_leave)


def leave(message: str) -> None:
    """End this process at once with a sentence, because jax could not shut down properly."""
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{message}\n".encode())
    os._exit(EXIT_CODE)


def _delay_aborts(seconds: float) -> None:
    def delay(number: int) -> None:
        aborting.set()
        if threading.current_thread() is threading.main_thread():
            leave("Error: jax could not continue, because a process was lost or did not arrive.")
        time.sleep(seconds)

    _Kept.handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(delay)
    if os.name == "posix":
        ctypes.CDLL(None).signal(int(signal.SIGABRT), _Kept.handler)


def _after(show: Callable[..., Any]) -> Callable[..., Any]:
    """An exception hook that ends the process, because Python's own exit would wait for peers."""

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if isinstance(error, ProcessError):
            leave(f"Error: {error}")
        _Kept.has_failed = True
        try:
            show(kind, error, trace)
        except Exception:
            traceback.print_exception(kind, error, trace)

    return hook


def _leave() -> None:
    """Leave the other processes: together with them, or at once if this one left them before."""
    sys.stdout.flush()
    sys.stderr.flush()
    left_before = coordinator.has_left()
    coordinator.leave()
    if _Kept.has_failed:
        os._exit(FAILED)
    if left_before or not coordinator.all_end(aborting):
        coordinator.abandon()
    jax.distributed.shutdown()  # all are here; or nothing is left to be shut down
