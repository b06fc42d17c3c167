"""A Gaussian fitted to a mixture by minimizing the α-divergence, for many α."""

import math
from functools import partial
from typing import Any

import numpy as np

from bbalpha_paper.report.colors import FILL, MUTED, alpha_color
from bbalpha_paper.report.document import Block, Cell, Details, Figure, Group, Key, Panel, Table
from bbalpha_paper.report.runs import Runs, is_number, numbers
from bbalpha_paper.report.words import alpha_label, alpha_name, number
from bbalpha_paper.rows import Row

TITLE = "Divergences"
PLACE = "Section 2, Figure 2"
INTRODUCTION = (
    "A Gaussian q with free mass is fitted to a mixture p by minimizing the α-divergence. For "
    "large α it covers all of p; for very negative α it stays in the mode with the most mass. The "
    "paper does not give its mixture; this one is ours."
)
FITTED = ("mean", "deviation", "log_mass")
DRAWN = (-1.0, 0.0, 0.5, 1.0)  # in addition to the smallest and the largest α
NUM_POINTS = 241


def outcome(runs: Runs) -> str:
    """How the standard deviation of q grows with α."""
    fitted = sorted(filter(_is_fitted, runs), key=lambda row: row.alpha)
    if len(fitted) < 2:
        return "No fits with several α yet."
    first, last = fitted[0], fitted[-1]
    ends = [
        f"{number(row.metrics['deviation'], 2)} at {alpha_label(row.alpha)}"
        for row in (first, last)
    ]
    return f"The standard deviation of q grows from {' to '.join(ends)}."


def blocks(runs: Runs) -> tuple[Block, ...]:
    """The figure and the fitted numbers."""
    fitted = sorted(filter(_is_fitted, runs), key=lambda row: row.alpha)
    table = Table(
        caption="",
        header=("α", "mean", "deviation", "log mass", "mass", "log divergence"),
        groups=(Group("", tuple(map(_row, reversed(fitted)))),),
    )
    numbers_of_all = Details("All fitted Gaussians, exp(log mass) · N(mean, deviation²)", (table,))
    drawn = [row for row in fitted if row.alpha in DRAWN or row in (fitted[0], fitted[-1])]
    return (_figure(drawn), numbers_of_all) if fitted else (numbers_of_all,)


def _is_fitted(row: Row) -> bool:
    return all(is_number(row.metrics.get(name)) for name in FITTED)


def _row(row: Row) -> tuple[Cell, ...]:
    values = row.metrics
    entries = (
        number(values["mean"], 4),
        number(values["deviation"], 4),
        number(values["log_mass"], 4),
        number(math.exp(values["log_mass"]), 4),
        number(values.get("log_divergence"), 4),
    )
    return (Cell(alpha_name(row.alpha)), *map(Cell, entries))


def _figure(fitted: list[Row]) -> Figure:
    grid = _grid(fitted)
    return Figure(
        name="divergence",
        caption="The mixture p (filled) and the Gaussian q that minimizes the divergence",
        panels=tuple(
            Panel(alpha_label(row.alpha), partial(_draw, row=row, grid=grid)) for row in fitted
        ),
        legend=(
            Key("p", FILL),
            *(Key(f"q, {alpha_label(r.alpha)}", alpha_color(r.alpha)) for r in fitted),
        ),
    )


def _grid(fitted: list[Row]) -> np.ndarray:
    """Where p or a q is not small."""
    centers, widths = [], []
    for row in fitted:
        centers += [*numbers(row.settings.get("means")), row.metrics["mean"]]
        widths += [*numbers(row.settings.get("deviations")), row.metrics["deviation"]]
    places, reach = np.array(centers), 3 * np.array(widths)[: len(centers)]
    return np.linspace(np.min(places - reach), np.max(places + reach), NUM_POINTS)


def _draw(axes: Any, row: Row, grid: np.ndarray) -> None:
    names = ("weights", "means", "deviations")
    parts = zip(*(numbers(row.settings.get(name)) for name in names), strict=True)
    mixture = sum((w * _normal(grid, m, s) for w, m, s in parts), np.zeros_like(grid))
    mean, deviation, log_mass = (row.metrics[name] for name in FITTED)
    axes.fill_between(grid, mixture, color=FILL, linewidth=0)
    axes.plot(grid, mixture, color=MUTED, linewidth=1)
    axes.plot(
        grid,
        math.exp(log_mass) * _normal(grid, mean, deviation),
        color=alpha_color(row.alpha),
        linewidth=2,
    )
    axes.set(xlim=(grid[0], grid[-1]), ylim=(0, None), xlabel="θ", ylabel="density")


def _normal(grid: np.ndarray, mean: float, deviation: float) -> np.ndarray:
    scaled = (grid - mean) / deviation
    return np.exp(-(scaled**2) / 2) / (deviation * math.sqrt(2 * math.pi))
