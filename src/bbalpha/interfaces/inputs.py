"""The inputs of an estimator: standardized, and clipped near the range of the training rows."""

import dataclasses

import numpy as np
from jaxtyping import Float

from bbalpha.data import in_units, rounding_of, standardize

REACH = 0.5  # how far a model may extrapolate, relative to the width of the training range
LARGEST = np.finfo(np.float64).max
MOST_AXES = 100  # most columns for which linear paths use principal axes
DECIMALS = 12  # of the covariances; with more, rounding would rotate axes of equal width
CLOSE = 1e-6  # entries of an axis closer than this, relative to the largest, count as equal


@dataclasses.dataclass(frozen=True)
class InputUnits:
    """The map from a user's inputs to the inputs of the network.

    Each column is shifted to mean 0 and scaled to standard deviation 1. A column with only two
    values is scaled so that they are 2 apart, however rare one of them is. Values beyond a limit
    are replaced by it; the limits are the training range, widened at each end by half its width.

    The linear paths of the network get the same inputs along their principal axes. The coefficients
    of nearly collinear columns are correlated in the posterior, which a q of independent weights
    cannot express; coefficients along principal axes are not. A rotation does not change their
    prior.

    Attributes:
        mean: The mean of each column.
        scale: The size of one network unit in each column.
        lower: The lower limit of each column.
        upper: The upper limit of each column.
        axes: The principal axes as columns, the widest first. The largest entry of each is positive
            (the first of them if several are equal up to rounding). There are no columns if the
            linear paths take the inputs as they are.
    """

    mean: Float[np.ndarray, " columns"]
    scale: Float[np.ndarray, " columns"]
    lower: Float[np.ndarray, " columns"]
    upper: Float[np.ndarray, " columns"]
    axes: Float[np.ndarray, "columns axes"]

    @classmethod
    def learn(
        cls,
        inputs: Float[np.ndarray, "rows columns"],
        sample_weight: Float[np.ndarray, " rows"],
        *,
        with_axes: bool,
    ) -> "InputUnits":
        """Return the units of the training rows."""
        units = standardize(inputs, sample_weight)[1]
        low, high = inputs.min(axis=0), inputs.max(axis=0)
        rounding = rounding_of(inputs)
        half = high / 2 - low / 2  # halved first, so that the largest numbers do not overflow
        has_two = ((inputs == low) | (inputs == high)).all(axis=0) & (half > rounding / 2)
        scale = np.where(has_two, half, np.asarray(units.scale))
        reach = 2 * REACH * half + rounding
        mean = np.asarray(units.mean)  # for a constant column, it may be off by rounding
        with np.errstate(over="ignore"):
            lower, upper = np.minimum(low - reach, mean), np.maximum(high + reach, mean)
        lower, upper = np.maximum(lower, -LARGEST), np.minimum(upper, LARGEST)
        found = cls(mean, scale, lower, upper, np.zeros((len(mean), 0)))
        if not with_axes or not 1 < len(mean) <= MOST_AXES:
            return found
        axes = _principal_axes(found.standardize(inputs), sample_weight)
        return dataclasses.replace(found, axes=axes)

    def standardize(self, inputs: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return the inputs, clipped to the limits and in the units of the network."""
        limited = np.clip(inputs, self.lower, self.upper)
        return np.asarray(in_units(limited, self.mean, self.scale))

    def transform(self, inputs: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return the inputs of the network: standardized, then also along the axes, if any."""
        standardized = self.standardize(inputs)
        if self.axes.size == 0:
            return standardized
        return np.hstack([standardized, standardized @ self.axes])

    def is_outside(self, inputs: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return whether each value lies beyond its limit."""
        return (inputs < self.lower) | (inputs > self.upper)


def _principal_axes(
    inputs: Float[np.ndarray, "rows columns"], sample_weight: Float[np.ndarray, " rows"]
) -> Float[np.ndarray, "columns columns"]:
    """The principal axes of standardized inputs, which must not depend on the user's units.

    Another unit changes the standardized inputs by rounding, which must decide nothing. Two columns
    always have the axes (1, ±1)/√2, so rounding could decide which entry is the largest.
    Uncorrelated columns have no unique axes, so rounding could decide the axes themselves.
    """
    relative = sample_weight / sample_weight.max()
    weighted = inputs * np.sqrt(relative / relative.sum())[:, None]
    axes = np.linalg.eigh(np.round(weighted.T @ weighted, DECIMALS))[1][:, ::-1]
    sizes = np.abs(axes)
    first = np.argmax(sizes >= (1 - CLOSE) * sizes.max(axis=0), axis=0)
    return axes * np.sign(np.take_along_axis(axes, first[None], axis=0))
