"""Double-loop EP (Appendix A): slower than sweeps, but the energy falls at every outer step.

With γₙ the marginals of the projections, in natural parameters, and cavities γₙ − α λₙ,

    E(γ, λ) = − log Z_q(λ) − (1/α) Σₙ [log ∫ pₙ^α exp(s·(γₙ − α λₙ)) − log Z(γₙ)]

is concave in the sites λ. The inner loop maximizes over them, by Newton's method with conjugate
gradients; there the moments of q and of the tilted distributions agree. What the maximum adds to
log Z(γₙ)/α is concave in γ, so setting γ to those moments (the outer step) lowers the energy
(Heskes & Zoeter 2002; Opper & Winther 2005).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bbalpha.message_passing.arguments import Problem, held, stationary_energy
from bbalpha.message_passing.iteration import Settings
from bbalpha.message_passing.programs import run
from bbalpha.message_passing.results import Found, cast
from bbalpha.message_passing.sites import FullSites, moment_gap
from bbalpha.message_passing.tilted import (
    Centers,
    Natural,
    Tilted,
    tilted_at,
    tilted_moments,
)

MOST_NEWTON_STEPS = 30
MOST_CG_STEPS = 60
MOST_HALVINGS = 30
INNER_SHARE = 0.1  # of the outer tolerance, to which the inner loop converges


def double_loop(problem: Problem, alpha: Array, settings: Settings, dtype: str) -> Found:
    """The result of the double loop, in the caller's precision; call it with 64 bits."""
    return run(double_loop_program, problem, alpha, settings, dtype)


def double_loop_program(
    problem: Problem, alpha: Array, settings: Settings, dtype: str
) -> Found:
    """The compiled part."""
    family = held(problem).sites()
    state = solve(
        MinMax(family, alpha, settings.num_nodes), settings.max_sweeps, settings.tolerance
    )
    alphas = jnp.full(problem.num_data, alpha)
    num_nodes = settings.num_nodes
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


class Inner(NamedTuple):
    """The state of the inner loop: sites, where nodes are, and what is left of the gradient."""

    sites: Natural
    centers: Centers
    value: Float[Array, ""]
    gap: Float[Array, ""]
    count: Int[Array, ""]
    is_moving: Bool[Array, ""]


class Outer(NamedTuple):
    """The state of the outer loop."""

    sites: Natural
    marginal: Natural
    centers: Centers
    energies: Float[Array, " steps"]
    gap: Float[Array, ""]
    num_steps: Int[Array, ""]
    converged: Bool[Array, ""]


class MinMax(NamedTuple):
    """The energy E(γ, λ) of a problem at power α > 0."""

    family: FullSites
    alpha: Float[Array, ""]
    num_nodes: int

    def energy(self, sites: Natural, marginal: Natural, centers: Centers) -> Float[Array, ""]:
        """E(γ, λ) with nodes at given centers."""
        tilted = tilted_at(
            self.family.factors, self._base(sites, marginal), self._alphas, centers, self.num_nodes
        )
        ratio = jnp.where(tilted.exists, tilted.log_normalizer, jnp.nan) - marginal.log_normalizer
        return -self.family.moments(sites).log_normalizer - jnp.sum(ratio) / self.alpha

    def tilted(
        self, sites: Natural, marginal: Natural, centers: Centers
    ) -> tuple[Tilted, Centers]:
        """The tilted distributions, with nodes moved to them."""
        base = self._base(sites, marginal)
        return tilted_moments(
            self.family.factors, base, self._alphas, centers, self.num_nodes
        )

    @property
    def _alphas(self) -> Array:
        return jnp.full(len(self.family.projections.offset), self.alpha)

    def _base(self, sites: Natural, marginal: Natural) -> Natural:
        return Natural(
            marginal.precision - self.alpha * sites.precision,
            marginal.shift - self.alpha * sites.shift,
        )


