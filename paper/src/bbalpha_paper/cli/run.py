"""`bbalpha-paper run`: run experiments of the paper and write their rows."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bbalpha.cli import Quiet, Refusal, count, note, refusing
from bbalpha_paper.experiments import NAMES, find_experiment
from bbalpha_paper.experiments.plan import Narrowing, planned

ALL = "all"


def run_experiments(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{', '.join(NAMES)}, or {ALL} of them.")
    ],
    scale: Annotated[
        str,
        typer.Option(
            metavar="SCALE",
            help="smoke: a minute or two, no downloads; quick: fewer splits and shorter schedules "
            "(20 to 75 minutes per run of mnist and clean-energy); paper: as in the paper (days).",
        ),
    ] = "quick",
    output: Annotated[
        Path,
        typer.Option(
            metavar="FOLDER", help="Folder for the rows. Rows that it already holds are not rerun."
        ),
    ] = Path("results"),
    splits: Annotated[
        int | None, typer.Option(metavar="N", help="Only the first N splits of each data set.")
    ] = None,
    seeds: Annotated[
        int | None, typer.Option(metavar="N", help="Only the first N seeds of each split.")
    ] = None,
    alphas: Annotated[
        str | None, typer.Option(metavar="LIST", help="Only these α, such as 0,0.5.")
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Train for N epochs instead of the plan's.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="LIST",
            help="Only these data sets, such as boston,yacht; year runs only if named here.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper and write one row of JSON per run.

    An experiment that was stopped continues when it is started again. It finds data sets as
    bbalpha-paper datasets does.

    \b
    bbalpha-paper run all --scale smoke
    bbalpha-paper run probit --scale paper --data pima
    bbalpha-paper report
    """  # noqa: D301
    if name != ALL and name not in NAMES:
        raise Refusal(f"NAME must be {', '.join(NAMES)} or {ALL}; got {name!r}.")
    _check_folder(output)
    names = None if data is None else tuple(word.strip() for word in data.split(","))
    narrowing = Narrowing(names, _powers(alphas), splits, seeds, epochs)

    from bbalpha_paper.experiments.running import check_folder, load_data, reproduce

    experiments = [find_experiment(each) for each in (NAMES if name == ALL else (name,))]
    with refusing(ValueError):
        plans = planned(experiments, scale, narrowing)
    with refusing(ValueError, OSError, ModuleNotFoundError):
        for experiment, configurations in zip(experiments, plans, strict=True):
            check_folder(experiment, configurations, output)
            load_data(experiment, configurations)
    for experiment, configurations in zip(experiments, plans, strict=True):
        with refusing(ValueError, OSError), _hint(quiet):
            num_runs = reproduce(experiment, configurations, output, progress=not quiet)
        note(f"{experiment.name}: {count(num_runs, 'run')} added to {output}.", quiet)


def _check_folder(path: Path) -> None:
    """Refuse a path that cannot be a folder of rows, before any run."""
    if path.exists() and not path.is_dir():
        raise Refusal(f"--output must be a folder; got the file {path}.")
    nearest = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    if not (nearest.is_dir() and os.access(nearest, os.W_OK)):
        raise Refusal(f"--output must be a writable folder; got {path}.")


@contextmanager
def _hint(quiet: bool) -> Iterator[None]:
    """Say how to continue after an interruption."""
    try:
        yield
    except KeyboardInterrupt:
        note("Stopped. Run the same command again to continue.", quiet)
        raise


def _powers(text: str | None) -> tuple[float, ...] | None:
    """The numbers in a list separated by commas."""
    if text is None:
        return None
    try:
        powers = tuple(float(word) for word in text.split(","))
    except ValueError:
        powers = (math.nan,)
    if not all(map(math.isfinite, powers)):
        raise Refusal(f"--alphas must be numbers separated by commas; got --alphas {text!r}.")
    return powers
