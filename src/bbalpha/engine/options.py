"""Options of XLA's CPU compiler: fast programs for steps, fast compilation for the rest.

The compiler hands sums and matrix products to YNNPACK, whose threads wait for each other longer
than a small product takes. Steps are faster when YNNPACK gets only the sums and vectors are as wide
as the core allows (measured in docs/benchmarks.md).
"""

from typing import Any

import jax
from jax.core import Tracer

STEP_OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE",
    "xla_cpu_prefer_vector_width": 512,
}
# XLA's older emitters compile twice as fast. They make steps slower by a fifth to a half, but not
# programs that only go forward, such as energies and predictions.
RARE_OPTIONS = {"xla_cpu_use_fusion_emitters": False}
JAX_WITH_OPTIONS = (0, 10)  # other versions may not know the options and would refuse to compile


def compiler_options(is_rare: bool) -> dict[str, Any] | None:
    """The options for a program that is run all the time, or so rarely that compiling it counts."""
    if not on_cpu() or jax.__version_info__[:2] != JAX_WITH_OPTIONS:
        return None
    return RARE_OPTIONS if is_rare else STEP_OPTIONS


def on_cpu() -> bool:
    """Whether jax's default backend is the CPU."""
    return jax.default_backend() == "cpu"


def inside_program(*args: Any) -> bool:
    """Whether a function with these arguments is being traced; then options are not allowed."""
    leaves = jax.tree.leaves((args, jax.device_put(0)))  # the last shows a trace without arguments
    return any(isinstance(leaf, Tracer) for leaf in leaves)
