"""`bbalpha reproduce`: the experiments of the paper, run and written as rows."""

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bbalpha.cli.doors import Refusal, refusing, refusing_missing_library
from bbalpha.cli.options import Quiet, numbers
from bbalpha.cli.printing import count, note
from bbalpha_paper.experiments import NAMES, find_experiment

ALL = "all"


def reproduce_paper(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=f"{', '.join(NAMES)}, or {ALL} of them.")
    ],
    scale: Annotated[
        str,
        typer.Option(
            metavar="SCALE",
            help="smoke: a minute or two, without any download; quick: fewer splits and shorter "
            "schedules, 20 to 75 minutes for each run of mnist and clean-energy; paper: the "
            "paper's, days.",
        ),
    ] = "quick",
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of the rows, which is made or continued.")
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
            help="Only these data sets, such as boston,yacht; year is not run unless named here.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run an experiment of the paper and write a row of JSON for every run.

    A run that was stopped goes on where it was when it is started again. Data sets come from where
    bbalpha datasets finds them.

    \b
    bbalpha reproduce all --scale smoke --output results
    bbalpha reproduce probit --scale paper --data pima --output results
    bbalpha report results --output report.html
    """  # noqa: D301
    if name != ALL and name not in NAMES:
        raise Refusal(f"NAME must be {', '.join(NAMES)} or {ALL}; got {name!r}.")
    _check_folder(output)
    powers = None if alphas is None else _powers(alphas)
    names = None if data is None else tuple(word.strip() for word in data.split(","))

    from bbalpha_paper.experiments.plan import Narrowing, planned
    from bbalpha_paper.experiments.running import check_folder, load_data, reproduce

    experiments = [find_experiment(each) for each in (NAMES if name == ALL else (name,))]
    narrowing = Narrowing(names, powers, splits, seeds, epochs)
    with refusing(ValueError):
        plans = planned(experiments, scale, narrowing)
    with refusing(ValueError, OSError), refusing_missing_library():
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
        raise Refusal(f"--output must be a folder that can be written to; got {path}.")


@contextmanager
def _hint(quiet: bool) -> Iterator[None]:
    """Tell who stops the experiments how they go on."""
    try:
        yield
    except KeyboardInterrupt:
        note("Stopped. The same command goes on from here.", quiet)
        raise


def _powers(text: str) -> tuple[float, ...]:
    powers = numbers(text)
    if not all(map(math.isfinite, powers)):
        raise Refusal(f"--alphas must be numbers, separated by commas; got --alphas {text!r}.")
    return powers
