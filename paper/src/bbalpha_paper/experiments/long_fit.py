"""Long fits: epoch after epoch, with test scores and a checkpoint every few of them.

A fit that was killed continues from its checkpoint to the same result. The key and the epoch
determine the order of the rows, so that only the state of `bb.step` has to be stored.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

import bbalpha as bb
from bbalpha.files import replacing
from bbalpha_paper.experiments.fits import (
    FAMILIES,
    FIT_STREAM,
    ORDER_STREAM,
    key_of,
    optimizer_of,
)
from bbalpha_paper.experiments.minibatches import minibatches
from bbalpha_paper.experiments.plan import Bench, Metrics, Run
from bbalpha_paper.writing import writing

NUM_SCORES = 25  # points of a learning curve, approximately

Score = Callable[[bb.Posterior], Mapping[str, float]]


def fit_long(
    run: Run,
    log_likelihood: Callable[..., Array],
    params: PyTree,
    data: PyTree,
    score: Score,
    bench: Bench,
) -> tuple[bb.Posterior, Metrics]:
    """The posterior of a run, and its learning curves: energy and scores every few epochs.

    If the energy stops being finite, the fit ends with that epoch and its posterior says so.

    Args:
        run: The run to fit.
        log_likelihood: As for `bb.fit`.
        params: Where the mean of q starts.
        data: The training data.
        score: Computes the scores of the learning curves.
        bench: Where the checkpoint is.
    """
    batch_size, num_epochs = run.settings["batch_size"], run.settings["num_epochs"]
    data = jax.tree.map(jnp.asarray, data)
    state, curves = _restored(bench, _start(run, log_likelihood, params, data), run)
    every = max(1, num_epochs // NUM_SCORES)
    order_key = key_of(run, ORDER_STREAM)
    info = bb.FitInfo()
    for epoch in range(curves["epochs"][-1] if curves else 0, num_epochs):
        key = jax.random.fold_in(order_key, epoch)
        state, energy, finite = run_epoch(state, data, key, batch_size)
        if not finite:
            info = bb.FitInfo(stopped="non-finite")
            break
        done = epoch + 1
        if done % every == 0 or done == num_epochs:
            _extend(curves, done, {"energy": float(energy), **score(state.posterior())})
            _save(bench, state, curves, run)
        bench.advance(done / num_epochs)
    energy = _full_energy(state, data, order_key, batch_size)
    return replace(state.posterior(), energy=energy, info=info), curves


@partial(jax.jit, static_argnames="batch_size")
def run_epoch(
    state: bb.FitState, data: PyTree, key: Key[Array, ""], batch_size: int
) -> tuple[bb.FitState, Float[Array, ""], Bool[Array, ""]]:
    """The state after an epoch, the mean energy of its minibatches, and whether all were finite."""
    num_data = _length(data)

    def step(state: bb.FitState, batch: tuple) -> tuple[bb.FitState, tuple]:
        rows, weights = batch
        state, info = bb.step(state, _taken(data, rows), weights)
        return state, (info.energy * jnp.sum(weights > 0) / num_data, info.finite)

    state, (energies, finite) = jax.lax.scan(step, state, minibatches(key, num_data, batch_size))
    return state, jnp.sum(energies), jnp.all(finite)


@partial(jax.jit, static_argnames="batch_size")
def _full_energy(
    state: bb.FitState, data: PyTree, key: Key[Array, ""], batch_size: int
) -> Float[Array, ""]:
    """The energy on all data with the draws of the next step; the key does not matter."""

    def energy_of(batch: tuple) -> Float[Array, ""]:
        rows, weights = batch
        return state.energy(_taken(data, rows), jnp.where(weights > 0, 1.0, 0.0))

    return jnp.sum(jax.lax.map(energy_of, minibatches(key, _length(data), batch_size)))


def _start(
    run: Run, log_likelihood: Callable[..., Array], params: PyTree, data: PyTree
) -> bb.FitState:
    settings = run.settings
    return bb.init(
        log_likelihood,
        params,
        num_data=_length(data),
        key=key_of(run, FIT_STREAM),
        alpha=run.alpha,
        family=FAMILIES[settings["variance"]],
        optimizer=optimizer_of(settings["learning_rate"]),
        num_samples=settings["num_samples"],
        resample_every=settings["resample_every"],
    )


def _length(data: PyTree) -> int:
    return len(jax.tree.leaves(data)[0])


def _taken(data: PyTree, rows: Int[Array, " batch"]) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[rows], data)


def _extend(curves: dict[str, list], epoch: int, scores: Mapping[str, float]) -> None:
    curves.setdefault("epochs", []).append(epoch)
    for name, value in scores.items():
        curves.setdefault(f"curve_{name}", []).append(value)


def _moving(state: bb.FitState) -> PyTree:
    """The parts of the state that steps change."""
    return state.variables, state.optimizer_state, state.step


def _save(bench: Bench, state: bb.FitState, curves: dict[str, list], run: Run) -> None:
    """Replace the checkpoint."""
    leaves = jax.tree.leaves(jax.device_get(_moving(state)))
    record = {"of": _origin(run), "curves": curves, "seconds": bench.seconds}
    with writing(bench.checkpoint), replacing(bench.checkpoint) as temporary:
        arrays = {str(number): leaf for number, leaf in enumerate(leaves)}
        save_file(arrays, temporary, {"record": json.dumps(record)})


def _restored(bench: Bench, state: bb.FitState, run: Run) -> tuple[bb.FitState, dict[str, list]]:
    """The state and the curves of the checkpoint, or the start if there is none of this run."""
    try:
        with safe_open(bench.checkpoint, "numpy") as stored:
            record = json.loads(stored.metadata()["record"])
            leaves = [jnp.asarray(stored.get_tensor(str(n))) for n in range(len(stored.keys()))]
    except (FileNotFoundError, SafetensorError):
        return state, {}
    if record["of"] != json.loads(json.dumps(_origin(run))):
        return state, {}
    bench.earlier = record["seconds"]
    moved = jax.tree.unflatten(jax.tree.structure(_moving(state)), leaves)
    fields = dict(zip(("variables", "optimizer_state", "step"), moved, strict=True))
    return replace(state, **fields), record["curves"]


def _origin(run: Run) -> dict[str, Any]:
    """What a checkpoint and a run that continues from it must have in common."""
    return {"version": bb.__version__, **asdict(run)}
