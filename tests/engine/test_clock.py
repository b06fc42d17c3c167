"""Facts about the seconds that compiling took."""

import jax
import numpy as np

from bbalpha.engine import clock


def test_compiling_is_noticed():
    compiling = clock.Compiling()
    assert compiling.seconds == 0
    jax.jit(lambda x: x * 3 + 1)(np.float32(2)).block_until_ready()
    assert compiling.seconds > 0


def test_nested_events_count_once_and_those_of_other_threads_not_at_all(monkeypatch):
    compiling = clock.Compiling()
    own, other = compiling._thread, compiling._thread + 1
    events = [(1.0, 4.0, own), (2.0, 3.0, own), (3.5, 5.0, own), (6.0, 9.0, other), (7.0, 8.0, own)]
    earlier = [(0.0, 0.5, own)] * compiling._first
    monkeypatch.setattr(clock, "_events", [*earlier, *reversed(events)])
    assert compiling.seconds == 5.0
