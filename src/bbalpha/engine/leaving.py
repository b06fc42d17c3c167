"""How the command line ends at a signal: at once, with a sentence and the signal's exit code.

An exception in the middle of an import or a compilation can crash Python, and so can its normal
exit while other threads compute. Here the process ends without either.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType

FIRST_CODE = 128  # the exit code is this plus the number of the signal, as in shells
VERBS = {signal.SIGINT: "Interrupted", signal.SIGTERM: "Terminated"}
STANDARD_ERROR = 2
CLEAR_LINE = b"\r\x1b[2K\x1b[?25h"  # a progress bar may have hidden the cursor

before_leaving: list[Callable[[], None]] = []  # clean-up functions, which are called first


class _Sentence:
    """What to say after the verb."""

    rest = "."


def leave_at_signals() -> None:
    """From now on, let Ctrl-C and SIGTERM end this process, unless it ignores them."""
    for number in VERBS:
        if signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, _leave)


def finish() -> None:
    """From now on, leave both signals to the system, because Python is ending and may miss them."""
    for number in VERBS:
        if signal.getsignal(number) is _leave:
            signal.signal(number, signal.SIG_DFL)


def say_when_leaving(rest: str) -> None:
    """From now on, end the sentence "Interrupted …" with `rest`."""
    _Sentence.rest = rest


def _leave(number: int, frame: FrameType | None) -> None:
    with contextlib.suppress(Exception):
        for clean_up in before_leaving:
            clean_up()
    with contextlib.suppress(OSError):
        if os.isatty(STANDARD_ERROR):
            os.write(STANDARD_ERROR, CLEAR_LINE)
        sentence = f"{VERBS[signal.Signals(number)]}{_Sentence.rest}\n"
        os.write(STANDARD_ERROR, sentence.encode(errors="backslashreplace"))
    os._exit(FIRST_CODE + number)
