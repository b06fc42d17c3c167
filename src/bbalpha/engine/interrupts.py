"""Signals (Ctrl-C, SIGTERM) deferred to the end of a chunk, so that no state is left half-done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class _Outermost:
    """The signals that have arrived since the outermost block began, if there is one."""

    arrived: list[signal.Signals] | None = None


@contextmanager
def deferred(*signals: signal.Signals) -> Iterator[Callable[[], signal.Signals | None]]:
    """Defer signals in a block; yield a function that tells which of them has arrived, if any.

    In nested blocks, the function tells what has arrived since the outermost block began. A second
    Ctrl-C is not deferred but handled as before the block, usually by a `KeyboardInterrupt`. After
    the block, handlers are restored, and a signal that the function has not reported is raised
    again. Only the main thread can have handlers, and a signal that the process ignores stays
    ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield lambda: None
        return
    is_outermost = _Outermost.arrived is None
    arrived: list[signal.Signals] = [] if _Outermost.arrived is None else _Outermost.arrived
    told: list[signal.Signals] = []
    before: dict[signal.Signals, Any] = {}

    def note(number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT and signal.SIGINT in arrived:
            handler = before.get(signal.SIGINT)
            (handler if callable(handler) else signal.default_int_handler)(number, frame)
        arrived.append(signal.Signals(number))

    def tell() -> signal.Signals | None:
        told[:] = arrived
        return arrived[-1] if arrived else None

    try:
        _Outermost.arrived = arrived
        for each in signals:
            if signal.getsignal(each) not in (signal.SIG_IGN, None):
                before[each] = signal.signal(each, note)
        yield tell
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
        if is_outermost:
            _Outermost.arrived = None
    if is_outermost and len(told) < len(arrived):
        signal.raise_signal(arrived[-1])
