import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro.distributions import constraints

import bbalpha as bb
from bbalpha.interfaces.numpyro.supports import transform_of


@pytest.mark.parametrize(
    "support",
    [constraints.real, constraints.real_vector, constraints.independent(constraints.real, 2)],
)
def test_the_whole_line_needs_no_transform(support):
    assert transform_of(support) is None


@pytest.mark.parametrize(
    ("support", "values"),
    [
        (constraints.positive, jnp.array([0.5, 2.0])),
        (constraints.unit_interval, jnp.array([0.2, 0.9])),
        (constraints.simplex, jnp.array([0.2, 0.5, 0.3])),
        (constraints.ordered_vector, jnp.array([-1.0, 0.0, 2.0])),
    ],
    ids=str,
)
def test_a_support_becomes_a_transform_with_its_jacobian(support, values):
    transform = transform_of(support)
    layout = bb.Layout.of(values, transforms=transform)
    free = layout.flatten(values)
    np.testing.assert_allclose(layout.unflatten(free), values, rtol=1e-5)
    jacobian = jax.jacobian(transform.forward)(free)[: free.size]  # of as many as are free
    expected = jnp.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(sum(layout.log_det_jacobians(free)), expected, rtol=1e-4)
    assert transform.elementwise == (values.size == 2)


def test_a_start_outside_of_the_support_is_refused_by_name():
    layout = bb.Layout.of(jnp.ones(1), transforms=transform_of(constraints.positive))
    with pytest.raises(
        ValueError, match=r"params must be in the support Positive.*got params=\[-1\]"
    ):
        layout.check_support(jnp.array([-1.0]))
