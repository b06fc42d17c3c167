"""Stochastic EP and averaged EP: one site shared by all data (Li et al. 2015)."""

import math
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from bbalpha.convergence import ConvergenceWarning
from bbalpha.distributions import FullGaussian
from bbalpha.engine.checks import as_keys, check_counts, warn
from bbalpha.message_passing.arguments import (
    GaussianFamily,
    Problem,
    ProjectedLikelihood,
    check_positive,
    check_power,
    held,
    prepare,
)
from bbalpha.message_passing.iteration import moved, select
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.results import Found, caller_dtype, cast, is_traced, posterior_of
from bbalpha.message_passing.tied_sites import (
    DiagonalTied,
    FullTied,
    Sums,
    tied_energy,
    tied_sites,
)
from bbalpha.message_passing.tilted import NUM_NODES, Natural
from bbalpha.posterior import Posterior

CHUNK = 4096  # rows whose projections are in memory at once
CONSTANT_EPOCHS = 5  # after these, the step falls as 1/epoch
TURNS = 7_368_787  # a prime: the rows k·turn mod N are all rows, unless it divides N
STEP_FLOOR = 1e-3
AVERAGED_TOLERANCE, STOCHASTIC_TOLERANCE = 1e-7, 5e-3  # posterior deviations


def stochastic_ep(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    key: Key[Array, ""],
    prior: Any = 1.0,
    alpha: Any = 1.0,
    hyperparams: PyTree = None,
    family: GaussianFamily = FullGaussian,
    batch_size: int = 32,
    tolerance: float = STOCHASTIC_TOLERANCE,
    max_epochs: int = 500,
    num_nodes: int = NUM_NODES,
) -> Posterior:
    """The posterior of (power) stochastic EP, which keeps one site for all data.

    Each batch moves the site towards the average of the natural parameters that match its tilted
    distributions, by a step equal to its share of the data; after five epochs, steps shrink. Apart
    from the data, memory does not grow with the number of rows. Stochastic EP has no energy of its
    own: `posterior.energy` is the power-EP energy with all sites equal, which is the BB-α energy of
    q (eq. 9), and `info.energies` has running estimates.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        key: randomness of the order of rows.
        prior: as for `power_ep`.
        alpha: the power, any number except 0; at most the number of rows.
        hyperparams: as for `power_ep`.
        family: `bb.FullGaussian` or `bb.DiagonalGaussian`.
        batch_size: rows per update.
        tolerance: how far, in posterior deviations, an epoch may still move q at the end.
        max_epochs: the most passes over the data.
        num_nodes: quadrature nodes per datum.

    Raises:
        ValueError: if an argument breaks its rule.
        TypeError: if an argument is of the wrong kind.

    >>> inputs = jnp.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [1.0, -0.5]])
    >>> labels = jnp.array([1.0, 0.0, 1.0, 0.0])
    >>> posterior = bb.stochastic_ep(
    ...     bb.Probit(), inputs, labels, batch_size=1, key=jax.random.key(0)
    ... )
    >>> posterior.info.stopped
    'converged'
    """
    check_counts(batch_size=batch_size)
    key = as_keys(key, 0, "key")
    schedule = Schedule(batch_size, max_epochs, num_nodes, is_averaged=False)
    arguments = (log_likelihood, inputs, targets, prior, hyperparams, family)
    return _tied("stochastic_ep", arguments, alpha, schedule, tolerance, key)


def averaged_ep(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    prior: Any = 1.0,
    alpha: Any = 1.0,
    hyperparams: PyTree = None,
    family: GaussianFamily = FullGaussian,
    tolerance: float = AVERAGED_TOLERANCE,
    max_sweeps: int = 500,
    num_nodes: int = NUM_NODES,
) -> Posterior:
    """The posterior of (power) averaged EP: stochastic EP with all data in every update.

    It is the limit of `stochastic_ep` for small steps, without its noise (Dehaene & Barthelmé).
    `posterior.energy` is the same as there; each of `info.energies` is exact.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        prior: as for `power_ep`.
        alpha: the power, any number except 0; at most the number of rows.
        hyperparams: as for `power_ep`.
        family: `bb.FullGaussian` or `bb.DiagonalGaussian`.
        tolerance: how far, in posterior deviations, a sweep may still move q at the end.
        max_sweeps: the most passes over the data.
        num_nodes: quadrature nodes per datum.

    Raises:
        ValueError: if an argument breaks its rule.
        TypeError: if an argument is of the wrong kind.

    >>> inputs = jnp.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [1.0, -0.5]])
    >>> labels = jnp.array([1.0, 0.0, 1.0, 0.0])
    >>> posterior = bb.averaged_ep(bb.Probit(), inputs, labels)
    >>> posterior.info.stopped
    'converged'
    """
    schedule = Schedule(CHUNK, max_sweeps, num_nodes, is_averaged=True)
    arguments = (log_likelihood, inputs, targets, prior, hyperparams, family)
    return _tied("averaged_ep", arguments, alpha, schedule, tolerance, jax.random.key(0))


