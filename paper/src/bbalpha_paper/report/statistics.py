"""Statistics of runs: means with standard errors, paired differences, distances and ranks."""

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

import bbalpha as bb

Case = tuple[str, int, int]  # data set, split, seed
Values = Mapping[Case, float]


class Estimate(NamedTuple):
    """A mean.

    Attributes:
        mean: The mean.
        standard_error: The standard error of the mean; None if unknown.
        num_values: How many values it averages; 0 if unknown.
    """

    mean: float
    standard_error: float | None = None
    num_values: int = 0


def estimate(values: Iterable[float]) -> Estimate | None:
    """The mean of independent values; None if there are none.

    >>> from bbalpha_paper.report.statistics import estimate
    >>> estimate([1.0, 1.0, 1.0, 5.0])
    Estimate(mean=2.0, standard_error=1.0, num_values=4)
    """
    array = np.array(list(values))
    if not len(array):
        return None
    error = bb.metrics.standard_error(array) if len(array) > 1 else None
    return Estimate(float(array.mean()), error, len(array))


def over_cases(values: Values) -> Estimate | None:
    """The mean over cases; cases of one split, which differ only in the seed, are averaged first.

    >>> from bbalpha_paper.report.statistics import over_cases
    >>> over_cases({("pima", 0, 0): 0.0, ("pima", 0, 1): 2.0, ("pima", 1, 0): 3.0})
    Estimate(mean=2.0, standard_error=1.0, num_values=2)
    """
    splits: dict[tuple[str, int], list[float]] = {}
    for (dataset, split, _), value in values.items():
        splits.setdefault((dataset, split), []).append(value)
    if len(splits) == 1:
        return estimate(values.values())
    return estimate(sum(entries) / len(entries) for entries in splits.values())


def means(values: Mapping[float, Values]) -> dict[float, Estimate]:
    """The mean of every α that has values."""
    found = {alpha: over_cases(entries) for alpha, entries in values.items()}
    return {alpha: entry for alpha, entry in found.items() if entry}


def differences(values: Values, reference: Values) -> dict[Case, float]:
    """Values minus reference, for each case that both have."""
    return {case: value - reference[case] for case, value in values.items() if case in reference}


def paired(values: Values, reference: Values) -> Estimate | None:
    """The mean difference over the cases that both have."""
    return over_cases(differences(values, reference))


def distance(ours: Estimate | None, published: Estimate | None) -> float | None:
    """The number of combined standard errors between two means; None if unknown.

    (m₁ − m₂)/√(s₁² + s₂²), where an unpublished standard error counts as 0.

    >>> from bbalpha_paper.report.statistics import Estimate, distance
    >>> distance(Estimate(1.0, 0.3), Estimate(0.0, 0.4))
    2.0
    """
    if ours is None or ours.standard_error is None or published is None:
        return None
    combined = math.hypot(ours.standard_error, published.standard_error or 0.0)
    return (ours.mean - published.mean) / combined if combined else None


def ranks(scores: Mapping[float, Values], higher_is_better: bool) -> dict[float, Values]:
    """The ranks of every α, 1 being best, in the cases that have a score for each α."""
    cases: list[Case] = sorted(
        set.intersection(*(set(values) for values in scores.values())) if scores else ()
    )
    if not cases or len(scores) < 2:
        return {}
    array = np.array([[values[case] for values in scores.values()] for case in cases])
    columns = bb.metrics.ranks(array, higher_is_better).T.tolist()
    found = (dict(zip(cases, column, strict=True)) for column in columns)
    return dict(zip(scores, found, strict=True))
