"""What becomes of a process whose peers are gone: a sentence and an exit code, and no crash.

jax aborts a process, from a thread of its own and amid whatever else it does, when the process that
coordinates all others dies. Here that thread waits a while, so that the main thread can save.
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

EXIT_CODE = 75  # of a failure that another attempt may not meet, by a convention of mail systems
FAILED = 1
GRACE = 20.0  # seconds that an abort waits, beyond the time-out, for the main thread to save

aborting = threading.Event()  # jax has given up this process


class ProcessError(RuntimeError):
    """A process of several was lost, or they no longer agree; `posterior` is the result so far.

    Attributes:
        step: How many steps the fit had taken.
        posterior: The result of these steps.
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
    """What C must not lose, and how this process ends."""

    handler: Any = None
    has_failed = False


def end_well(timeout: float) -> None:
    """Let this process end with a sentence and without waiting for lost peers, however it ends."""
    if _Kept.handler is None:
        _delay_aborts(timeout + GRACE)
        sys.excepthook = _after(sys.excepthook)
        atexit.register(_leave)


def leave(message: str) -> None:
    """End this process at once with a sentence, as it cannot end its part of jax."""
    sys.stdout.flush()
    with contextlib.suppress(OSError):
        os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"{message}\n".encode())
    os._exit(EXIT_CODE)


def _delay_aborts(seconds: float) -> None:
    def delay(number: int) -> None:
        aborting.set()
        if threading.current_thread() is threading.main_thread():
            leave("Error: jax could not go on, because a process was lost or did not arrive.")
        time.sleep(seconds)

    _Kept.handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(delay)
    if os.name == "posix":
        ctypes.CDLL(None).signal(int(signal.SIGABRT), _Kept.handler)


def _after(show: Callable[..., Any]) -> Callable[..., Any]:
    """An exception hook that ends the process, because Python's own end would wait for peers."""

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
    """Leave the other processes: together, or at once after an exception."""
    sys.stdout.flush()
    sys.stderr.flush()
    if _Kept.has_failed:
        os._exit(FAILED)
    jax.distributed.shutdown()
