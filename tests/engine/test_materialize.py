"""What is kept in memory is what it was, with its derivatives, for every way to call it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bbalpha.engine.materialize import UNLIKELY, in_memory, once

GIVEN = {"usual": jnp.zeros(3), "unlikely": jnp.full(3, UNLIKELY, jnp.float32)}
VALUES = jnp.arange(6.0).reshape(2, 3)


@pytest.fixture(params=GIVEN)
def given(request):
    return GIVEN[request.param]


@pytest.mark.parametrize("dtype", ["float32", "float16", "uint32", "complex64"])
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_values_are_unchanged(dtype, shape, given):
    values = jnp.ones(shape, dtype)
    for function in (in_memory, jax.jit(in_memory)):
        found = function(values, given)
        assert found.dtype == values.dtype
        np.testing.assert_array_equal(found, values)
    for other in (given.astype(jnp.uint32), given[:0]):  # words, and nothing
        np.testing.assert_array_equal(in_memory(values, other), values)


def test_values_of_a_batch_are_unchanged_although_one_of_them_is_unlikely():
    given = jnp.array([0.0, UNLIKELY])
    np.testing.assert_array_equal(jax.vmap(in_memory)(VALUES, given), VALUES)


def test_derivatives_are_those_of_the_values(given):
    def total(x):
        return jnp.sum(in_memory(jnp.sin(x), given) ** 2)

    expected = jax.grad(lambda x: jnp.sum(jnp.sin(x) ** 2))(VALUES)
    np.testing.assert_allclose(jax.grad(total)(VALUES), expected, rtol=1e-6)
    _, tangent = jax.jvp(total, (VALUES,), (jnp.ones_like(VALUES),))
    np.testing.assert_allclose(tangent, jnp.sum(expected), rtol=1e-5)
    hessian = jax.hessian(total)(jnp.array([0.5]))
    np.testing.assert_allclose(hessian, [[2 * np.cos(1.0)]], rtol=1e-5)


def test_once_is_the_function(given):
    for function in (once, jax.jit(once, static_argnums=0)):
        np.testing.assert_array_equal(function(jnp.square, given), given**2)


@pytest.mark.parametrize(("platform", "num_loops"), [("cpu", 2), ("cuda", 0), ("tpu", 0)])
def test_only_the_cpu_has_loops(platform, num_loops):
    def both(x):
        return in_memory(once(jnp.square, x), x)

    program = jax.jit(both).trace(VALUES).lower(lowering_platforms=(platform,)).as_text()
    assert program.count("stablehlo.while") == num_loops
