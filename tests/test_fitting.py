"""Whole fits: what ends them, what they report, and that they are nothing but steps."""

import functools
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bbalpha as bb
from bbalpha.engine import streams, threefry
from bbalpha.engine.batches import minibatch_rows
from bbalpha.engine.epochs import CHUNK_EPOCHS, full_energy

# All fits here share one log-likelihood, optimizer and set of shapes, therefore compiled programs.
KEY = jax.random.key(3)
NUM_DATA, BATCH_SIZE, NUM_SAMPLES = 7, 3, 5
NUM_BATCHES = 3  # the last has one datum
OPTIMIZER = optax.adam(0.05)
INPUTS = np.random.default_rng(0).normal(size=(NUM_DATA, 2))
TARGETS = INPUTS @ np.array([1.0, -1.0])
NEVER = np.full(NUM_DATA, 1e9)
DATA = (INPUTS, TARGETS, NEVER)
SETTINGS = {
    "key": KEY,
    "batch_size": BATCH_SIZE,
    "num_samples": NUM_SAMPLES,
    "optimizer": OPTIMIZER,
    "num_epochs": 4,
}


def log_likelihood(weights, batch):
    """A linear model with noise of variance one, NaN where the first weight is above a limit."""
    inputs, targets, limits = batch
    log_density = jax.scipy.stats.norm.logpdf(targets, inputs @ weights)
    return jnp.where(weights[0] > limits, jnp.nan, log_density)


def with_limit(limit):
    return (INPUTS, TARGETS, np.full(NUM_DATA, limit))


def fit(data=DATA, params=None, **settings):
    params = jnp.zeros(2) if params is None else params
    return bb.fit(log_likelihood, params, data, **SETTINGS | settings)


