"""The compiler gets options where they are known, and none where they are not."""

import jax
import jax.numpy as jnp
import pytest

from bbalpha.engine.options import (
    JAX_WITH_OPTIONS,
    RARE_OPTIONS,
    STEP_OPTIONS,
    WHOLE_OPTIONS,
    compiler_options,
    inside_program,
)

IS_KNOWN = jax.__version_info__[:2] == JAX_WITH_OPTIONS


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ({"is_rare": False}, STEP_OPTIONS),
        ({"is_rare": True}, RARE_OPTIONS),
        ({"is_rare": False, "is_whole": True}, WHOLE_OPTIONS),
    ],
)
def test_the_options_of_a_program_depend_on_how_often_it_runs(kind, options):
    assert compiler_options(**kind) == (options if IS_KNOWN else None)


def test_an_accelerator_gets_no_options_of_the_cpu(monkeypatch):
    monkeypatch.setattr("jax.default_backend", lambda: "gpu")
    assert compiler_options(is_rare=False) is compiler_options(is_rare=True) is None


def test_another_version_of_jax_gets_no_options(monkeypatch):
    monkeypatch.setattr("jax.__version_info__", (0, JAX_WITH_OPTIONS[1] + 1, 0))
    assert compiler_options(is_rare=False) is compiler_options(is_rare=True) is None


def test_a_program_knows_that_it_is_inside_another():
    found = []
    note = lambda x=None: found.append(inside_program(x)) or jnp.zeros(())  # noqa: E731
    note(jnp.ones(()))
    jax.jit(note)(1.0)
    jax.jit(lambda: note())()
    jax.vmap(note)(jnp.ones(2))
    jax.grad(note)(1.0)
    assert found == [False, True, True, True, True]
