"""Variational message passing, the limit α → 0 of power EP, in natural-gradient form.

As α → 0, the site that matches a tilted distribution becomes τ = −E_q[ℓ″(f)] and
ν = E_q[ℓ′(f)] + τ E_q[f], with ℓ the log-likelihood. Moving all sites a fraction ρ of the way there
is a natural-gradient step of size ρ on the negative evidence lower bound. A step is taken only if
it lowers that energy.
"""

import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from bbalpha.convergence import ConvergenceWarning
from bbalpha.distributions import Distribution, FullGaussian
from bbalpha.engine.checks import check_counts, warn
from bbalpha.message_passing.arguments import (
    GaussianFamily,
    Problem,
    ProjectedLikelihood,
    check_positive,
    held,
    prepare,
    with_slope,
)
from bbalpha.message_passing.diagonal_sites import diagonal_distribution
from bbalpha.message_passing.iteration import moved, select
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.projections import Projections
from bbalpha.message_passing.results import Found, caller_dtype, cast, is_traced, posterior_of
from bbalpha.message_passing.sites import FullSites, Moments, moment_gap
from bbalpha.message_passing.tilted import NUM_NODES, Factors, Natural, nodes_and_log_weights
from bbalpha.posterior import Posterior

TOLERANCE = 1e-7  # posterior deviations
MAX_STEPS = 1000
GROW, OVERSHOT, SHRINK = 1.1, 0.7, 0.5  # factors on the step if all fell, gap grew, energy rose
CAREFUL = 0.02  # a growing gap alone does not make steps smaller than this
SMALLEST_STEP = 1e-10
ROUNDING = 1e-12  # relative amount by which an energy may rise


def vmp(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    prior: Any = 1.0,
    hyperparams: PyTree = None,
    family: GaussianFamily = FullGaussian,
    tolerance: float = TOLERANCE,
    max_steps: int = MAX_STEPS,
    num_nodes: int = NUM_NODES,
) -> Posterior:
    """The Gaussian that minimizes the variational free energy of a model of projections.

    This is power EP in the limit α → 0, and the result of `fit` at α = 0 without Monte Carlo error.
    `posterior.energy` is the negative evidence lower bound. It falls at every step and is
    differentiable as for `power_ep`.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        prior: as for `power_ep`.
        hyperparams: as for `power_ep`.
        family: `bb.FullGaussian` or `bb.DiagonalGaussian`.
        tolerance: how far, in posterior deviations, a full step may still move q at the end.
        max_steps: the most steps.
        num_nodes: quadrature nodes per datum.

    Raises:
        ValueError: if an argument breaks its rule.
        TypeError: if an argument is of the wrong kind.

    >>> inputs = jnp.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [1.0, -0.5]])
    >>> labels = jnp.array([1.0, 0.0, 1.0, 0.0])
    >>> print(f"{bb.vmp(bb.Probit(), inputs, labels).energy:.3f}")
    2.279
    """
    check_counts(max_steps=max_steps, num_nodes=num_nodes)
    check_positive(tolerance=tolerance)
    dtype, began = caller_dtype(), time.perf_counter()
    with in_double_precision():
        problem = prepare(log_likelihood, inputs, targets, prior, hyperparams, family)
        settings = (jnp.asarray(tolerance, float), max_steps, num_nodes)
        found = run(variational_program, problem, settings, dtype)
        if is_traced(found):
            found = found._replace(energy=jnp.where(found.converged, found.energy, jnp.nan))
            stopped = "traced"
        else:
            stopped = _ending(found, max_steps)
    seconds = time.perf_counter() - began
    return posterior_of(found, problem, 0.0, hyperparams, seconds, stopped)


class Step(NamedTuple):
    """One evaluation of the free energy, and the result of a full step."""

    target: Any
    energy: Float[Array, ""]
    gap: Float[Array, ""]


