"""Do targets look like counts? Then `likelihood="auto"` uses the negative binomial."""

import numpy as np

from bbalpha.interfaces import simple_models
from bbalpha.metrics import standard_error

FEWEST_ROWS = 10  # needed to recognize a distribution
MOST_ROWS = 2000  # rows to examine, evenly spread
FEWEST_VALUES = 3  # zeros and ones are labels
LARGEST = 10_000  # larger whole numbers are mostly measurements in a small unit, such as prices
GAIN = 0.1  # nats; see `benchmarks/whole_numbers.py`


def are_counts(targets: np.ndarray) -> bool:
    """Whether every column of the targets looks like counts.

    Counts are whole numbers from 0 to 10,000, with at least three different values in at least ten
    rows. In addition, a constant negative binomial must predict left-out rows better than a
    constant Gaussian, by more than 0.1 nats per row and by more than the standard error. This
    excludes ratings and rounded measurements, which are closer to a Gaussian.
    """
    rows = np.linspace(0, len(targets) - 1, min(len(targets), MOST_ROWS)).astype(int)
    return len(targets) >= FEWEST_ROWS and all(
        _is_count(targets[:, column], rows) for column in range(targets.shape[1])
    )


def _is_count(column: np.ndarray, rows: np.ndarray) -> bool:
    if not ((column >= 0) & (column <= LARGEST) & (column == np.floor(column))).all():
        return False
    y = column[rows].astype(float)
    if len(np.unique(y)) < FEWEST_VALUES:
        return False
    gain = simple_models.constant_count(y) - simple_models.constant_rounded(y)
    return bool(gain.mean() > max(GAIN, standard_error(gain)))
