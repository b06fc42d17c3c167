"""How the programs of a fit are compiled: once, with options, and some of them ahead of time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

from bbalpha.engine.options import compiler_options, inside_program


@dataclass(frozen=True)
class Compiled:
    """`function` as a compiled program, created at its first call so that imports touch no device.

    Compiler options apply to whole programs. Inside another program, `function` is compiled with
    the options of that program.

    Attributes:
        function: the function to compile.
        static_argnames: the arguments that are not traced.
        is_rare: whether the program runs so rarely that compiling it quickly matters more than
            speed.
        is_whole: whether the program takes steps on all rows at once.

    >>> from bbalpha.engine.compiling import Compiled
    >>> double = Compiled(lambda x: x + x)
    >>> print(double(jnp.array([1.0, 2.0])))
    [2. 4.]
    """

    function: Callable
    static_argnames: tuple[str, ...] = ()
    is_rare: bool = False
    is_whole: bool = False

    @cached_property
    def program(self) -> Any:
        """The function under `jax.jit`, with options for this machine."""
        options = compiler_options(self.is_rare, self.is_whole)
        return jax.jit(
            self.function, static_argnames=self.static_argnames, compiler_options=options
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's result."""
        if inside_program(args, kwargs):
            return self.function(*args, **kwargs)
        return self.program(*args, **kwargs)


def compile_ahead(program: Any, *args: Any) -> Callable[[], None]:
    """Start compiling a jitted function for such arguments; return a function that waits for it.

    The program is compiled in another thread, so that a later call finds it compiled. It is traced
    in this thread, because settings made by `with` hold only in the user's own thread.

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
        compiled.exception()  # not raised: if compiling failed, the call will fail, too

    return wait
