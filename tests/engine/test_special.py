"""Special functions against scipy in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import bbalpha as bb
from bbalpha.engine.probabilities import ndtr
from bbalpha.engine.special import poisson_tails, student_t_cdf

log_ndtr_and_slope = jax.jit(jax.vmap(jax.value_and_grad(bb.log_ndtr)))
compiled_ndtr = jax.jit(ndtr)

both_precisions = pytest.mark.parametrize(("x64", "tolerance"), [(False, 2e-5), (True, 1e-10)])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-10)])
def test_log_ndtr_and_its_derivative_are_accurate_from_minus_40_to_40(dtype, tolerance):
    x = np.linspace(-40, 40, 1601).astype(dtype)
    exact = st.norm.logcdf(x.astype(np.float64))
    derivative = np.exp(st.norm.logpdf(x.astype(np.float64)) - exact)
    with jax.enable_x64(dtype is np.float64):
        values, slopes = log_ndtr_and_slope(jnp.asarray(x))
    tiny = float(np.finfo(dtype).tiny) * 1e4  # smaller numbers have lost their digits
    np.testing.assert_allclose(values, exact, rtol=tolerance, atol=tiny)
    np.testing.assert_allclose(slopes, derivative, rtol=tolerance, atol=tiny)


@pytest.mark.parametrize("x", [-1e3, -1e5, -1e15])
def test_log_ndtr_far_below_zero_is_minus_half_the_square(x):
    (value,), (slope,) = log_ndtr_and_slope(jnp.full(1, x, jnp.float32))
    np.testing.assert_allclose([value, slope], [-(x**2) / 2, -x], rtol=2e-5)


@both_precisions
def test_ndtr_is_accurate_relative_to_the_lower_tail(x64, tolerance):
    with jax.enable_x64(x64):
        x = jnp.linspace(-12, 12, 241)
        exact = st.norm.cdf(np.asarray(x, np.float64))
        np.testing.assert_allclose(compiled_ndtr(x), exact, rtol=tolerance)
        np.testing.assert_array_equal(compiled_ndtr(jnp.array([-jnp.inf, jnp.inf])), [0, 1])


@both_precisions
@pytest.mark.parametrize("df", [0.02, 0.1, 0.5, 1.0, 1.5, 4.0, 11.0, 100.0, 1e4, 1e7, 1e30])
def test_student_t_cdf_is_accurate_relative_to_the_lower_tail(df, x64, tolerance):
    with jax.enable_x64(x64):
        reach = 10.0 if df > 10 else 1e15
        x = jnp.sinh(jnp.linspace(-np.arcsinh(reach), np.arcsinh(reach), 201))
        exact = st.t.cdf(np.asarray(x, np.float64), np.float64(jnp.asarray(df)))
        found = student_t_cdf(x, jnp.full(1, df))
        smallest = float(jnp.finfo(x.dtype).tiny) * 1e4
        np.testing.assert_allclose(found, exact, rtol=tolerance, atol=smallest)
        edges = student_t_cdf(jnp.array([-jnp.inf, jnp.inf]), jnp.full(1, df))
        np.testing.assert_array_equal(edges, [0, 1])


@both_precisions
@pytest.mark.parametrize("count", [0, 1, 2, 5, 9, 10, 30, 100, 1000])
def test_poisson_tails_are_accurate_relative_to_the_smaller(count, x64, tolerance):
    with jax.enable_x64(x64):
        rates = (count + 1) * (1 + np.linspace(-0.99, 5, 101) / np.sqrt(count + 1))
        log_rate = jnp.log(rates)
        rates = np.exp(np.asarray(log_rate, np.float64))
        found = np.asarray(poisson_tails(jnp.full(1, float(count)), log_rate), np.float64)
        exact = np.stack([st.poisson.cdf(count, rates), st.poisson.sf(count, rates)])
        # log λ − log a is rounded by eps log a, which the tails magnify by up to 5 √a
        rounding = float(jnp.finfo(log_rate.dtype).eps) * np.log(count + 1) * 5 * np.sqrt(count + 1)
        np.testing.assert_allclose(found, exact, rtol=tolerance + rounding)


def test_poisson_tails_have_the_right_limits_as_the_rate_goes_to_zero_or_infinity():
    cdf, survival = poisson_tails(jnp.zeros(1), jnp.array([-jnp.inf, -200.0, 200.0]))
    np.testing.assert_array_equal(cdf, [1, 1, 0])
    np.testing.assert_array_equal(survival, [0, 0, 1])
    cdf, survival = poisson_tails(jnp.array([1e30, jnp.inf]), jnp.full(1, 3.0))
    np.testing.assert_array_equal(cdf, [1, 1])
    np.testing.assert_array_equal(survival, [0, 0])
