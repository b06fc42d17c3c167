"""Running an experiment: group after group, each written as soon as it is measured.

What was written before is not run again, so that a run may be killed and started again at any
time. Every result follows from the settings in its row alone.
"""

import json
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bbalpha.experiments.plan import Bench, Configuration, Experiment, Run
from bbalpha.progress import progress_bar
from bbalpha.report.rows import Row, append_rows, read_file, rows_file


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
    groups = [group for configuration in configurations for group in configuration.groups()]
    done = check_folder(experiment, groups, folder)
    left = [group for group in groups if not {_identity(run) for run in group} <= done]
    finished = 0
    with progress_bar(progress, experiment.name, sum(map(len, left))) as show:
        for group in left:

            def advance(part: float, group=group, before=finished) -> None:
                show(before + part * len(group), f"{group[0].dataset}, {group[0].configuration}")

            advance(0.0)
            missing = [run for run in group if _identity(run) not in done]
            _run_group(experiment, group, missing, folder, advance)
            finished += len(group)
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
    experiment: Experiment, groups: Sequence[Sequence[Run]], folder: Path
) -> set[tuple]:
    """Which runs the folder holds, unless its rows are not to be mixed with those of the plan."""
    here = version("bbalpha")
    planned = {(run.dataset, run.configuration): run.settings for group in groups for run in group}
    scales = {str(settings["scale"]) for settings in planned.values()}
    done = set()
    for file in sorted((folder / experiment.name).glob("*.jsonl")):
        for row in read_file(file):
            _check_same("version", row.version, here, file)
            for scale in scales:
                _check_same("scale", row.settings.get("scale"), scale, file)
            settings = planned.get((row.dataset, row.configuration), row.settings)
            _check_settings(row, json.loads(json.dumps(settings)), file)
            done.add(_identity(row))
    return done


def _run_group(
    experiment: Experiment, group: Sequence[Run], missing: list[Run], folder: Path, advance: Any
) -> None:
    """Measure all runs of a group, since they may depend on their company, and write the missing.

    They do in the last digits only: how many replicas train together decides how sums are rounded.
    """
    first = group[0]
    file = rows_file(folder, experiment.name, first.dataset)
    name = f"{first.dataset}-{first.configuration}-{first.split}-{first.seed}-{first.alpha:g}"
    checkpoint = file.with_name(f"{name.replace(' ', '-')}.checkpoint")
    started = time.perf_counter()
    metrics = experiment.measure(group, Bench(checkpoint, advance))
    seconds = (time.perf_counter() - started) / len(group)
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