def solve(problem: MinMax, max_steps: int, tolerance: Array) -> Outer:
    """Outer steps from the prior until the moments of γ and of the tilted distributions agree."""
    sites = problem.family.start()
    marginal = problem.family.moments(sites).marginal

    def body(state: Outer) -> Outer:
        inner = _inner_loop(problem, state.sites, state.marginal, state.centers, tolerance)
        tilted, centers = problem.tilted(inner.sites, state.marginal, inner.centers)
        gap = jnp.max(
            jnp.abs(moment_gap(state.marginal, tilted.mean, tilted.variance, tilted.exists))
        )
        precision = 1 / tilted.variance
        return Outer(
            inner.sites,
            Natural(precision, precision * tilted.mean),
            centers,
            state.energies.at[state.num_steps].set(inner.value),
            gap,
            state.num_steps + 1,
            (gap <= tolerance * jnp.minimum(problem.alpha, 1.0))
            & (inner.gap <= tolerance)
            & jnp.all(tilted.exists),
        )

    start = Outer(
        sites,
        marginal,
        problem.family.start_centers(),
        jnp.full(max_steps, jnp.nan),
        jnp.array(jnp.inf),
        jnp.array(0),
        jnp.array(False),
    )
    return jax.lax.while_loop(
        lambda state: (state.num_steps < max_steps) & ~state.converged & ~jnp.isnan(state.gap),
        body,
        start,
    )


def _inner_loop(
    problem: MinMax, sites: Natural, marginal: Natural, centers: Centers, tolerance: Array
) -> Inner:
    """The sites that maximize the energy for fixed γ, by Newton's method."""

    def body(state: Inner) -> Inner:
        tilted, centers = problem.tilted(state.sites, marginal, state.centers)
        value = problem.energy(state.sites, marginal, centers)
        direction = _newton_direction(problem, state.sites, marginal, centers, tilted)
        sites, is_moving = _line_search(problem, state.sites, direction, marginal, centers, value)
        q = problem.family.moments(state.sites).marginal
        gap = jnp.max(jnp.abs(moment_gap(q, tilted.mean, tilted.variance, tilted.exists)))
        is_done = gap <= INNER_SHARE * tolerance
        sites = jax.tree.map(lambda new, old: jnp.where(is_done, old, new), sites, state.sites)
        return Inner(sites, centers, value, gap, state.count + 1, is_moving & ~is_done)

    infinite = jnp.array(jnp.inf)
    start = Inner(sites, centers, -infinite, infinite, jnp.array(0), jnp.array(True))
    return jax.lax.while_loop(
        lambda state: state.is_moving & (state.count < MOST_NEWTON_STEPS), body, start
    )


def _newton_direction(
    problem: MinMax, sites: Natural, marginal: Natural, centers: Centers, tilted: Tilted
) -> Natural:
    """The Newton step of the sites, by conjugate gradients on −∂²E."""

    def slope(sites: Natural) -> Natural:
        return jax.grad(problem.energy)(sites, marginal, centers)

    def curvature(change: Natural) -> Natural:
        _, bent = jax.jvp(slope, (sites,), (change,))
        return jax.tree.map(jnp.negative, bent)

    q = problem.family.moments(sites).marginal
    blocks = _statistics_covariance(q.mean, 1 / q.precision)
    of_tilted = _statistics_covariance(tilted.mean, tilted.variance)
    blocks = tuple(a + problem.alpha * b for a, b in zip(blocks, of_tilted, strict=True))

    def precondition(vector: Natural) -> Natural:
        squares, mixed, linear = blocks
        determinant = squares * linear - jnp.square(mixed)
        return Natural(
            (linear * vector.precision - mixed * vector.shift) / determinant,
            (squares * vector.shift - mixed * vector.precision) / determinant,
        )

    return jax.scipy.sparse.linalg.cg(
        curvature, slope(sites), M=precondition, tol=1e-6, maxiter=MOST_CG_STEPS
    )[0]


def _statistics_covariance(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Variance of −½g², covariance of it with g, and variance of g, for Gaussian g."""
    return (
        0.5 * jnp.square(variance) + jnp.square(mean) * variance,
        -mean * variance,
        variance,
    )


def _line_search(
    problem: MinMax,
    sites: Natural,
    direction: Natural,
    marginal: Natural,
    centers: Centers,
    value: Array,
) -> tuple[Natural, Bool[Array, ""]]:
    """The first of the halved steps that raises the energy, and whether there is one."""

    def at(step: Array) -> Natural:
        return jax.tree.map(lambda start, change: start + step * change, sites, direction)

    def raises(step: Array) -> Array:
        found, near = problem.tilted(at(step), marginal, centers)
        return jnp.all(found.exists) & (problem.energy(at(step), marginal, near) > value)

    def body(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        step, _, count = state
        step = 0.5 * step
        return step, raises(step), count + 1

    one = jnp.array(1.0)
    step, is_up, _ = jax.lax.while_loop(
        lambda state: ~state[1] & (state[2] < MOST_HALVINGS), body, (one, raises(one), 0)
    )
    return jax.tree.map(lambda new, old: jnp.where(is_up, new, old), at(step), sites), is_up
