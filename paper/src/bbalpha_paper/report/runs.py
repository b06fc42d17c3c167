"""The rows of one experiment, selected by configuration, data set and α."""

from collections.abc import Iterable
from typing import Any, TypeGuard

from bbalpha_paper.report.statistics import Case
from bbalpha_paper.rows import Row

VB = 0.0


class Runs(tuple[Row, ...]):
    """Rows of one experiment."""

    __slots__ = ()

    @property
    def configurations(self) -> list[str]:
        """Names of configurations, in the order of the rows."""
        return list(dict.fromkeys(row.configuration for row in self))

    @property
    def datasets(self) -> list[str]:
        """Names of data sets, in the order of the rows."""
        return list(dict.fromkeys(row.dataset for row in self))

    @property
    def alphas(self) -> list[float]:
        """Powers from the highest to the lowest."""
        return sorted({float(row.alpha) for row in self}, reverse=True)

    @property
    def num_splits(self) -> int:
        """The number of splits."""
        return len({row.split for row in self})

    @property
    def num_seeds(self) -> int:
        """The number of seeds."""
        return len({row.seed for row in self})

    @property
    def seconds(self) -> float:
        """The total time of all rows."""
        return sum(row.seconds for row in self)

    def where(self, **wanted: Any) -> "Runs":
        """The rows whose fields have these values."""
        return Runs(
            row for row in self if all(getattr(row, name) == wanted[name] for name in wanted)
        )

    def values(self, metric: str, position: int | None = None) -> dict[Case, float]:
        """A metric of every row that has it, or the number at a position of a list."""
        found = {_case(row): _entry(row.metrics.get(metric), position) for row in self}
        return {case: value for case, value in found.items() if value is not None}

    def by_alpha(self, metric: str) -> dict[float, dict[Case, float]]:
        """A metric for every α that has it."""
        found = {alpha: self.where(alpha=alpha).values(metric) for alpha in self.alphas}
        return {alpha: values for alpha, values in found.items() if values}


def ordered(first: Iterable, second: Iterable) -> list:
    """The union, without repetition: the first, then what only the second has."""
    return list(dict.fromkeys([*first, *second]))


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a metric is a number; None, for one that was not finite, is not."""
    return isinstance(value, int | float)


def numbers(value: Any) -> list[float]:
    """A metric that is a list of numbers; empty if it is missing or has gaps."""
    if not isinstance(value, list) or not all(map(is_number, value)):
        return []
    return [float(entry) for entry in value]


def _case(row: Row) -> Case:
    return row.dataset, row.split, row.seed


def _entry(value: Any, position: int | None) -> float | None:
    if position is not None:
        value = value[position] if isinstance(value, list) and position < len(value) else None
    return float(value) if is_number(value) else None
