"""Running an experiment: group after group, each written as soon as it is measured.

A group whose rows all exist is not run again, so an experiment may be killed and started again at
any time. The data set, split, seed, α and settings of a row determine its result.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

import bbalpha as bb
from bbalpha_paper.experiments.plan import Bench, Configuration, Experiment, Run
from bbalpha_paper.rows import Row, append_rows, read_file, rows_file


def reproduce(
    experiment: Experiment,
    configurations: Sequence[Configuration],
    folder: Path,
    progress: bool = True,
) -> int:
    """Run everything that the results folder lacks, and return the number of new rows.

    Args:
        experiment: The experiment.
        configurations: Which of its runs, from `planned`.
        folder: The results folder, which is made if necessary.
        progress: Show a progress bar on a terminal.

    Raises:
        ValueError: If the folder holds rows of another version or with other settings.
        OSError: If data are not found, or rows cannot be written.
    """
    check_folder(experiment, configurations, folder)
    done = {_identity(row) for row in _rows(experiment, folder)}
    groups = [group for configuration in configurations for group in configuration.groups()]
    left = [
        (group, missing)
        for group in groups
        if (missing := [run for run in group if _identity(run) not in done])
    ]
    finished = 0
    with _progress_bar(progress, experiment.name, sum(len(missing) for _, missing in left)) as show:
        for group, missing in left:
            run, before, share = group[0], finished, len(missing)

            def advance(part: float, run=run, before=before, share=share) -> None:
                show(before + part * share, f"{run.dataset}, {run.configuration}")

            advance(0.0)
            _run_group(experiment, group, missing, folder, advance)
            finished += share
            advance(1.0)
    return finished


def load_data(experiment: Experiment, configurations: Sequence[Configuration]) -> None:
    """Load all data sets, so that a missing one is reported before the first run.

    Raises:
        OSError: If data are not found or cannot be downloaded.
        ValueError: If data are damaged.
        ModuleNotFoundError: If a library that the data need is not installed.
    """
    if experiment.load is not None:
        for name in dict.fromkeys(name for each in configurations for name in each.datasets):
            experiment.load(name)


def check_folder(
    experiment: Experiment, configurations: Sequence[Configuration], folder: Path
) -> None:
    """Refuse a results folder whose rows must not be mixed with the plan's.

    Raises:
        ValueError: If it holds damaged rows, or rows of another version or with other settings.
    """
    planned = {
        (name, each.name): each.settings for each in configurations for name in each.datasets
    }
    scales = {str(settings["scale"]) for settings in planned.values()}
    for row in _rows(experiment, folder):
        file = rows_file(folder, experiment.name, row.dataset)
        _check_same("version", row.version, bb.__version__, file)
        for scale in scales:
            _check_same("scale", row.settings.get("scale"), scale, file)
        settings = planned.get((row.dataset, row.configuration), row.settings)
        _check_settings(row, json.loads(json.dumps(settings)), file)


def _rows(experiment: Experiment, folder: Path) -> list[Row]:
    """The rows of the experiment in the folder."""
    files = sorted((folder / experiment.name).glob("*.jsonl"))
    return [row for file in files for row in read_file(file)]


def _run_group(
    experiment: Experiment,
    group: Sequence[Run],
    missing: Sequence[Run],
    folder: Path,
    advance: Callable[[float], None],
) -> None:
    """Measure all runs of a group and write the missing rows.

    Even a single missing run is trained with its whole group, because the number of replicas that
    train together decides how sums are rounded.
    """
    first = group[0]
    file = rows_file(folder, experiment.name, first.dataset)
    name = f"{first.dataset}-{first.configuration}-{first.split}-{first.seed}-{first.alpha:g}"
    checkpoint = file.with_name(f"{name.replace(' ', '-')}.checkpoint")
    bench = Bench(checkpoint, advance)
    metrics = experiment.measure(group, bench)
    seconds = bench.seconds / len(group)
    rows = [
        Row(
            experiment=experiment.name,
            configuration=run.configuration,
            dataset=run.dataset,
            split=run.split,
            seed=run.seed,
            alpha=run.alpha,
            settings=dict(run.settings),
            metrics=dict(values),
            seconds=round(seconds, 3),
            version=bb.__version__,
        )
        for run, values in zip(group, metrics, strict=True)
        if run in missing
    ]
    append_rows(file, rows)
    shutil.rmtree(checkpoint, ignore_errors=True)


@contextmanager
def _progress_bar(show: bool, name: str, total: int) -> Iterator[Callable[[float, str], None]]:
    """A function of the number of runs done and a status, which it shows as a bar on a terminal."""
    columns = (
        TextColumn(name),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
    )
    hidden = not (show and sys.stderr.isatty())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=hidden) as bar:
        task = bar.add_task(name, total=total, status="")
        yield lambda done, status: bar.update(task, completed=done, status=status)


def _identity(run: Run | Row) -> tuple:
    """What distinguishes a run from the others of its experiment."""
    return run.dataset, run.configuration, run.split, run.seed, run.alpha


def _check_settings(row: Row, settings: Mapping[str, Any], file: Path) -> None:
    for name in sorted({*settings, *row.settings}):
        _check_same(name, row.settings.get(name), settings.get(name), file)


def _check_same(name: str, found: Any, wanted: Any, file: Path) -> None:
    if found != wanted:
        raise ValueError(
            f"--output must be a folder whose rows have the same version and settings; got {name} "
            f"{found!r} in {file}, and {wanted!r} now. Choose another folder, or remove that file."
        )
