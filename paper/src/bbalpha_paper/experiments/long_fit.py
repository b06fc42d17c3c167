"""Long fits: some epochs at a time, with test scores along the way and a checkpoint after them.

A fit that was killed goes on from its checkpoint to the same result.
"""

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from importlib.metadata import version
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PyTree

from bbalpha.engine.epochs import full_energy, no_order, run_steps
from bbalpha_paper.experiments.fits import FAMILIES, FIT_STREAM, key_of, optimizer_of
from bbalpha_paper.experiments.plan import Bench, Metrics, Run
from bbalpha.fitting import prepare
from bbalpha.posterior import FitInfo, Posterior
from bbalpha_paper.report.rows import writing
from bbalpha.training import FitState, init

NUM_SCORES = 25  # points of a learning curve, about

Score = Callable[[Posterior], Mapping[str, float]]


def fit_long(
    run: Run,
    log_likelihood: Callable[..., Array],
    params: PyTree,
    data: PyTree,
    score: Score,
    bench: Bench,
) -> tuple[Posterior, Metrics]:
    """The posterior of a run, and its learning curves: the energy and scores after some epochs.

    A run whose energy stops being finite ends where it was, and its posterior says so.

    Args:
        run: What is fitted.
        log_likelihood: as for `fit`.
        params: where the mean of q starts.
        data: the training data.
        score: what is looked at along the way.
        bench: where the checkpoint is.
    """
    settings = run.settings
    num_epochs = settings["num_epochs"]
    rows, plan = prepare(data, None, settings["batch_size"], num_epochs)
    state = init(
        log_likelihood,
        params,
        num_data=float(rows.total_weight()),
        key=key_of(run, FIT_STREAM),
        alpha=run.alpha,
        family=FAMILIES[settings["variance"]],
        optimizer=optimizer_of(settings["learning_rate"]),
        num_samples=settings["num_samples"],
        resample_every=settings["resample_every"],
    )
    state, curves = _restored(bench, state, run)
    every = max(1, num_epochs // NUM_SCORES)
    epoch = int(state.step) // plan.num_batches
    info = FitInfo()
    while epoch < num_epochs:
        order = no_order(rows, plan.batch_size)
        state, _, energies, finite = run_steps(
            state, rows, order, jnp.asarray(plan.num_batches), plan.batch_size
        )
        if not finite:
            info = FitInfo(stopped="non-finite")
            break
        epoch += 1
        if epoch % every == 0 or epoch == num_epochs:
            scores = {"energy": float(energies[0]), **score(state.posterior())}
            _extend(curves, epoch, scores)
            _save(bench, state, curves, run)
        bench.advance(epoch / num_epochs)
    energy = full_energy(state, rows)
    return replace(state.posterior(), energy=energy, info=info), curves


def _extend(curves: dict[str, list], epoch: int, scores: Mapping[str, float]) -> None:
    curves.setdefault("epochs", []).append(epoch)
    for name, value in scores.items():
        curves.setdefault(f"curve_{name}", []).append(value)


def _moving(state: FitState) -> PyTree:
    """What of the state is not known before the first step."""
    return state.variables, state.optimizer_state, state.step


def _save(bench: Bench, state: FitState, curves: dict[str, list], run: Run) -> None:
    """Replace the checkpoint: a line of JSON, then the arrays."""
    head = {"of": _origin(run), "curves": curves, "seconds": bench.seconds}
    temporary = bench.checkpoint.with_suffix(".partial")
    with writing(temporary), temporary.open("wb") as stream:
        stream.write(json.dumps(head).encode() + b"\n")
        eqx.tree_serialise_leaves(stream, _moving(state))
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(bench.checkpoint)


def _restored(bench: Bench, state: FitState, run: Run) -> tuple[FitState, dict[str, list]]:
    """The state and the curves of the checkpoint, if it is one of this run."""
    if not bench.checkpoint.is_file():
        return state, {}
    with bench.checkpoint.open("rb") as stream:
        head = json.loads(stream.readline())
        if not isinstance(head, dict) or head["of"] != json.loads(json.dumps(_origin(run))):
            return state, {}
        moved = eqx.tree_deserialise_leaves(stream, _moving(state))
    bench.earlier = head["seconds"]
    return eqx.tree_at(_moving, state, jax.tree.map(jnp.asarray, moved)), head["curves"]


def _origin(run: Run) -> dict[str, Any]:
    """What a checkpoint must have in common with a run that goes on from it."""
    return {"version": version("bbalpha"), **asdict(run)}
