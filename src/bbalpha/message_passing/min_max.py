"""EP as a min-max problem (Appendix A), solved so that the energy falls at every outer step.

Let γₙ be the marginals of the projections, in natural parameters, and γₙ − α λₙ the cavities. Then

    E(γ, λ) = − log Z_q(λ) − (1/α) Σₙ [log ∫ pₙ^α exp(s·(γₙ − α λₙ)) − log Z(γₙ)]

is concave in the sites λ. The inner loop maximizes over λ by Newton steps; at the maximum, the
moments of q and of the tilted distributions agree. The maximum minus Σ log Z(γₙ)/α is concave in γ,
so setting γ to those moments (the outer step) lowers the energy (Heskes & Zoeter 2002; Opper &
Winther 2005). The start is the q of variational message passing: with the wide marginals of the
prior, the maximum could lie where cavities are improper.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from bbalpha.message_passing.iteration import moved, select
from bbalpha.message_passing.sites import FullSites, moment_gap
from bbalpha.message_passing.tilted import Centers, Natural, PerDatum, Tilted, tilted_moments

MOST_INNER_STEPS = 300
SMALLEST_STEP = 1e-9
DENSE = 1000  # most sites for which Newton's equations are solved directly
INNER_SHARE = 2.0  # tolerance of the inner loop, relative to that of the outer loop
INNER_GAP = 1e-5  # posterior deviations; with a larger gap, an energy does not count
FASTER, MOST_FAST, SLOWEST = 1.3, 30.0, 1e-3  # outer steps, relative to the safe one
ROUNDING = 1e-12  # relative; of energies


class Inner(NamedTuple):
    """The state of the inner loop: the best sites so far, and the step to try from them."""

    sites: Natural
    tilted: Tilted
    centers: Centers
    value: Float[Array, ""]
    direction: Natural
    step: Float[Array, ""]
    gap: Float[Array, ""]
    num_tried: Int[Array, ""]


class Outer(NamedTuple):
    """The state of the outer loop: the accepted γ with its inner optimum, and the next γ."""

    sites: Natural
    centers: Centers
    energy: Float[Array, ""]
    marginal: Natural
    safe: Natural  # the result of the safe outer step
    speed: Float[Array, ""]
    energies: Float[Array, " steps"]
    num_steps: Int[Array, ""]
    converged: Bool[Array, ""]


class MinMax(NamedTuple):
    """The energy E(γ, λ) of a problem at power α > 0."""

    family: FullSites
    alpha: Float[Array, ""]
    num_nodes: int

    def at(
        self, sites: Natural, marginal: Natural, centers: Centers
    ) -> tuple[Float[Array, ""], Tilted, Centers]:
        """E(γ, λ), or NaN where it is not defined, and the tilted distributions."""
        base = Natural(
            *(whole - self.alpha * site for whole, site in zip(marginal, sites, strict=True))
        )
        alphas = jnp.full(len(base.shift), self.alpha)
        tilted, centers = tilted_moments(self.family.factors, base, alphas, centers, self.num_nodes)
        ratio = jnp.where(tilted.exists, tilted.log_normalizer, jnp.nan) - marginal.log_normalizer
        value = -self.family.moments(sites).log_normalizer - jnp.sum(ratio) / self.alpha
        return value, tilted, centers

    def newton(self, sites: Natural, tilted: Tilted) -> Natural:
        """A Newton step of the sites: differences of moments over covariances of statistics.

        The statistics are −½g² and g. For tilted distributions, their covariances are those of a
        Gaussian with the same mean and variance.
        """
        half, mean = self.family.half_and_mean(sites)
        variance = jnp.sum(jnp.square(half), axis=0)
        seconds = tilted.variance - variance + jnp.square(tilted.mean) - jnp.square(mean)
        slope = Natural(-0.5 * seconds, tilted.mean - mean)
        own = _covariances(tilted.variance, tilted.mean, tilted.mean)
        own = tuple(self.alpha * part for part in own)
        if len(mean) > DENSE:
            of_q = _covariances(variance, mean, mean)
            return _solved_in_pairs([a + b for a, b in zip(of_q, own, strict=True)], slope)
        of_q = _covariances(half.T @ half, mean[:, None], mean[None])
        squares, mixed, linear = (a + jnp.diag(b) for a, b in zip(of_q, own, strict=True))
        matrix = jnp.block([[squares, mixed], [mixed.T, linear]])
        change = jax.scipy.linalg.solve(matrix, jnp.concatenate(slope), assume_a="pos")
        return Natural(change[: len(mean)], change[len(mean) :])


def solve(problem: MinMax, start: Natural, max_steps: int, tolerance: Array) -> Outer:
    """Outer steps from given sites until the moments of γ and of the tilted distributions agree.

    Steps longer than the safe one are tried too, and undone if the energy does not fall.
    """
    alpha = problem.alpha

    def body(state: Outer) -> Outer:
        marginal = moved(state.marginal, state.safe, state.speed)
        keeps = jnp.all(marginal.precision > alpha * state.sites.precision)
        sites = select(keeps, state.sites, problem.family.start())  # always proper
        inner = _inner_loop(problem, sites, marginal, state.centers, tolerance)
        tilted = inner.tilted
        gaps = moment_gap(marginal, tilted.mean, tilted.variance, tilted.exists)
        allowed = state.energy + ROUNDING * jnp.abs(inner.value)
        # Before it reaches the maximum, the inner loop shows an energy that is too low.
        is_lower = (inner.value <= allowed) & (inner.gap <= INNER_GAP)
        is_lower &= jnp.all(marginal.precision > 0)
        precision = 1 / tilted.variance
        safe = Natural(precision, precision * tilted.mean)
        speed = jnp.minimum(FASTER * jnp.maximum(state.speed, 1.0), MOST_FAST)
        slower = jnp.where(state.speed > 1, 1.0, 0.5 * state.speed)
        is_matched = jnp.max(jnp.abs(gaps)) <= tolerance * jnp.minimum(alpha, 1.0)
        found = state._replace(
            sites=inner.sites,
            centers=inner.centers,
            energy=inner.value,
            marginal=marginal,
            safe=safe,
            speed=speed,
            converged=is_matched & (inner.gap <= INNER_SHARE * tolerance),
        )
        kept = select(is_lower, found, state._replace(speed=slower))
        energies = state.energies.at[state.num_steps].set(kept.energy)
        return kept._replace(energies=energies, num_steps=state.num_steps + 1)

    return jax.lax.while_loop(
        lambda state: (state.num_steps < max_steps) & ~state.converged & (state.speed > SLOWEST),
        body,
        _first_outer(problem, start, max_steps),
    )


def _first_outer(problem: MinMax, sites: Natural, max_steps: int) -> Outer:
    """The state before the first outer step, which does not change γ."""
    marginal = problem.family.moments(sites).marginal
    return Outer(
        sites=sites,
        centers=Centers(marginal.mean, 1 / jnp.sqrt(marginal.precision)),
        energy=jnp.array(jnp.inf),
        marginal=marginal,
        safe=marginal,
        speed=jnp.array(1.0),
        energies=jnp.full(max_steps, jnp.nan),
        num_steps=jnp.array(0),
        converged=jnp.array(False),
    )


def _inner_loop(
    problem: MinMax, sites: Natural, marginal: Natural, centers: Centers, tolerance: Array
) -> Inner:
    """The sites that maximize the energy at fixed γ: Newton steps, halved until they raise it."""

    def body(state: Inner) -> Inner:
        sites = jax.tree.map(
            lambda x, change: x + state.step * change, state.sites, state.direction
        )
        value, tilted, centers = problem.at(sites, marginal, state.centers)
        is_higher = value > state.value
        q = problem.family.moments(sites).marginal
        gap = jnp.max(jnp.abs(moment_gap(q, tilted.mean, tilted.variance, tilted.exists)))
        # Energies may agree up to rounding while moments still improve.
        is_equal = jnp.abs(value - state.value) <= ROUNDING * jnp.abs(value)
        is_better = is_higher | (is_equal & (gap < state.gap))
        found = Inner(
            sites,
            tilted,
            centers,
            value,
            problem.newton(sites, tilted),
            jnp.array(1.0),
            gap,
            state.num_tried + 1,
        )
        tried = state._replace(step=0.5 * state.step, num_tried=state.num_tried + 1)
        return select(is_better, found, tried)

    nothing = jax.tree.map(jnp.zeros_like, sites)
    unknown = Tilted(
        nothing.shift, nothing.shift, nothing.shift, jnp.zeros(len(nothing.shift), bool)
    )
    infinite, one = jnp.array(jnp.inf), jnp.array(1.0)
    start = Inner(sites, unknown, centers, -infinite, nothing, one, infinite, jnp.array(0))
    return jax.lax.while_loop(
        lambda state: (
            (state.gap > INNER_SHARE * tolerance)
            & (state.step > SMALLEST_STEP)
            & (state.num_tried < MOST_INNER_STEPS)
        ),
        body,
        start,
    )


def _covariances(covariance: Array, mean: Array, other: Array) -> tuple[Array, Array, Array]:
    """Covariances of −½g² and −½h², of −½g² and h, and of g and h, for Gaussian g and h."""
    return (
        0.5 * jnp.square(covariance) + mean * other * covariance,
        -mean * covariance,
        covariance,
    )


def _solved_in_pairs(blocks: list[PerDatum], slope: Natural) -> Natural:
    """The solution of a 2 × 2 system for each datum."""
    squares, mixed, linear = blocks
    determinant = squares * linear - jnp.square(mixed)
    return Natural(
        (linear * slope.precision - mixed * slope.shift) / determinant,
        (squares * slope.shift - mixed * slope.precision) / determinant,
    )
