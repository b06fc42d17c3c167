"""Scores: tables of a metric by data set and α, compared with the paper and with VB."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from bbalpha_paper.report.background import extent
from bbalpha_paper.report.document import Cell, Group, Table
from bbalpha_paper.report.published import RANK, Published
from bbalpha_paper.report.runs import VB, Runs, ordered
from bbalpha_paper.report.statistics import (
    Case,
    Estimate,
    Values,
    differences,
    distance,
    means,
    over_cases,
    paired,
    ranks,
)
from bbalpha_paper.report.words import (
    BEYOND,
    NONE,
    alpha_label,
    alpha_name,
    alpha_tick,
    count,
    distance_cell,
    estimate_cell,
    paired_cell,
    published_cell,
    small_number,
)

SMALL = 1e-6  # the power that should give the same as VB
RANK_DIGITS = 2


@dataclass(frozen=True)
class Score:
    """How to show a metric.

    Attributes:
        metric: Its name in the rows.
        digits: Number of decimals.
        higher_is_better: Whether larger values are better.
        factor: The factor to multiply it by.
    """

    metric: str
    digits: int = 3
    higher_is_better: bool = True
    factor: float = 1.0

    def by_alpha(self, runs: Runs) -> dict[float, Values]:
        """Its values for every α that has any."""
        return {
            alpha: {case: self.factor * value for case, value in values.items()}
            for alpha, values in runs.by_alpha(self.metric).items()
        }

    def estimates(self, runs: Runs) -> dict[float, Estimate]:
        """Its mean for every α that has values."""
        return means(self.by_alpha(runs))

    def ranks(self, runs: Runs) -> dict[float, Values]:
        """The rank of every α, 1 being best, in each case that has a value for each α."""
        return ranks(self.by_alpha(runs), self.higher_is_better)


LOG_LIKELIHOOD = Score("log_likelihood")
LOG_LIKELIHOOD_50 = Score("log_likelihood_50")
ERROR = Score("error", higher_is_better=False)
RMSE = Score("rmse", higher_is_better=False)


def compared_with_paper(
    runs: Runs, score: Score, caption: str, published: Published, ranked: bool = True
) -> Table:
    """A row per data set and α: our number, the paper's, their distance, and the gain over VB."""
    groups = [
        _dataset_group(runs.where(dataset=dataset), dataset, score, published)
        for dataset in ordered(published.datasets, runs.datasets)
    ]
    ranks = _rank_group(runs, score, published) if ranked else None
    return Table(
        caption=caption,
        header=("α", "bbalpha", "paper", "Δ in s.e.", "minus VB"),
        groups=(*groups, *([ranks] if ranks else [])),
    )


def agreement(runs: Runs, score: Score, published: Published) -> tuple[int, int]:
    """How many published numbers lie within two combined standard errors of ours, and the total.

    Only numbers of ours with a standard error count.
    """
    found = [
        distance(ours, published.of(dataset, alpha))
        for dataset in runs.datasets
        for alpha, ours in score.estimates(runs.where(dataset=dataset)).items()
    ]
    known = [abs(entry) for entry in found if entry is not None]
    return sum(entry <= BEYOND for entry in known), len(known)


def orders(runs: Runs, scores: Sequence[tuple[str, Score, Published]]) -> str:
    """The powers in the order of each score, ours and the paper's, for every configuration.

    Consecutive scores with the same published numbers share the paper's order.
    """
    sentences = []
    for configuration in runs.configurations:
        part = runs.where(configuration=configuration)
        words = []
        for published, group in groupby(scores, lambda entry: entry[2]):
            found = [(name, score, score.estimates(part)) for name, score, _ in group]
            ours = [f"by {name}: {_order(by, score)}" for name, score, by in found if len(by) > 1]
            theirs = "; ".join(
                _order(published.rows[row], found[0][1]) for row in published.datasets
            )
            if ours:
                words.append(f"{'; '.join(ours)} (paper: {theirs})")
        if words:
            sentences.append(f"From best to worst α ({configuration}), {'; '.join(words)}.")
    return " ".join(sentences) or "No runs with several α yet."


def _order(found: Mapping[float, Estimate], score: Score) -> str:
    """Powers from best to worst, joined by = where the printed scores are equal."""

    def shown(alpha: float) -> float:
        return round(found[alpha].mean, score.digits)

    alphas = sorted(sorted(found), key=shown, reverse=score.higher_is_better)
    ties = (" = ".join(map(alpha_tick, group)) for _, group in groupby(alphas, shown))
    return ", ".join(ties)


