"""The loop of the host: the energy of every epoch, and the progress that it shows."""

from contextlib import contextmanager

import numpy as np
from problems.limited_regression import HELD_OUT, fit

import bbalpha as bb
from bbalpha.engine.epochs import CHUNK_EPOCHS


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


def test_energies_do_not_depend_on_how_fast_the_machine_is(monkeypatch):
    """The energy of an epoch is one sum in single precision, wherever its steps were cut."""
    found = []
    for seconds in (1e9, 1e-9):  # all steps at once, or one at a time
        monkeypatch.setattr("bbalpha.engine.loop.CHUNK_SECONDS", seconds)
        found.append(fit(num_epochs=20).info.energies)
    assert found[0] == found[1]
