"""The loop of the host: the energy of every epoch, and the progress that it shows."""

from contextlib import contextmanager

import numpy as np
import pytest
from problems.limited_regression import HELD_OUT, fit

import bbalpha as bb
from bbalpha.engine.epochs import CHUNK_EPOCHS
from bbalpha.engine.loop import PART_STEPS, Plan


def test_every_epoch_between_two_rare_looks_has_its_energy(monkeypatch):
    monkeypatch.setattr(
        "bbalpha.engine.loop.CHUNK_SECONDS", 1e9
    )  # as many steps at a time as may be
    num_epochs = 2 * CHUNK_EPOCHS + 100
    rule = bb.EarlyStopping(HELD_OUT, every=num_epochs, num_samples=20)
    energies = fit(num_epochs=num_epochs, early_stopping=rule).info.energies
    assert len(energies) == num_epochs
    assert np.all(np.array(energies[-300:]) > 1.0)


def test_progress_counts_epochs_to_the_end_even_where_looks_fall_between_them(monkeypatch):
    shown = []

    @contextmanager
    def record(show, unit, total):
        yield lambda epochs, status: shown.append((epochs, status))

    monkeypatch.setattr("bbalpha.engine.loop.progress_bar", record)
    energies = fit(num_epochs=40).info.energies
    epochs = [epoch for epoch, _ in shown]
    assert epochs == sorted(epochs)
    assert epochs[-1] == 40
    assert len(epochs) > 2
    for epoch, status in shown:  # the energy of the last whole epoch
        assert status == f"energy {energies[int(epoch) - 1]:.4g}"


@pytest.mark.parametrize("seconds", [1e9, 1e-9])
def test_parts_of_epochs_do_not_change_their_energies(monkeypatch, seconds):
    monkeypatch.setattr("bbalpha.engine.loop.CHUNK_SECONDS", seconds)
    whole = fit(num_epochs=20)
    monkeypatch.setattr("bbalpha.engine.loop.PART_STEPS", 1)
    parts = fit(num_epochs=20)
    assert parts.info.energies == whole.info.energies
    np.testing.assert_array_equal(parts.mean, whole.mean)


@pytest.mark.parametrize("num_batches", [1, 255, 512, 1000, 3125, 31_250])
def test_calls_end_where_parts_do(num_batches):
    plan, step, ends = Plan(32, num_batches, 2), 0, []
    while step < plan.num_steps:
        step += min(plan.most_steps(step), plan.num_steps - step)
        ends.append(step)
    assert set(ends) >= {2 * num_batches}
    if plan.num_parts > 1:
        lengths = np.diff(ends, prepend=0)
        assert len(ends) == 2 * plan.num_parts
        assert lengths.min() >= PART_STEPS
        assert np.ptp(lengths) <= 1


def test_energies_do_not_depend_on_how_fast_the_machine_is(monkeypatch):
    """The energy of an epoch is one sum in single precision, wherever its steps were cut."""
    found = []
    for seconds in (1e9, 1e-9):  # all steps at once, or one at a time
        monkeypatch.setattr("bbalpha.engine.loop.CHUNK_SECONDS", seconds)
        found.append(fit(num_epochs=20).info.energies)
    assert found[0] == found[1]
