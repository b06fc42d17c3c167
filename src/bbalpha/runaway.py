"""Does a fit run away? Finds the parameters, if any, because of which q can never settle.

Deviations that grow or shrink without end mean that the energy has no minimum: a classifier
separates the data under a flat prior, the data do not determine a parameter, or the scale of noise
goes to zero. `convergence` asks this file after every round of steps.
"""

from typing import Any, NamedTuple

import numpy as np

from bbalpha.engine.layout import Layout, name_of

# A fit runs away if a log-deviation changes by this much from each quarter of the run to the next.
# A full step changes it by up to ½, so even a start that is 25 e-folds off is overcome by then.
# benchmarks/runaways.py shows how well this separates fits without an optimum from slow ones.
STEADY_CHANGE = 1.0
STEADY_STEPS, STEADY_TRAVEL = 1000, 50.0
MOST_NAMES = 3  # parameters that a message names


class Runaway(NamedTuple):
    """Which entries of the vector of parameters run away, and where to."""

    grows: np.ndarray
    shrinks: np.ndarray

    def __bool__(self) -> bool:
        return bool(self.grows.any() or self.shrinks.any())

    def reason(self, layout: Layout) -> str:
        """What happened, and what to do."""
        if self.grows.any():
            return (
                f"the deviations of {names(layout, self.grows)} grow without end. The energy has "
                "no minimum, or one far away: the data do not determine these parameters, or are "
                "separable. Use a narrower prior."
            )
        return (
            f"the deviations of {names(layout, self.shrinks)} shrink below numerical precision. "
            "The energy may have no minimum, for example because the scale of the noise goes to "
            "zero: bound the scale by a prior. If the parameters are far from zero, center the "
            "data or use double precision."
        )


def beyond_numbers(mean: Any, log_deviation: Any, margin: float = 1.0) -> Runaway:
    """Deviations whose cube would overflow or underflow, or that are below rounding of the mean.

    Args:
        mean: the mean of each parameter; its type determines the precision.
        log_deviation: the log-deviation of each parameter.
        margin: deviations below this many rounding errors of the mean count as lost.
    """
    mean, log_deviation = np.asarray(mean), np.asarray(log_deviation, float)
    precision = np.finfo(mean.dtype)
    limit = np.log(float(precision.max)) / 3
    with np.errstate(divide="ignore"):
        rounding = np.log(margin * float(precision.eps) * np.abs(mean.astype(float)))
    return Runaway(log_deviation > limit, log_deviation < np.maximum(rounding, -limit))


def steady_change(log_deviations: np.ndarray) -> Runaway:
    """Deviations that change by `STEADY_CHANGE` or more from each quarter of a run to the next.

    Args:
        log_deviations: the average of each round, one row per round.
    """
    quarters = [part.mean(axis=0) for part in np.array_split(log_deviations, 4)]
    changes = np.diff(quarters, axis=0)
    return Runaway(
        np.all(changes >= STEADY_CHANGE, axis=0), np.all(changes <= -STEADY_CHANGE, axis=0)
    )


def names(layout: Layout, chosen: np.ndarray) -> str:
    """The names of the chosen parameters as in a summary; one name for a wholly chosen array."""
    found = []
    ends = np.cumsum(layout.sizes)[:-1]
    for path, shape, piece in zip(
        layout.paths, layout.free_shapes, np.split(chosen, ends), strict=True
    ):
        if piece.all():
            found.append(name_of(path, ()))
        else:
            places = np.argwhere(piece.reshape(shape)).tolist()
            found += [name_of(path, tuple(place)) for place in places]
    more = len(found) - MOST_NAMES
    return ", ".join(found[:MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
