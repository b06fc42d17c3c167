"""From the arguments of `fit` to a run, and from the last state to a posterior with its energy.

These are the helpers of `fitting` and `replicas`: they put the rows on the device, choose batch
size, draws, optimizer and program, begin or resume the run, and compute the energy at the end.
"""

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from bbalpha.convergence import FEW_ROUND_STEPS, FLAT_SHARE, ROUND_STEPS, Convergence
from bbalpha.data import as_weights, check_data, check_weights
from bbalpha.engine.arrays import on_device, on_host
from bbalpha.engine.batches import Rows, no_order, padded_length, padded_rows
from bbalpha.engine.checks import check_alpha, check_counts, check_optional_counts, warn
from bbalpha.engine.chunks import SourceError
from bbalpha.engine.compiling import Compiled, compile_ahead
from bbalpha.engine.epochs import full_energy, quick_steps, run_steps, whole_steps
from bbalpha.engine.limits import MOST
from bbalpha.engine.loop import Plan, Start, start_at
from bbalpha.engine.noise import samples_to_match
from bbalpha.engine.optimizers import Optimizer, decaying_adam
from bbalpha.engine.shards import Failed
from bbalpha.natural import highest_rate, natural_gradients
from bbalpha.posterior import Posterior
from bbalpha.state import FitState
from bbalpha.stopping import ReplicaWatch, Watch
from bbalpha.training import NUM_SAMPLES

NUM_STEPS = 10_000
BATCH_SIZE = 32  # as in the authors' code
WHOLE_ROWS = 2**20  # most rows that a natural-gradient step takes all at once
WHOLE_BYTES = 2**26  # the same limit in bytes, for rows from a source
LARGE_BATCH = 2**13  # rows per natural-gradient step if there are more
SAMPLE_ROWS = 1024  # rows of a source on which the log-likelihood is checked
MOST_SAMPLES = 512  # most draws per natural-gradient step by default
FEWEST_SAMPLES = 32  # fewest, for long steps: with many rows, q is narrow and the noise small
MANY_EPOCHS = 20  # from here on, one more epoch takes little time in comparison
# With at most so many rows times draws, a few hundred natural-gradient steps take less time than
# XLA's newer emitters need to compile them better: at 25,600, a step takes 0.4 instead of 0.3 ms.
SMALL_STEP = 2**16
# With at most so many rows times draws times parameters, XLA's older emitters, which compile twice
# as fast, make steps of other optimizers nearly as fast (docs/benchmarks.md).
SMALL_PRODUCTS = 2**21
# From so many rows times draws on, a step takes a tenth of a second or more, and steps take most of
# the time.
LONG_STEP = 2**23


