"""Facts about tables that are predicted a part at a time."""

import numpy as np
import pytest

from bbalpha.cli import parts
from bbalpha.interfaces.regressor import Described


@pytest.mark.parametrize("num_rows", [1, 7, 8, 23, 24, 50])
def test_parts_are_joined_in_the_order_of_the_rows(monkeypatch, num_rows):
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 8)
    lengths = []

    def describe(rows, others):
        lengths.append(len(rows))
        return Described(rows, rows + others, np.stack([rows, others], 1), None)

    rows, others = np.arange(num_rows), np.arange(num_rows)[::-1]
    found = parts.in_parts(describe, rows, others, show=False)
    assert isinstance(found, Described)
    np.testing.assert_array_equal(found.mean, rows)
    np.testing.assert_array_equal(found.std, np.full(num_rows, num_rows - 1))
    np.testing.assert_array_equal(found.quantiles, np.stack([rows, others], 1))
    assert found.log_densities is None
    assert len(lengths) == max(1, num_rows // 8)
    assert max(lengths) - min(lengths) <= 1
    np.testing.assert_array_equal(parts.in_parts(np.square, rows, show=False), rows**2)
