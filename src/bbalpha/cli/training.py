"""Training: a model fitted to a table and written to a file, and what there is to say about it."""

import math
import warnings
from pathlib import Path
from typing import Any

import typer

from bbalpha.cli.describe import columns_in_words, ignored_in_words, network_in_words
from bbalpha.cli.doors import INTERRUPTED, Refusal, refusing
from bbalpha.cli.header import target_in_words
from bbalpha.cli.printing import count, note
from bbalpha.cli.saved import ESTIMATORS, Model, write_model
from bbalpha.cli.scores import Outcomes
from bbalpha.cli.training_table import TrainingTable
from bbalpha.fitting import NonFiniteEnergyError
from bbalpha.posterior import FitInfo


def new_model(table: TrainingTable, settings: dict[str, Any]) -> Model:
    """A model for the table, not fitted yet."""
    estimator = ESTIMATORS[table.target.task](**settings)
    return Model(estimator, table.encoder, table.target, table.dropped, table.id)


def train(model: Model, table: TrainingTable, path: Path) -> FitInfo:
    """Fit the model to the table and write it; return the record of the fit."""
    try:
        with refusing(ValueError), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "fit was interrupted")  # `bbalpha fit` says it itself
            model.estimator.fit(table.inputs, table.targets)
    except NonFiniteEnergyError as error:
        raise Refusal(
            f"the energy was no longer finite at step {error.step}; "
            "a smaller --learning-rate or --alpha often helps."
        ) from None
    except KeyboardInterrupt:  # during compilation
        raise _nothing_reached() from None
    info = model.estimator.posterior_.info
    if info.num_steps == 0:
        raise _nothing_reached()
    write_model(path, model)
    return info


def facts_before(data: Path, model: Model, num_rows: int) -> dict[str, str]:
    """What will be fitted to which data."""
    return {
        "data": f"{data}: {count(num_rows, 'row')}",
        "target": target_in_words(model.target.name, model.target.task, model.target.classes),
        "inputs": columns_in_words(model.encoder),
        **({"ignored": ignored_in_words(model.encoder)} if model.encoder.ignored else {}),
        "network": network_in_words(model),
    }


def facts_after(
    model: Model, num_rows: int, outcomes: Outcomes, path: Path, plot: Path | None
) -> dict[str, str]:
    """The result of the fit, and the files that hold it.

    Args:
        model: The fitted model.
        num_rows: The rows that it was fitted to.
        outcomes: What it says about some of them.
        path: The model file.
        plot: The picture, if there is one.
    """
    posterior = model.estimator.posterior_
    energy = float(posterior.energy)
    likelihood, num_scored = outcomes.log_densities.mean(), len(outcomes.log_densities)
    share = "" if num_scored == num_rows else f" ({num_scored:,} of {num_rows:,} rows)"
    return {
        "epochs": f"{model.estimator.n_iter_:,}{_ending(posterior.info.stopped)}",
        "converged": "yes" if posterior.info.converged else "no",
        "seconds": f"{posterior.info.seconds:.1f}",
        "energy": f"{energy:.6g} (lower is better)" if math.isfinite(energy) else "not computed",
        "training rows": f"log-likelihood {likelihood:.4g} per row{share}",
        "model": str(path),
    } | ({"picture": str(plot)} if plot else {})


def _nothing_reached() -> typer.Exit:
    note("Interrupted before the first step; no model was written.")
    return typer.Exit(INTERRUPTED)


def _ending(stopped: str) -> str:
    reasons = {
        "early": ", stopped early: the log-likelihood of the held-out rows no longer grew",
        "interrupted": ", interrupted",
    }
    return reasons.get(stopped, "")
