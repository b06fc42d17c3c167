"""Tails: numbers far from the median grow only logarithmically, so that none outweighs the rest.

With the median m of the training table and a deviation s estimated from its quartiles,

    g(x) = x  if |x − m| ≤ k s,    g(x) = m ± k s (1 + log(|x − m| / (k s)))  beyond

is smooth and increasing, and leaves ordinary numbers exactly as they are (k = 4). In a heavy-tailed
column k is 1. A positive column that is skewed to the right is replaced by its logarithm first. All
choices depend on quantiles, so a single recording error cannot change them.
"""

import sys
from dataclasses import dataclass

import numpy as np

NUM_DECIDING = 20  # numbers needed to judge the shape of a column by quantiles
NUM_SAMPLED = 20_000  # numbers of a long column whose quantiles are computed
ORDINARY_KNEE, HEAVY_KNEE = 4.0, 1.0  # deviations from the median, as k above
HEAVY = 5.0  # deviations to the 1 % or 99 % quantile from which a column is heavy-tailed
HUGE = 1e150  # squares of larger numbers overflow
SKEWED = 0.5  # (q95 + q5 − 2 q50)/(q95 − q5), above which logarithms are tried
# Quantiles, and their distance in deviations of a normal distribution; the first pair that differs
# counts.
SPREADS = ((0.25, 1.349), (0.1, 2.563), (0.05, 3.290), (0.01, 4.653), (0.0, 6.0))


@dataclass(frozen=True)
class Tails:
    """A smooth, increasing map of the numbers of a column.

    Attributes:
        center: The median (of the logarithms, if these are taken).
        width: The deviation s.
        knee: k, the distance from the center in deviations beyond which numbers grow
            logarithmically; None if they never do.
        log_from: The number from which the logarithm is taken; below it, the map continues along
            its tangent, so that it is defined for zero and negative numbers. None without
            logarithms.

    >>> from bbalpha.tables.tails import Tails
    >>> tails = Tails(center=0.0, width=1.0, knee=4.0)
    >>> tails.apply(np.array([-2.0, 3.9, 4 * np.e])).tolist()
    [-2.0, 3.9, 8.0]
    """

    center: float = 0.0
    width: float = 1.0
    knee: float | None = None
    log_from: float | None = None

    @classmethod
    def learn(cls, values: np.ndarray) -> "Tails":
        """Return the map for the numbers of a training table."""
        log_from = _log_from(values)
        values = cls(log_from=log_from).apply(values)
        some = _some(values)
        center, width = _median(some), _width(some) or _width(values)
        if width is None or np.unique(values[:NUM_DECIDING]).size <= 2 >= np.unique(values).size:
            return cls(log_from=log_from)
        knee = HEAVY_KNEE if _is_heavy(some, center, width) else ORDINARY_KNEE
        return cls(center, width, knee, log_from)

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Return g(x) for every number; NaN stays NaN."""
        if self.log_from is not None:
            start = self.log_from
            logs = np.log(np.maximum(values, start))
            values = np.where(values < start, np.log(start) + values / start - 1, logs)
        if self.knee is None:
            return values
        distance = np.abs(values / self.width - self.center / self.width)
        bent = self.knee * (1 + np.log(np.maximum(distance, self.knee) / self.knee))
        tail = self.center + np.sign(values - self.center) * self.width * bent
        return np.where(distance > self.knee, tail, values)

    def inverse(self, features: np.ndarray) -> np.ndarray:
        """Return the numbers x with these values of g(x)."""
        if self.knee is not None:
            distance = np.abs(features - self.center) / self.width
            unbent = self.knee * np.exp(np.maximum(distance / self.knee - 1, 0))
            tail = self.center + np.sign(features - self.center) * self.width * unbent
            features = np.where(distance > self.knee, tail, features)
        if self.log_from is None:
            return features
        start = self.log_from
        below = start * (features - np.log(start) + 1)
        return np.where(features < np.log(start), below, np.exp(features))

    @property
    def words(self) -> str:
        """The map in words; "" for ordinary numbers."""
        logs = "logarithms" if self.log_from is not None else ""
        heavy = "heavy tails shortened" if self.knee == HEAVY_KNEE else ""
        return " and ".join(filter(None, (logs, heavy)))


UNCHANGED = Tails()


def _some(values: np.ndarray) -> np.ndarray:
    """A sample of numbers across the column, large enough for quantiles."""
    return values[:: -(-len(values) // NUM_SAMPLED)] if len(values) > NUM_SAMPLED else values


def _median(values: np.ndarray) -> float:
    # Halved first, so that the mean of two large numbers does not overflow.
    return 2 * float(np.median(values / 2))


def _width(values: np.ndarray) -> float | None:
    """The deviation, from the innermost quantiles that differ; None if all numbers are equal.

    It is also None if quotients could overflow; such numbers are not changed.
    """
    if np.abs(values).max() >= HUGE:
        return None
    for level, deviations in SPREADS:
        low, high = np.quantile(values / deviations, [level, 1 - level])
        width = float(high - low)
        if width > 0:
            return width if width > 1 / HUGE else None
    return None


def _is_heavy(values: np.ndarray, center: float, width: float) -> bool:
    if len(values) < NUM_DECIDING:
        return False
    low, high = np.quantile(values / width, [0.01, 0.99])
    return bool(max(high - center / width, center / width - low) > HEAVY)


def _log_from(values: np.ndarray) -> float | None:
    """Half of the smallest number if the column is positive and logarithms make it symmetric."""
    smallest = float(values.min())
    if len(values) < NUM_DECIDING or smallest / 2 < sys.float_info.min:
        return None
    skewness = _skewness(_some(values))
    if skewness > SKEWED and abs(_skewness(np.log(_some(values)))) < skewness:
        return smallest / 2
    return None


def _skewness(values: np.ndarray) -> float:
    """The skewness of the 5 % and 95 % quantiles about the median, from −1 to 1."""
    low, middle, high = np.quantile(values / 4, [0.05, 0.5, 0.95])
    return float((high - middle) - (middle - low)) / float(high - low) if high > low else 0.0
