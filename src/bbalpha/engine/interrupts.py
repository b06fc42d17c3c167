"""Signals that wait for the end of a chunk, so that no state is left half-way."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


@contextmanager
def deferred(*signals: signal.Signals) -> Iterator[Callable[[], signal.Signals | None]]:
    """A function that tells which of the signals has arrived since the block began, if any.

    A second Ctrl-C raises `KeyboardInterrupt` at once. Handlers are restored after the block. Only
    the main thread can have handlers, and a signal that the process ignores stays ignored.
    """
    arrived: list[signal.Signals] = []

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and signal.SIGINT in arrived:
            signal.default_int_handler(number, frame)
        arrived.append(signal.Signals(number))

    before: dict[signal.Signals, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for each in signals:
                if signal.getsignal(each) not in (signal.SIG_IGN, None):
                    before[each] = signal.signal(each, note)
        yield lambda: arrived[-1] if arrived else None
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
