"""The loop of power EP: sweeps with automatic damping, and why it ended.

All sites move together towards those that match the tilted moments. The step grows while successive
sweeps agree in direction and shrinks when they turn around or q becomes improper. Convergence is
judged by how far tilted moments are from those of q, which no damping makes look smaller.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bbalpha.message_passing.sites import Pass
from bbalpha.message_passing.tilted import Centers

GROW, SHRINK = 1.25, 0.6  # of the step, when sweeps agree in direction or turn around
AGREE, TURN = 0.2, -0.2  # cosine of the angle between successive gaps
SMALLEST_STEP = 1e-4
ROUNDING = 1e-12  # of moments
WARM_SWEEPS = 10  # at α = 1 before the first at a negative α, whose cavities need sites


@runtime_checkable
class Family(Protocol):
    """What the loop asks of a family of sites."""

    def start(self) -> Any:
        """Sites that say nothing."""
        ...

    def start_centers(self) -> Centers:
        """Where quadrature nodes are placed first."""
        ...

    def sweep(self, sites: Any, alpha: Array, centers: Centers, num_nodes: int) -> Pass:
        """One pass over all data for fixed sites."""
        ...


class Settings(NamedTuple):
    """What a run of sweeps needs to know; `step` is fixed if it is positive."""

    max_sweeps: int
    num_nodes: int
    tolerance: Float[Array, ""]
    step: Float[Array, ""]


class Trace(NamedTuple):
    """Per sweep: the energy, the largest gap between moments, and how many sites were skipped."""

    energies: Float[Array, " sweeps"]
    gaps: Float[Array, " sweeps"]
    skipped: Int[Array, " sweeps"]


class State(NamedTuple):
    """What the next sweep needs; `accepted` is the last pass whose q was proper."""

    sites: Any
    accepted: Pass
    step: Float[Array, ""]
    previous_gap: Float[Array, "two data ..."]
    trace: Trace
    num_sweeps: Int[Array, ""]
    converged: Bool[Array, ""]


class Outcome(NamedTuple):
    """Where the sweeps ended."""

    sites: Any
    last: Pass
    trace: Trace
    num_sweeps: Int[Array, ""]
    converged: Bool[Array, ""]


def iterate(family: Family, alpha: Array, settings: Settings, start: Any = None) -> Outcome:
    """Sweep until the moments match, the step vanishes, or the budget is used up."""
    sites = family.start() if start is None else start
    warm = jnp.where((alpha < 0) & (start is None), WARM_SWEEPS, 0)

    def alpha_at(sweep: Int[Array, ""]) -> Array:
        return jnp.where(sweep < warm, 1.0, alpha)

    def body(state: State) -> State:
        sites = moved(state.sites, state.accepted.target, state.step)
        power, centers = alpha_at(state.num_sweeps), state.accepted.centers
        found = family.sweep(sites, power, centers, settings.num_nodes)
        is_fine = found.is_proper & jnp.isfinite(found.energy)
        is_kept = is_fine | (state.num_sweeps == 0)
        kept = select(is_kept, found, state.accepted)
        matched = mismatch(found) <= _least_gap(alpha, settings.tolerance)
        return State(
            select(is_kept, sites, state.sites),
            kept,
            _next_step(state, found, is_fine, settings.step),
            kept.gap,
            _noted(state.trace, state.num_sweeps, found),
            state.num_sweeps + 1,
            matched & is_fine & jnp.all(found.exists) & (state.num_sweeps >= warm),
        )

    def goes_on(state: State) -> Array:
        budget = state.num_sweeps < settings.max_sweeps
        return budget & ~state.converged & (state.step > SMALLEST_STEP)

    nothing = _no_pass(family, sites, alpha, settings.num_nodes)
    step = jnp.where(settings.step > 0, settings.step, 1.0)
    trace = _empty_trace(settings.max_sweeps + 1)
    state = State(sites, nothing, step, nothing.gap, trace, jnp.array(0), jnp.array(False))
    state = jax.lax.while_loop(goes_on, body, state)
    return Outcome(state.sites, state.accepted, state.trace, state.num_sweeps, state.converged)


def moved(start: PyTree, target: PyTree, step: Array) -> PyTree:
    """The point a step from the start to the target."""
    return jax.tree.map(lambda old, new: old + step * (new - old), start, target)


def select(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    """One of two trees, by a traced condition."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def mismatch(found: Pass) -> Float[Array, ""]:
    """The largest gap between moments of tilted distributions and q, had all powers been 1.

    A tilted distribution of small power differs little from q, whatever the sites are.
    """
    powers = jnp.minimum(jnp.abs(found.alpha), 1.0)
    powers = powers.reshape(1, -1, *(1,) * (found.gap.ndim - 2))
    return jnp.max(jnp.abs(found.gap) / powers)


def _least_gap(alpha: Array, tolerance: Array) -> Array:
    """The tolerance, or what rounding leaves of a gap at small powers."""
    return jnp.maximum(tolerance, ROUNDING / jnp.minimum(jnp.abs(alpha), 1.0))


def _next_step(state: State, found: Pass, is_fine: Array, fixed: Array) -> Float[Array, ""]:
    """The step of the next sweep: adapted, unless one was given."""
    old, new = state.previous_gap, found.gap
    lengths = jnp.sqrt(jnp.sum(jnp.square(old)) * jnp.sum(jnp.square(new)))
    cosine = jnp.sum(old * new) / jnp.maximum(lengths, jnp.finfo(lengths.dtype).tiny)
    factor = jnp.where(cosine > AGREE, GROW, jnp.where(cosine < TURN, SHRINK, 1.0))
    factor = jnp.where(jnp.max(jnp.abs(new)) > 2 * jnp.max(jnp.abs(old)), SHRINK, factor)
    factor = jnp.where(state.num_sweeps == 0, 1.0, factor)  # nothing to compare with
    adapted = jnp.where(is_fine, jnp.minimum(factor * state.step, 1.0), 0.5 * state.step)
    # A step that was asked for is kept; an improper q then ends the run.
    return jnp.where(fixed > 0, jnp.where(is_fine, fixed, 0.0), adapted)


def _no_pass(family: Family, sites: Any, alpha: Array, num_nodes: int) -> Pass:
    """What stands for a pass before the first: its target is the start."""
    centers = family.start_centers()
    shapes = jax.eval_shape(lambda: family.sweep(sites, alpha, centers, num_nodes))
    empty = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return empty._replace(target=sites, centers=centers)


def _empty_trace(length: int) -> Trace:
    return Trace(jnp.full(length, jnp.nan), jnp.full(length, jnp.nan), jnp.zeros(length, int))


def _noted(trace: Trace, place: Int[Array, ""], found: Pass) -> Trace:
    return Trace(
        trace.energies.at[place].set(found.energy),
        trace.gaps.at[place].set(mismatch(found)),
        trace.skipped.at[place].set(jnp.sum(~found.exists)),
    )