class Schedule(NamedTuple):
    """How passes over the data are divided, as static numbers."""

    batch_size: int
    max_epochs: int
    num_nodes: int
    is_averaged: bool


class Passes(NamedTuple):
    """The state of the loop over passes."""

    site: Natural
    step: Float[Array, ""]
    gap: Float[Array, ""]
    energies: Float[Array, " epochs"]
    skipped: Int[Array, " epochs"]
    num_epochs: Int[Array, ""]
    converged: Bool[Array, ""]


def _tied(
    name: str,
    arguments: tuple[Any, ...],
    alpha: Any,
    schedule: Schedule,
    tolerance: float,
    key: Key[Array, ""],
) -> Posterior:
    check_power(alpha, name)
    check_counts(max_epochs=schedule.max_epochs, num_nodes=schedule.num_nodes)
    check_positive(tolerance=tolerance)
    dtype, began = caller_dtype(), time.perf_counter()
    with in_double_precision():
        problem = prepare(*arguments)
        check_share(alpha, problem.num_data)
        numbers = (jnp.asarray(alpha, float), jnp.asarray(tolerance, float), key)
        schedule = schedule._replace(batch_size=min(schedule.batch_size, problem.num_data))
        found = run(tied_program, problem, numbers, schedule, dtype)
        stopped = "traced" if is_traced(found) else _ending(name, found, schedule.max_epochs)
    seconds = time.perf_counter() - began
    return posterior_of(found, problem, alpha, arguments[4], seconds, stopped)


def tied_program(
    problem: Problem, numbers: tuple[Array, Array, Array], schedule: Schedule, dtype: str
) -> Found:
    """The compiled part."""
    alpha, tolerance, key = numbers
    family = tied_sites(held(problem))
    run_pass = averaged_pass if schedule.is_averaged else stochastic_pass
    num_data = problem.num_data

    def body(state: Passes) -> Passes:
        turn = jax.random.randint(jax.random.fold_in(key, state.num_epochs), (2,), 0, num_data)
        site, sums = run_pass(family, state, alpha, turn, schedule)
        q, after = (family.posterior(part, num_data) for part in (state.site, site))
        cavity = family.posterior(site, num_data - alpha)
        is_fine = jnp.isfinite(family.log_normalizer(after) + family.log_normalizer(cavity))
        gap = family.gap(q, after) / state.step
        energy = tied_energy(family, q, family.posterior(state.site, num_data - alpha), alpha, sums)
        is_better = is_fine & (gap < state.gap)
        return Passes(
            select(is_fine, site, state.site),
            _next_step(state, is_fine, is_better, schedule),
            jnp.where(is_fine, gap, state.gap),
            state.energies.at[state.num_epochs].set(energy),
            state.skipped.at[state.num_epochs].set(sums.skipped.astype(int)),
            state.num_epochs + 1,
            is_fine & (gap <= tolerance) & (sums.skipped == 0),
        )

    state = jax.lax.while_loop(
        lambda state: (
            (state.num_epochs < schedule.max_epochs) & ~state.converged & (state.step > STEP_FLOOR)
        ),
        body,
        _first_pass(family, schedule),
    )
    q = family.distribution(family.posterior(state.site, num_data))
    energy = energy_of_site(family, state.site, alpha, schedule)
    q, prior, energy = cast((q, problem.prior.distribution, energy), dtype)
    count, converged = state.num_epochs, state.converged
    return Found(q, prior, energy, None, state.energies, state.skipped, count, converged)


def _first_pass(family: FullTied | DiagonalTied, schedule: Schedule) -> Passes:
    return Passes(
        site=family.start(),
        step=jnp.array(1.0),
        gap=jnp.array(jnp.inf),
        energies=jnp.full(schedule.max_epochs, jnp.nan),
        skipped=jnp.zeros(schedule.max_epochs, int),
        num_epochs=jnp.array(0),
        converged=jnp.array(False),
    )


