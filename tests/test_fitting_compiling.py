"""What a fit compiles: one program for all powers, keys, lengths and nearby sizes of data."""

import jax
import numpy as np
import optax
from problems.probit import KEY, fit, probit_data

import bbalpha as bb
from bbalpha.engine.batches import padded_length
from bbalpha.engine.epochs import quick_steps, run_steps, whole_steps
from bbalpha.engine.loop import Plan
from bbalpha.planning import steps_for


def test_ten_fits_at_ten_powers_with_ten_keys_compile_once(compilations):
    for steps in (run_steps, quick_steps):  # data of a nearby size in another test share them
        steps.program.clear_cache()
    fit(probit_data(0), alpha=0.3, key=KEY)
    assert "jit(run_steps)" in compilations
    compilations.clear()
    for index in range(10):
        alpha, key = index / 10 - 0.2, jax.random.key(index)
        fit(probit_data(index), alpha=alpha, key=key, num_epochs=20 + index)
    assert compilations == []


def test_data_of_a_nearby_size_compile_nothing_anew(compilations):
    inputs, labels = probit_data()
    fit((inputs, labels), key=KEY)
    compilations.clear()
    for num_rows in (33, 40, 49):
        fit((inputs[:num_rows], labels[:num_rows]), key=KEY)
    assert not [name for name in compilations if "run_steps" in name or "energy" in name]


def test_padding_changes_nothing(monkeypatch):
    data = probit_data()
    padded = fit(data, key=KEY)
    monkeypatch.setattr("bbalpha.engine.batches.padded_length", lambda num_rows: num_rows)
    plain = fit(data, key=KEY)
    for one, other in zip(jax.tree.leaves(padded), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(padded.info.energies, plain.info.energies, rtol=2e-5)


def test_a_first_fit_compiles_only_its_steps_and_its_ending(compilations):
    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.Probit().log_prob((inputs @ weights)[:, None], labels)

    inputs, labels = probit_data()
    data = (np.asarray(inputs), np.asarray(labels > 0, np.float32))
    compilations.clear()
    start, settings = np.zeros(inputs.shape[1], np.float32), {"key": KEY, "num_epochs": 2}
    bb.fit(log_likelihood, start, data, optimizer="adam", **settings)
    assert sorted(compilations) == ["jit(_with_energy)", "jit(run_steps)"]
    compilations.clear()
    bb.fit(log_likelihood, start, data, optimizer="natural", **settings)
    assert sorted(compilations) == ["jit(_posterior)", "jit(run_steps)"]


def test_a_first_fit_on_all_rows_does_without_a_program_for_the_energy(compilations):
    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.log_ndtr(labels * (inputs @ weights))

    inputs, labels = map(np.asarray, probit_data())
    bb.fit(
        log_likelihood,
        np.zeros(inputs.shape[1], np.float32),
        (inputs, labels),
        key=KEY,
        num_epochs=2,
        batch_size=padded_length(len(labels)),
    )
    assert sorted(compilations) == ["jit(_posterior)", "jit(run_steps)"]


def test_small_steps_are_compiled_quickly_and_all_others_to_run_fast():
    whole, batches, weights = Plan(512, 1, 100), Plan(32, 16, 100), np.zeros(2048)
    for num_samples, program in ((128, quick_steps), (129, whole_steps)):
        assert steps_for(whole, "natural", weights, num_samples) is program
    for other in ("adam", optax.sgd(0.1)):
        for num_samples, program in ((32, quick_steps), (33, run_steps)):
            assert steps_for(batches, other, weights, num_samples) is program
