"""Programs are compiled with options where these are known, some of them ahead of their call."""

import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bbalpha.engine.compiling import Compiled, compile_ahead
from bbalpha.engine.options import compiler_options

VALUES = jnp.arange(6.0).reshape(2, 3)


def square(matrix, scale=1.0):
    return scale * matrix @ matrix.T


def test_a_program_is_its_function():
    compiled = Compiled(square, static_argnames=("scale",))
    np.testing.assert_allclose(compiled(VALUES, scale=2.0), square(VALUES, 2.0))
    np.testing.assert_allclose(compiled.function(VALUES), square(VALUES))


@pytest.mark.parametrize("kind", [{}, {"is_rare": True}, {"is_whole": True}])
def test_a_program_is_made_once_with_its_options_at_the_first_call(kind, monkeypatch):
    given = []

    def jit(function, **settings):
        given.append(settings["compiler_options"])
        return function

    monkeypatch.setattr("jax.jit", jit)
    compiled = Compiled(square, **kind)
    assert given == []
    for _ in range(2):
        compiled(VALUES)
    assert given == [compiler_options(**({"is_rare": False} | kind))]


def test_inside_another_program_it_is_compiled_as_that_one_is():
    compiled = Compiled(square, is_rare=True)
    expected = square(VALUES)
    np.testing.assert_allclose(jax.jit(compiled)(VALUES), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.jit(lambda: compiled(VALUES))(), expected, rtol=1e-6)
    np.testing.assert_allclose(jax.vmap(compiled)(VALUES[None])[0], expected, rtol=1e-6)
    gradient = jax.grad(lambda matrix: compiled(matrix).sum())(VALUES)
    np.testing.assert_allclose(gradient, jax.grad(lambda m: square(m).sum())(VALUES), rtol=1e-6)


def test_a_program_compiled_ahead_is_found_by_its_call():
    threads = []

    def listen(event, _, fun_name=None, **details):
        if event.endswith("backend_compile_duration") and fun_name == "jit(cubed)":
            threads.append(threading.current_thread())

    def cubed(x):
        return x**3

    program = jax.jit(cubed)
    jax.monitoring.register_event_duration_secs_listener(listen)
    compile_ahead(program, VALUES)()
    np.testing.assert_allclose(program(VALUES + 1), (VALUES + 1) ** 3)
    jax.monitoring.unregister_event_duration_listener(listen)
    (thread,) = threads
    assert thread is not threading.main_thread()


def test_settings_of_the_users_thread_hold_for_a_program_compiled_ahead(compilations):
    program = jax.jit(lambda x: x @ x.T)
    with jax.default_matmul_precision("float32"):
        compile_ahead(program, VALUES)()
        compilations.clear()
        program(VALUES)
    assert compilations == []


def test_a_failure_to_compile_is_left_to_the_call():
    class Failing:
        def lower(self, *args):
            return self

        def compile(self):
            raise RuntimeError("out of memory")

    compile_ahead(Failing(), VALUES)()
