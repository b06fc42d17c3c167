"""Background of a section: the commands, number, settings and times of its runs."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from bbalpha_paper.report.document import Cell, Commands, Details, Group, Table
from bbalpha_paper.report.runs import Runs
from bbalpha_paper.report.words import NONE, alpha_name, count, setting_name, setting_text, time

# What the runs of an experiment differ in, apart from α.
COUNTED = {
    "probit": "split",
    "regression": "split",
    "gradient": "split",
    "mnist": "seed",
    "clean-energy": "seed",
}


def extent(runs: Runs) -> str:
    """The number of splits, of seeds, of both, or of runs per α."""
    if not runs:
        return "no runs"
    if runs.num_splits > 1 and runs.num_seeds > 1:
        return f"{count(runs.num_splits, 'split')} × {count(runs.num_seeds, 'seed')}"
    noun = COUNTED.get(runs[0].experiment)
    if noun is None:
        return count(max(len(runs.where(alpha=alpha)) for alpha in runs.alphas), "run")
    return count(max(runs.num_splits, runs.num_seeds), noun)


def reproduction(runs: Runs) -> Commands:
    """The commands that make these runs; data sets with the same options share one."""
    lines: dict[str, list[str]] = {}
    for dataset in runs.datasets:
        lines.setdefault(_options(runs.where(dataset=dataset)), []).append(dataset)
    start = f"bbalpha-paper run {runs[0].experiment} --scale {scales(runs)}"
    return Commands(
        tuple(
            f"{start} --data {shlex.quote(','.join(datasets))}{options}"
            for options, datasets in lines.items()
        )
    )


def scales(runs: Runs) -> str:
    """The scales of the runs."""
    return ", ".join(dict.fromkeys(str(row.settings["scale"]) for row in runs))


def background(runs: Runs) -> Details:
    """Everything that decides the results, and how long the runs took."""
    summary = f"{count(len(runs), 'run')}, {time(runs.seconds)}: numbers, settings, times"
    return Details(summary, (_numbers(runs), _settings(runs)))


def _options(runs: Runs) -> str:
    options = []
    if noun := COUNTED.get(runs[0].experiment):
        options.append(f" --alphas {','.join(f'{alpha:g}' for alpha in runs.alphas)}")
        options.append(f" --{noun}s {runs.num_splits if noun == 'split' else runs.num_seeds}")
    epochs = {row.settings.get("num_epochs") for row in runs}
    if len(epochs) == 1 and any(epochs):
        options.append(f" --epochs {epochs.pop()}")
    return "".join(options)


def _numbers(runs: Runs) -> Table:
    groups = []
    for configuration in runs.configurations:
        rows = []
        for dataset in runs.where(configuration=configuration).datasets:
            part = runs.where(configuration=configuration, dataset=dataset)
            alphas = ", ".join(map(alpha_name, part.alphas))
            mean = time(part.seconds / len(part))
            entries = (dataset, extent(part), alphas, str(len(part)), time(part.seconds), mean)
            rows.append(tuple(map(Cell, entries)))
        groups.append(Group(configuration, tuple(rows)))
    header = ("data set", "per α", "α", "runs", "time", "time per run")
    return Table(caption="Runs and times", header=header, groups=tuple(groups))


def _settings(runs: Runs) -> Table:
    """A column per configuration, or several if its data sets differ."""
    columns = [column for name in runs.configurations for column in _variants(runs, name)]
    names = dict.fromkeys(name for _, settings in columns for name in settings)
    rows = tuple(
        (Cell(setting_name(name)), *(_setting(settings, name) for _, settings in columns))
        for name in names
    )
    header = ("setting", *(label for label, _ in columns))
    return Table(caption="Settings", header=header, groups=(Group("", rows),))


def _variants(runs: Runs, configuration: str) -> list[tuple[str, dict[str, Any]]]:
    """The different settings of a configuration, each with a label."""
    part = runs.where(configuration=configuration)
    datasets: dict[str, dict[str, None]] = {}  # by settings, in the order of the rows
    for row in part:
        datasets.setdefault(json.dumps(row.settings), {})[row.dataset] = None
    if len(datasets) == 1:
        return [(configuration, part[0].settings)]
    return [
        (f"{configuration}: {', '.join(names)}", json.loads(settings))
        for settings, names in datasets.items()
    ]


def _setting(settings: Mapping[str, Any], name: str) -> Cell:
    return Cell(setting_text(settings[name]) if name in settings else NONE)
