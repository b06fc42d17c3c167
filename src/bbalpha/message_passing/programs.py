"""Compiled programs of message passing: always in 64 bits, and compiled quickly."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import equinox as eqx
import jax

from bbalpha.engine.options import compiler_options, inside_program


def run(function: Callable, *args: Any) -> Any:
    """The function's result, compiled; a second call with the same shapes compiles nothing."""
    return _program(function, inside_program(args))(*args)


@contextmanager
def in_double_precision() -> Iterator[None]:
    """A context with 64-bit numbers, whatever jax's global setting is."""
    with jax.enable_x64(True):
        yield


@cache
def _program(function: Callable, is_inside: bool) -> Callable:
    jit: Callable = eqx.filter_jit  # its annotations lack the settings of `jax.jit`
    return jit(function, compiler_options=None if is_inside else compiler_options(is_rare=True))
