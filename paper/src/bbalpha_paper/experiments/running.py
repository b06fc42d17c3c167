"""Running an experiment: group after group, each written as soon as it is measured.

A group whose rows are all there is not run again, so that a run may be killed and started again at
any time. Every result follows from its row's data set, split, seed, α and settings.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bbalpha_paper.experiments.plan import Bench, Configuration, Experiment, Run
from bbalpha.engine.progress import progress_bar
from bbalpha_paper.report.rows import Row, append_rows, read_file, rows_file


def reproduce(
    experiment: Experiment,
    configurations: Sequence[Configuration],
    folder: Path,
    progress: bool = True,
) -> int:
    """Run what is not in the results folder yet, and return how many runs that were.

    Args:
        experiment: What is run.
        configurations: Which of its runs, from `planned`.
        folder: The results folder, which is made if it is not there.
        progress: Show a progress bar over runs when there is a terminal.

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
    with progress_bar(progress, experiment.name, sum(len(missing) for _, missing in left)) as show:
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
    """Load all data sets, so that a missing one is known before the first run.

    Raises:
        OSError: If data are not found or cannot be downloaded.
        ValueError: If data are damaged.
        ModuleNotFoundError: If a library is needed to make the data.
    """
    if experiment.load is not None:
        for name in dict.fromkeys(name for each in configurations for name in each.datasets):
            experiment.load(name)


def check_folder(
    experiment: Experiment, configurations: Sequence[Configuration], folder: Path
) -> None:
    """Refuse a results folder whose rows are not to be mixed with those of the plan.

    Raises:
        ValueError: If it holds rows of another version or with other settings, or damaged ones.
    """
    here = version("bbalpha")
    planned = {
        (name, each.name): each.settings for each in configurations for name in each.datasets
    }
    scales = {str(settings["scale"]) for settings in planned.values()}
    for row in _rows(experiment, folder):
        file = rows_file(folder, experiment.name, row.dataset)
        _check_same("version", row.version, here, file)
        for scale in scales:
            _check_same("scale", row.settings.get("scale"), scale, file)
        settings = planned.get((row.dataset, row.configuration), row.settings)
        _check_settings(row, json.loads(json.dumps(settings)), file)


def _rows(experiment: Experiment, folder: Path) -> list[Row]:
    """What the folder holds of the experiment."""
    files = sorted((folder / experiment.name).glob("*.jsonl"))
    return [row for file in files for row in read_file(file)]


def _run_group(
    experiment: Experiment,
    group: Sequence[Run],
    missing: Sequence[Run],
    folder: Path,
    advance: Callable[[float], None],
) -> None:
    """Measure all runs of a group, since they may depend on their company, and write the missing.

    They do in the last digits only: how many replicas train together decides how sums are rounded.
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
            version=version("bbalpha"),
        )
        for run, values in zip(group, metrics, strict=True)
        if run in missing
    ]
    append_rows(file, rows)
    checkpoint.unlink(missing_ok=True)


def _identity(run: Run | Row) -> tuple:
    """What tells a run from all others of its experiment."""
    return run.dataset, run.configuration, run.split, run.seed, run.alpha


def _check_settings(row: Row, settings: Mapping[str, Any], file: Path) -> None:
    for name in sorted({*settings, *row.settings}):
        _check_same(name, row.settings.get(name), settings.get(name), file)


def _check_same(name: str, found: Any, wanted: Any, file: Path) -> None:
    if found != wanted:
        raise ValueError(
            f"the results folder must hold rows of the same version and settings; got {name} "
            f"{found!r} in {file}, and {wanted!r} now. Choose another folder, or remove that file."
        )
