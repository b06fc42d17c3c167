"""Programs are compiled with options where these are known, and without where they are not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bbalpha.engine.compiling import JAX_WITH_OPTIONS, OPTIONS, Compiled

VALUES = jnp.arange(6.0).reshape(2, 3)


def square(matrix, scale=1.0):
    return scale * matrix @ matrix.T


@pytest.fixture
def options(monkeypatch):
    """The options of every program that is made."""
    given = []

    def jit(function, **settings):
        given.append(settings["compiler_options"])
        return function

    monkeypatch.setattr("jax.jit", jit)
    return given


def test_a_program_is_its_function():
    compiled = Compiled(square, static_argnames=("scale",))
    np.testing.assert_allclose(compiled(VALUES, scale=2.0), square(VALUES, 2.0))
    np.testing.assert_allclose(compiled.function(VALUES), square(VALUES))


def test_nothing_is_compiled_before_the_first_call(options):
    compiled = Compiled(square)
    assert options == []
    for _ in range(2):
        compiled(VALUES)
    assert options == [OPTIONS if jax.__version_info__[:2] == JAX_WITH_OPTIONS else None]


def test_an_accelerator_gets_no_options_of_the_cpu(options, monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    Compiled(square)(VALUES)
    assert options == [None]


def test_another_version_of_jax_gets_no_options(options, monkeypatch):
    monkeypatch.setattr("jax.__version_info__", (0, JAX_WITH_OPTIONS[1] + 1, 0))
    Compiled(square)(VALUES)
    assert options == [None]
