"""Moments of blocks against those of all rows at once."""

import numpy as np
import pytest

import bbalpha as bb
from bbalpha.runtime.moments import Moments
from bbalpha.runtime.sources import ArrayRows, Blocks

RANDOM = np.random.default_rng(0)
ROWS = RANDOM.normal(size=(1000, 4)) * [1.0, 1e-3, 50.0, 0.0] + [0.0, 1e6, 3.0, 0.1]


@pytest.mark.parametrize("block_rows", [50, 999, 1000])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_blocks_are_standardized_as_all_rows_at_once(block_rows, dtype):
    data = {"inputs": ROWS.astype(dtype), "targets": ROWS[:, 2].astype(dtype)}
    rows, maps = bb.standardize_rows(ArrayRows(data, block_rows))
    for name, values in data.items():
        expected, standardizer = bb.standardize(values)
        np.testing.assert_allclose(maps[name].mean, standardizer.mean, rtol=1e-12)
        np.testing.assert_allclose(maps[name].scale, standardizer.scale, rtol=1e-7)
        found = np.concatenate([block[name] for block in Blocks(rows, stay_numpy=True)])
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert maps[name].scale.shape == standardizer.scale.shape


@pytest.mark.parametrize("scale", [1e300, 1e-300])
def test_squares_of_extreme_numbers_are_not_lost(scale):
    values = scale * np.array([1.0, 2.0, 0.0, 0.0, 4.0, -8.0])
    _, found = bb.standardize_rows(ArrayRows(values, 2))
    _, expected = bb.standardize(values)
    np.testing.assert_allclose([found.mean, found.scale], [expected.mean, expected.scale])


def test_moments_do_not_depend_on_how_rows_are_cut():
    whole = Moments.of(ROWS)
    for place in (1, 500, 999):
        parts = Moments.of(ROWS[:place]).merged(Moments.of(ROWS[place:]))
        for found, expected in zip(parts, whole, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-15)


def test_a_value_that_is_not_finite_is_named():
    rows = ROWS.copy()
    rows[812, 0] = np.inf
    with pytest.raises(bb.SourceError, match=r"data must be finite; .* first in block 8, row 12"):
        bb.standardize_rows(ArrayRows(rows, 100))


def test_rows_with_more_axes_are_refused():
    with pytest.raises(
        ValueError, match=r"data\[0\] must have shape .*; got rows of shape \(2, 2\)"
    ):
        bb.standardize_rows(ArrayRows((np.ones((5, 2, 2)),), 2))
