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
from jax.core import Tracer

OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE",
    "xla_cpu_prefer_vector_width": 512,
}
# XLA's older emitters compile twice as fast. They make steps slower by a fifth to a half, but not
# programs that only go forward, such as energies and predictions.
RARE_OPTIONS = {"xla_cpu_use_fusion_emitters": False}
JAX_WITH_OPTIONS = (0, 10)  # other versions may not know the options and would refuse to compile


@dataclass(frozen=True)
class Compiled:
    """`function` as a compiled program, made at its first call so that imports find no devices.

    Compiler options apply to a whole program; inside another one, it is compiled as that one is.

    Attributes:
        function: what to compile.
        static_argnames: the arguments that are not traced.
        is_rare: whether the program is run so rarely that it should be compiled quickly.
        jit: `jax.jit` or something like it; `jax.jit` by default.

    >>> from bbalpha.engine.compiling import Compiled
    >>> double = Compiled(lambda x: x + x)
    >>> print(double(jnp.array([1.0, 2.0])))
    [2. 4.]
    """

    function: Callable
    static_argnames: tuple[str, ...] = ()
    is_rare: bool = False
    jit: Callable | None = None

    @cached_property
    def program(self) -> Any:
        """The function under `jax.jit`, with options for this machine."""
        options = RARE_OPTIONS if self.is_rare else OPTIONS
        is_known = on_cpu() and jax.__version_info__[:2] == JAX_WITH_OPTIONS
        return self._jitted(options if is_known else None)

    @cached_property
    def plain(self) -> Any:
        """The function under `jax.jit`, without options."""
        return self._jitted(None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the function's result."""
        leaves = jax.tree.leaves((args, kwargs, jax.device_put(0)))  # the last shows any trace
        is_part = any(isinstance(leaf, Tracer) for leaf in leaves)
        return (self.plain if is_part else self.program)(*args, **kwargs)

    def _jitted(self, options: dict[str, Any] | None) -> Any:
        jit: Callable = self.jit or jax.jit
        static = {"static_argnames": self.static_argnames} if self.static_argnames else {}
        return jit(self.function, compiler_options=options, **static)


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
