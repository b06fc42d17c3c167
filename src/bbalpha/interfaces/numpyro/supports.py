"""The supports of NumPyro's distributions, as transforms of bbalpha."""

from dataclasses import dataclass
from typing import Any

from jaxtyping import Array, Float
from numpyro.distributions import biject_to, constraints

Values = Float[Array, "..."]


@dataclass(frozen=True, eq=False)
class Support:
    """NumPyro's map from unconstrained values to a support, shaped like `bb.Transform`."""

    constraint: Any

    @property
    def rule(self) -> str:
        """The constraint in words."""
        return f"in the support {self.constraint}"

    @property
    def elementwise(self) -> bool:
        """Whether each value depends on only one unconstrained value."""
        transform = self._transform
        return transform.domain.event_dim == 0 and transform.codomain.event_dim == 0

    def free_shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of the unconstrained values."""
        return tuple(self._transform.inverse_shape(shape))

    def forward(self, free: Values) -> Values:
        """The values in the support."""
        return self._transform(free)

    def inverse(self, values: Values) -> Values:
        """The unconstrained values of these values."""
        return self._transform.inv(values)

    def log_det_jacobian(self, free: Values) -> Values:
        """Terms of log |det ∂values/∂free|."""
        return self._transform.log_abs_det_jacobian(free, self._transform(free))

    @property
    def _transform(self) -> Any:
        return biject_to(self.constraint)


def transform_of(support: Any) -> Support | None:
    """The transform of a support; None if it is the whole real line."""
    inner = support
    while hasattr(inner, "base_constraint"):  # a constraint on each of several values
        inner = inner.base_constraint
    return None if inner is constraints.real else Support(support)
