"""Whether single targets look like recording errors, so that "auto" takes Student's t."""

import numpy as np

FARTHEST = 50.0  # quartile distances from the median; a Gaussian table of any size ends at 6


def has_wild_values(targets: np.ndarray) -> bool:
    """Whether any column of the targets has a value far from all that the others are like.

    It has to be more than 50 times the distance of the quartiles away from the median. Under
    Gaussian noise a single such row decides the fit, and one among new rows costs hundreds of nats.
    """
    low, median, high = np.quantile(targets, (0.25, 0.5, 0.75), axis=0)
    with np.errstate(over="ignore"):
        far = np.abs(targets / FARTHEST - median / FARTHEST).max(axis=0) > high - low
    return bool(np.any(far & (high > low)))
