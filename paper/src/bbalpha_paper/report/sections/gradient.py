"""Bias and standard deviation of the gradient by number of draws K and α."""

import math
from collections.abc import Callable

from bbalpha_paper.report.background import extent
from bbalpha_paper.report.document import Block, Cell, Group, Paragraph, Table
from bbalpha_paper.report.published import GRADIENT_BIAS, GRADIENT_DEVIATION, Published
from bbalpha_paper.report.runs import VB, Runs, numbers
from bbalpha_paper.report.statistics import Estimate, estimate, paired
from bbalpha_paper.report.words import (
    NONE,
    alpha_label,
    alpha_name,
    estimate_cell,
    number,
    published_cell,
    small_number,
)

TITLE = "Bias and variance of the gradient"
PLACE = "Section 4.5, Tables 4 and 5"
INTRODUCTION = (
    "The energy contains the logarithm of a mean over K draws, so its gradient is biased. In the "
    "paper the bias falls with K and as α → 0, and is far below the gradient's standard deviation."
)
NOISE = (
    "The paper's bias is the distance between two means of noisy gradients, minus the same for VB, "
    "whose gradient has no bias. Squared lengths would add up but lengths do not, so with noise "
    "the difference is smaller than the bias. Ours vanishes at α = 10⁻⁶ because all α use the same "
    "draws; the paper's 0.046 there must be noise, because the bias is almost zero. The de-noised "
    "bias compares the same draws in groups of K and all at once, which leaves the bias and hardly "
    "any noise. The paper gives no standard errors."
)
DIGITS = 4
SMALL_ALPHA = 1e-6  # at which all draws have the same weight
SMALL = 1e-4  # below which a bias is written as a power of ten


def outcome(runs: Runs) -> str:
    """The ratio of the standard deviation to the de-noised bias with the most draws."""
    position, draws = max(enumerate(_num_samples(runs)), key=lambda pair: pair[1], default=(0, 0))
    ratios = {
        alpha: _ratio(runs.where(alpha=alpha), position) for alpha in runs.alphas if alpha != VB
    }
    known = {alpha: ratio for alpha, ratio in ratios.items() if ratio}
    if not known:
        return "No biases and standard deviations to compare yet."
    words = ", ".join(f"{r:,.0f} at {alpha_label(a)}" for a, r in known.items())
    return (
        f"With K = {draws:g} the standard deviation exceeds the de-noised bias by a factor of "
        f"{words}."
    )


def blocks(runs: Runs) -> tuple[Block, ...]:
    """The paper's two tables and the de-noised bias, for each configuration."""
    found: list[Block] = [Paragraph(NOISE)]
    for name in runs.configurations:
        part = runs.where(configuration=name)
        where = f"{', '.join(part.datasets)}, {extent(part)}"
        found += [
            _compared_with_paper(
                part, f"Bias minus the bias of VB: {where}", GRADIENT_BIAS, _bias_above_vb
            ),
            _compared_with_paper(
                part, f"Standard deviation of the gradient: {where}", GRADIENT_DEVIATION, _deviation
            ),
            *_sources(part),
            _denoised(part, where),
        ]
    return tuple(found)


def _compared_with_paper(
    runs: Runs,
    caption: str,
    published: Published,
    measure: Callable[[Runs, float, int], Estimate | None],
) -> Table:
    """A group per K, a row per α."""
    groups = []
    for position, draws in enumerate(_num_samples(runs)):
        rows = []
        for alpha in runs.alphas:
            ours, theirs = measure(runs, alpha, position), published.of(f"{draws:g}", alpha)
            if ours or theirs:
                cells = estimate_cell(ours, DIGITS), published_cell(theirs, DIGITS)
                share = number(ours.mean / theirs.mean, 2) if ours and theirs else NONE
                rows.append((Cell(alpha_name(alpha)), *cells, Cell(share)))
        groups.append(Group(f"K = {draws:g}", tuple(rows)))
    header = ("α", "bbalpha", "paper", "bbalpha / paper")
    return Table(caption=caption, header=header, groups=tuple(groups))


def _sources(runs: Runs) -> list[Paragraph]:
    """How much minibatches and draws contribute to the variance, b² + d²/K, by its fall with K."""
    draws = _num_samples(runs)
    if len(draws) < 2:
        return []
    words = []
    for whose, (few, many) in {
        "ours": [_deviation(runs, SMALL_ALPHA, end) for end in (0, len(draws) - 1)],
        "the paper's": [GRADIENT_DEVIATION.of(f"{draws[end]:g}", SMALL_ALPHA) for end in (0, -1)],
    }.items():
        if few is None or many is None:
            return []
        of_draws = (few.mean**2 - many.mean**2) / (1 / draws[0] - 1 / draws[-1])
        of_batches = few.mean**2 - of_draws / draws[0]
        parts = (number(math.sqrt(max(part, 0.0)), 1) for part in (of_batches, of_draws))
        words.append(f"{' and '.join(parts)} ({whose})")
    text = (
        "The standard deviation is √(b² + d²/K), where b comes from the minibatches and d from the "
        f"draws. At {alpha_label(SMALL_ALPHA)}, the values for K = {draws[0]:g} and "
        f"{draws[-1]:g} give b and d: {', '.join(words)}."
    )
    return [Paragraph(text)]


def _bias_above_vb(runs: Runs, alpha: float, position: int) -> Estimate | None:
    if alpha == VB:
        return None
    reference = runs.where(alpha=VB).values("bias", position)
    return paired(runs.where(alpha=alpha).values("bias", position), reference)


def _deviation(runs: Runs, alpha: float, position: int) -> Estimate | None:
    return estimate(runs.where(alpha=alpha).values("deviation", position).values())


def _denoised(runs: Runs, where: str) -> Table:
    groups = []
    for position, draws in enumerate(_num_samples(runs)):
        rows = []
        for alpha in runs.alphas:
            if alpha == VB:
                continue  # the gradient of VB has no bias
            part = runs.where(alpha=alpha)
            bias, denoised, deviation = (
                estimate(part.values(metric, position).values())
                for metric in ("bias", "denoised_bias", "deviation")
            )
            cells = (
                estimate_cell(bias, DIGITS),
                _bias_cell(denoised),
                estimate_cell(deviation, DIGITS),
                Cell(_times(_ratio(part, position))),
            )
            rows.append((Cell(alpha_name(alpha)), *cells))
        groups.append(Group(f"K = {draws:g}", tuple(rows)))
    return Table(
        caption=f"De-noised bias: {where}",
        header=("α", "bias as measured", "de-noised bias", "std. dev.", "std. dev. / de-noised"),
        groups=tuple(groups),
    )


def _bias_cell(bias: Estimate | None) -> Cell:
    if bias is None or not 0 < bias.mean < SMALL:
        return estimate_cell(bias, DIGITS)
    return Cell(small_number(bias.mean))


def _ratio(runs: Runs, position: int) -> float | None:
    """The ratio of the standard deviation to the de-noised bias; None if unknown."""
    bias = estimate(runs.values("denoised_bias", position).values())
    deviation = estimate(runs.values("deviation", position).values())
    if bias is None or deviation is None or bias.mean <= 0:
        return None
    exact = deviation.mean / bias.mean
    return round(exact, 1 - math.floor(math.log10(exact)))  # two digits


def _times(ratio: float | None) -> str:
    return NONE if ratio is None else f"{ratio:,.0f} ×" if ratio >= 10 else f"{ratio:g} ×"


def _num_samples(runs: Runs) -> list[float]:
    """The numbers of draws K, which all rows share."""
    return max((numbers(row.metrics.get("num_samples")) for row in runs), key=len, default=[])
