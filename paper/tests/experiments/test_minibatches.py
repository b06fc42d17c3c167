"""Minibatches cover the data once an epoch, and their sums are unbiased."""

import jax
import numpy as np
import pytest

from bbalpha_paper.experiments.minibatches import minibatches


@pytest.mark.parametrize(("num_data", "batch_size"), [(10, 3), (12, 4), (5, 8)])
def test_an_epoch_has_every_row_once_and_a_short_last_batch_is_padded(num_data, batch_size):
    rows, weights = minibatches(jax.random.key(0), num_data, batch_size)
    assert rows.shape == weights.shape == (-(-num_data // batch_size), batch_size)
    assert sorted(rows[weights > 0].tolist()) == list(range(num_data))
    np.testing.assert_allclose(weights.sum(axis=1), num_data, rtol=1e-6)  # N in each batch


def test_batches_averaged_by_their_sizes_give_the_sum_over_the_data():
    values = np.random.default_rng(0).normal(size=10)
    rows, weights = map(np.asarray, minibatches(jax.random.key(0), 10, 3))
    shares = (weights > 0).sum(axis=1) / 10
    estimates = np.sum(weights * values[rows], axis=1)
    np.testing.assert_allclose(shares @ estimates, values.sum(), rtol=1e-5)


def test_the_order_depends_on_the_key():
    first, again, other = (minibatches(jax.random.key(seed), 100, 10)[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
