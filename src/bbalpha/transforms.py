"""Transforms for constrained parameters: scales, probabilities, ordered vectors and simplexes.

q is a distribution over free numbers, each of which may be any real number. A transform maps them
to the constrained values that you, your log-likelihood and your prior see. It also knows the
logarithm of its Jacobian, by which the densities of the two differ. To write your own, implement
the members of `bbalpha.Transform`.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Values = Float[Array, "..."]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Positive:
    """The exponential function. See `positive`.

    >>> bb.positive.forward(jnp.log(jnp.array([1.0, 2.0])))
    Array([1., 2.], dtype=float32)
    """

    elementwise: ClassVar[bool] = True
    rule: ClassVar[str] = "positive"

    def forward(self, free: Values) -> Values:
        """The value exp z."""
        return jnp.exp(free)

    def inverse(self, values: Values) -> Values:
        """The free number log x."""
        return jnp.log(values)

    def log_det_jacobian(self, free: Values) -> Values:
        """Log dx/dz = z."""
        return free


@dataclass(frozen=True)
class Interval:
    """The logistic function, scaled to an interval. See `interval`.

    >>> bb.interval(-1, 1).forward(jnp.zeros(2))
    Array([0., 0.], dtype=float32)
    """

    low: float
    high: float
    elementwise: ClassVar[bool] = True

    @property
    def rule(self) -> str:
        """The constraint in words."""
        return f"between {self.low:g} and {self.high:g}, exclusive"

    def forward(self, free: Values) -> Values:
        """The value low + (high − low) sigmoid z."""
        # Never rounded to an end, so that log p and log(1 − p) stay finite.
        limits = jnp.finfo(free.dtype)
        fraction = jnp.clip(jax.nn.sigmoid(free), limits.tiny, 1 - limits.epsneg)
        return self.low + (self.high - self.low) * fraction

    def inverse(self, values: Values) -> Values:
        """The free number log (x − low) − log (high − x)."""
        return jnp.log(values - self.low) - jnp.log(self.high - values)

    def log_det_jacobian(self, free: Values) -> Values:
        """Log dx/dz = log (high − low) + log sigmoid z + log sigmoid (−z)."""
        width = math.log(self.high - self.low)
        return width + jax.nn.log_sigmoid(free) + jax.nn.log_sigmoid(-free)


@dataclass(frozen=True)
class Ordered:
    """A first number and the logarithms of the gaps after it. See `ordered`.

    >>> bb.ordered.forward(jnp.array([-1.0, 0.0, 0.0]))
    Array([-1.,  0.,  1.], dtype=float32)
    """

    rule: ClassVar[str] = "in increasing order along the last axis"

    def free_shape(self, shape: Shape) -> Shape:
        """The same shape."""
        return _with_axis(shape, 1)

    def forward(self, free: Values) -> Values:
        """The values x₁ = z₁ and xₖ = xₖ₋₁ + exp zₖ."""
        steps = jnp.concatenate([free[..., :1], jnp.exp(free[..., 1:])], axis=-1)
        return jnp.cumsum(steps, axis=-1)

    def inverse(self, values: Values) -> Values:
        """The free numbers x₁ and log (xₖ − xₖ₋₁)."""
        gaps = jnp.log(jnp.diff(values, axis=-1))
        return jnp.concatenate([values[..., :1], gaps], axis=-1)

    def log_det_jacobian(self, free: Values) -> Values:
        """The terms of log |det ∂x/∂z| = Σₖ zₖ over k > 1."""
        return free[..., 1:]


@dataclass(frozen=True)
class Simplex:
    """The softmax of centered log-ratios. See `simplex`.

    >>> bb.simplex.forward(jnp.zeros(3))  # from three free numbers
    Array([0.25, 0.25, 0.25, 0.25], dtype=float32)
    """

    rule: ClassVar[str] = "positive and sum to 1 along the last axis"

    def free_shape(self, shape: Shape) -> Shape:
        """One number fewer along the last axis."""
        shape = _with_axis(shape, 2)
        return (*shape[:-1], shape[-1] - 1)

    def forward(self, free: Values) -> Values:
        """The values softmax(B z)."""
        log_ratios = _product(free, _basis(free.shape[-1] + 1).T)
        return jnp.maximum(jax.nn.softmax(log_ratios), jnp.finfo(free.dtype).tiny)

    def inverse(self, values: Values) -> Values:
        """The free numbers Bᵀ log x; the columns of B sum to 0, so the scale of x drops out."""
        return _product(jnp.log(values), _basis(values.shape[-1]))

    def log_det_jacobian(self, free: Values) -> Values:
        """The terms of log |det ∂(x₁ … xₖ₋₁)/∂z| = ½ log K + Σₖ log xₖ."""
        num_entries = free.shape[-1] + 1
        log_values = jax.nn.log_softmax(_product(free, _basis(num_entries).T))
        return log_values + 0.5 * math.log(num_entries) / num_entries


positive = Positive()
"""Positive numbers, such as scales and rates: x = exp z.

A Gaussian on z is a log-normal distribution of x, whose shape does not depend on the units of x;
the softplus function would treat scales above and below 1 differently. If the prior is given as a
standard deviation, it is that of z = log x: `prior=1.0` has median 1 and puts 95 % of its mass
between 0.14 and 7.1.
"""

probability = Interval(0.0, 1.0)
"""Numbers between 0 and 1, by the logistic function: x = sigmoid z, the same as `interval(0, 1)`.

If the prior is given as a standard deviation, it is that of the log-odds; 1.6 is close to uniform.
"""


def interval(low: float | int, high: float | int) -> Interval:
    """The transform for numbers between `low` and `high`: x = low + (high − low) sigmoid z.

    Raises:
        ValueError: if the ends are not finite, or not in order.

    >>> correlation = bb.interval(-1, 1)
    >>> print(f"{correlation.inverse(jnp.array(0.5)):.4f}")  # log (1.5 / 0.5)
    1.0986
    """
    low, high = float(low), float(high)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"low must be less than high, both finite; got low={low}, high={high}.")
    return Interval(low, high)


ordered = Ordered()
"""Vectors in increasing order, such as cut points: x₁ = z₁, xₖ = xₖ₋₁ + exp zₖ.

It acts on the last axis, so an array of shape (3, 5) holds three ordered vectors.
"""

simplex = Simplex()
"""Vectors of K positive numbers that sum to 1, such as mixture weights, from K − 1 free numbers.

x = softmax(B z) with an orthonormal basis B of the vectors that sum to 0 (the isometric log-ratio),
so a prior given as a standard deviation treats all entries alike. It acts on the last axis.
Densities are with respect to the first K − 1 entries, as is usual for the Dirichlet distribution.
"""


def _with_axis(shape: Shape, least: int) -> Shape:
    """The shape, if its last axis has enough entries."""
    if not shape or shape[-1] < least:
        raise ValueError(f"a last axis of at least {least}")
    return shape


def _basis(num_entries: int) -> np.ndarray:
    """B, with columns that are orthonormal and sum to 0: Helmert's contrasts."""
    columns = [
        [1.0] * k + [-float(k)] + [0.0] * (num_entries - k - 1) for k in range(1, num_entries)
    ]
    basis = np.array(columns).T
    return basis / np.linalg.norm(basis, axis=0)


def _product(rows: Values, matrix: np.ndarray) -> Any:
    return jnp.matmul(rows, jnp.asarray(matrix, rows.dtype), precision=jax.lax.Precision.HIGHEST)