class FullVariational(NamedTuple):
    """q is a full Gaussian with a site on each projection."""

    projections: Projections
    factors: Factors

    def start(self) -> Natural:
        """The prior as q."""
        return self._sites.start()

    def step(self, sites: Natural, num_nodes: int) -> Step:
        """The free energy, and the sites after a full natural-gradient step."""
        q = self._sites.moments(sites)
        marginal = q.marginal
        first, second = expected_slopes(
            self.factors, marginal.mean, 1 / marginal.precision, num_nodes
        )
        target = Natural(-second, first - second * marginal.mean)
        after = self._sites.moments(target).marginal
        gap = moment_gap(marginal, after.mean, 1 / after.precision, after.precision > 0)
        gap = jnp.where(jnp.all(after.precision > 0), jnp.max(jnp.abs(gap)), jnp.inf)
        return Step(target, self._energy(sites, q, num_nodes), gap)

    def energy(self, sites: Natural, num_nodes: int) -> Float[Array, ""]:
        """KL(q‖p₀) − Σₙ E_q[log p(yₙ|f)]."""
        return self._energy(sites, self._sites.moments(sites), num_nodes)

    def _energy(self, sites: Natural, q: Moments, num_nodes: int) -> Float[Array, ""]:
        variance = 1 / q.marginal.precision
        # The trace of q's covariance is R − Σₙ τₙ vₙ, because the precision is I + Lᵀ diag(τ) L.
        squares = jnp.sum(jnp.square(q.mean)) - sites.precision @ variance
        divergence = 0.5 * squares + jnp.sum(jnp.log(jnp.diag(q.cholesky)))
        return divergence - jnp.sum(
            expected_log_prob(self.factors, q.marginal.mean, variance, num_nodes)
        )

    def distribution(self, sites: Natural) -> Distribution:
        """Q over the parameters."""
        return self._sites.distribution(sites)

    @property
    def _sites(self) -> FullSites:
        return FullSites(self.projections, self.factors)


class DiagonalVariational(NamedTuple):
    """q is diagonal: one pair of natural parameters per column."""

    projections: Projections
    factors: Factors

    def start(self) -> Natural:
        """The prior as q."""
        size = self.projections.rows.shape[1]
        return Natural(jnp.ones(size), jnp.zeros(size))

    def step(self, q: Natural, num_nodes: int) -> Step:
        """The free energy, and q after a full natural-gradient step."""
        rows = self.projections.rows
        first, second = expected_slopes(self.factors, *self._marginals(q), num_nodes)
        precision = 1 - second @ jnp.square(rows)
        target = Natural(precision, (precision - 1) * q.mean + first @ rows)
        mean_gap = (target.mean - q.mean) * jnp.sqrt(q.precision)
        log_gap = jnp.log(jnp.abs(precision) / q.precision)
        gap = jnp.max(jnp.maximum(jnp.abs(mean_gap), jnp.abs(log_gap)))
        gap = jnp.where(jnp.all(precision > 0), gap, jnp.inf)
        return Step(target, self.energy(q, num_nodes), gap)

    def energy(self, q: Natural, num_nodes: int) -> Float[Array, ""]:
        """KL(q‖p₀) − Σₙ E_q[log p(yₙ|f)]."""
        divergence = 0.5 * jnp.sum(1 / q.precision + jnp.square(q.mean) - 1 + jnp.log(q.precision))
        return divergence - jnp.sum(expected_log_prob(self.factors, *self._marginals(q), num_nodes))

    def distribution(self, q: Natural) -> Distribution:
        """Q over the parameters."""
        return diagonal_distribution(self.projections, q)

    def _marginals(self, q: Natural) -> tuple[Array, Array]:
        rows = self.projections.rows
        return rows @ q.mean, jnp.square(rows) @ (1 / q.precision)


class Descent(NamedTuple):
    """The state of the loop."""

    point: Any
    found: Step
    step: Float[Array, ""]
    energies: Float[Array, " steps"]
    num_steps: Int[Array, ""]
    converged: Bool[Array, ""]


