"""The plan of an experiment: its runs at each scale, as data, and how to narrow it down."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

SCALES = ("smoke", "quick", "paper")
EPOCHS = "num_epochs"  # the setting that --epochs changes

Metrics = Mapping[str, Any]  # numbers, and lists of them for curves


@dataclass(frozen=True, kw_only=True)
class Run:
    """One row to be: everything that decides its result."""

    dataset: str
    configuration: str
    split: int
    seed: int
    alpha: float
    settings: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Configuration:
    """Runs of one kind: every data set, split, seed and α with the same settings.

    Attributes:
        name: Its name, unique within the experiment.
        datasets: Names of data sets.
        alphas: Powers.
        num_splits: Number of splits into training and test data.
        num_seeds: Number of starts on each split.
        settings: Everything else that decides the result, as JSON can hold it.
        together: How many runs on one data set to train in one program.
        by_name: Whether to run it only if its data sets are asked for by name.
    """

    name: str
    datasets: tuple[str, ...]
    alphas: tuple[float, ...]
    num_splits: int = 1
    num_seeds: int = 1
    settings: Mapping[str, Any] = field(default_factory=dict)
    together: int = 1
    by_name: bool = False

    def changed(self, name: str | None = None, **settings: Any) -> "Configuration":
        """A copy with some settings changed, under another name if one is given."""
        return replace(self, name=name or self.name, settings={**self.settings, **settings})

    def groups(self) -> Iterator[tuple[Run, ...]]:
        """The runs, in groups that are trained together; the α of a split follow each other."""
        for dataset in self.datasets:
            runs = [
                Run(
                    dataset=dataset,
                    configuration=self.name,
                    split=split,
                    seed=seed,
                    alpha=alpha,
                    settings=self.settings,
                )
                for split, seed, alpha in product(
                    range(self.num_splits), range(self.num_seeds), self.alphas
                )
            ]
            for start in range(0, len(runs), self.together):
                yield tuple(runs[start : start + self.together])


@dataclass
class Bench:
    """What a group of runs needs while it is measured.

    Attributes:
        checkpoint: A folder for the progress of a long run, removed once its row is written.
        advance: A function to call with the fraction of the group that is done.
        earlier: Seconds that earlier processes spent to reach the checkpoint.
    """

    checkpoint: Path
    advance: Callable[[float], None]
    earlier: float = 0.0
    started: float = field(default_factory=time.perf_counter)

    @property
    def seconds(self) -> float:
        """Seconds spent on the group so far."""
        return self.earlier + time.perf_counter() - self.started


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A table or figure of the paper.

    Attributes:
        name: Its name on the command line.
        configurations: What to run at each scale.
        measure: Returns the metrics of each run of a group.
        load: Loads a data set by name; None if the data are generated.
    """

    name: str
    configurations: Mapping[str, tuple[Configuration, ...]]
    measure: Callable[[Sequence[Run], Bench], Sequence[Metrics]]
    load: Callable[[str], Any] | None = None


class Narrowing(NamedTuple):
    """The part of a plan to run; None stands for all of it.

    Attributes:
        datasets: Names of data sets.
        alphas: Powers.
        num_splits: How many of the splits, from the first on.
        num_seeds: How many of the seeds, from the first on.
        num_epochs: Number of epochs, in place of the plan's.
    """

    datasets: tuple[str, ...] | None = None
    alphas: tuple[float, ...] | None = None
    num_splits: int | None = None
    num_seeds: int | None = None
    num_epochs: int | None = None


def planned(
    experiments: Sequence[Experiment], scale: str, narrowing: Narrowing
) -> list[tuple[Configuration, ...]]:
    """The configurations of each experiment at a scale, narrowed down.

    Raises:
        ValueError: If the scale is unknown, if no experiment has something that is asked for, or
            if no run has all of it.
    """
    if scale not in SCALES:
        raise ValueError(f"--scale must be one of {', '.join(SCALES)}; got {scale!r}.")
    whole = [each for experiment in experiments for each in experiment.configurations[scale]]
    where = f"{', '.join(each.name for each in experiments)} at the scale {scale}"
    _check_among("--data", narrowing.datasets, [each.datasets for each in whole], where)
    _check_among("--alphas", narrowing.alphas, [each.alphas for each in whole], where)
    _check_count("--splits", narrowing.num_splits, [each.num_splits for each in whole], where)
    _check_count("--seeds", narrowing.num_seeds, [each.num_seeds for each in whole], where)
    _check_epochs(narrowing.num_epochs, whole, where)
    plans = [_narrowed(each.configurations[scale], scale, narrowing) for each in experiments]
    if not any(plans):
        raise ValueError(f"--data and --alphas must select a run of {where}; got none.")
    return plans


def _narrowed(
    whole: tuple[Configuration, ...], scale: str, wanted: Narrowing
) -> tuple[Configuration, ...]:
    narrowed = (_narrowed_one(configuration, scale, wanted) for configuration in whole)
    return tuple(each for each in narrowed if each.datasets and each.alphas)


def _narrowed_one(whole: Configuration, scale: str, wanted: Narrowing) -> Configuration:
    settings = {"scale": scale, **whole.settings}
    if wanted.num_epochs is not None and EPOCHS in settings:
        settings[EPOCHS] = wanted.num_epochs
    unnamed = () if whole.by_name else whole.datasets
    return replace(
        whole,
        datasets=unnamed if wanted.datasets is None else _kept(whole.datasets, wanted.datasets),
        alphas=_kept(whole.alphas, wanted.alphas),
        num_splits=min(whole.num_splits, wanted.num_splits or whole.num_splits),
        num_seeds=min(whole.num_seeds, wanted.num_seeds or whole.num_seeds),
        settings=settings,
    )


def _kept(whole: tuple, wanted: tuple | None) -> tuple:
    return whole if wanted is None else tuple(entry for entry in whole if entry in wanted)


def _check_among(option: str, wanted: tuple | None, whole: list[tuple], where: str) -> None:
    known = list(dict.fromkeys(entry for entries in whole for entry in entries))
    for entry in wanted or ():
        if entry not in known:
            raise ValueError(
                f"{option} must be among {', '.join(map(_text, known))} for {where}; "
                f"got {_text(entry) or 'nothing'}."
            )


def _check_count(option: str, wanted: int | None, whole: list[int], where: str) -> None:
    if wanted is not None and not 1 <= wanted <= max(whole):
        raise ValueError(f"{option} must be from 1 to {max(whole)} for {where}; got {wanted}.")


def _check_epochs(wanted: int | None, whole: Sequence[Configuration], where: str) -> None:
    if wanted is None:
        return
    if not any(EPOCHS in configuration.settings for configuration in whole):
        raise ValueError(
            f"--epochs must not be given for {where}, which has no epochs; got {wanted}."
        )
    if wanted < 1:
        raise ValueError(f"--epochs must be at least 1; got {wanted}.")


def _text(entry: Any) -> str:
    return f"{entry:g}" if isinstance(entry, float | int) else str(entry)
