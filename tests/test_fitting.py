"""Whole fits: what they report, and that they are nothing but steps."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems.limited_regression import (
    BATCH_SIZE,
    DATA,
    KEY,
    NUM_BATCHES,
    NUM_DATA,
    NUM_SAMPLES,
    OPTIMIZER,
    assert_same_q,
    fit,
    log_likelihood,
    with_limit,
)
from problems.probit import KEY as PROBIT_KEY
from problems.probit import fit as fit_probit
from problems.probit import probit_data

import bbalpha as bb
from bbalpha.engine import streams, threefry
from bbalpha.engine.batches import minibatch_rows, padded_length
from bbalpha.engine.epochs import full_energy
from bbalpha.planning import _with_energy

NUM_SLOTS = padded_length(NUM_DATA)

step = jax.jit(bb.step)


def step_by_hand(data, num_epochs):
    """The state after single steps on the batches of every epoch, and the energies of these.

    Ends early at a step that is not finite.
    """
    state = bb.init(
        log_likelihood,
        jnp.zeros(2),
        num_data=float(NUM_DATA),
        key=KEY,
        optimizer=OPTIMIZER,
        num_samples=NUM_SAMPLES,
    )
    energies = np.zeros((num_epochs, NUM_BATCHES))
    for epoch in range(num_epochs):
        key = jax.random.fold_in(jax.random.fold_in(KEY, streams.ORDER), epoch)
        rows, weights = minibatch_rows(key, NUM_DATA, NUM_DATA, BATCH_SIZE)
        for batch in range(NUM_BATCHES):
            taken = tuple(jnp.asarray(leaf, jnp.float32)[rows[batch]] for leaf in data)
            state, info = step(state, taken, weights[batch])
            energies[epoch, batch] = info.energy
            if not info.finite:
                return state, energies
    return state, energies


def test_a_fit_equals_its_steps_taken_one_at_a_time():
    posterior = fit()
    state, energies = step_by_hand(DATA, num_epochs=4)
    assert_same_q(posterior, state.posterior())
    assert posterior.info.num_steps == state.step == 4 * NUM_BATCHES
    shares = np.array([3, 3, 1]) / NUM_DATA
    np.testing.assert_allclose(posterior.info.energies, energies @ shares, rtol=2e-5)
    assert posterior.info.stopped == "finished"


@pytest.mark.parametrize(("rows_at_once", "batch_size"), [(1024, 3), (3, 3), (1024, NUM_SLOTS)])
def test_the_energy_of_a_fit_is_that_of_all_data_under_the_noise_of_the_next_step(
    rows_at_once, batch_size, monkeypatch
):
    monkeypatch.setattr("bbalpha.engine.epochs.ENERGY_ROWS", rows_at_once)
    for program in (full_energy, _with_energy.program):
        program.clear_cache()
    posterior = fit(batch_size=batch_size)
    for program in (full_energy, _with_energy.program):
        program.clear_cache()
    key = jax.random.fold_in(jax.random.fold_in(KEY, streams.NOISE), posterior.info.num_steps)
    noise = jax.vmap(posterior.q.noise)(threefry.consecutive(key, NUM_SAMPLES))
    energy_of = functools.partial(bb.alpha_energy, log_likelihood, posterior.q, posterior.prior)
    energy = jax.jit(lambda noise: energy_of(DATA, noise, alpha=0.5, num_data=NUM_DATA))(noise)
    np.testing.assert_allclose(posterior.energy, energy, rtol=2e-5)


def test_how_often_the_host_looks_does_not_change_the_result():
    posterior = fit(callback=lambda state, info: None)
    expected = fit()
    np.testing.assert_array_equal(posterior.mean, expected.mean)
    np.testing.assert_array_equal(posterior.energy, expected.energy)
    np.testing.assert_allclose(posterior.info.energies, expected.info.energies, rtol=1e-6)


def test_a_row_of_weight_two_counts_as_two_rows_and_one_of_weight_zero_as_none():
    weighted = fit(sample_weight=np.array([2.0, 1, 1, 1, 1, 1, 0]), batch_size=NUM_DATA)
    repeated = fit(data=tuple(leaf[[0, 0, 1, 2, 3, 4, 5]] for leaf in DATA), batch_size=NUM_DATA)
    assert weighted.num_data == repeated.num_data
    np.testing.assert_allclose(weighted.energy, repeated.energy, rtol=2e-6)
    np.testing.assert_allclose(weighted.info.energies, repeated.info.energies, rtol=2e-6)
    assert_same_q(weighted, repeated)


def test_a_non_finite_energy_ends_the_fit_with_the_state_before_that_step():
    for limit in (0.3, 0.35, 0.4, 0.45):  # until it happens within an epoch, the harder case
        data = with_limit(limit)
        state, energies = step_by_hand(data, num_epochs=10)
        num_steps = int(state.step)
        assert np.isnan(energies.ravel()[num_steps])
        if num_steps % NUM_BATCHES:
            break
    assert num_steps % NUM_BATCHES
    message = (
        rf"^The energy or its gradient became NaN or infinite at step {num_steps}\. The attribute"
    )
    with pytest.raises(bb.NonFiniteEnergyError, match=message) as caught:
        fit(data=data, num_epochs=10)
    error = caught.value
    assert error.step == error.posterior.info.num_steps == num_steps
    assert_same_q(error.posterior, state.posterior())
    assert np.all(np.isfinite(error.posterior.mean) & np.isfinite(error.posterior.variance))
    assert error.posterior.info.stopped == "non-finite"
    whole = num_steps // NUM_BATCHES
    shares = np.array([3, 3, 1]) / NUM_DATA
    np.testing.assert_allclose(error.posterior.info.energies, energies[:whole] @ shares, rtol=2e-5)


def test_a_fit_that_is_not_finite_from_the_start_ends_at_step_zero():
    with pytest.raises(bb.NonFiniteEnergyError, match=r"at step 0\.") as caught:
        fit(params=jnp.array([0.5, 0.0]), data=with_limit(0.3))
    assert caught.value.posterior.info.energies == ()
    np.testing.assert_array_equal(caught.value.posterior.mean, [0.5, 0.0])


def test_ctrl_c_during_the_last_computation_loses_nothing(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    expected = fit()
    monkeypatch.setattr("bbalpha.fitting.ending", lambda *args: interrupt)
    posterior = fit()
    assert posterior.info.stopped == "interrupted"
    assert np.isnan(posterior.energy)
    np.testing.assert_array_equal(posterior.mean, expected.mean)


def test_the_posterior_has_the_power_of_the_last_step():
    num_steps = 4 * NUM_BATCHES
    posterior = fit(alpha=lambda step: jnp.where(step < num_steps, 0.5, 1000.0))
    assert posterior.alpha == 0.5
    assert np.isfinite(posterior.energy)


def test_a_fit_is_reproducible_from_its_key():
    first, second = (fit_probit(probit_data(), key=PROBIT_KEY) for _ in range(2))
    other = fit_probit(probit_data(), key=jax.random.key(1))
    np.testing.assert_array_equal(first.q.mean, second.q.mean)
    assert np.any(first.q.mean != other.q.mean)


def test_the_chunk_of_draws_changes_nothing_but_memory():
    whole, chunked = (
        fit_probit(probit_data(), key=PROBIT_KEY, sample_chunk=chunk) for chunk in (10, 3)
    )
    np.testing.assert_allclose(whole.q.mean, chunked.q.mean, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(whole.energy, chunked.energy, rtol=2e-5)


def test_a_constant_schedule_equals_a_constant_power():
    settings = {"key": PROBIT_KEY, "optimizer": "adam"}  # natural steps let a number rise from 0
    constant = fit_probit(probit_data(), alpha=0.7, **settings)
    scheduled = fit_probit(probit_data(), alpha=optax.constant_schedule(0.7), **settings)
    np.testing.assert_allclose(constant.q.mean, scheduled.q.mean, rtol=2e-5)
    np.testing.assert_allclose(constant.energy, scheduled.energy, rtol=2e-5)
