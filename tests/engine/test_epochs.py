"""The compiled loop over epochs takes the steps of `bbalpha.step`, with noise kept between them."""

import jax
import numpy as np
import pytest
from problems.short_epochs import (
    BATCH_SIZE,
    DATA,
    NUM_BATCHES,
    NUM_DATA,
    NUM_SAMPLES,
    ROWS,
    start,
)

import bbalpha as bb
from bbalpha.engine.batches import no_order, order_of_epoch, padded_rows
from bbalpha.engine.epochs import run_steps
from bbalpha.state import KEPT_NOISE


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
            order = order_of_epoch(state.key, state.step // NUM_BATCHES, ROWS, BATCH_SIZE)
        batch = index % NUM_BATCHES
        taken = jax.tree.map(lambda leaf, rows=order.taken[batch]: leaf[rows], DATA)
        state, _ = step(state, taken, order.weights[batch])
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


def test_a_batch_of_all_rows_takes_the_steps_of_all_data():
    """Padding and the order of the rows change nothing."""
    rows = padded_rows(DATA, np.full(NUM_DATA, 0.5))
    num_slots = len(rows.sample_weight)
    state = expected = start()
    state, _, energies, _ = run_steps(state, rows, no_order(rows, num_slots), 5, num_slots)
    step, infos = jax.jit(bb.step), []
    for _ in range(5):
        expected, info = step(expected, DATA, np.full(NUM_DATA, 0.5, np.float32))
        infos.append(info)
    assert num_slots > NUM_DATA
    assert state.step == 5
    np.testing.assert_allclose(energies[:5], [info.energy for info in infos], rtol=2e-5)
    for leaf, other in zip(
        jax.tree.leaves(state.variables), jax.tree.leaves(expected.variables), strict=True
    ):
        np.testing.assert_allclose(leaf, other, rtol=2e-5, atol=2e-5)
