"""Quantiles of a mixture over draws: the smallest y with P(Y ≤ y) ≥ p."""

from collections.abc import Callable
from functools import partial

import numpy as np

from bbalpha.predictor.targets import Targets

CLOSE = 1e-9  # width of the last bracket, in deviations
MOST_STEPS = 200  # of the search for a bracket or a root; ten are usual
BISECTED = 3  # every third step halves the bracket, however slowly the others close it


def quantile(targets: Targets, outputs: np.ndarray, level: float) -> np.ndarray:
    """Return the quantile of every row and column, exact to rounding; whole for counts.

    Above the median P(Y > y) ≤ 1 − p is solved, so that levels near 1 keep their digits.

    Args:
        targets: The distribution of the targets.
        outputs: Of shape (draws, rows, columns).
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
    """P(Y ≤ y) − p, from the tail on the side of y."""
    below, above = targets.tails(outputs, y)
    return below.mean(axis=0) - level if level <= 0.5 else 1 - level - above.mean(axis=0)


def _root(excess: Callable, center: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Where an increasing function is 0: by secants within a bracket, and bisections."""
    low, at_low = _bracket(excess, center, -width)
    high, at_high = _bracket(excess, center, width)
    for step in range(MOST_STEPS):
        if np.all(high - low <= CLOSE * width + np.spacing(np.maximum(abs(low), abs(high)))):
            break
        slope = at_high - at_low
        share = np.where(slope > 0, -at_low / np.where(slope > 0, slope, 1), 0.5)
        share = np.full_like(share, 0.5) if step % BISECTED == 2 else np.clip(share, 0, 1)
        # A little across the root, so that both ends of the bracket move.
        margin = 0.25 * CLOSE * width / np.maximum(high - low, CLOSE * width)
        share = np.clip(share + np.where(share < 0.5, margin, -margin), 0, 1)
        middle = low + share * (high - low)
        value = excess(middle)
        is_below = value < 0
        # Illinois: an end that stays counts half, so that it moves soon.
        at_high = np.where(is_below, at_high / 2, value)
        at_low = np.where(is_below, value, at_low / 2)
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return high


def _bracket(
    excess: Callable, center: np.ndarray, step: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """A place on the side of the step that is not beyond the root, and the function there."""
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
    """The smallest whole number where an increasing function is not negative, by bisection."""
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