def assert_same_q(posterior, other):
    np.testing.assert_allclose(posterior.mean, other.mean, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(posterior.variance, other.variance, rtol=2e-5)


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


@pytest.mark.parametrize("rows_at_once", [1024, 3])
def test_the_energy_of_a_fit_is_that_of_all_data_under_the_noise_of_the_next_step(
    rows_at_once, monkeypatch
):
    monkeypatch.setattr("bbalpha.engine.epochs.ENERGY_ROWS", rows_at_once)
    full_energy.clear_cache()
    posterior = fit()
    full_energy.clear_cache()
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


def test_a_callback_is_called_once_per_epoch():
    calls = []
    posterior = fit(callback=lambda state, info: calls.append((state, info)))
    assert [len(info.energies) for _, info in calls] == [1, 2, 3, 4]
    assert [info.num_steps for _, info in calls] == [3, 6, 9, 12]
    assert [int(state.step) for state, _ in calls] == [3, 6, 9, 12]
    assert {info.stopped for _, info in calls} == {"running"}
    assert calls[-1][1].energies == posterior.info.energies
    np.testing.assert_array_equal(calls[-1][0].posterior().mean, posterior.mean)


def test_a_callback_sees_the_epoch_at_which_the_fit_stops_early():
    epochs = []
    rule = bb.EarlyStopping(HELD_OUT, patience=2, num_samples=20)
    posterior = fit(
        num_epochs=60,
        early_stopping=rule,
        callback=lambda state, info: epochs.append(len(info.energies)),
    )
    assert posterior.info.stopped == "early"
    assert epochs == [epoch for epoch, _ in posterior.info.held_out]


def test_a_true_result_of_the_callback_ends_the_fit():
    posterior = fit(callback=lambda state, info: len(info.energies) == 2)
    assert posterior.info.stopped == "callback"
    assert posterior.info.num_steps == 6
    expected = fit(num_epochs=2)
    np.testing.assert_array_equal(posterior.mean, expected.mean)
    np.testing.assert_array_equal(posterior.energy, expected.energy)


def test_ctrl_c_in_a_callback_returns_the_posterior_reached():
    def interrupt(state, info):
        if len(info.energies) == 2:
            raise KeyboardInterrupt

    posterior = fit(callback=interrupt)
    assert posterior.info.stopped == "interrupted"
    assert posterior.info.num_steps == 6
    assert np.isnan(posterior.energy)
    np.testing.assert_array_equal(posterior.mean, fit(num_epochs=2).mean)


def test_any_other_error_of_a_callback_reaches_the_caller():
    def fail(state, info):
        raise LookupError("not today")

    with pytest.raises(LookupError, match="not today"):
        fit(callback=fail)


# Held-out data of half the slope: the score grows until the fit passes them by, then falls.
HELD_OUT = (INPUTS, 0.5 * TARGETS, NEVER)


@pytest.mark.parametrize("every", [1, 2])
def test_early_stopping_returns_the_best_state(every):
    rule = bb.EarlyStopping(HELD_OUT, patience=4, every=every, num_samples=20)
    posterior = fit(num_epochs=60, early_stopping=rule)
    epochs, scores = zip(*posterior.info.held_out, strict=True)
    best = int(np.argmax(scores))
    assert posterior.info.stopped == "early"
    assert epochs == tuple(range(every, epochs[-1] + 1, every))
    assert 0 < best < len(scores) - 1
    assert epochs[-1] - epochs[best] == rule.patience
    assert posterior.info.num_steps == epochs[best] * NUM_BATCHES
    assert len(posterior.info.energies) == epochs[best]
    key = jax.random.fold_in(KEY, streams.HELD_OUT)
    densities = posterior.log_density(log_likelihood, HELD_OUT, key=key, num_samples=20)
    np.testing.assert_allclose(jnp.mean(densities), max(scores), rtol=1e-6)
    np.testing.assert_array_equal(posterior.mean, fit(num_epochs=epochs[best]).mean)


def test_a_fit_that_ends_before_patience_does_returns_the_best_state_too():
    rule = bb.EarlyStopping(HELD_OUT, patience=1000, num_samples=20)
    posterior = fit(num_epochs=30, early_stopping=rule)
    epochs, scores = zip(*posterior.info.held_out, strict=True)
    assert epochs == tuple(range(1, 31))
    assert posterior.info.stopped == "finished"
    assert posterior.info.num_steps == (1 + int(np.argmax(scores))) * NUM_BATCHES < 90


def test_a_held_out_score_that_is_not_a_number_is_never_the_best():
    rule = bb.EarlyStopping((INPUTS, TARGETS, np.full(NUM_DATA, 2.7)), num_samples=20)
    posterior = fit(params=jnp.array([3.0, 0.0]), num_epochs=10, early_stopping=rule)
    scores = [score for _, score in posterior.info.held_out]
    assert np.isnan(scores[0])
    assert posterior.info.num_steps == (1 + int(np.nanargmax(scores))) * NUM_BATCHES > NUM_BATCHES


def test_every_epoch_between_two_rare_looks_has_its_energy(monkeypatch):
    monkeypatch.setattr(
        "bbalpha.engine.loop.CHUNK_SECONDS", 1e9
    )  # as many steps at a time as may be
    num_epochs = 2 * CHUNK_EPOCHS + 100
    rule = bb.EarlyStopping(HELD_OUT, every=num_epochs, num_samples=20)
    energies = fit(num_epochs=num_epochs, early_stopping=rule).info.energies
    assert len(energies) == num_epochs
    assert np.all(np.array(energies[-300:]) > 1.0)


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


def test_a_non_finite_energy_is_told_at_its_own_step_however_good_an_earlier_state_was():
    with pytest.raises(bb.NonFiniteEnergyError, match="at step") as plain:
        fit(data=with_limit(0.3), num_epochs=10)
    rule = bb.EarlyStopping((INPUTS, -TARGETS, NEVER), num_samples=20)  # best at the first epoch
    with pytest.raises(bb.NonFiniteEnergyError, match="at step") as caught:
        fit(data=with_limit(0.3), num_epochs=10, early_stopping=rule)
    assert caught.value.step == plain.value.step
    np.testing.assert_array_equal(caught.value.posterior.mean, plain.value.posterior.mean)


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
    for epoch, status in shown:  # that of the last whole epoch
        assert status == f"energy {energies[int(epoch) - 1]:.4g}"


def test_progress_is_silent_without_a_terminal(capfd):
    fit(progress=True)
    assert capfd.readouterr() == ("", "")


LONG_FIT = """
import json, math, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored if pytest runs in the background
import jax, jax.numpy as jnp
import bbalpha as bb

def log_likelihood(weights, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)

inputs = jax.random.normal(jax.random.key(0), (7, 2))
posterior = bb.fit(
    log_likelihood, jnp.zeros(2), (inputs, inputs[:, 0]), key=jax.random.key(1),
    batch_size=3, num_samples=5, num_epochs=5_000_000,
)
print(json.dumps({
    "stopped": posterior.info.stopped,
    "num_steps": posterior.info.num_steps,
    "num_energies": len(posterior.info.energies),
    "finite": bool(jnp.isfinite(posterior.mean).all() & jnp.isfinite(posterior.variance).all()),
    "energy_is_known": not math.isnan(posterior.energy),
}))
"""
BAR = r"epoch +([1-9]\d*)/5000000 [^\r]* energy (-?[\d.]+) +\d+:\d\d:\d\d"


@pytest.fixture(scope="module")
def interrupted_fit():
    """What a fit without end showed on a terminal before SIGINT, and what it printed after."""
    terminal, end_of_process = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "JAX_PLATFORMS": "cpu"}
    process = subprocess.Popen(
        [sys.executable, "-c", LONG_FIT],
        stdout=subprocess.PIPE,
        stderr=end_of_process,
        env=environment,
        text=True,
    )
    os.close(end_of_process)
    try:
        shown = read_until(terminal, BAR, seconds=120)
        process.send_signal(signal.SIGINT)
        printed, _ = process.communicate(timeout=180)
    finally:
        process.kill()
        os.close(terminal)
    return shown, printed


