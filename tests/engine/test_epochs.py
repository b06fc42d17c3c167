"""The compiled loop over epochs takes the steps of `bbalpha.step`, with noise kept between them."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bbalpha as bb
from bbalpha.engine import replicas
from bbalpha.engine.batches import Rows, no_order, order_of_epoch
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.replicas import replica_runner, run_steps_many
from bbalpha.state import KEPT_NOISE

NUM_DATA, BATCH_SIZE, NUM_SAMPLES, RESAMPLE_EVERY = 7, 2, 5, 3
NUM_BATCHES = 4  # so that every third step falls on the end of an epoch only by chance
OPTIMIZER = optax.adam(0.05)
INPUTS = jnp.asarray(np.random.default_rng(0).normal(size=(NUM_DATA, 2)), jnp.float32)
DATA = (INPUTS, INPUTS @ jnp.array([1.0, -1.0]))
ROWS = Rows(DATA, jnp.ones(NUM_DATA), jnp.asarray(NUM_DATA))


def log_likelihood(weights, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)


def start(family=bb.CappedGaussian):
    return bb.init(
        log_likelihood,
        jnp.zeros(2),
        num_data=NUM_DATA,
        key=jax.random.key(3),
        family=family,
        optimizer=OPTIMIZER,
        num_samples=NUM_SAMPLES,
        resample_every=RESAMPLE_EVERY,
    )


@pytest.fixture(params=[KEPT_NOISE, 1], ids=["noise is kept", "noise is too large to keep"])
def kept_noise(request, monkeypatch):
    """How many numbers may be kept; programs compiled for another limit are forgotten."""
    monkeypatch.setattr("bbalpha.state.KEPT_NOISE", request.param)
    run_steps.program.clear_cache()
    yield request.param
    run_steps.program.clear_cache()


def run(state, *counts):
    """The state after some steps of the compiled loop, in one call for each count."""
    order = no_order(ROWS, BATCH_SIZE)
    for count in counts:
        state, order, _, _ = run_steps(state, ROWS, order, count, BATCH_SIZE)
    return state


def step_by_hand(state, num_steps):
    step = jax.jit(bb.step)
    for index in range(num_steps):
        if index % NUM_BATCHES == 0:
            rows, weights = order_of_epoch(state.key, state.step // NUM_BATCHES, ROWS, BATCH_SIZE)
        batch = index % NUM_BATCHES
        taken = jax.tree.map(lambda leaf, rows=rows[batch]: leaf[rows], DATA)
        state, _ = step(state, taken, weights[batch])
    return state


@pytest.mark.parametrize("counts", [(10,), (4, 1, 5)])
def test_the_loop_equals_its_steps_where_several_share_their_noise(kept_noise, counts):
    """Ten steps in two and a half epochs; at once, or interrupted amid steps that share noise."""
    found, expected = run(start(), *counts), step_by_hand(start(), 10)
    assert found.step == expected.step == 10
    for leaf, other in zip(
        jax.tree.leaves((found.variables, found.optimizer_state)),
        jax.tree.leaves((expected.variables, expected.optimizer_state)),
        strict=True,
    ):
        np.testing.assert_allclose(leaf, other, rtol=2e-5, atol=2e-5)


def test_noise_is_drawn_once_for_the_steps_that_share_it_unless_it_is_too_large(kept_noise):
    """Counted while the program runs: the eight steps of two epochs are three periods."""
    drawn = []

    class CountingGaussian(bb.DiagonalGaussian):
        def noise(self, key):
            jax.debug.callback(drawn.append, jax.random.key_data(key))
            return super().noise(key)

    state = start(family=lambda mean, prior: CountingGaussian(mean, mean - 10.0))
    jax.block_until_ready(run(state, 2 * NUM_BATCHES))
    jax.effects_barrier()
    num_periods, num_steps = 3, 2 * NUM_BATCHES
    assert len(drawn) == NUM_SAMPLES * (num_periods if kept_noise > 1 else num_steps)
    assert len({tuple(words.tolist()) for words in drawn}) == NUM_SAMPLES * num_periods


@pytest.fixture
def num_threads(monkeypatch):
    """A function that sets the number of threads."""
    return lambda number: monkeypatch.setattr(
        "bbalpha.engine.replicas._num_threads", lambda: number
    )


@pytest.mark.parametrize("data_axis", [None, 0])
@pytest.mark.parametrize("number", [1, 2, 3, 8])
def test_replicas_equal_the_single_runs_however_many_threads_share_them(
    num_threads, number, data_axis
):
    """Five make parts of 3 and 3 for two threads, with one in common, and 2, 2 and 2 for three."""
    num_threads(number)
    states = [dataclasses.replace(start(), key=jax.random.key(seed)) for seed in range(5)]
    state = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    rows, rows_of_each = ROWS, [ROWS] * 5
    if data_axis == 0:
        rows_of_each = [ROWS._replace(data=(DATA[0], factor * DATA[1])) for factor in range(1, 6)]
        rows = jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows_of_each)
        rows = rows._replace(num_rows=ROWS.num_rows)
    run_all = replica_runner(rows, 5, BATCH_SIZE, data_axis)
    order = no_order(rows, BATCH_SIZE, (5,))
    found = run_all(state, order=order, num_steps=jnp.asarray(6))
    for replica, (one, some_rows) in enumerate(zip(states, rows_of_each, strict=True)):
        expected = run_steps(one, some_rows, no_order(ROWS, BATCH_SIZE), 6, BATCH_SIZE)
        mine = jax.tree.map(lambda leaf, replica=replica: leaf[replica], found)
        for leaf, other in zip(jax.tree.leaves(mine), jax.tree.leaves(expected), strict=True):
            if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
                leaf, other = jax.random.key_data(leaf), jax.random.key_data(other)
            np.testing.assert_allclose(leaf, other, rtol=2e-5, atol=2e-5)
    assert len(np.unique(found[0].variables.q.mean, axis=0)) == 5  # a wrong order would be seen


def fit_three(**settings):
    keys = jax.random.split(jax.random.key(3), 3)
    settings = {"num_epochs": 2, "num_samples": NUM_SAMPLES, "optimizer": OPTIMIZER} | settings
    return bb.fit_many(log_likelihood, jnp.zeros((3, 2)), DATA, keys=keys, **settings)


def test_replicas_keep_to_the_precision_that_was_set_for_this_thread_alone(num_threads):
    num_threads(2)
    with jax.enable_x64(True):
        assert [replica.mean.dtype for replica in fit_three()] == [np.float64] * 3


@pytest.mark.parametrize("number", [1, 2])
def test_replicas_compile_once(num_threads, number, compilations):
    num_threads(number)
    run_steps_many.program.clear_cache()
    fit_three()
    assert compilations.count("jit(run_steps_many)") == 1
    compilations.clear()
    fit_three(num_epochs=5)
    assert compilations == []


def test_there_is_a_thread_for_each_core_that_is_ours(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert replicas._num_threads() == 3
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert replicas._num_threads() == 1


def test_an_error_in_a_thread_is_raised(num_threads, monkeypatch):
    num_threads(2)

    def fail(*_):
        raise MemoryError("no room")

    program = SimpleNamespace(lower=lambda *_: SimpleNamespace(compile=lambda: fail))
    monkeypatch.setattr("bbalpha.engine.replicas.run_steps_many", SimpleNamespace(program=program))
    with pytest.raises(MemoryError, match="no room"):
        fit_three()


@pytest.mark.parametrize(("setting", "value"), [("debug_nans", np.nan), ("debug_infs", np.inf)])
def test_jax_says_what_is_not_finite_where_it_is_asked_to(setting, value, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1}, raising=False)

    def log_likelihood(weights, batch):
        return jnp.where(weights[0] > 0, value, batch[1])

    keys = jax.random.split(jax.random.key(3), 3)
    with getattr(jax, setting)(True), pytest.raises(FloatingPointError, match="while"):
        bb.fit_many(log_likelihood, jnp.ones((3, 2)), DATA, keys=keys, num_epochs=1)
