"""Runs of SVI under bbalpha's own loop: progress, Ctrl-C, and the test of convergence."""

import math
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpyro.infer import SVI

from bbalpha.convergence import ConvergenceWarning, fall_of, mean_energies
from bbalpha.engine.checks import warn
from bbalpha.engine.epochs import CHUNK_EPOCHS
from bbalpha.engine.loop import Plan, Start, train
from bbalpha.interfaces.numpyro.traces import Program
from bbalpha.posterior import FitInfo
from bbalpha.stopping import reason_of_fall


class RunState(eqx.Module):
    """The state of SVI, how many steps it has taken, and the energy of the epoch so far."""

    svi: Any
    step: Int[Array, ""]
    energy: Float[Array, ""]


class NoLook:
    """A watch that never stops a run early."""

    every = CHUNK_EPOCHS

    def look(self, state: RunState, energies: np.ndarray) -> tuple[RunState, None]:
        """The state, and no reason to stop."""
        del energies
        return state, None


def run_svi(
    svi: SVI, program: Program, plan: Plan, num_data: int, key: Array, progress: bool
) -> tuple[Any, FitInfo]:
    """The state of SVI at the end of a run, and the record of the run.

    Warns if the energy was still falling at the end.
    """
    started = time.perf_counter()
    state = svi.init(key, *program.args, **program.kwargs)
    start = RunState(state, jnp.zeros((), jnp.int32), jnp.zeros(()))

    def run(state: RunState, order: Any, num_steps: Int[Array, ""]) -> tuple[Any, Any, Array, Any]:
        arguments = (program.args, program.kwargs)
        found, energies, finite = _steps(svi, state, arguments, num_steps, plan.num_batches)
        return found, order, energies, finite

    none = np.zeros((plan.num_epochs, plan.num_parts))
    begin = Start(start, None, none)  # pyright: ignore[reportArgumentType]
    end, energies, stopped = train(run, begin, plan, NoLook(), progress)
    is_whole = stopped == "finished"
    fall = fall_of(mean_energies(energies), float(num_data)) if is_whole else math.inf
    info = FitInfo(
        energies=tuple(energies[: int(end.step) // plan.num_batches, -1].tolist()),
        num_steps=int(end.step),
        seconds=time.perf_counter() - started,
        stopped=stopped,
        converged=fall == 0,
        fall=fall if is_whole else 0.0,
    )
    if is_whole and fall > 0:
        warn(f"fit did not converge: {reason_of_fall(info)}", ConvergenceWarning)
    return end.svi, info


@eqx.filter_jit
def _steps(
    svi: SVI, state: RunState, arguments: Any, num_steps: Int[Array, ""], num_batches: int
) -> tuple[RunState, Float[Array, " epochs"], Array]:
    """The state after some steps, the energies of the epochs, and whether all were finite."""
    args, kwargs = arguments
    first, end = state.step // num_batches, state.step + num_steps

    def step(carry: tuple[Any, Array, Array]) -> tuple[Any, Array, Array]:
        state, energies, _ = carry
        found, energy = svi.stable_update(state.svi, *args, **kwargs)
        finite = jnp.isfinite(energy)
        is_new = state.step % num_batches == 0
        total = jnp.where(is_new, 0.0, state.energy) + energy / num_batches
        energies = energies.at[state.step // num_batches - first].set(total)
        count = state.step + finite.astype(state.step.dtype)
        return RunState(found, count, total), energies, finite

    energies = jnp.zeros(CHUNK_EPOCHS + 1)
    return jax.lax.while_loop(
        lambda carry: (carry[0].step < end) & carry[2], step, (state, energies, jnp.array(True))
    )
