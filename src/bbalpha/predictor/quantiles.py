"""Quantiles of a mixture over draws: the smallest y with P(Y ≤ y) ≥ p."""

from collections.abc import Callable
from functools import partial

import numpy as np

from bbalpha.predictor.targets import Targets

CLOSE = 1e-9  # width of the last bracket, in standard deviations
MOST_STEPS = 200  # in the search for a bracket or a root; ten are typical


def quantile(targets: Targets, outputs: np.ndarray, level: float) -> np.ndarray:
    """Return the quantile of every row and column, exact up to rounding; whole for counts.

    Above the median, P(Y > y) ≤ 1 − p is solved, so that levels near 1 keep their precision.

    Args:
        targets: The distribution of the targets.
        outputs: Outputs of the network, of shape (draws, rows, columns).
        level: The probability p.
    """
    excess = partial(_excess, targets, outputs, level)
    if targets.is_whole:
        return _whole_root(excess, targets.mean(outputs).mean(axis=0))
    center = targets.mean(outputs)
    variance = targets.variance(outputs)
    spread = np.where(np.isfinite(variance), variance, 1.0).mean(axis=0) + center.var(axis=0)
    return _root(excess, center.mean(axis=0), np.sqrt(spread))


def _excess(targets: Targets, outputs: np.ndarray, level: float, y: np.ndarray) -> np.ndarray:
    """P(Y ≤ y) − p, computed from the tail on the side of p."""
    if level <= 0.5:
        return targets.cdf(outputs, y).mean(axis=0) - level
    return 1 - level - targets.survival(outputs, y).mean(axis=0)


def _root(excess: Callable, center: np.ndarray, width: np.ndarray) -> np.ndarray:
    """The zero of an increasing function, by Chandrupatla's method (1997).

    It interpolates by an inverse parabola where that is safe, and bisects elsewhere.
    """
    a, at_a = _bracket(excess, center, -width)
    b, at_b = _bracket(excess, center, width)
    share = np.full_like(a, 0.5)
    for _ in range(MOST_STEPS):
        middle = a + share * (b - a)
        value = excess(middle)
        is_same = (value < 0) == (at_a < 0)
        c, at_c = np.where(is_same, a, b), np.where(is_same, at_a, at_b)
        b, at_b = np.where(is_same, b, a), np.where(is_same, at_b, at_a)
        a, at_a = middle, value
        least = CLOSE * width + np.spacing(np.maximum(abs(a), abs(b)))
        least = np.minimum(least / np.maximum(abs(b - a), least), 1)
        if np.all((least > 0.5) | (value == 0)):
            break
        place, height = (a - b) / (c - b), (at_a - at_b) / (at_c - at_b)
        is_safe = (np.square(height) < place) & (np.square(1 - height) < 1 - place)
        near = at_a / (at_b - at_a) * at_c / (at_b - at_c)
        far = (c - a) / (b - a) * at_a / (at_c - at_a) * at_b / (at_c - at_b)
        share = np.where(is_safe, near + far, 0.5)
        share = np.clip(share, np.minimum(least, 0.5), np.maximum(1 - least, 0.5))
    return np.where(abs(at_a) < abs(at_b), a, b)


def _bracket(
    excess: Callable, center: np.ndarray, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A bracket end on the side of the step, and the value of the function there."""
    place, is_up = center + step, step > 0
    value = excess(place)
    for _ in range(MOST_STEPS):
        misses = np.where(is_up, value < 0, value >= 0)
        if not misses.any():
            break
        step = np.where(misses, 2 * step, step)
        place = np.where(misses, center + step, place)
        value = np.where(misses, excess(place), value)
    return place, value


def _whole_root(excess: Callable, mean: np.ndarray) -> np.ndarray:
    """The smallest whole number at which an increasing function is not negative, by bisection."""
    low, high = np.full_like(mean, -1.0), np.ceil(mean)
    for _ in range(MOST_STEPS):
        misses = excess(high) < 0
        if not misses.any():
            break
        low, high = np.where(misses, high, low), np.where(misses, 2 * high + 1, high)
    while np.any(high - low > 1):
        middle = np.floor((low + high) / 2)
        is_below = excess(middle) < 0
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return high
