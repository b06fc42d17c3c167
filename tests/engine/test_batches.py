"""Minibatches: the padded length of data, and the rows and weights of an epoch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bbalpha.engine.batches import minibatch_rows, padded_length, stable_argsort

# One program per shape, where plain calls would compile every operation by itself.
compiled_rows = jax.jit(minibatch_rows, static_argnames=("num_slots", "batch_size"))
compiled_argsort = jax.jit(stable_argsort)

SIZES = [(10, 10, 4), (12, 12, 4), (7, 7, 32), (1, 1, 1), (10, 23, 4), (3, 9, 3), (5, 5, 1)]


@pytest.mark.parametrize(("num_rows", "num_slots", "batch_size"), SIZES)
def test_an_epoch_holds_every_row_once(num_rows, num_slots, batch_size):
    rows, weights = compiled_rows(jax.random.key(0), num_rows, num_slots, batch_size)
    assert rows.shape == weights.shape == (-(-num_slots // batch_size), batch_size)
    real = np.asarray(weights) > 0
    assert sorted(np.asarray(rows)[real]) == list(range(num_rows))
    assert (np.asarray(rows)[~real] == 0).all()
    sizes = [min(max(num_rows - start, 0), batch_size) for start in range(0, num_slots, batch_size)]
    np.testing.assert_array_equal(real.sum(axis=1), sizes)


@pytest.mark.parametrize(("num_rows", "num_slots", "batch_size"), SIZES)
def test_weighted_batch_sums_average_to_the_full_sum(num_rows, num_slots, batch_size):
    values = np.random.default_rng(0).normal(size=num_slots)  # g, with garbage in the padding
    rows, weights = compiled_rows(jax.random.key(1), num_rows, num_slots, batch_size)
    rows, weights = np.asarray(rows), np.asarray(weights, dtype=np.float64)
    sizes = (weights > 0).sum(axis=1)
    sums = (weights * values[rows]).sum(axis=1)
    np.testing.assert_allclose((sizes / num_rows * sums).sum(), values[:num_rows].sum(), atol=2e-5)
    full = sizes > 0
    np.testing.assert_allclose(weights.sum(axis=1)[full], num_rows, rtol=2e-5)


@pytest.mark.parametrize("num_words", [1, 2, 3, 300, 1024, 1025, 70_000, 600_000])
@pytest.mark.parametrize("largest", [0, 7, 2**16, 2**32 - 1])
def test_words_are_sorted_in_the_order_of_numpy_with_ties_in_their_places(num_words, largest):
    random = np.random.default_rng(0)
    words = random.integers(0, largest, num_words, np.uint32, endpoint=True)
    expected = np.argsort(words, stable=True)
    np.testing.assert_array_equal(compiled_argsort(jnp.asarray(words)), expected)


def test_every_row_is_equally_likely_at_every_position():
    num_rows, num_slots, num_epochs = 6, 9, 4000
    keys = jax.random.split(jax.random.key(2), num_epochs)
    rows = jax.vmap(lambda key: compiled_rows(key, num_rows, num_slots, 4)[0])(keys)
    order = np.asarray(rows).reshape(num_epochs, -1)[:, :num_rows]
    counts = (order[:, :, None] == np.arange(num_rows)).sum(axis=0)
    expected = num_epochs / num_rows
    # Rows and columns of the table both have fixed sums: (n−1)/n · Σ(O−E)²/E ~ χ²((n−1)²).
    statistic = (num_rows - 1) / num_rows * ((counts - expected) ** 2 / expected).sum()
    freedom = (num_rows - 1) ** 2
    assert abs(statistic - freedom) < 4 * np.sqrt(2 * freedom)


def test_epochs_with_different_keys_differ_and_with_the_same_key_agree():
    first, again, other = (compiled_rows(jax.random.key(seed), 50, 50, 8)[0] for seed in (0, 0, 1))
    assert (first == again).all()
    assert (first != other).any()


def test_padding_the_data_does_not_change_the_batches():
    rows, weights = compiled_rows(jax.random.key(3), 10, 10, 4)
    padded_rows, padded_weights = compiled_rows(jax.random.key(3), 10, 19, 4)
    np.testing.assert_array_equal(padded_rows[:3], rows)
    np.testing.assert_array_equal(padded_weights[:3], weights)
    assert (padded_weights[3:] == 0).all()


@pytest.mark.usefixtures("x64")
def test_padding_is_not_drawn_in_64_bits_either():
    rows, weights = compiled_rows(jax.random.key(5), 10, 500, 4)
    assert weights.dtype == jnp.float64
    assert sorted(rows[weights > 0].tolist()) == list(range(10))


def test_a_traced_number_of_rows_compiles_once():
    traces = []

    @jax.jit
    def epoch(key, num_rows):
        traces.append(num_rows)
        return minibatch_rows(key, num_rows, 20, 8)

    for num_rows in (20, 13, 1):
        rows, weights = epoch(jax.random.key(4), num_rows)
        eager_rows, eager_weights = minibatch_rows(jax.random.key(4), num_rows, 20, 8)
        np.testing.assert_array_equal(rows, eager_rows)
        np.testing.assert_allclose(weights, eager_weights, rtol=2e-5)
    assert len(traces) == 1


def test_padded_lengths_are_few_and_waste_at_most_a_quarter_of_large_data():
    lengths = [padded_length(num_rows) for num_rows in range(1, 20_000)]
    assert len(set(lengths)) < 30
    assert all(length >= num_rows for num_rows, length in enumerate(lengths, start=1))
    assert (
        max(length / num_rows for num_rows, length in enumerate(lengths[1024:], start=1025)) < 1.25
    )
