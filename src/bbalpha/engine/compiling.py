"""How the programs of a fit are compiled.

XLA's CPU compiler hands sums and matrix products to YNNPACK, whose threads wait for each other
longer than a small product takes. Steps are faster when YNNPACK gets only the sums and vectors are
as wide as the core allows (measured in docs/benchmarks.md).
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE",
    "xla_cpu_prefer_vector_width": 512,
}
JAX_WITH_OPTIONS = (0, 10)  # other versions may not know the options and would refuse to compile


@dataclass(frozen=True)
class Compiled:
    """`function` as a compiled program, made at its first call so that imports find no devices.

    Inside another program call `function` itself: compiler options apply to a whole program.

    >>> from bbalpha.engine.compiling import Compiled
    >>> double = Compiled(lambda x: x + x)
    >>> print(double(jnp.array([1.0, 2.0])))
    [2. 4.]
    """

    function: Callable
    static_argnames: tuple[str, ...] = ()

    @cached_property
    def program(self) -> Any:
        """The function under `jax.jit`."""
        options = OPTIONS if on_cpu() and jax.__version_info__[:2] == JAX_WITH_OPTIONS else None
        return jax.jit(
            self.function, static_argnames=self.static_argnames, compiler_options=options
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's result."""
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


def on_cpu() -> bool:
    """Whether jax's default backend is the CPU."""
    return jax.default_backend() == "cpu"
