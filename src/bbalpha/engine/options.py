"""Options of XLA's CPU compiler: fast programs for steps, fast compilation for the rest.

By default, the compiler hands sums and matrix products to YNNPACK, whose threads wait for each
other longer than a small product takes. Steps are faster if YNNPACK gets only the sums and if
vectors are as wide as the core allows (measured in docs/benchmarks.md).
"""

from typing import Any

import jax
from jax.core import Tracer

try:
    from jax._src.core import trace_state_clean  # jax has no public name for it
except ImportError:
    trace_state_clean = None

STEP_OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_REDUCE",
    "xla_cpu_prefer_vector_width": 512,
}
# For steps on all rows at once. YNNPACK takes up to four times as long as XLA for sums over few
# numbers, such as the classes of a softmax or the parts of a mixture.
WHOLE_OPTIONS = {
    "xla_cpu_experimental_ynn_fusion_type": "",
    "xla_cpu_prefer_vector_width": 512,
}
# XLA's older emitters compile twice as fast. They slow down steps by a fifth to a half, but not
# programs without a backward pass, such as energies and predictions.
RARE_OPTIONS = {"xla_cpu_use_fusion_emitters": False}
JAX_WITH_OPTIONS = (0, 10)  # other versions may not know the options and would refuse to compile


def compiler_options(is_rare: bool, is_whole: bool = False) -> dict[str, Any] | None:
    """The options for a program.

    Args:
        is_rare: Whether the program runs so rarely that its compile time matters.
        is_whole: Whether it takes steps on all rows at once.
    """
    if not on_cpu() or jax.__version_info__[:2] != JAX_WITH_OPTIONS:
        return None
    return RARE_OPTIONS if is_rare else WHOLE_OPTIONS if is_whole else STEP_OPTIONS


def on_cpu() -> bool:
    """Whether jax's default backend is the CPU."""
    return jax.default_backend() == "cpu"


def inside_program(*args: Any) -> bool:
    """Whether a function with these arguments is being traced; then options are not allowed."""
    if trace_state_clean is not None and trace_state_clean():
        return False  # 40 µs sooner than by what follows
    leaves = jax.tree.leaves((args, jax.device_put(0)))  # the last shows a trace without arguments
    return any(isinstance(leaf, Tracer) for leaf in leaves)