def read_until(terminal, pattern, seconds):
    """The text of the terminal, without colors, up to a match."""
    shown, deadline = "", time.monotonic() + seconds
    while not re.search(pattern, shown):
        ready, _, _ = select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing like {pattern} within {seconds} seconds of {shown!r}"
        text = os.read(terminal, 4096).decode(errors="replace")
        shown += re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", text)
    return shown


def test_a_terminal_shows_epoch_energy_and_time_left(interrupted_fit):
    shown, _ = interrupted_fit
    epoch, energy = re.search(BAR, shown).groups()
    assert int(epoch) < 5_000_000
    assert float(energy) > 0.0


def test_ctrl_c_returns_the_posterior_reached(interrupted_fit):
    _, printed = interrupted_fit
    found = json.loads(printed)
    assert found["stopped"] == "interrupted"
    assert found["num_steps"] > 0
    assert found["num_energies"] == found["num_steps"] // 3
    assert found["finite"]
    assert not found["energy_is_known"]


KEYS = jnp.stack([KEY, jax.random.key(4), KEY])
OWN_DATA = tuple(np.stack([leaf] * 3) for leaf in DATA)
OWN_WEIGHTS = np.outer([1.0, 1.0, 0.5], np.ones(NUM_DATA))  # of totals 7, 7, 3.5


def fit_many(params, **settings):
    settings = SETTINGS | {"data_axis": 0, "sample_weight": OWN_WEIGHTS, "keys": KEYS} | settings
    del settings["key"]
    return bb.fit_many(log_likelihood, params, OWN_DATA, **settings)


def test_a_replica_that_is_not_finite_stays_where_it_was_while_the_others_go_on():
    starts = jnp.array([[0.0, 0.0], [2e9, 0.0], [0.0, 0.0]])  # the second beyond the limit
    first, stuck, third = fit_many(starts, alpha=[4.0, 0.5, 0.5])
    assert [p.info.stopped for p in (first, stuck, third)] == ["finished", "non-finite", "finished"]
    assert stuck.info.num_steps == 0
    assert stuck.info.energies == ()
    np.testing.assert_array_equal(stuck.mean, starts[1])
    for replica, settings in [
        (first, {"alpha": 4.0}),
        (third, {"alpha": 0.5, "sample_weight": OWN_WEIGHTS[2]}),
    ]:
        expected = fit(**settings)
        assert_same_q(replica, expected)
        np.testing.assert_allclose(replica.energy, expected.energy, rtol=2e-5)
        np.testing.assert_allclose(replica.info.energies, expected.info.energies, rtol=2e-5)
        assert replica.info.num_steps == 12


