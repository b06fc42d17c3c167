"""Facts about blocks: the features of columns side by side, and remarks that can be added."""

import numpy as np
import pytest

from bbalpha.tables.blocks import ROWS_AT_ONCE, Block, Tally, matrix_of


@pytest.mark.parametrize("num_rows", [1, ROWS_AT_ONCE, ROWS_AT_ONCE + 1])
def test_the_matrix_holds_what_every_row_says(num_rows):
    rng = np.random.default_rng(0)
    hot, numbers = rng.integers(-1, 3, num_rows), rng.normal(size=num_rows)
    effects, missing = rng.normal(size=num_rows), rng.random(num_rows) < 0.5
    blocks = [Block((numbers, missing)), Block((effects,), hot, 3)]
    ones = (hot[:, None] == np.arange(3)).astype(float)
    expected = np.column_stack([numbers, missing, ones, effects])
    np.testing.assert_array_equal(matrix_of(blocks), expected)
    np.testing.assert_array_equal(blocks[1].features, expected[:, 2:])
    assert matrix_of(blocks).flags.c_contiguous


def test_a_tally_is_the_middle_of_a_sentence():
    assert (
        str(Tally("missing", 1200, "cells are missing", 3000)) == "1,200 of 3,000 cells are missing"
    )
    assert str(Tally("unread", 2, "of these are odd")) == "2 of these are odd"
