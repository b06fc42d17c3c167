"""Arrays move between host and device without a program, and only where that costs nothing."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bbalpha.engine.arrays import library_of, on_device, on_host


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        (3, None, jnp.int32),
        (0.5, None, jnp.float32),
        (np.arange(3), jnp.float32, jnp.float32),
        (np.ones((2, 3)), None, jnp.float32),
        (np.zeros(()), jnp.float16, jnp.float16),
    ],
)
def test_values_become_strong_arrays_without_a_program(values, dtype, expected, compilations):
    found = on_device(values, dtype)
    assert isinstance(found, jax.Array)
    assert (found.dtype, found.weak_type) == (expected, False)
    np.testing.assert_array_equal(found, values)
    assert compilations == []


def test_wide_numbers_stay_wide_where_jax_has_them(x64):
    assert on_device(np.ones(2)).dtype == jnp.float64


def test_an_array_on_the_device_stays_the_same_object():
    array, key = jnp.ones(2), jax.random.key(0)
    assert on_device(array) is array
    assert on_device(array, "float32") is array
    assert on_device(key) is key


def test_a_weak_type_becomes_strong_because_programs_are_cached_by_it(compilations):
    weak = jax.device_put(0.5)
    assert weak.weak_type
    compilations.clear()
    assert not on_device(weak).weak_type
    assert compilations == []


def test_later_changes_of_a_numpy_array_do_not_reach_the_device():
    for _ in range(20):  # jax shares memory only if it happens to be aligned
        values = np.zeros(4, np.float32)
        array = on_device(values)
        values[:] = 1
        np.testing.assert_array_equal(array, 0)


def test_numbers_on_the_cpu_are_read_in_place(compilations):
    array = jax.device_put(np.arange(6.0, dtype=np.float32))
    found = on_host(array)
    assert isinstance(found, np.ndarray)
    assert found.ctypes.data == array.unsafe_buffer_pointer()
    assert isinstance(on_host([1.0]), np.ndarray)
    assert compilations == []


def test_what_lies_elsewhere_or_is_no_number_stays_what_it_is():
    here, there = jax.devices()
    elsewhere = jax.device_put(np.ones(2), there)
    mesh = jax.sharding.Mesh(np.array([here, there]), "rows")
    spread = jax.device_put(
        np.ones(2), jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("rows"))
    )
    for array in (elsewhere, spread, jax.random.key(0)):
        assert on_host(array) is array
    with jax.default_device(there):
        assert isinstance(on_host(elsewhere), np.ndarray)


def test_a_tracer_stays_a_tracer_and_keeps_its_type():
    def double(x):
        assert on_host(x) is x
        assert library_of((x, np.ones(2))) is jnp
        return on_device(x, jnp.float16) * 2

    assert jax.jit(double)(jnp.ones(2)).dtype == jnp.float16
    assert library_of((np.ones(2), 3.0)) is np
