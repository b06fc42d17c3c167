"""The inputs of an estimator: standardized, and held within reach of the training rows."""

import dataclasses

import numpy as np
from jaxtyping import Float

from bbalpha.data import in_units, rounding_of, standardize

REACH = 0.5  # how far beyond the training range, relative to it, a model may extrapolate
LARGEST = np.finfo(np.float64).max
MOST_AXES = 100  # columns up to which linear paths use principal axes
DECIMALS = 12  # of the covariances; with more, rounding would turn axes of equal widths
CLOSE = 1e-6  # entries of an axis that differ by less, relative to the largest, are equal


@dataclasses.dataclass(frozen=True)
class InputUnits:
    """The map from the inputs of a user to those of the network.

    A column is moved to mean 0 and scaled to deviation 1. A column with two values only is scaled
    to a distance of 2 between them, however rare one of them is. Values far outside are replaced
    by the nearest limit: the training range, widened at each end by half its width.

    The linear paths of the network get the same inputs along their principal axes. Coefficients of
    nearly collinear columns depend on each other, which a q of independent weights cannot express;
    coefficients along principal axes do not. A rotation does not change their prior.

    Attributes:
        mean: Of each column.
        scale: What one unit of the network is in each column.
        lower: The smallest value that a column is let through with.
        upper: The largest one.
        axes: The principal axes as columns, the widest first and each with its largest entry
            positive (the first of them if several are equal but for rounding), or no columns if
            the linear paths take the inputs as they are.
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
        mean = np.asarray(units.mean)  # of a constant column, it may be off by a rounding or two
        with np.errstate(over="ignore"):
            lower, upper = np.minimum(low - reach, mean), np.maximum(high + reach, mean)
        lower, upper = np.maximum(lower, -LARGEST), np.minimum(upper, LARGEST)
        found = cls(mean, scale, lower, upper, np.zeros((len(mean), 0)))
        if not with_axes or not 1 < len(mean) <= MOST_AXES:
            return found
        axes = _principal_axes(found.standardize(inputs), sample_weight)
        return dataclasses.replace(found, axes=axes)

    def standardize(self, inputs: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return the inputs, within the limits and in the units of the network."""
        limited = np.clip(inputs, self.lower, self.upper)
        return np.asarray(in_units(limited, self.mean, self.scale))

    def transform(self, inputs: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return the inputs of the network: standardized, then along the axes if there are any."""
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
    """The axes of standardized inputs, which must not turn if a user changes units.

    A change of units changes the standardized inputs by rounding. Two columns have the axes
    (1, ±1)/√2, so rounding would decide which entry is the largest; uncorrelated columns have no
    axes of their own, so rounding would decide those.
    """
    relative = sample_weight / sample_weight.max()
    weighted = inputs * np.sqrt(relative / relative.sum())[:, None]
    axes = np.linalg.eigh(np.round(weighted.T @ weighted, DECIMALS))[1][:, ::-1]
    sizes = np.abs(axes)
    first = np.argmax(sizes >= (1 - CLOSE) * sizes.max(axis=0), axis=0)
    return axes * np.sign(np.take_along_axis(axes, first[None], axis=0))
