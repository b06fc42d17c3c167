"""The incomplete beta function, relative to its leading factor."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from bbalpha.engine.beta_ratio import beta_ratio

DISTANCES = np.linspace(0, 0.999, 60)


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 5e-6), (True, 2e-9)])
@pytest.mark.parametrize(("a", "b"), [(1, 1), (3, 0.3), (0.3, 3), (400, 2), (2, 400), (5e4, 5e4)])
def test_it_is_the_incomplete_beta_function_over_its_leading_factor(a, b, x64, tolerance):
    with jax.enable_x64(x64):
        a, b, s = (jnp.asarray(np.atleast_1d(x), float) for x in (a, b, DISTANCES))
        found = np.asarray(beta_ratio(a, b, s), np.float64)
        assert beta_ratio(a, b, s).dtype == (np.float64 if x64 else np.float32)
    a, b, s = (np.asarray(x, np.float64) for x in (a, b, s))
    x = (1 - s) * a / (a + b)
    factor = np.exp(special.xlogy(a, x) + special.xlog1py(b, -x) - special.betaln(a, b))
    kept = factor > 1e-250
    expected = special.betainc(a, b, x)[kept] / factor[kept]
    np.testing.assert_allclose(found[kept], expected, rtol=tolerance)
