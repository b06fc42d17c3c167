"""Special functions against scipy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import bbalpha as bb


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-10)])
def test_log_ndtr_and_its_derivative_are_accurate_from_minus_40_to_40(dtype, tolerance):
    x = np.linspace(-40, 40, 1601).astype(dtype)
    exact = st.norm.logcdf(x.astype(np.float64))
    derivative = np.exp(st.norm.logpdf(x.astype(np.float64)) - exact)
    with jax.enable_x64(dtype is np.float64):
        values, slopes = jax.vmap(jax.value_and_grad(bb.log_ndtr))(jnp.asarray(x))
    tiny = float(np.finfo(dtype).tiny) * 1e4  # smaller numbers have lost their digits
    np.testing.assert_allclose(values, exact, rtol=tolerance, atol=tiny)
    np.testing.assert_allclose(slopes, derivative, rtol=tolerance, atol=tiny)


@pytest.mark.parametrize("x", [-1e3, -1e5, -1e15])
def test_log_ndtr_far_below_zero_is_minus_half_the_square(x):
    value, slope = jax.value_and_grad(bb.log_ndtr)(jnp.float32(x))
    np.testing.assert_allclose([value, slope], [-(x**2) / 2, -x], rtol=2e-5)
