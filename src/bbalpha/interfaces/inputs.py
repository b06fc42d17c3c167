"""The inputs of an estimator: standardized, and held within reach of the training rows."""

import dataclasses

import numpy as np
from jaxtyping import Float

from bbalpha.data import rounding_of, standardize

REACH = 0.5  # how far beyond the training range, relative to it, a model may extrapolate


@dataclasses.dataclass(frozen=True)
class InputUnits:
    """The map from the inputs of a user to those of the network.

    A column is moved to mean 0 and scaled to deviation 1. A column with two values only is scaled
    to a distance of 2 between them, however rare one of them is. Values far outside are replaced
    by the nearest limit: the training range, widened at each end by half its width.

    Attributes:
        mean: Of each column.
        scale: What one unit of the network is in each column.
        lower: The smallest value that a column is let through with.
        upper: The largest one.
    """

    mean: Float[np.ndarray, " columns"]
    scale: Float[np.ndarray, " columns"]
    lower: Float[np.ndarray, " columns"]
    upper: Float[np.ndarray, " columns"]

    @classmethod
    def learn(
        cls, inputs: Float[np.ndarray, "rows columns"], sample_weight: Float[np.ndarray, " rows"]
    ) -> "InputUnits":
        """Return the units of the training rows."""
        units = standardize(inputs, sample_weight)[1]
        low, high = inputs.min(axis=0), inputs.max(axis=0)
        rounding = rounding_of(inputs)
        has_two = ((inputs == low) | (inputs == high)).all(axis=0) & (high - low > rounding)
        scale = np.where(has_two, high / 2 - low / 2, np.asarray(units.scale))
        reach = REACH * (high - low) + rounding
        mean = np.asarray(units.mean)  # of a constant column, it may be off by a rounding or two
        return cls(mean, scale, np.minimum(low - reach, mean), np.maximum(high + reach, mean))

    def transform(self, inputs: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return the inputs of the network."""
        return (np.clip(inputs, self.lower, self.upper) - self.mean) / self.scale

    def is_outside(self, inputs: Float[np.ndarray, "rows columns"]) -> np.ndarray:
        """Return whether each value lies beyond its limit."""
        return (inputs < self.lower) | (inputs > self.upper)
