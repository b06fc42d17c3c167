"""Replicas spread over threads equal the single runs."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.short_epochs import (
    BATCH_SIZE,
    DATA,
    NUM_SAMPLES,
    OPTIMIZER,
    ROWS,
    log_likelihood,
    start,
)

import bbalpha as bb
from bbalpha.engine import replicas
from bbalpha.engine.batches import no_order
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.replicas import replica_runner, run_steps_many


@pytest.fixture
def num_threads(monkeypatch):
    """A function that sets the number of threads."""
    return lambda number: monkeypatch.setattr(
        "bbalpha.engine.replicas._num_threads", lambda: number
    )


@pytest.mark.parametrize(("number", "data_axis"), [(1, None), (2, None), (3, 0), (8, 0)])
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
