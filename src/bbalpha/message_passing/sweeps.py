"""Power EP: the four steps of Section 2, on all sites at once or one after the other."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from bbalpha.convergence import ConvergenceWarning
from bbalpha.distributions import FullGaussian
from bbalpha.engine.checks import check_counts, warn
from bbalpha.message_passing.arguments import (
    GaussianFamily,
    Problem,
    ProjectedLikelihood,
    check_positive,
    check_power,
    held,
    prepare,
    stationary_energy,
)
from bbalpha.message_passing.double_loop import double_loop
from bbalpha.message_passing.iteration import Settings, iterate
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.results import (
    Found,
    caller_dtype,
    cast,
    is_traced,
    posterior_of,
)
from bbalpha.message_passing.sequential import SequentialSites
from bbalpha.message_passing.tilted import NUM_NODES
from bbalpha.posterior import Posterior

TOLERANCE = 1e-7  # posterior deviations
MAX_SWEEPS = 200


def power_ep(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    prior: Any = 1.0,
    alpha: Any = 1.0,
    hyperparams: PyTree = None,
    family: GaussianFamily = FullGaussian,
    order: str = "parallel",
    step: float | None = None,
    tolerance: float = TOLERANCE,
    max_sweeps: int = MAX_SWEEPS,
    num_nodes: int = NUM_NODES,
) -> Posterior:
    """The posterior that power EP finds for a model of projections, f = xₙᵀθ; α = 1 is EP.

    Each datum has its own site, a Gaussian in its projection, whose precision may be negative. If
    removing a site would leave an improper cavity, only so much of it is removed that the cavity
    stays proper. Sites whose tilted distribution has no variance are skipped in that sweep and
    counted in `info.skipped`. If sweeps do not converge at a power α > 0, the double loop
    (`double_loop_ep`) takes over, with a warning.

    `posterior.energy` is minus the log-evidence (eq. 6). At the fixed point, its derivative with
    respect to `prior`, the fields of a likelihood, or `hyperparams` is correct, so `jax.grad` can
    be used to maximize the evidence. Inside a trace, the energy is NaN if sweeps did not converge.
    All work is in 64 bits; results are in 32 bits, unless jax is set to 64.
    `posterior.leave_one_out` has the log predictive density of each datum given the others.

    Args:
        log_likelihood: a likelihood such as `bb.Probit()`, or a function of the projections f of
            shape (data,), the targets and, if given, the hyper-parameters; it returns one number
            per datum.
        inputs: X, one row per datum. The identity, with a kernel matrix as prior covariance, makes
            this a Gaussian process.
        targets: y, an array or tree with one row per datum.
        prior: a standard deviation, one per column, a covariance matrix, or a
            `bb.DiagonalGaussian` or `bb.FullGaussian`.
        alpha: the power, any number except 0.
        hyperparams: the third argument of `log_likelihood`, if that is a function.
        family: `bb.FullGaussian` or `bb.DiagonalGaussian`. With more columns than rows, a full q
            is returned as a `bb.NarrowedGaussian`.
        order: "parallel" or, for a full q, "sequential".
        step: the fraction of the way to the matching sites in each sweep; automatic by default.
        tolerance: the largest difference, in posterior deviations, between moments of q and of a
            tilted distribution at the end.
        max_sweeps: the most sweeps over the data.
        num_nodes: quadrature nodes per datum.

    Raises:
        ValueError: if an argument breaks its rule, or a datum never gets a proper site.
        TypeError: if an argument is of the wrong kind.

    >>> inputs = jnp.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [1.0, -0.5]])
    >>> labels = jnp.array([1.0, 0.0, 1.0, 0.0])
    >>> posterior = bb.power_ep(bb.Probit(), inputs, labels)
    >>> print(f"{posterior.energy:.3f}, {posterior.info.stopped}")  # 2.254 on a fine grid
    2.260, converged
    """
    check_power(alpha, "power_ep")
    check_counts(max_sweeps=max_sweeps, num_nodes=num_nodes)
    check_positive(tolerance=tolerance, **({} if step is None else {"step": step}))
    _check_order(order, family)
    dtype, began = caller_dtype(), time.perf_counter()
    with in_double_precision():
        problem = prepare(log_likelihood, inputs, targets, prior, hyperparams, family)
        settings = Settings(
            max_sweeps, num_nodes, jnp.asarray(tolerance, float), jnp.asarray(step or 0.0, float)
        )
        power = jnp.asarray(alpha, float)
        arguments = (problem, power, settings, order == "sequential", dtype)
        found, exists, start = run(sweep_program, *arguments)
        if is_traced(found):
            found = found._replace(energy=jnp.where(found.converged, found.energy, jnp.nan))
            stopped = "traced"
        else:
            found, stopped = _settle(found, (exists, start), problem, power, settings, dtype)
    seconds = time.perf_counter() - began
    return posterior_of(found, problem, alpha, hyperparams, seconds, stopped)


def sweep_program(
    problem: Problem, alpha: Array, settings: Settings, is_sequential: bool, dtype: str
) -> tuple[Found, Array, Array]:
    """The result, whether each site exists at the end, and the log-likelihood at the prior mean."""
    fixed = held(problem).sites()
    visited = SequentialSites(fixed) if is_sequential else fixed  # pyright: ignore[reportArgumentType]
    outcome = iterate(visited, jax.lax.stop_gradient(alpha), settings)
    sites, last = outcome.sites, outcome.last
    num_nodes = settings.num_nodes
    energy = last.energy
    if problem.is_traced:
        energy = stationary_energy(problem, sites, last.alpha, last.centers, num_nodes)
    found = Found(
        cast(fixed.distribution(sites), dtype),
        cast(problem.prior.distribution, dtype),
        cast(energy, dtype),
        cast(fixed.leave_one_out(sites, last.centers, num_nodes), dtype),
        outcome.trace.energies,
        outcome.trace.skipped,
        outcome.num_sweeps,
        outcome.converged,
    )
    start = fixed.factors.log_prob(jnp.zeros((1, problem.num_data)))[0]
    return found, last.exists, start


def _settle(
    found: Found,
    rows: tuple[Array, Array],
    problem: Problem,
    alpha: Array,
    settings: Settings,
    dtype: str,
) -> tuple[Found, str]:
    """The result of the sweeps or, if they failed, of the double loop; and why the run ended.

    Raises:
        ValueError: if a datum has no proper tilted distribution at the end.
    """
    if found.converged:
        return found, "converged"
    what = _what_happened(found, settings)
    if not problem.is_diagonal and alpha > 0 and not settings.step > 0:
        second = double_loop(problem, alpha, settings, dtype)
        if second.converged:
            warn(
                f"power_ep did not converge: {what}. The double loop took over and converged after "
                f"{int(second.num_sweeps)} steps.",
                ConvergenceWarning,
            )
            return second, "double loop"
        what += f", and the double loop was no better after {int(second.num_sweeps)} steps"
    _check_sites(*rows, what)
    warn(f"power_ep did not converge: {what}.", ConvergenceWarning)
    return found, "finished" if int(found.num_sweeps) >= settings.max_sweeps else "diverged"


def _what_happened(found: Found, settings: Settings) -> str:
    """Why sweeps ended without convergence."""
    count = int(found.num_sweeps)
    finite = np.isfinite(np.asarray(found.energies)[:count])
    if not finite.all():
        return f"q became improper at sweep {int(np.argmin(finite))}"
    if count >= settings.max_sweeps:
        return f"moments still differ after {count} sweeps"
    return f"no step keeps q proper at sweep {count - 1}"


def _check_sites(exists: Array, start: Array, what: str) -> None:
    """Raise if a datum has no proper tilted distribution; the message has its number."""
    if exists.all():
        return
    first = int(np.argmin(exists))
    if np.isfinite(start[first]):
        others = int(np.sum(~exists)) - 1
        rows = f"row {first}" + (f" and {others} more" if others else "")
        raise ValueError(
            f"power_ep found no proper tilted distribution for {rows}: {what}. Either the "
            "likelihood grows too fast in the projection, or rows contradict each other so that "
            "the posterior has several modes; bb.vmp finds one of them."
        )
    raise ValueError(
        "log_likelihood must be finite where the prior has its mean; "
        f"got {start[first]} for row {first}."
    )


def _check_order(order: str, family: GaussianFamily) -> None:
    if order not in ("parallel", "sequential"):
        raise ValueError(f"order must be 'parallel' or 'sequential'; got order={order!r}.")
    if order == "sequential" and family is not FullGaussian:
        raise ValueError(f"order must be 'parallel' for a diagonal q; got order={order!r}.")
