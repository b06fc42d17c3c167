"""The order of rows: every row once an epoch, the same batches on any number of processes."""

import hashlib

import jax
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bbalpha.runtime.feeding import MOST_READERS, Feed
from bbalpha.runtime.row_order import (
    RowOrder,
    folded,
    lots,
    permuted,
    readers_of,
    words_of_key,
)
from bbalpha.runtime.sources import Blocks, _block_ends

KEY = words_of_key(jax.random.key(5))
POWERS = [2**k + d for k in range(1, 18) for d in (-1, 0, 1) if 2**k + d > 0]
MOST = 70_000  # rows of a source
STATISTIC_ERRORS = 4.0


class Numbers:
    """The numbers of the rows."""

    def __init__(self, num_rows, block_rows):
        self.num_rows, self.block_rows = num_rows, block_rows
        self.ends = _block_ends(self)

    def read(self, block):
        return np.arange(self.ends[block - 1] if block else 0, self.ends[block], dtype=np.int32)


@st.composite
def sources(draw):
    """Rows in blocks of any sizes, or of one size."""
    powers = st.sampled_from([num for num in POWERS if num <= MOST])
    num_rows = draw(st.one_of(st.integers(1, 300), powers, st.integers(1, MOST)))
    if draw(st.booleans()):
        return Numbers(num_rows, draw(st.integers(-(-num_rows // 100), num_rows)))
    cuts = draw(st.sets(st.integers(1, num_rows), max_size=12)) | {num_rows}
    return Numbers(num_rows, np.diff(sorted(cuts), prepend=0).tolist())


@settings(deadline=None, max_examples=16, derandomize=True)
@given(
    source=sources(),
    num_readers=st.sampled_from([4, 8, None]),
    share=st.integers(1, 9),
    window_blocks=st.one_of(st.none(), st.integers(1, 5)),
    epoch=st.integers(0, 3),
    seed=st.integers(0, 2**31),
)
@example(Numbers(2**16 + 1, 700), None, 1, None, 0, 0)
@example(Numbers(2**16 - 1, 2**11 + 1), None, 3, None, 1, 1)
def test_every_row_comes_once_an_epoch_whoever_reads(
    source, num_readers, share, window_blocks, epoch, seed
):
    blocks, hashes = Blocks(source), set()
    batch_size = (num_readers or MOST_READERS) * share
    num_readers = num_readers or Feed(blocks, batch_size).num_readers
    for num_processes in (each for each in (1, 2, 4) if num_readers % each == 0):
        parts = []
        for process in range(num_processes):
            readers = readers_of(process, num_processes, num_readers)
            feed = Feed(blocks, batch_size, num_readers, readers)
            feed.window_blocks = window_blocks or feed.window_blocks
            begin = epoch * feed.num_batches
            parts.append(feed.batches(jax.random.key(seed), begin, feed.num_batches))
        rows = np.concatenate([part.leaves[0] for part in parts], axis=1)
        weights = np.concatenate([part.weights for part in parts], axis=1)
        hashes.add(hashlib.sha256(rows[weights > 0].tobytes() + weights.tobytes()).hexdigest())
        np.testing.assert_array_equal(np.sort(rows[weights > 0]), np.arange(source.num_rows))
        np.testing.assert_allclose(weights.sum(axis=1), source.num_rows, rtol=1e-5)
    assert len(hashes) == 1
    expected, real = feed.order(jax.random.key(seed)).rows(begin)
    np.testing.assert_array_equal(expected[real], rows[0][real])
    np.testing.assert_array_equal(real, weights[0] > 0)


@settings(deadline=None, max_examples=20, derandomize=True)
@given(st.one_of(st.integers(1, 20_000), st.sampled_from(POWERS)), st.integers(0, 2**31))
@example(2**16 + 1, 0)
@example(2**17 - 1, 1)
def test_a_feistel_network_permutes_any_number_of_places(num, seed):
    found = permuted(np.arange(num), num, words_of_key(jax.random.key(seed)))
    np.testing.assert_array_equal(np.sort(found), np.arange(num))


@pytest.mark.parametrize("num", [2**31 + 1, 10**12 - 1, 2**50 + 1])
def test_a_few_places_of_a_huge_range_stay_in_it_and_apart(num):
    places = np.concatenate([np.arange(1000), num - 1 - np.arange(1000)])
    found = permuted(places, num, KEY)
    assert len(set(found.tolist())) == len(places)
    assert (found >= 0).all()
    assert (found < num).all()
    assert abs(found.mean() / num - 0.5) < STATISTIC_ERRORS / np.sqrt(12 * len(places))


@pytest.mark.parametrize("num", [5])
def test_every_place_is_equally_likely_in_a_permutation(num):
    num_keys = 400
    found = np.array([permuted(np.arange(num), num, folded(KEY, n)) for n in range(num_keys)])
    check_uniform(found, num)


def test_readers_own_halves_of_the_rows():
    order = RowOrder(np.array([2, 3, 6, 8]), 2, 2, 2, KEY)
    rows = np.array([order.rows(step)[0] for step in range(4)])
    assert np.sort(rows, axis=0).tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]


def test_shuffled_rows_are_equally_likely_in_every_place():
    num_keys = 400
    check_uniform(np.array([lots(folded(KEY, n), 6) for n in range(num_keys)]), 6)


def check_uniform(found, num):
    counts = (found[:, :, None] == np.arange(num)).sum(axis=0)
    expected = len(found) / num
    # Rows and columns of the table both have fixed sums: (n−1)/n · Σ(O−E)²/E ~ χ²((n−1)²).
    statistic = (num - 1) / num * ((counts - expected) ** 2 / expected).sum()
    freedom = (num - 1) ** 2
    assert abs(statistic - freedom) < STATISTIC_ERRORS * np.sqrt(2 * freedom)


def test_weighted_batches_average_to_the_sum_over_all_rows():
    order = RowOrder(np.array([30, 60, 90, 103]), 16, 4, 2, KEY)
    values = np.random.default_rng(0).normal(size=103)
    total = 0.0
    for step in range(order.num_batches):
        rows, real = order.rows(step)
        estimate = 103 / real.sum() * values[rows[real]].sum()
        total += real.sum() / 103 * estimate
    np.testing.assert_allclose(total, values.sum(), rtol=1e-12)


def test_epochs_keys_and_readers_differ():
    order = RowOrder(np.arange(100, 1001, 100), 40, 4, 2, KEY)
    other = RowOrder(np.arange(100, 1001, 100), 40, 4, 2, folded(KEY, 0))
    batches = [order.rows(0), order.rows(order.num_batches), other.rows(0)]
    assert len({rows.tobytes() for rows, _ in batches}) == 3
    own = order.rows(0)[0].reshape(4, 10) - 250 * np.arange(4)[:, None]
    assert len({rows.tobytes() for rows in own}) == 4


def test_a_batch_of_rows_that_lie_together_is_spread_over_the_window():
    """The rows of a batch come from all blocks of a window, and not from neighboring rows."""
    order = RowOrder(np.arange(100, 10_001, 100), 10, 1, 20, KEY)
    rows = np.concatenate([order.rows(step)[0] for step in range(20)])
    blocks = np.unique(rows // 100)
    assert len(blocks) == 20
    assert np.abs(np.diff(rows)).min() >= 1
    assert (np.abs(np.diff(rows)) > 100).mean() > 0.8


def test_folded_words_are_the_keys_of_jax():
    key = jax.random.fold_in(jax.random.key(5), 2**32 - 1)
    assert folded(KEY, 2**32 - 1).tolist() == jax.random.key_data(key).tolist()
    longer = words_of_key(jax.random.key(5, impl="rbg"))
    assert longer.shape == (2,)
    assert longer.dtype == np.uint32


def test_batches_must_take_equally_many_rows_of_each_reader():
    rule = r"batch_size must be a multiple of the 8 readers of the data.*; got batch_size=4\."
    with pytest.raises(ValueError, match=rule):
        RowOrder(np.array([100]), 4, 8, 1, KEY)


def test_processes_must_share_the_readers():
    rule = r"number of processes must divide the 4 readers of the data; got 8 processes\."
    with pytest.raises(ValueError, match=rule):
        readers_of(0, num_processes=8, num_readers=4)
