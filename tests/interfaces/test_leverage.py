"""Facts about the algebra of leaving out one row."""

import numpy as np
import pytest

from bbalpha.interfaces.leverage import moves_and_leverages

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("num_slopes", [1, 5])  # with 4 rows and 8 parameters: either form
@pytest.mark.parametrize("repeats", [1.0, 50.0])
def test_each_row_moves_by_the_solution_of_the_equations_without_it(num_slopes, repeats):
    """A row that represents fifty of a larger table is left out once, not fifty times."""
    pulls, slopes = RANDOM.normal(size=(4, 8)), RANDOM.normal(size=(num_slopes, 4, 8))
    moves, leverages = moves_and_leverages(pulls, slopes, repeats)
    flat = slopes.reshape(-1, 8)
    whole = np.eye(8) + repeats * flat.T @ flat
    for row, own in enumerate(slopes.swapaxes(0, 1)):
        expected = np.linalg.solve(whole - own.T @ own, pulls[row])
        np.testing.assert_allclose(moves[row], expected, rtol=1e-9)
        share = np.linalg.eigvals(np.linalg.solve(whole, own.T @ own)).real.max()
        np.testing.assert_allclose(leverages[row], share, rtol=1e-9)
