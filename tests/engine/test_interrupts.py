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


def test_a_second_ctrl_c_is_answered_as_it_was_before_the_block():
    numbers = []
    signal.signal(signal.SIGINT, lambda number, frame: numbers.append(number))
    with deferred(signal.SIGINT) as arrived, deferred(signal.SIGINT):
        signal.raise_signal(signal.SIGINT)
        assert numbers == []
        signal.raise_signal(signal.SIGINT)
        assert numbers == [signal.SIGINT]
        assert arrived() == signal.SIGINT
    assert numbers == [signal.SIGINT]


def test_an_inner_block_knows_what_has_arrived_in_the_outer_one():
    with deferred(signal.SIGINT) as outer:
        signal.raise_signal(signal.SIGINT)
        with deferred(signal.SIGINT, signal.SIGTERM) as inner:
            assert inner() == signal.SIGINT
            signal.raise_signal(signal.SIGTERM)
        assert outer() == signal.SIGTERM
    with deferred(signal.SIGINT) as later:
        assert later() is None


def test_a_signal_that_nobody_was_told_of_is_raised_after_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt), deferred(signal.SIGINT) as arrived:  # noqa: PT012
        assert arrived() is None
        with deferred(signal.SIGINT):
            signal.raise_signal(signal.SIGINT)
        done.append("the block")
    assert done == ["the block"]


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