def prepare_anywhere(
    data: Any, sample_weight: Any, optimizer: Any, batch_size: int | None, num_epochs: int | None
) -> tuple[Any, Plan, PyTree]:
    """The checked data, on the device or to be fed to it; the plan of the run; a sample of rows.

    For data in memory, the sample is all of the rows.
    """
    from bbalpha.runtime.sources import is_source

    if not is_source(data):
        return *prepare(data, sample_weight, optimizer, batch_size, num_epochs), data
    if sample_weight is not None:
        raise ValueError(
            "sample_weight must be None for rows from a file or another source; use an array of "
            "data in memory."
        )
    from bbalpha.runtime.feeding import MOST_READERS, Feed
    from bbalpha.runtime.sources import Blocks, as_source

    check_optional_counts(batch_size=batch_size, num_epochs=num_epochs)
    blocks = Blocks(as_source(data))
    if batch_size is None:
        batch_size = _source_batch(blocks.num_rows, blocks.row_bytes, optimizer == "natural")
    elif batch_size > blocks.num_rows:
        _warn_of_batch_size(batch_size, blocks.num_rows)
    if batch_size >= blocks.num_rows:  # padded, so that each reader has an equal part of it
        batch_size = -(-blocks.num_rows // MOST_READERS) * MOST_READERS
    rows = Feed(blocks, batch_size)
    plan = _plan(rows.batch_size, rows.num_batches, num_epochs)
    return rows, plan, jax.tree.map(lambda leaf: leaf[:SAMPLE_ROWS], blocks.first)


def prepare(
    data: PyTree,
    sample_weight: Any,
    optimizer: Any,
    batch_size: int | None,
    num_epochs: int | None,
    data_axis: int | None = None,
) -> tuple[Rows, Plan]:
    """The checked data on the device, and the plan of the run."""
    num_rows = check_data(data)
    if data_axis is not None:  # the leading axis was the replicas
        num_rows = check_data(jax.tree.map(lambda leaf: leaf[0], data))
    shape = np.shape(jax.tree.leaves(data)[0])[: 1 if data_axis is None else 2]
    sample_weight = np.ones(shape) if sample_weight is None else sample_weight
    sample_weight = as_weights(sample_weight, "sample_weight")
    check_weights(sample_weight, shape, "sample_weight")
    check_optional_counts(batch_size=batch_size, num_epochs=num_epochs)
    batch_size = _used_batch_size(batch_size, num_rows, optimizer == "natural")
    plan = _plan(batch_size, -(-num_rows // batch_size), num_epochs)
    return padded_rows(data, sample_weight), plan


def _plan(batch_size: int, num_batches: int, num_epochs: int | None) -> Plan:
    num_epochs = -(-NUM_STEPS // num_batches) if num_epochs is None else num_epochs
    if num_epochs * num_batches > MOST:
        raise ValueError(
            f"num_epochs must make at most {MOST:,} steps; got num_epochs={num_epochs} with "
            f"{num_batches:,} minibatches each."
        )
    return Plan(batch_size, num_batches, num_epochs)


def _used_batch_size(batch_size: int | None, num_rows: int, natural: bool) -> int:
    num_slots = padded_length(num_rows)
    if batch_size is None and natural:
        return num_slots if num_rows <= WHOLE_ROWS else LARGE_BATCH
    if batch_size is None:
        return min(BATCH_SIZE, num_slots)
    if batch_size > num_slots:
        _warn_of_batch_size(batch_size, num_rows)
    return min(batch_size, num_slots)


def _source_batch(num_rows: int, row_bytes: float, natural: bool) -> int:
    """The default batch size for rows from a source."""
    if not natural:
        return BATCH_SIZE
    fits = num_rows <= WHOLE_ROWS and num_rows * row_bytes <= WHOLE_BYTES
    return num_rows if fits else LARGE_BATCH


def _warn_of_batch_size(batch_size: int, num_rows: int) -> None:
    warn(
        f"batch_size should not exceed the number of data points; got batch_size={batch_size} "
        f"with {num_rows} data points, which now make one batch."
    )


def draws_for(optimizer: Any, params: PyTree, num_samples: int | None, batch_size: int) -> int:
    """The number of draws per step; by default enough for natural gradients to match draws."""
    if num_samples is not None:
        check_counts(num_samples=num_samples)
        return num_samples
    if optimizer != "natural":
        return NUM_SAMPLES
    fewest = FEWEST_SAMPLES if batch_size * NUM_SAMPLES >= LONG_STEP else NUM_SAMPLES
    return min(MOST_SAMPLES, max(fewest, samples_to_match(_size(params))))


def optimizer_for(
    plan: Plan, optimizer: Any, params: PyTree, num_samples: int, draws: str | None
) -> Optimizer:
    """The optimizer; if it was given by name, a new one for this run."""
    match optimizer:
        case "adam":
            return decaying_adam(plan.num_steps)
        case "natural":
            share = 1 / plan.num_batches
            matched = draws in (None, "matched")
            rate = highest_rate(_size(params), num_samples, share, matched)
            return natural_gradients(rate)
        case _:
            return optimizer


def steps_for(plan: Plan, optimizer: Any, params: PyTree, num_samples: int) -> Compiled:
    """The program that takes steps: the quickly compiled one if that costs little or no speed."""
    num_outcomes = plan.batch_size * num_samples
    if optimizer == "natural":
        return quick_steps if num_outcomes <= SMALL_STEP else whole_steps
    is_small = num_outcomes * _size(params) <= SMALL_PRODUCTS
    return quick_steps if is_small else run_steps


def runner_of(
    steps: Compiled, rows: Any, plan: Plan, team: Any = None
) -> tuple[Callable[..., tuple], Any, Plan]:
    """The function that takes steps, and the rows and plan of this process.

    The function runs `steps` or, for rows from a source, the corresponding program.
    """
    if team is not None:
        rows, plan = team.share(rows, plan)
    if not isinstance(rows, Rows):
        return rows.runner(steps.is_rare), rows, plan
    run: Any = steps if team is None else team.over(steps)
    return partial(run, rows=rows, batch_size=plan.batch_size), rows, plan


@contextmanager
def reading(rows: Any, start: Start) -> Iterator[None]:
    """A block in which rows may be read ahead; an error in reading carries the result so far.

    Raises:
        SourceError: If rows cannot be read; holds the posterior after the last good step, if any.
        ProcessError: If another process was lost; holds the same.
    """
    try:
        yield
    except BaseException as error:
        if start.team is not None:
            start.team.leave()
        if isinstance(error, SourceError) and error.state is not None:
            error.step, error.posterior = int(error.state.step), error.state.posterior()
        if not isinstance(error, Failed):
            raise
        from bbalpha.runtime.failures import process_error

        raise process_error(error, start) from error.__cause__
    finally:
        if not isinstance(rows, Rows):
            rows.close()


def _size(params: PyTree) -> int:
    return sum(np.size(leaf) for leaf in jax.tree.leaves(params))


def check_schedule(state: FitState, plan: Plan) -> None:
    """Check the powers that a schedule gives for all steps."""
    if state.method.alpha_schedule is None:  # steps may be too many to list
        return
    powers: Any = _powers(state, np.arange(plan.num_steps))
    worst = float(powers.max() if np.isfinite(powers).all() else np.nan)
    check_alpha(worst, float(state.num_data.min()), state.method.num_samples)


def _powers(state: FitState, steps: np.ndarray) -> np.ndarray | None:
    """The powers that a schedule gives for some steps; None if α is constant."""
    if state.method.alpha_schedule is None:
        return None
    at = partial(state.method.alpha_at, state.alpha.ravel()[0])
    shape = jax.eval_shape(at, state.step.ravel()[0]).shape
    if shape != ():
        raise ValueError(f"alpha must return one number for each step; got shape {shape}.")
    return np.asarray(jax.vmap(at)(jnp.asarray(steps)))


def posterior_at_the_end(
    with_energy: Callable[[], Posterior], without: Callable[[], Posterior], stopped: str
) -> tuple[Posterior, str]:
    """The posterior with its energy on the full data, or with NaN if the run was cut short."""
    if stopped in ("interrupted", "non-finite"):
        return without(), stopped
    try:
        return jax.block_until_ready(with_energy()), stopped
    except KeyboardInterrupt:
        return without(), "interrupted"


def ending(run: Callable, rows: Any, plan: Plan, start: Start, rests: bool) -> Callable:
    """A function from the last state to its posterior with the energy on the full data.

    A step on all rows reports that energy, so one more step is enough; if the rate has fallen to
    zero, so is one more epoch. Otherwise the energy has its own program, which is compiled in the
    background during the run.

    Args:
        run: The function that takes steps.
        rows: The data.
        plan: The plan of the run.
        start: The start of the run.
        rests: Whether the optimizer may have come to rest at the end.
    """
    if not isinstance(rows, Rows):

        def of_source(state: FitState) -> Posterior:
            return dataclasses.replace(state.posterior(), energy=rows.energy(state))

        return of_source
    if plan.batch_size == len(rows.sample_weight):

        def of_next_step(state: FitState) -> Posterior:
            energies = run(state.at_full_alpha(), order=start.order, num_steps=on_device(1))[2]
            return dataclasses.replace(state.posterior(), energy=on_device(on_host(energies)[0]))

        return of_next_step
    team: Any = start.team
    wait = None if rests or team else compile_ahead(_with_energy.program, start.state, rows)

    def of_all_rows(state: FitState) -> Posterior:
        if rests and at_rest(state, plan):
            energy = energy_at_rest(run, state, rows, plan)
            return dataclasses.replace(state.posterior(), energy=energy)
        if wait:
            wait()
        program = team.over(_with_energy, waits=True) if team else _with_energy
        return program(state, rows)

    return of_all_rows


def comes_to_rest(optimizer: Any, state: FitState, plan: Plan) -> bool:
    """Whether one more epoch would neither change q nor take long: rate zero, constant α."""
    if optimizer != "adam" or plan.num_epochs < MANY_EPOCHS:
        return False
    powers = _powers(state, plan.num_steps - 1 + np.arange(plan.num_batches + 1))
    return powers is None or bool(np.all(powers == powers[0]))


def at_rest(state: FitState, plan: Plan) -> bool:
    """Whether all steps of the plan have been taken."""
    return bool(np.all(np.asarray(state.step) == plan.num_steps))


def energy_at_rest(run: Callable, state: FitState, rows: Rows, plan: Plan) -> Array:
    """The energy on the full data from one more epoch; with replicas, one energy for each."""
    order = no_order(rows, plan.batch_size, state.step.shape)
    energies = run(state, order=order, num_steps=on_device(plan.num_batches))[2]
    return on_device(on_host(energies)[..., 0])


@partial(Compiled, is_rare=True)
def _with_energy(state: FitState, rows: Rows) -> Posterior:
    return dataclasses.replace(state.posterior(), energy=full_energy(state, rows))


def begin(
    checkpoint: Any,
    state: FitState,
    rows: Any,
    plan: Plan,
    watch: Watch | ReplicaWatch,
    settings: dict[str, Any],
) -> Start:
    """The start of a run: the given state or, with a checkpoint of the same run, the saved one.

    Args:
        checkpoint: A folder or a `Checkpoint`, or None.
        state: The state before the first step.
        rows: The data, on the device or fed to it.
        plan: The plan of the run.
        watch: The watch of the run.
        settings: Further arguments that determine the result.
    """
    team = _team_of(watch)
    start = start_at(state if team is None else team.spreading(state), rows, plan)
    if checkpoint is None:
        return _checked(start._replace(team=team), rows)
    from bbalpha.runtime.checkpoints import keeper_of
    from bbalpha.runtime.fingerprints import fingerprint

    rule = watch.early_stopping if isinstance(watch, Watch) else None
    keeper = keeper_of(checkpoint, fingerprint(state, rows, plan, rule, settings), watch)
    keeper.writes = team is None or team.leads
    return _checked(keeper.restored(start, rows)._replace(keeper=keeper, team=team), rows)


def _checked(start: Start, rows: Any) -> Start:
    """The start, provided that all processes start from the same data and state."""
    if start.team is None:
        return start
    with reading(rows, start):
        difference = start.team.difference(start, rows)
    if difference is not None:
        raise ValueError(difference)
    return start


def _team_of(watch: Watch | ReplicaWatch) -> Any:
    """The processes that fit together, or None for a single process.

    Replicas are not shared: each process trains its own.
    """
    if isinstance(watch, ReplicaWatch) or not jax.distributed.is_initialized():
        return None
    from bbalpha.runtime.team import team_of_all

    team = team_of_all()
    if team is not None and not team.leads:
        watch.follow()
    return team


def budget_of(optimizer: Any, plan: Plan) -> dict[str, int]:
    """The number of epochs, if the steps depend on it, as they do when the rate falls to 0."""
    return {"num_epochs": plan.num_epochs} if optimizer == "adam" else {}


def judge_of(state: FitState, plan: Plan, tolerance: float) -> Convergence | None:
    """The judge of a run with natural-gradient steps; None for other optimizers."""
    if not state.is_natural:
        return None
    is_long = plan.batch_size * max(state.method.num_samples, NUM_SAMPLES) >= LONG_STEP
    return Convergence(
        tolerance,
        state.method.layout,
        FEW_ROUND_STEPS if is_long else ROUND_STEPS,
        is_flat=float(state.alpha) > FLAT_SHARE * float(state.num_data),
    )