def descend(
    family: Any,
    tolerance: Array | float,
    max_steps: int,
    num_nodes: int,
    rounding: Array | float = ROUNDING,
) -> Descent:
    """Steps towards the target that lower the energy, until a full step no longer moves q."""

    def body(state: Descent) -> Descent:
        point = moved(state.point, state.found.target, state.step)
        found = family.step(point, num_nodes)
        allowed = state.found.energy + rounding * jnp.abs(state.found.energy)
        is_lower = found.energy <= allowed  # and not NaN, as for an improper q
        # Near the end, energies differ only by rounding, but a growing gap shows overshooting.
        careful = jnp.where(found.gap > state.found.gap, OVERSHOT, GROW) * state.step
        careful = jnp.clip(careful, jnp.minimum(CAREFUL, state.step), 1.0)
        step = jnp.where(is_lower, careful, SHRINK * state.step)
        kept = select(is_lower | (state.num_steps == 0), found, state.found)
        return Descent(
            select(is_lower, point, state.point),
            kept,
            step,
            state.energies.at[state.num_steps].set(kept.energy),
            state.num_steps + 1,
            is_lower & (found.gap <= tolerance),
        )

    point, most = family.start(), jnp.array(jnp.inf)
    energies = jnp.full(max_steps + 1, jnp.nan)
    # The loop is compiled once and also evaluates the start; before it, the energy is infinite.
    before = Step(point, most, most)
    start = Descent(point, before, jnp.array(1.0), energies, jnp.array(0), jnp.array(False))
    return jax.lax.while_loop(
        lambda state: (
            (state.num_steps < max_steps) & ~state.converged & (state.step > SMALLEST_STEP)
        ),
        body,
        start,
    )


def variational_program(problem: Problem, settings: tuple[Array, int, int], dtype: str) -> Found:
    """The compiled part."""
    tolerance, max_steps, num_nodes = settings

    def family_of(problem: Problem) -> FullVariational | DiagonalVariational:
        projections = problem.projections()
        kind = DiagonalVariational if problem.is_diagonal else FullVariational
        return kind(projections, problem.factors(projections))

    family = family_of(held(problem))
    state = descend(family, tolerance, max_steps, num_nodes)
    energy = state.found.energy
    if problem.is_traced:
        energy = with_slope(lambda given: family_of(given).energy(state.point, num_nodes), problem)
    return Found(
        cast(family.distribution(state.point), dtype),
        cast(problem.prior.distribution, dtype),
        cast(energy, dtype),
        None,
        state.energies,
        None,
        state.num_steps,
        state.converged,
    )


def expected_log_prob(
    factors: Factors, mean: Array, variance: Array, num_nodes: int
) -> Float[Array, " data"]:
    """E[log p(yₙ|f)] for Gaussian projections, by quadrature."""
    nodes, log_weights = nodes_and_log_weights(num_nodes)
    weights = np.exp(log_weights - 0.5 * nodes**2)
    g = mean[None] + jnp.sqrt(variance)[None] * nodes[:, None]
    return (weights / weights.sum()) @ factors.log_prob(g)


def expected_slopes(
    factors: Factors, mean: Array, variance: Array, num_nodes: int
) -> tuple[Array, Array]:
    """E[ℓ′] and E[ℓ″]: the derivatives of E[ℓ] in the mean and, twice, in the variance."""

    def total(mean: Array, variance: Array) -> Array:
        return jnp.sum(expected_log_prob(factors, mean, variance, num_nodes))

    by_mean, by_variance = jax.grad(total, (0, 1))(mean, variance)
    return by_mean, 2 * by_variance


def _ending(found: Found, max_steps: int) -> str:
    """Why the steps ended; warns if they did not converge."""
    if found.converged:
        return "converged"
    count = int(found.num_sweeps)
    reason = "moved q" if count >= max_steps else "could not lower the energy"
    warn(f"vmp did not converge: the last of {count} steps still {reason}.", ConvergenceWarning)
    return "finished"
