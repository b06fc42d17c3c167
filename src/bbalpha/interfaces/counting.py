"""Whether targets are counts, so that `likelihood="auto"` takes the negative binomial."""

import numpy as np

from bbalpha.interfaces import simple_models
from bbalpha.metrics import standard_error

FEWEST_ROWS = 10  # to tell a distribution by
MOST_ROWS = 2000  # that are looked at, evenly spread
FEWEST_VALUES = 3  # zeros and ones are labels
LARGEST = 10_000  # beyond, whole numbers are mostly measurements in a small unit, such as prices
GAIN = 0.1  # nats; see `benchmarks/whole_numbers.py`


def are_counts(targets: np.ndarray) -> bool:
    """Whether every column of the targets looks like counts.

    They have to be whole numbers from 0 to 10,000, at least three different ones in at least ten
    rows, and a constant negative binomial has to predict left-out rows better than a constant
    Gaussian: by more than 0.1 nats per row, and by more than the standard error. Ratings and
    rounded measurements are more nearly Gaussian.
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
