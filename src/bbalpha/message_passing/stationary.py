"""The fixed point of BB-α: moments averaged over the tilted distributions (eq. 10), no gradients.

With μ the moments of q and μ̄ their average over tilted distributions, the energy changes with the
natural parameters of q as (N/α − 1)(μ − μ̄). A step of (N/α − 1) times the difference of the natural
parameters of μ̄ and μ therefore leads down; it is shortened until the energy falls.
"""

import time
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

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
)
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.results import Found, caller_dtype, cast, is_traced, posterior_of
from bbalpha.message_passing.tied import CHUNK, Schedule, all_sums, check_share
from bbalpha.message_passing.tied_sites import DiagonalTied, FullTied, tied_energy, tied_sites
from bbalpha.message_passing.tilted import NUM_NODES, Natural
from bbalpha.message_passing.variational import ROUNDING, Step, descend
from bbalpha.posterior import Posterior

TOLERANCE = 1e-7  # posterior deviations
MAX_STEPS = 5000
START_PRECISION = 1e3  # initial precision of q relative to the prior, at a negative α


def fixed_point(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    prior: Any = 1.0,
    alpha: Any = 0.5,
    hyperparams: PyTree = None,
    family: GaussianFamily = FullGaussian,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    num_nodes: int = NUM_NODES,
) -> Posterior:
    """The Gaussian at which BB-α is stationary (eq. 10), without gradients or Monte Carlo error.

    For a model of projections and a q of the same family, `fit` finds the same result up to Monte
    Carlo error, so this can serve to check `fit`. `posterior.energy` is the BB-α energy (eq. 9),
    which falls at every step.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        prior: as for `power_ep`.
        alpha: the power, any number except 0, less than the number of rows.
        hyperparams: as for `power_ep`.
        family: `bb.FullGaussian` or `bb.DiagonalGaussian`.
        tolerance: how far, in posterior deviations, a full step may still move q at the end.
        max_steps: the most steps.
        num_nodes: quadrature nodes per datum.

    Raises:
        ValueError: if an argument breaks its rule.
        TypeError: if an argument is of the wrong kind.

    >>> posterior = bb.fixed_point(  # Appendix, Example 1: the variance is 1/√3
    ...     bb.Gaussian(), jnp.eye(2), jnp.zeros(2), alpha=1.0, family=bb.DiagonalGaussian
    ... )
    >>> print(f"{posterior.variance[0]:.6f}")
    0.577350
    """
    check_power(alpha, "fixed_point")
    check_counts(max_steps=max_steps, num_nodes=num_nodes)
    check_positive(tolerance=tolerance)
    dtype, began = caller_dtype(), time.perf_counter()
    with in_double_precision():
        problem = prepare(log_likelihood, inputs, targets, prior, hyperparams, family)
        check_share(alpha, problem.num_data)
        settings = (jnp.asarray(tolerance, float), max_steps, num_nodes)
        found = run(stationary_program, problem, jnp.asarray(alpha, float), settings, dtype)
        if is_traced(found):
            stopped = "traced"
        elif found.converged:
            stopped = "converged"
        else:
            stopped = "finished"
            count = int(found.num_sweeps)
            warn(
                f"fixed_point did not converge: the last of {count} steps still moved q.",
                ConvergenceWarning,
            )
    seconds = time.perf_counter() - began
    return posterior_of(found, problem, alpha, hyperparams, seconds, stopped)


class Averaging(NamedTuple):
    """The family of q, with the step towards averaged moments."""

    family: FullTied | DiagonalTied
    alpha: Float[Array, ""]

    def start(self) -> Natural:
        """The prior or, at a negative α, a narrow q, so that tilted distributions exist."""
        q = self.family.posterior(self.family.start(), 1)
        return Natural(jnp.where(self.alpha < 0, START_PRECISION, 1.0) * q.precision, q.shift)

    def step(self, q: Natural, num_nodes: int) -> Step:
        """The BB-α energy of q, and q after a full step."""
        num_data = len(self.family.rows.problem.inputs)
        site = self.family.site(q, num_data)
        q = self.family.posterior(site, num_data)  # a long step would magnify an asymmetry
        cavity = self.family.posterior(site, num_data - self.alpha)
        schedule = Schedule(CHUNK, 0, num_nodes, is_averaged=True)
        sums = all_sums(self.family.moment_sums, self.family, cavity, self.alpha, schedule)
        matched = self.family.matched(cavity, sums)
        length = num_data / self.alpha - 1
        target = Natural(*(old + length * (new - old) for new, old in zip(matched, q, strict=True)))
        energy = tied_energy(self.family, q, cavity, self.alpha, sums)
        gap = self.family.gap(q, target)
        is_whole = sums.skipped == 0  # the energy needs all tilted distributions
        energy = jnp.where(is_whole, energy, jnp.nan)
        return Step(target, energy, jnp.where(jnp.isfinite(gap), gap, jnp.inf))


def stationary_program(
    problem: Problem, alpha: Array, settings: tuple[Array, int, int], dtype: str
) -> Found:
    """The compiled part."""
    family = tied_sites(held(problem))
    # The energy is a sum divided by α, so rounding matters more at small powers.
    rounding = ROUNDING / jnp.minimum(jnp.abs(alpha), 1.0)
    state = descend(Averaging(family, alpha), *settings, rounding)
    return Found(
        cast(family.distribution(state.point), dtype),
        cast(problem.prior.distribution, dtype),
        cast(state.found.energy, dtype),
        None,
        state.energies,
        None,
        state.num_steps,
        state.converged,
    )
