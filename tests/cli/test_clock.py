"""Facts about the seconds that compiling took."""

import jax
import numpy as np

from bbalpha.cli import clock


def test_compiling_is_noticed():
    compiling = clock.Compiling()
    assert compiling.seconds == 0
    jax.jit(lambda x: x * 3 + 1)(np.float32(2)).block_until_ready()
    assert compiling.seconds > 0


def test_nested_and_overlapping_events_count_once(monkeypatch):
    compiling = clock.Compiling()
    events = [(1.0, 4.0), (2.0, 3.0), (3.5, 5.0), (7.0, 8.0)]
    earlier = [(0.0, 0.5)] * compiling._first
    monkeypatch.setattr(clock, "_events", [*earlier, *reversed(events)])
    assert compiling.seconds == 5.0
