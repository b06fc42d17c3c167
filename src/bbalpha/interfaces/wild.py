"""Do single targets look like recording errors? Then `likelihood="auto"` uses Student's t."""

import numpy as np

FARTHEST = 50.0  # quartile distances from the median; Gaussian targets stay within about 6


def has_wild_values(targets: np.ndarray) -> bool:
    """Whether any column of the targets has a value that is extremely far from the others.

    Such a value is farther from the median than 50 times the distance between the quartiles. With
    Gaussian noise, a single such row in training would decide the fit, and one among new rows would
    cost hundreds of nats.
    """
    low, median, high = np.quantile(targets, (0.25, 0.5, 0.75), axis=0)
    with np.errstate(over="ignore"):
        far = np.abs(targets / FARTHEST - median / FARTHEST).max(axis=0) > high - low
    return bool(np.any(far & (high > low)))
