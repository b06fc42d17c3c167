"""The loop of power EP: sweeps with automatic damping, and why it ended.

All sites move together towards the sites that match the tilted moments. The step grows while
successive sweeps agree in direction, and shrinks when they reverse or q becomes improper.
Convergence is judged by the distance of the tilted moments from those of q, which damping does not
affect.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from bbalpha.message_passing.sites import Pass
from bbalpha.message_passing.tilted import Centers

GROW, SHRINK = 1.25, 0.6  # factors on the step when sweeps agree in direction or reverse
AGREE, TURN = 0.2, -0.2  # cosine of the angle between successive gaps
SMALLEST_STEP = 1e-4
ROUNDING = 1e-12  # of moments
WARM_SWEEPS = 10  # at α = 1 before sweeps at a negative α, whose cavities need sites


@runtime_checkable
class Family(Protocol):
    """What the loop needs of a family of sites."""

    def start(self) -> Any:
        """Empty sites."""
        ...

    def start_centers(self) -> Centers:
        """The initial places of quadrature nodes."""
        ...

    def sweep(self, sites: Any, alpha: Array, centers: Centers, num_nodes: int) -> Pass:
        """One pass over all data for fixed sites."""
        ...


class Settings(NamedTuple):
    """The settings of a run of sweeps; a positive `step` is kept fixed."""

    max_sweeps: int
    num_nodes: int
    tolerance: Float[Array, ""]
    step: Float[Array, ""]


class Trace(NamedTuple):
    """Per sweep: the energy, the largest gap between moments, and the number of skipped sites."""

    energies: Float[Array, " sweeps"]
    gaps: Float[Array, " sweeps"]
    skipped: Int[Array, " sweeps"]


class State(NamedTuple):
    """The state that the next sweep needs; `accepted` is the last pass with a proper q."""

    sites: Any
    accepted: Pass
    step: Float[Array, ""]
    previous_gap: Float[Array, "two data ..."]
    trace: Trace
    num_sweeps: Int[Array, ""]
    converged: Bool[Array, ""]


class Outcome(NamedTuple):
    """The result of the sweeps."""

    sites: Any
    last: Pass
    trace: Trace
    num_sweeps: Int[Array, ""]
    converged: Bool[Array, ""]


def iterate(family: Family, alpha: Array, settings: Settings) -> Outcome:
    """Sweep until the moments match, the step vanishes, or the budget is used up."""
    warm = jnp.where(alpha < 0, WARM_SWEEPS, 0)

    def sweep_at(sites: Any, centers: Centers, number: Int[Array, ""]) -> Pass:
        power = jnp.where(number < warm, 1.0, alpha)
        return family.sweep(sites, power, centers, settings.num_nodes)

    def body(state: State) -> State:
        sites = moved(state.sites, state.accepted.target, state.step)
        found = sweep_at(sites, state.accepted.centers, state.num_sweeps)
        is_first = state.num_sweeps == 0
        is_fine = found.is_proper & jnp.isfinite(found.energy)
        kept = select(is_fine | is_first, found, state.accepted)
        trace = _noted(state.trace, state.num_sweeps, found)
        matched = mismatch(found) <= _least_gap(alpha, settings.tolerance)
        is_settled = is_fine & jnp.all(found.exists) & (state.num_sweeps >= warm) & ~is_first
        return State(
            select(is_fine, sites, state.sites),
            kept,
            jnp.where(is_first, state.step, _next_step(state, found, is_fine, settings.step)),
            kept.gap,
            trace,
            state.num_sweeps + 1,
            matched & is_settled,
        )

    def goes_on(state: State) -> Array:
        budget = state.num_sweeps < settings.max_sweeps
        return budget & ~state.converged & (state.step > SMALLEST_STEP)

    sites, centers, zero = family.start(), family.start_centers(), jnp.array(0)
    # The loop is compiled once and also does the first sweep, before which nothing is accepted.
    nothing = zeros_like_result(sweep_at, sites, centers, zero)
    nothing = nothing._replace(target=sites, centers=centers)
    step = jnp.where(settings.step > 0, settings.step, 1.0)
    trace = _empty_trace(settings.max_sweeps + 1)
    state = State(sites, nothing, step, nothing.gap, trace, zero, jnp.array(False))
    state = jax.lax.while_loop(goes_on, body, state)
    return Outcome(state.sites, state.accepted, state.trace, state.num_sweeps, state.converged)


def zeros_like_result(function: Callable, *args: Any) -> Any:
    """Zeros in the shape of a function's result."""
    shapes = jax.eval_shape(function, *args)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def moved(start: PyTree, target: PyTree, step: Array) -> PyTree:
    """The point a step from the start to the target."""
    return jax.tree.map(lambda old, new: old + step * (new - old), start, target)


def select(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    """One of two trees, by a traced condition."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def mismatch(found: Pass) -> Float[Array, ""]:
    """The largest gap between the moments of tilted distributions and q, as if all powers were 1.

    The tilted distribution for a small power differs little from q, whatever the sites are, so its
    gap must be scaled up.
    """
    powers = jnp.minimum(jnp.abs(found.alpha), 1.0)
    powers = powers.reshape(1, -1, *(1,) * (found.gap.ndim - 2))
    return jnp.max(jnp.abs(found.gap) / powers)


def _least_gap(alpha: Array, tolerance: Array) -> Array:
    """The tolerance or, at small powers, the gap that is due to rounding."""
    return jnp.maximum(tolerance, ROUNDING / jnp.minimum(jnp.abs(alpha), 1.0))


def _next_step(state: State, found: Pass, is_fine: Array, fixed: Array) -> Float[Array, ""]:
    """The step of the next sweep: adapted, unless one was given."""
    old, new = state.previous_gap, found.gap
    lengths = jnp.sqrt(jnp.sum(jnp.square(old)) * jnp.sum(jnp.square(new)))
    cosine = jnp.sum(old * new) / jnp.maximum(lengths, jnp.finfo(lengths.dtype).tiny)
    factor = jnp.where(cosine > AGREE, GROW, jnp.where(cosine < TURN, SHRINK, 1.0))
    factor = jnp.where(jnp.max(jnp.abs(new)) > 2 * jnp.max(jnp.abs(old)), SHRINK, factor)
    adapted = jnp.where(is_fine, jnp.minimum(factor * state.step, 1.0), 0.5 * state.step)
    # A fixed step never changes; an improper q then ends the run.
    return jnp.where(fixed > 0, jnp.where(is_fine, fixed, 0.0), adapted)


def _empty_trace(length: int) -> Trace:
    return Trace(jnp.full(length, jnp.nan), jnp.full(length, jnp.nan), jnp.zeros(length, int))


def _noted(trace: Trace, place: Int[Array, ""], found: Pass) -> Trace:
    return Trace(
        trace.energies.at[place].set(found.energy),
        trace.gaps.at[place].set(mismatch(found)),
        trace.skipped.at[place].set(jnp.sum(~found.exists)),
    )
