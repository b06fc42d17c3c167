"""Training for `fit` and `explore`: fit a model to a table, write it, and report the result."""

import math
import signal
import warnings
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import jax
import typer

from bbalpha.cli.describe import columns_in_words, ignored_in_words, network_in_words
from bbalpha.cli.doors import INTERRUPTED, Refusal, refusing
from bbalpha.cli.header import target_in_words
from bbalpha.cli.printing import count, note
from bbalpha.cli.rehearsal import rehearsing
from bbalpha.cli.saved import ESTIMATORS, Model, write_model
from bbalpha.cli.training_table import TrainingTable
from bbalpha.engine.checks import warn
from bbalpha.engine.clock import Compiling
from bbalpha.engine.interrupts import deferred
from bbalpha.engine.leaving import say_when_leaving
from bbalpha.fitting import NonFiniteEnergyError
from bbalpha.interfaces.left_out import FEWEST_ROWS
from bbalpha.interfaces.verdict import Verdict, judge
from bbalpha.posterior import FitInfo
from bbalpha.stopping import reason_of_fall


def new_model(table: TrainingTable, settings: dict[str, Any]) -> Model:
    """An unfitted model for the table."""
    estimator = ESTIMATORS[table.target.task](**settings)
    estimator._choose_likelihood(table.targets.reshape(len(table.targets), -1))
    return Model(estimator, table.encoder, table.target, table.dropped, table.id)


def train(model: Model, table: TrainingTable, files: Any, judged: bool) -> tuple[FitInfo, float]:
    """Fit the model to the table and write it to its file.

    Args:
        model: The model.
        table: The rows to fit it to.
        files: The model file and the checkpoint folder.
        judged: Whether the model will be judged afterwards; if so, the program for that is
            compiled during the fit.

    Returns:
        The record of the fit, and the seconds spent compiling.
    """
    rehearsal = rehearsing(model.estimator, table.inputs, table.targets) if judged else None
    compiling = Compiling()
    if files.checkpoint:
        say_when_leaving(f"; the same command goes on from {files.checkpoint}.")
    # Until the model is on disk, Ctrl-C ends the training and not the process.
    with deferred(signal.SIGINT) as arrived:
        with rehearsal or nullcontext():
            info = fit_or_refuse(model, table, files.checkpoint)
            if jax.process_index() > 0:  # the first process writes the model
                raise typer.Exit
            say_when_leaving(".")  # from here on, the file may or may not be there
            write_model(files.model, model)
        was_interrupted = arrived() is not None
    say_when_leaving(f"; the model is in {files.model}.")
    if was_interrupted and info.stopped != "interrupted":
        note(f"Interrupted; the model is in {files.model}.")
        raise typer.Exit(INTERRUPTED)
    return info, compiling.seconds


def fit_or_refuse(
    model: Model, table: TrainingTable, checkpoint: Path | None = None, product: str = "model"
) -> FitInfo:
    """Fit the model to the table; return the record of the fit, which has at least one step.

    Args:
        model: The model.
        table: The rows to fit it to.
        checkpoint: The checkpoint folder, if any.
        product: What the command was to write, for the message after Ctrl-C.
    """
    try:
        with refusing(ValueError, OSError), warnings.catch_warnings():
            # The command gives these warnings itself, in terms of its own options.
            warnings.filterwarnings("ignore", "fit (was interrupted|did not converge)")
            model.estimator.fit(table.inputs, table.targets, checkpoint=checkpoint)
    except NonFiniteEnergyError as error:
        raise Refusal(
            f"the energy was no longer finite at step {error.step}; "
            "a smaller --learning-rate or --alpha often helps."
        ) from None
    except KeyboardInterrupt:
        raise _nothing_reached(product) from None
    info = model.estimator.posterior_.info
    if info.num_steps == 0:
        raise _nothing_reached(product)
    if reason := _why_moving(info):
        warn(f"fit did not converge: {reason}")
    return info


