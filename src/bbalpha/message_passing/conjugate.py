"""Linear regression with Gaussian noise, in closed form: the exact reference for `comparing`.

With θ = m₀ + C z, z ~ N(0, I), r = y − X m₀ and the singular values X C = U diag(s) Vᵀ, everything
follows from s and Uᵀr, for any noise variance σ²:

    z | y ~ N(V diag(s/(σ² + s²)) Uᵀr, I − V diag(s²/(σ² + s²)) Vᵀ)

The message-passing algorithms use none of this code, so it can serve to check them.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize_scalar

from bbalpha.message_passing.projections import GaussianPrior

LOG_NOISES = (-20.0, 3.0)  # range of the search for log σ², relative to the mean square of r
FINE = 1e-10  # tolerance of that search

Vector = Float64[np.ndarray, " entries"]
Table = Float64[np.ndarray, "rows params"]


class LinearRegression(NamedTuple):
    """The model y = Xθ + noise, for every noise variance at once."""

    prior_mean: Vector
    prior_factor: Float64[np.ndarray, "*params"]
    directions: Float64[np.ndarray, "params rank"]  # C V
    sizes: Vector  # s²
    along: Vector  # Uᵀr
    beyond: float  # the squared length of the part of r outside the span of U
    num_data: int

    @classmethod
    def of(cls, inputs: Table, targets: Vector, prior: GaussianPrior) -> "LinearRegression":
        """The model of these rows."""
        mean, factor = (np.asarray(array, np.float64) for array in (prior.mean, prior.factor))
        residual = targets - inputs @ mean
        left, singular, right = np.linalg.svd(_times(inputs, factor), full_matrices=False)
        along = left.T @ residual
        directions = factor[:, None] * right.T if factor.ndim == 1 else factor @ right.T
        beyond = float(np.sum(np.square(residual - left @ along)))
        return cls(mean, factor, directions, singular**2, along, beyond, len(targets))

    def log_evidence(self, noise_variance: float) -> float:
        """Log N(y; X m₀, X Σ₀ Xᵀ + σ² I)."""
        variances = noise_variance + self.sizes
        rest = self.num_data - len(self.sizes)
        log_det = np.sum(np.log(variances)) + rest * np.log(noise_variance)
        squares = np.sum(np.square(self.along) / variances) + self.beyond / noise_variance
        return float(-0.5 * (self.num_data * np.log(2 * np.pi) + log_det + squares))

    def likeliest_noise_variance(self) -> float:
        """The σ² with the highest evidence."""
        typical = (self.beyond + self.along @ self.along) / self.num_data
        found: Any = minimize_scalar(
            lambda log_noise: -self.log_evidence(typical * np.exp(log_noise)),
            bounds=LOG_NOISES,
            method="bounded",
            options={"xatol": FINE},
        )
        return float(typical * np.exp(found.x))

    def moments(self, noise_variance: float) -> tuple[Vector, Vector]:
        """The posterior mean and deviation of every parameter."""
        return self.projected(np.eye(len(self.prior_mean)), noise_variance)

    def projected(self, inputs: Table, noise_variance: float) -> tuple[Vector, Vector]:
        """The posterior mean and deviation of xᵀθ for every row."""
        seen = inputs @ self.directions
        variances = noise_variance + self.sizes
        mean = inputs @ self.prior_mean + seen @ (np.sqrt(self.sizes) / variances * self.along)
        prior_variance = np.sum(np.square(_times(inputs, self.prior_factor)), axis=1)
        variance = prior_variance - np.square(seen) @ (self.sizes / variances)
        return mean, np.sqrt(np.maximum(variance, 0.0))


def _times(inputs: Table, factor: np.ndarray) -> np.ndarray:
    """X C."""
    return inputs * factor if factor.ndim == 1 else inputs @ factor