def across_alphas(runs: Runs, score: Score, caption: str, ranked: bool = False) -> Table:
    """A row per data set, a column per α."""
    alphas = runs.alphas
    rows = []
    for dataset in runs.datasets:
        part = runs.where(dataset=dataset)
        found = score.estimates(part)
        cells = (estimate_cell(found.get(alpha), score.digits) for alpha in alphas)
        rows.append((Cell(dataset), Cell(extent(part)), *cells))
    if ranked:
        found = score.ranks(runs)
        average = means(found)
        cells = (estimate_cell(average.get(alpha), RANK_DIGITS) for alpha in alphas)
        rows.append((Cell("average rank"), Cell(count(len(_cases(found)), "case")), *cells))
    header = ("data set", "per α", *map(alpha_label, alphas))
    return Table(caption=caption, header=header, groups=(Group("", tuple(rows)),))


def against_vb(runs: Runs, score: Score, caption: str) -> Table:
    """A row per data set: the gain of each α over VB, paired by split."""
    alphas = [alpha for alpha in runs.alphas if alpha != VB]
    rows = []
    for dataset in runs.datasets:
        values = score.by_alpha(runs.where(dataset=dataset))
        found = (paired(values.get(alpha, {}), values.get(VB, {})) for alpha in alphas)
        rows.append((Cell(dataset), *(paired_cell(entry, score.digits) for entry in found)))
    header = ("data set", *(f"{alpha_label(alpha)}, minus VB" for alpha in alphas))
    return Table(caption=caption, header=header, groups=(Group("", tuple(rows)),))


def limit_table(runs: Runs, scores: Sequence[tuple[str, Score]]) -> Table:
    """A row per data set: the largest and the mean distance of α = 10⁻⁶ from VB."""
    rows = []
    for dataset in runs.datasets:
        cells = [Cell(dataset)]
        for _, score in scores:
            apart = list(map(abs, limit_differences(runs.where(dataset=dataset), score)))
            known = [max(apart), sum(apart) / len(apart)] if apart else []
            cells += [Cell(small_number(value)) for value in known] or [Cell(NONE)] * 2
        rows.append(tuple(cells))
    header = [text for name, _ in scores for text in (f"{name}: largest", f"{name}: mean")]
    return Table(
        caption="Distance of α = 10⁻⁶ from VB on the same split",
        header=("data set", *header),
        groups=(Group("", tuple(rows)),),
    )


def limit_differences(runs: Runs, score: Score) -> list[float]:
    """The differences between α = 10⁻⁶ and VB."""
    values = score.by_alpha(runs)
    return list(differences(values.get(SMALL, {}), values.get(VB, {})).values())


def _dataset_group(runs: Runs, dataset: str, score: Score, published: Published) -> Group:
    values = score.by_alpha(runs)
    alphas = ordered(published.rows.get(dataset, {}), values)
    rows = []
    for alpha in sorted(alphas, reverse=True):
        ours = over_cases(values.get(alpha, {}))
        theirs = published.of(dataset, alpha)
        gain = paired(values.get(alpha, {}), values.get(VB, {})) if alpha != VB else None
        rows.append(
            (
                Cell(alpha_name(alpha)),
                estimate_cell(ours, score.digits),
                published_cell(theirs, score.digits),
                distance_cell(distance(ours, theirs)),
                paired_cell(gain, score.digits),
            )
        )
    return Group(f"{dataset} · {extent(runs)}", tuple(rows))


def _rank_group(runs: Runs, score: Score, published: Published) -> Group | None:
    found = score.ranks(runs)
    average = means(found)
    theirs = published.rows.get(RANK, {})
    if not average or (theirs and set(theirs) != set(average)):  # ranks among others do not compare
        return None
    rows = tuple(
        (
            Cell(alpha_name(alpha)),
            estimate_cell(average.get(alpha), RANK_DIGITS),
            published_cell(published.of(RANK, alpha), RANK_DIGITS),
            distance_cell(distance(average.get(alpha), published.of(RANK, alpha))),
            Cell(NONE),
        )
        for alpha in sorted(average, reverse=True)
    )
    cases = _cases(found)
    num_datasets = len({dataset for dataset, _, _ in cases})
    where = f" of {count(num_datasets, 'data set')}" if num_datasets > 1 else ""
    return Group(f"average rank · {count(len(cases), 'case')}{where}", rows)


def _cases(ranks: Mapping[float, Values]) -> list[Case]:
    """The cases of ranks, which are the same for every α."""
    return list(next(iter(ranks.values()), ()))
