"""Facts about tables that are predicted a part at a time."""

import numpy as np
import pytest

from bbalpha.cli import parts
from bbalpha.cli.doors import Refusal
from bbalpha.interfaces.finite import check_finite_rows
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


def test_rows_without_a_finite_prediction_are_counted_and_named(monkeypatch):
    monkeypatch.setattr(parts, "ROWS_AT_ONCE", 8)

    def checked(rows):
        check_finite_rows(rows)
        return rows

    rows = np.zeros(24)
    rows[[2, 9, 23]] = np.nan
    message = r"^3 rows of 24 have no finite prediction or score: rows 3, 10 and 24\.$"
    with pytest.raises(Refusal, match=message):
        parts.in_parts(checked, rows, show=False)
    message = r"^1 row of 24 has no finite prediction or score: row 3\.$"
    with pytest.raises(Refusal, match=message):
        parts.in_parts(checked, np.where(np.arange(24) == 2, np.inf, 0.0), show=False)
    message = r"^24 rows of 24 .*: rows 1, 2, 3, 4, 5 and 19 more\.$"
    with pytest.raises(Refusal, match=message):
        parts.in_parts(checked, np.full(24, np.nan), show=False)