def stochastic_pass(
    family: FullTied | DiagonalTied,
    state: Passes,
    alpha: Array,
    turn: Int[Array, "two"],
    schedule: Schedule,
) -> tuple[Natural, Sums]:
    """One epoch: the site moves after every batch."""
    num_data = len(family.rows.problem.inputs)

    def visit(carry: tuple[Natural, Sums], number: Array) -> tuple[tuple[Natural, Sums], None]:
        site, total = carry
        places, weights = batch_places(number, num_data, schedule.batch_size)
        places = (places * TURNS + turn[0]) % num_data
        cavity = family.posterior(site, num_data - alpha)
        sums = family.site_sums(cavity, alpha, places, weights, schedule.num_nodes)
        weight = jnp.maximum(sums.weight, 1.0)
        target = Natural(sums.square / weight, sums.linear / weight)
        rate = state.step * sums.weight / num_data
        after = moved(site, target, rate)
        is_fine = jnp.isfinite(
            family.log_normalizer(family.posterior(after, num_data - alpha))
            + family.log_normalizer(family.posterior(after, num_data))
        )
        return (select(is_fine, after, site), total + sums), None

    count = math.ceil(num_data / schedule.batch_size)
    start = (state.site, no_sums(state.site))
    return jax.lax.scan(visit, start, jnp.arange(count))[0]


def averaged_pass(
    family: FullTied | DiagonalTied,
    state: Passes,
    alpha: Array,
    turn: Int[Array, "two"],
    schedule: Schedule,
) -> tuple[Natural, Sums]:
    """One sweep: the site moves once, towards the average over all data."""
    del turn
    cavity = family.posterior(state.site, len(family.rows.problem.inputs) - alpha)
    sums = all_sums(family.site_sums, family, cavity, alpha, schedule)
    weight = jnp.maximum(sums.weight, 1.0)
    target = Natural(sums.square / weight, sums.linear / weight)
    return moved(state.site, target, state.step), sums


def all_sums(
    sums_of: Any,
    family: FullTied | DiagonalTied,
    cavity: Natural,
    alpha: Array,
    schedule: Schedule,
) -> Sums:
    """Sums over all data for one cavity, one chunk of rows at a time."""
    num_data = len(family.rows.problem.inputs)
    chunk = min(CHUNK, num_data)

    def visit(total: Sums, number: Array) -> tuple[Sums, None]:
        places, weights = batch_places(number, num_data, chunk)
        return total + sums_of(cavity, alpha, places, weights, schedule.num_nodes), None

    count = math.ceil(num_data / chunk)
    return jax.lax.scan(visit, no_sums(cavity), jnp.arange(count))[0]


def energy_of_site(
    family: FullTied | DiagonalTied, site: Natural, alpha: Array, schedule: Schedule
) -> Float[Array, ""]:
    """The BB-α energy of q on all data."""
    num_data = len(family.rows.problem.inputs)
    cavity = family.posterior(site, num_data - alpha)
    sums = all_sums(family.site_sums, family, cavity, alpha, schedule)
    return tied_energy(family, family.posterior(site, num_data), cavity, alpha, sums)


def batch_places(number: Array, num_data: int, size: int) -> tuple[Array, Array]:
    """The rows of a batch, and weights that are 0 where the last batch is short."""
    places = number * size + jnp.arange(size)
    return jnp.minimum(places, num_data - 1), (places < num_data).astype(float)


def no_sums(like: Natural) -> Sums:
    """Sums over no data."""
    zero = jnp.zeros(())
    return Sums(jnp.zeros_like(like.precision), jnp.zeros_like(like.shift), zero, zero, zero)


def check_share(alpha: Any, num_data: int) -> None:
    """Raise if the power would remove more than all sites."""
    if not isinstance(alpha, Tracer) and alpha >= num_data:
        raise ValueError(
            "alpha must be less than the number of data points, because all share one site; "
            f"got alpha={alpha} with {num_data} data points."
        )


def _next_step(state: Passes, is_fine: Array, is_better: Array, schedule: Schedule) -> Array:
    """Fixed by the epoch for batches; adapted to what happened for full sweeps."""
    if schedule.is_averaged:
        adapted = jnp.where(is_better, 1.1, 0.5) * state.step
        return jnp.where(jnp.isinf(state.gap) & is_fine, state.step, jnp.minimum(adapted, 1.0))
    planned = jnp.minimum(1.0, CONSTANT_EPOCHS / (state.num_epochs + 1.0))
    return jnp.where(is_fine, planned, 0.5 * state.step)


def _ending(name: str, found: Found, max_epochs: int) -> str:
    """Why the passes ended; warns if they did not converge."""
    if found.converged:
        return "converged"
    count = int(found.num_sweeps)
    skipped = int(np.asarray(found.skipped)[count - 1])
    reason = f"and left {skipped} sites as they were" if skipped else "still moved q"
    warn(f"{name} did not converge: the last of {count} passes {reason}.", ConvergenceWarning)
    return "finished" if count >= max_epochs else "diverged"