def facts_before(data: Path | str, model: Model, num_rows: int) -> dict[str, str]:
    """The facts printed before a fit: data, target, inputs and network."""
    return {
        "data": f"{data}: {count(num_rows, 'row')}",
        "target": target_in_words(model.target.name, model.target.task, model.target.classes),
        "inputs": columns_in_words(model.encoder),
        **({"ignored": ignored_in_words(model.encoder)} if model.encoder.ignored else {}),
        "network": network_in_words(model),
    }


def facts_of_fit(model: Model, table: TrainingTable, files: Any, judged: bool) -> dict[str, Any]:
    """The result of a fit, for JSON.

    Args:
        model: The fitted model.
        table: The rows that it was fitted to.
        files: The files of the fit.
        judged: Whether to compare the model with simpler ones.
    """
    posterior, verdict = model.estimator.posterior_, None
    curve = model.estimator.alpha_curve_
    if judged and len(table.inputs) >= FEWEST_ROWS:
        verdict = judge(model.estimator, table.inputs, table.targets)
    return {
        "data": str(files.data),
        "model": str(files.model),
        "picture": files.plot and str(files.plot),
        "task": model.target.task,
        "target": model.target.name,
        "rows": len(table.inputs),
        "features": table.inputs.shape[1],
        "epochs": model.estimator.n_iter_,
        "stopped": posterior.info.stopped,
        "converged": posterior.info.converged,
        "reason": _why_moving(posterior.info),
        "energy": float(posterior.energy),
        "alpha": float(posterior.alpha),
        "alpha_curve": curve and curve.to_json() | {"reason": curve.reason},
        "log_likelihood": verdict and _scores(verdict),
        "calibration": verdict and _said(verdict.calibration),
        "warning": verdict and verdict.warning,
    }


def in_words(facts: dict[str, Any]) -> dict[str, str]:
    """The result of a fit, for people to read."""
    energy, seconds = facts["energy"], facts["seconds"]
    words = {
        "epochs": f"{facts['epochs']:,}{_ending(facts['stopped'])}",
        "converged": "yes" if facts["converged"] else "no",
        "seconds": ", ".join(f"{name} {value:.1f}" for name, value in seconds.items()),
        "energy": f"{energy:.6g} (lower is better)" if math.isfinite(energy) else "not computed",
    }
    if (curve := facts["alpha_curve"]) is not None:
        words["alpha"] = f"{facts['alpha']:g}. {curve['reason']}"
    if (scores := facts["log_likelihood"]) is not None:
        some = scores["rows"] < facts["rows"]
        share = f" ({scores['rows']:,} of {facts['rows']:,} rows)" if some else ""
        training, held_out = scores["training"], scores["held_out"]
        words["log-likelihood"] = (
            f"{training:.4g} per training row, {held_out:.4g} if left out{share}"
        )
        words["simpler models"] = (
            f"constant {scores['constant']:.4g}, linear {scores['linear']:.4g} if left out"
        )
        words["calibration"] = facts["calibration"]["said"]
    words["model"] = facts["model"]
    return words | ({"picture": facts["picture"]} if facts["picture"] else {})


def _why_moving(info: FitInfo) -> str | None:
    """Why the fit has not converged, and what to do; None if it has, or was stopped."""
    is_moving = info.stopped == "finished" and info.fall > 0
    return reason_of_fall(info, "Raise --epochs.") if is_moving else None


def _scores(verdict: Verdict) -> dict[str, Any]:
    names = ("training", "held_out", "constant", "linear")
    return {"rows": verdict.num_rows} | {name: getattr(verdict, name) for name in names}


def _said(calibration: Any) -> dict[str, Any]:
    return calibration.to_json() | {"said": str(calibration)}


def _nothing_reached(product: str) -> typer.Exit:
    note(f"Interrupted before the first step; no {product} was written.")
    return typer.Exit(INTERRUPTED)


def _ending(stopped: str) -> str:
    reasons = {
        "early": ", stopped early: the log-likelihood of the held-out rows no longer grew",
        "interrupted": ", interrupted",
    }
    return reasons.get(stopped, "")
