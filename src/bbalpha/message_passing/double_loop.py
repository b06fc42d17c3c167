"""Double-loop EP: slower than sweeps, but the energy falls at every step (Appendix A)."""

import time
from typing import Any

import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, PyTree

from bbalpha.convergence import ConvergenceWarning
from bbalpha.distributions import FullGaussian
from bbalpha.engine.checks import check_counts, warn
from bbalpha.message_passing.arguments import (
    Problem,
    ProjectedLikelihood,
    check_positive,
    check_power,
    held,
    prepare,
    stationary_energy,
)
from bbalpha.message_passing.iteration import Settings
from bbalpha.message_passing.min_max import MinMax, solve
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.results import Found, caller_dtype, cast, is_traced, posterior_of
from bbalpha.message_passing.sites import FullSites
from bbalpha.message_passing.tilted import NUM_NODES
from bbalpha.message_passing.variational import FullVariational, descend
from bbalpha.posterior import Posterior

TOLERANCE = 1e-7  # posterior deviations
MAX_STEPS = 200
START_TOLERANCE = 1e-3  # of the variational start


def double_loop_ep(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    prior: Any = 1.0,
    alpha: Any = 1.0,
    hyperparams: PyTree = None,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    num_nodes: int = NUM_NODES,
) -> Posterior:
    """The fixed point of power EP with a full q, found by a double loop whose energy always falls.

    The inner loop maximizes the energy over the sites, which is a concave problem; the outer loop
    minimizes over q (Appendix A; Heskes & Zoeter 2002; Opper & Winther 2005). This is many times
    slower than `power_ep`, which uses it if sweeps fail. `info.energies` has one energy per outer
    step. Newton's equations are solved directly up to 1,000 rows.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        prior: as for `power_ep`.
        alpha: the power, a positive number.
        hyperparams: as for `power_ep`.
        tolerance: the largest difference, in posterior deviations, between moments of q and of a
            tilted distribution at the end.
        max_steps: the most outer steps.
        num_nodes: quadrature nodes per datum.

    Raises:
        ValueError: if an argument breaks its rule.
        TypeError: if an argument is of the wrong kind.

    >>> inputs = jnp.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [1.0, -0.5]])
    >>> labels = jnp.array([1.0, 0.0, 1.0, 0.0])
    >>> print(f"{bb.double_loop_ep(bb.Probit(), inputs, labels).energy:.3f}")  # as power_ep
    2.260
    """
    check_power(alpha, "double_loop_ep")
    if not isinstance(alpha, Tracer) and alpha < 0:
        raise ValueError(
            "alpha must be positive, because the inner problem is concave only then; "
            f"got alpha={alpha}."
        )
    check_counts(max_steps=max_steps, num_nodes=num_nodes)
    check_positive(tolerance=tolerance)
    dtype, began = caller_dtype(), time.perf_counter()
    with in_double_precision():
        problem = prepare(log_likelihood, inputs, targets, prior, hyperparams, FullGaussian)
        step = jnp.zeros(())
        settings = Settings(max_steps, num_nodes, jnp.asarray(tolerance, float), step)
        found = double_loop(problem, jnp.asarray(alpha, float), settings, dtype)
        stopped = "traced" if is_traced(found) else _ending(found, max_steps)
        if stopped == "traced":
            found = found._replace(energy=jnp.where(found.converged, found.energy, jnp.nan))
    seconds = time.perf_counter() - began
    return posterior_of(found, problem, alpha, hyperparams, seconds, stopped)


def double_loop(problem: Problem, alpha: Array, settings: Settings, dtype: str) -> Found:
    """The result of the double loop, in the caller's precision; call this with 64 bits."""
    return run(double_loop_program, problem, alpha, settings, dtype)


def double_loop_program(problem: Problem, alpha: Array, settings: Settings, dtype: str) -> Found:
    """The compiled part."""
    projections = held(problem).projections()
    factors = held(problem).factors(projections)
    family, num_nodes = FullSites(projections, factors), settings.num_nodes
    first = descend(FullVariational(projections, factors), START_TOLERANCE, MAX_STEPS, num_nodes)
    state = solve(
        MinMax(family, alpha, num_nodes), first.point, settings.max_sweeps, settings.tolerance
    )
    alphas = jnp.full(problem.num_data, alpha)
    energy = stationary_energy(problem, state.sites, alphas, state.centers, num_nodes)
    return Found(
        cast(family.distribution(state.sites), dtype),
        cast(problem.prior.distribution, dtype),
        cast(energy, dtype),
        cast(family.leave_one_out(state.sites, state.centers, num_nodes), dtype),
        state.energies,
        None,
        state.num_steps,
        state.converged,
    )


def _ending(found: Found, max_steps: int) -> str:
    """Why the steps ended; warns if they did not converge."""
    if found.converged:
        return "converged"
    count = int(found.num_sweeps)
    reason = "moved q" if count >= max_steps else "could not lower the energy"
    warn(
        f"double_loop_ep did not converge: the last of {count} steps still {reason}.",
        ConvergenceWarning,
    )
    return "finished"
