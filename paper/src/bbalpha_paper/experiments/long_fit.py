"""Long fits, with test scores every few epochs; a killed fit goes on to the same result."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path

import jax
from jaxtyping import Array, PyTree

import bbalpha as bb
from bbalpha_paper.experiments.fits import (
    FAMILIES,
    FIT_STREAM,
    check_ended,
    key_of,
    optimizer_of,
)
from bbalpha_paper.experiments.plan import Bench, Metrics, Run
from bbalpha_paper.writing import write_text

SECONDS = 60.0  # between two checkpoints
NUM_SCORES = 25  # points of a learning curve, approximately
CURVES = "curves.json"  # beside the checkpoints, which do not hold what a callback has seen

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
    settings, folder = run.settings, bench.checkpoint / _origin(run)
    num_epochs, batch_size = settings["num_epochs"], settings["batch_size"]
    num_steps = num_epochs * -(-len(jax.tree.leaves(data)[0]) // batch_size)
    every = max(1, num_epochs // NUM_SCORES)
    curves = _restored(bench, folder)

    def watch(state: bb.FitState, info: bb.FitInfo) -> None:
        done = len(info.energies)
        if done % every == 0 or done == num_epochs:
            _extend(curves, done, {"energy": info.energies[-1], **score(state.posterior())})
            record = {"curves": curves, "seconds": bench.seconds}
            write_text(folder / CURVES, json.dumps(record))
        bench.advance(done / num_epochs)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bb.ConvergenceWarning)  # the curves tell
            posterior = bb.fit(
                log_likelihood,
                params,
                data,
                key=key_of(run, FIT_STREAM),
                alpha=run.alpha,
                family=FAMILIES[settings["variance"]],
                optimizer=optimizer_of(settings["learning_rate"], num_steps),
                num_epochs=num_epochs,
                batch_size=batch_size,
                num_samples=settings["num_samples"],
                resample_every=settings["resample_every"],
                callback=watch,
                checkpoint=bb.Checkpoint(folder, seconds=SECONDS),
                progress=False,
            )
    except bb.NonFiniteEnergyError as error:
        posterior = error.posterior
    check_ended([posterior])
    return posterior, curves


def _extend(curves: dict[str, list], epoch: int, scores: Mapping[str, float]) -> None:
    """Add a point to the curves, in place of those that a killed process had added later on."""
    kept = sum(known < epoch for known in curves.get("epochs", []))
    for name, value in {"epochs": epoch, **{f"curve_{key}": scores[key] for key in scores}}.items():
        curves[name] = [*curves.get(name, [])[:kept], value]


def _restored(bench: Bench, folder: Path) -> dict[str, list]:
    """The curves of a fit that was killed, or empty ones."""
    try:
        record = json.loads((folder / CURVES).read_text("utf-8"))
    except FileNotFoundError:
        return {}
    bench.earlier = record["seconds"]
    return record["curves"]


def _origin(run: Run) -> str:
    """A name for a run, so that checkpoints of other runs are left alone."""
    text = json.dumps({"version": bb.__version__, **asdict(run)}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
