"""How the programs of a fit are compiled.

XLA's CPU compiler gives sums and matrix products to a library, YNNPACK, whose threads wait for each
other, in small products longer than these take. Where it is left with the sums alone, and vectors
are as wide as the core has them, steps are faster (docs/benchmarks.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax

OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE",
    "xla_cpu_prefer_vector_width": 512,
}
JAX_WITH_OPTIONS = (0, 10)  # another may not know them, and would refuse to compile


@dataclass(frozen=True)
class Compiled:
    """`function` as a program, made at its first call: an import shall not look for devices.

    Inside of another program call `function`, because options hold for a whole program.

    >>> from bbalpha.engine.compiling import Compiled
    >>> double = Compiled(lambda x: x + x)
    >>> print(double(jnp.array([1.0, 2.0])))
    [2. 4.]
    """

    function: Callable
    static_argnames: tuple[str, ...] = ()

    @cached_property
    def program(self) -> Any:
        """What `jax.jit` makes of the function."""
        options = OPTIONS if on_cpu() and jax.__version_info__[:2] == JAX_WITH_OPTIONS else None
        return jax.jit(
            self.function, static_argnames=self.static_argnames, compiler_options=options
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return what the function returns."""
        return self.program(*args, **kwargs)


def on_cpu() -> bool:
    """Whether there is no accelerator: then `jax` calls the CPU its backend."""
    return jax.default_backend() == "cpu"
