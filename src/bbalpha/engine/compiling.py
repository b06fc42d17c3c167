"""How the programs of a fit are compiled: with options, once, and some of them ahead."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from bbalpha.engine.options import compiler_options, inside_program


@dataclass(frozen=True)
class Compiled:
    """`function` as a compiled program, made at its first call so that imports find no devices.

    Compiler options apply to a whole program; inside another one, it is compiled as that one is.

    Attributes:
        function: what to compile.
        static_argnames: the arguments that are not traced.
        is_rare: whether the program is run so rarely that it should be compiled quickly.

    >>> from bbalpha.engine.compiling import Compiled
    >>> double = Compiled(lambda x: x + x)
    >>> print(double(jnp.array([1.0, 2.0])))
    [2. 4.]
    """

    function: Callable
    static_argnames: tuple[str, ...] = ()
    is_rare: bool = False

    @cached_property
    def program(self) -> Any:
        """The function under `jax.jit`, with options for this machine."""
        options = compiler_options(self.is_rare)
        return jax.jit(
            self.function, static_argnames=self.static_argnames, compiler_options=options
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's result."""
        if inside_program(args, kwargs):
            return self.function(*args, **kwargs)
        return self.program(*args, **kwargs)


def compile_ahead(program: Any, *args: Any) -> Callable[[], None]:
    """Start to compile what `jax.jit` made for such arguments; return a function that waits for it.

    The program is traced here, because settings made with `with` hold only in the user's own
    thread, and compiled in another thread. A later call finds it compiled.

    >>> from bbalpha.engine.compiling import compile_ahead
    >>> square = jax.jit(jnp.square)
    >>> wait = compile_ahead(square, jnp.ones(3))
    >>> wait()
    >>> print(square(jnp.array([1.0, 2.0, 3.0])))
    [1. 4. 9.]
    """
    threads = ThreadPoolExecutor(1)
    compiled = threads.submit(program.lower(*args).compile)
    threads.shutdown(wait=False)

    def wait() -> None:
        compiled.exception()  # if it failed, so will the call

    return wait
