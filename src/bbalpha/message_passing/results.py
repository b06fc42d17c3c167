"""From the result of a compiled method to the library's `Posterior`, in the caller's precision."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from bbalpha.distributions import Distribution
from bbalpha.engine.layout import Layout
from bbalpha.message_passing.arguments import Problem
from bbalpha.posterior import FitInfo, Posterior


class Found(NamedTuple):
    """The result of the compiled part of a method, which consists of arrays only.

    `traces` holds the energy and the number of skipped sites per sweep; entries from `num_sweeps`
    on are unused.
    """

    q: Distribution
    prior: Distribution
    energy: Float[Array, ""]
    leave_one_out: Float[Array, " data"] | None
    energies: Float[Array, " sweeps"]
    skipped: Float[Array, " sweeps"] | None
    num_sweeps: Array
    converged: Array


def caller_dtype() -> str:
    """The floating-point type of the caller: 32 bits, unless jax is set to 64."""
    return str(jnp.result_type(float))


def cast(tree: Any, dtype: str) -> Any:
    """The tree with its floating-point arrays in this type."""

    def converted(leaf: Any) -> Any:
        is_float = isinstance(leaf, Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
        return leaf.astype(dtype) if is_float else leaf

    return jax.tree.map(converted, tree)


def posterior_of(
    found: Found,
    problem: Problem,
    alpha: Any,
    hyperparams: Any,
    seconds: float,
    stopped: str,
) -> Posterior:
    """The posterior, in the caller's precision; call this outside the 64-bit context."""
    dtype = jnp.dtype(caller_dtype())
    size = problem.inputs.shape[1]
    return Posterior(
        q=found.q,
        prior=found.prior,
        hyperparams=hyperparams,
        alpha=jnp.asarray(alpha, dtype),
        num_data=jax.device_put(np.array(problem.num_data, dtype)),
        energy=found.energy,
        layout=Layout.of(jax.ShapeDtypeStruct((size,), dtype)),
        info=info_of(found, seconds, stopped),
        leave_one_out=found.leave_one_out,
    )


def info_of(found: Found, seconds: float, stopped: str) -> FitInfo:
    """The record of a run; empty inside a trace, where nothing is known."""
    if isinstance(found.num_sweeps, Tracer):
        return FitInfo(stopped="traced")
    count = int(found.num_sweeps)
    skipped = () if found.skipped is None else np.asarray(found.skipped)[:count].tolist()
    return FitInfo(
        energies=tuple(np.asarray(found.energies, float)[:count].tolist()),
        num_steps=count,
        seconds=seconds,
        stopped=stopped,
        converged=bool(found.converged),
        skipped=tuple(skipped),
    )


def is_traced(found: Found) -> bool:
    """Whether the result is traced, so that no decision can depend on it."""
    return isinstance(found.num_sweeps, Tracer)


def last_finite_sweep(found: Found) -> int:
    """The number of the first sweep without a finite energy, or the last."""
    count = int(found.num_sweeps)
    finite = np.isfinite(np.asarray(found.energies)[:count])
    return count - 1 if finite.all() else int(np.argmin(finite))
