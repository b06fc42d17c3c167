"""Signals that wait until somebody asks for them."""

import signal
import threading

import pytest

from bbalpha.engine.interrupts import deferred


@pytest.fixture(autouse=True)
def python_handlers():
    """Handlers as in a terminal; pytest may run in the background, where SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_waits_to_be_asked_for():
    with deferred(signal.SIGINT, signal.SIGTERM) as arrived:
        assert arrived() is None
        signal.raise_signal(signal.SIGTERM)
        assert arrived() == signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_second_ctrl_c_does_not_wait():
    with deferred(signal.SIGINT) as arrived:
        signal.raise_signal(signal.SIGINT)
        assert arrived() == signal.SIGINT
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_an_ignored_signal_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with deferred(signal.SIGINT) as arrived:
        signal.raise_signal(signal.SIGINT)
        assert arrived() is None


def test_other_threads_are_left_alone():
    found = []

    def listen():
        with deferred(signal.SIGINT) as arrived:
            found.append((arrived(), signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=listen)
    thread.start()
    thread.join()
    assert found == [(None, signal.default_int_handler)]