def test_replicas_whose_steps_share_noise_equal_the_single_fits():
    """Batches of two make four steps an epoch, so that three with one noise cross its end."""
    settings = {"resample_every": 3, "batch_size": 2}
    replicas = fit_many(jnp.zeros((3, 2)), alpha=[0.0, 0.5, 1.0], **settings)
    for replica, key, alpha, weights in zip(
        replicas, KEYS, [0.0, 0.5, 1.0], OWN_WEIGHTS, strict=True
    ):
        alone = fit(key=key, alpha=alpha, sample_weight=weights, **settings)
        assert_same_q(replica, alone)
        np.testing.assert_allclose(replica.energy, alone.energy, rtol=2e-5)
        np.testing.assert_allclose(replica.info.energies, alone.info.energies, rtol=2e-5)


def test_replicas_none_of_which_is_finite_end_the_run():
    starts = jnp.full((3, 2), 2e9)
    posteriors = fit_many(starts, num_epochs=1_000_000)
    assert [posterior.info.stopped for posterior in posteriors] == ["non-finite"] * 3
    assert [posterior.info.num_steps for posterior in posteriors] == [0] * 3


def test_ctrl_c_returns_every_replica_as_far_as_it_came(monkeypatch):
    @contextmanager
    def interrupting(show, unit, total):
        def interrupt(epochs, status):
            raise KeyboardInterrupt

        yield interrupt

    monkeypatch.setattr("bbalpha.engine.loop.progress_bar", interrupting)
    posteriors = fit_many(jnp.zeros((3, 2)))
    assert [posterior.info.stopped for posterior in posteriors] == ["interrupted"] * 3
    assert all(0 < posterior.info.num_steps < 12 for posterior in posteriors)


def test_held_out_rows_count_by_their_weights():
    """A row of weight zero is as good as none: spoiling it changes no score."""
    weights = np.where(np.arange(NUM_DATA) < 2, 0.0, 2.0)
    spoiled = (INPUTS, np.where(weights == 0, 100.0, TARGETS).astype(np.float32), NEVER)
    kept = jax.tree.map(lambda leaf: leaf[weights > 0], (INPUTS, TARGETS, NEVER))
    scores = [
        fit(num_epochs=3, early_stopping=rule).info.held_out
        for rule in (
            bb.EarlyStopping(spoiled, num_samples=20, sample_weight=weights),
            bb.EarlyStopping(kept, num_samples=20),
        )
    ]
    np.testing.assert_allclose(*scores, rtol=2e-5)


def test_the_last_epoch_is_scored_though_it_is_not_one_of_every_few():
    rule = bb.EarlyStopping(HELD_OUT, patience=1000, every=7, num_samples=20)
    posterior = fit(num_epochs=10, early_stopping=rule)
    assert [epoch for epoch, _ in posterior.info.held_out] == [7, 10]


def test_ctrl_c_during_the_last_computation_loses_nothing(monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    expected = fit()
    monkeypatch.setattr("bbalpha.fitting.full_energy", interrupt)
    posterior = fit()
    assert posterior.info.stopped == "interrupted"
    assert np.isnan(posterior.energy)
    np.testing.assert_array_equal(posterior.mean, expected.mean)


def test_posteriors_of_many_fits_can_be_stacked():
    keys = jax.random.split(KEY, 2)
    starts = jnp.zeros((2, 2))
    settings = {name: value for name, value in SETTINGS.items() if name != "key"}
    posteriors = bb.fit_many(log_likelihood, starts, DATA, keys=keys, **settings)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *posteriors)
    np.testing.assert_array_equal(stacked.q.mean[1], posteriors[1].q.mean)
    assert posteriors[0].info != posteriors[1].info


def test_without_an_optimizer_many_fits_take_that_of_one():
    settings = {name: value for name, value in SETTINGS.items() if name != "key"}
    settings["optimizer"] = None
    (replica,) = bb.fit_many(log_likelihood, jnp.zeros((1, 2)), DATA, keys=KEY[None], **settings)
    alone = bb.fit(log_likelihood, jnp.zeros(2), DATA, key=KEY, **settings)
    np.testing.assert_allclose(replica.mean, alone.mean, rtol=2e-5)


def test_the_posterior_has_the_power_of_the_last_step():
    num_steps = 4 * NUM_BATCHES
    posterior = fit(alpha=lambda step: jnp.where(step < num_steps, 0.5, 1000.0))
    assert posterior.alpha == 0.5
    assert np.isfinite(posterior.energy)
