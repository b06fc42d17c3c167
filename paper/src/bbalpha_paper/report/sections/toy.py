"""A network on twenty points of a cubic: its predictions by α."""

from functools import partial
from typing import Any

import numpy as np

from bbalpha_paper.report.charts import alpha_keys
from bbalpha_paper.report.colors import INK, alpha_color
from bbalpha_paper.report.document import Block, Cell, Figure, Group, Key, Panel, Paragraph, Table
from bbalpha_paper.report.runs import Runs, numbers
from bbalpha_paper.report.words import alpha_label, alpha_name, number
from bbalpha_paper.rows import Row

TITLE = "A cubic from twenty points"
PLACE = "Appendix C, Figure 9"
INTRODUCTION = (
    "Twenty inputs from [−4, 4] and targets x³ with noise of standard deviation 3, which is known "
    "to the network of 100 hidden units. In the paper larger α give wider predictions. The paper "
    "gives neither its four values of α nor its schedule. These α are ours, and “paper's schedule” "
    "is a guess: the schedule of the authors' regression code, with as many steps as 500 epochs on "
    "Boston. At that point q is still moving. When the energy is minimized to convergence "
    "(“converged”), α ≤ 0 still follows the data, but for α = 0.5 and 1 q approaches the prior and "
    "the data disappear in its spread. Without standardization (“original units”) the network "
    "follows the data more slowly and spreads less."
)
NUM_DEVIATIONS = 3  # of the band
EDGE = 4.0  # of the inputs


def outcome(runs: Runs) -> str:
    """How the predictive standard deviation depends on α."""
    words = []
    for name in runs.configurations:
        rows = _drawable(runs.where(configuration=name))
        if len(rows) > 1:
            ends = [
                f"{number(_spread(r), 2)} at {alpha_label(r.alpha)}" for r in (rows[0], rows[-1])
            ]
            words.append(f"from {' to '.join(ends)} ({name})")
    if not words:
        return "No fits with several α yet."
    return f"The mean predictive standard deviation goes {'; '.join(words)}."


def blocks(runs: Runs) -> tuple[Block, ...]:
    """A figure and a table for each configuration."""
    found: list[Block] = []
    for position, name in enumerate(runs.configurations):
        rows = _drawable(runs.where(configuration=name))
        if rows:
            found.append(_figure(rows, f"toy-{position}", name))
    return (*found, _table(runs)) if found else (Paragraph("No runs to draw yet."),)


def _drawable(runs: Runs) -> list[Row]:
    """The first run with predictions of every α, the lowest α first."""
    rows = {row.alpha: row for row in reversed(runs) if _is_drawable(row)}
    return [rows[alpha] for alpha in sorted(rows)]


def _is_drawable(row: Row) -> bool:
    lengths = {len(numbers(row.metrics.get(name))) for name in ("grid", "mean", "deviation")}
    return len(lengths) == 1 and lengths != {0}


def _spread(row: Row, inside: bool | None = None) -> float:
    """The mean predictive standard deviation: everywhere, only with data, or only without."""
    grid, deviation = np.array(row.metrics["grid"]), np.array(row.metrics["deviation"])
    where = np.full(len(grid), True) if inside is None else (np.abs(grid) <= EDGE) == inside
    return float(np.mean(deviation[where])) if where.any() else float("nan")


def _table(runs: Runs) -> Table:
    groups = []
    for name in runs.configurations:
        rows = tuple(
            (
                Cell(alpha_name(row.alpha)),
                *(Cell(number(_spread(row, inside), 2)) for inside in (None, True, False)),
            )
            for row in reversed(_drawable(runs.where(configuration=name)))
        )
        groups.append(Group(name, rows))
    return Table(
        caption="Mean predictive standard deviation over the inputs of the figure",
        header=("α", "everywhere", "|x| ≤ 4, with data", "|x| > 4, without data"),
        groups=tuple(groups),
    )


def _figure(rows: list[Row], figure: str, name: str) -> Figure:
    bands = [(np.array(row.metrics["mean"]), np.array(row.metrics["deviation"])) for row in rows]
    low = min(float(np.min(mean - NUM_DEVIATIONS * width)) for mean, width in bands)
    high = max(float(np.max(mean + NUM_DEVIATIONS * width)) for mean, width in bands)
    return Figure(
        name=figure,
        caption=f"Predictions, {name}: mean ± {NUM_DEVIATIONS} standard deviations, the cubic "
        "(dashed) and the data",
        panels=tuple(
            Panel(alpha_label(row.alpha), partial(_draw, row=row, limits=(low, high)))
            for row in rows
        ),
        legend=(Key("x³", INK, dashed=True), *alpha_keys(row.alpha for row in rows)),
    )


def _draw(axes: Any, row: Row, limits: tuple[float, float]) -> None:
    grid, mean, deviation = (np.array(row.metrics[name]) for name in ("grid", "mean", "deviation"))
    color, reach = alpha_color(row.alpha), NUM_DEVIATIONS * deviation
    axes.fill_between(grid, mean - reach, mean + reach, color=color, alpha=0.22, linewidth=0)
    axes.plot(grid, mean, color=color, linewidth=2)
    axes.plot(grid, grid**3, "--", color=INK, linewidth=1)
    inputs, targets = (numbers(row.metrics.get(f"train_{name}")) for name in ("inputs", "targets"))
    if len(inputs) == len(targets):
        axes.plot(inputs, targets, "o", color=INK, markersize=3.5)
    axes.set(xlim=(grid[0], grid[-1]), ylim=limits, xlabel="x", ylabel="y")
