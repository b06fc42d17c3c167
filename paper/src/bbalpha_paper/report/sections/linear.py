"""Linear regression with two weights: fitted covariances, closed forms and true posteriors."""

from functools import partial
from typing import Any

import numpy as np

from bbalpha_paper.report.charts import alpha_keys
from bbalpha_paper.report.colors import FILL, INK, MUTED, alpha_color
from bbalpha_paper.report.document import Block, Cell, Figure, Group, Key, Panel, Table
from bbalpha_paper.report.runs import Runs, is_number, numbers
from bbalpha_paper.report.words import alpha_name, number, upper_bound
from bbalpha_paper.rows import Row

TITLE = "Linear regression in closed form"
PLACE = "Appendix B, Examples 1 and 2, Figures 5 to 8"
INTRODUCTION = (
    "Two observations with y = 0 and σ² = 1. The fitted variance grows with α. In Example 1 the "
    "fit recovers the true posterior only as α → 0, although the family contains it. In Example 2 "
    "the posterior is correlated, and the fit underestimates its spread, more so for smaller α."
)
NUM_ELLIPSES = 5
PREFERRED = (1.0, 0.0, 0.5, 1.5, -1.0, 1e-6)  # powers to draw ellipses for, if present
TURN = np.linspace(0, 2 * np.pi, 121)


def outcome(runs: Runs) -> str:
    """How close the fits are to the closed forms."""
    errors = [
        abs(_variance(row) - closed)
        for row in filter(_is_fitted, runs)
        if (closed := _closed_form(row)) is not None
    ]
    if not errors:
        return "No fits with a closed form to compare yet."
    return (
        f"The fitted variance is within {upper_bound(max(errors))} of the closed form "
        f"in all {len(errors)} fits."
    )


def blocks(runs: Runs) -> tuple[Block, ...]:
    """A figure and a table for each example."""
    found: list[Block] = []
    for dataset in runs.datasets:
        fitted = filter(_is_fitted, runs.where(dataset=dataset))
        rows = sorted(fitted, key=lambda row: row.alpha)
        if rows:
            found += [_figure(rows, dataset), _table(rows, dataset)]
    return tuple(found)


def _is_fitted(row: Row) -> bool:
    return _matrix(row, "covariance") is not None and len(numbers(row.metrics.get("mean"))) == 2


def _matrix(row: Row, name: str) -> np.ndarray | None:
    entries = row.metrics.get(name)
    lines = [numbers(line) for line in entries] if isinstance(entries, list) else []
    return np.array(lines) if [len(line) for line in lines] == [2, 2] else None


def _variance(row: Row) -> float:
    return float(row.metrics["covariance"][0][0])


def _closed_form(row: Row) -> float | None:
    value = row.metrics.get("variance_closed_form")
    return float(value) if is_number(value) else None


def _table(rows: list[Row], dataset: str) -> Table:
    return Table(
        caption=f"Variance of the first weight, {dataset}",
        header=("α", "fitted", "closed form", "difference", "true posterior"),
        groups=(Group("", tuple(map(_row, reversed(rows)))),),
    )


def _row(row: Row) -> tuple[Cell, ...]:
    closed, true = _closed_form(row), _matrix(row, "true_covariance")
    return (
        Cell(alpha_name(row.alpha)),
        Cell(number(_variance(row), 6)),
        Cell(number(closed, 6), "published"),
        Cell(number(None if closed is None else _variance(row) - closed, 6, signed=True)),
        Cell(number(None if true is None else float(true[0, 0]), 6)),
    )


def _figure(rows: list[Row], dataset: str) -> Figure:
    shown = _shown(rows)
    return Figure(
        name=f"linear-{dataset}",
        caption=f"Fits of {dataset}: variance by α, and ellipses of one standard deviation",
        panels=(
            Panel("variance", partial(_draw_variances, rows=rows)),
            Panel("one standard deviation", partial(_draw_ellipses, rows=shown)),
        ),
        legend=(
            Key("closed form", MUTED),
            Key("true posterior", FILL),
            *alpha_keys(row.alpha for row in shown),
        ),
    )


def _shown(rows: list[Row]) -> list[Row]:
    """A few rows whose ellipses can be told apart."""
    preferred = [row for alpha in PREFERRED for row in rows if row.alpha == alpha]
    others = [row for row in rows if row not in preferred]
    return sorted((preferred + others)[:NUM_ELLIPSES], key=lambda row: row.alpha)


def _draw_variances(axes: Any, rows: list[Row]) -> None:
    closed = [(row.alpha, value) for row in rows if (value := _closed_form(row)) is not None]
    if closed:
        axes.plot(*zip(*closed, strict=True), color=MUTED, linewidth=1.5)
    for row in rows:
        axes.plot(row.alpha, _variance(row), "o", color=alpha_color(row.alpha), markersize=5)
    axes.set(xlabel="α", ylabel="variance of q")


def _draw_ellipses(axes: Any, rows: list[Row]) -> None:
    true = _matrix(rows[0], "true_covariance")
    center = numbers(rows[0].metrics.get("true_mean"))
    if true is not None and len(center) == 2:
        axes.fill(*_ellipse(center, true), color=FILL, linewidth=0)
        axes.plot(*center, "+", color=INK)
    for row in rows:
        covariance = np.array(row.metrics["covariance"])
        color = alpha_color(row.alpha)
        axes.plot(*_ellipse(row.metrics["mean"], covariance), color=color, linewidth=1.8)
    axes.set(xlabel="θ₁", ylabel="θ₂")
    axes.set_aspect("equal", adjustable="datalim")


def _ellipse(mean: list[float], covariance: np.ndarray) -> np.ndarray:
    """Points at one standard deviation from the mean."""
    values, vectors = np.linalg.eigh(covariance)
    circle = np.stack([np.cos(TURN), np.sin(TURN)])
    return np.array(mean)[:, None] + (vectors * np.sqrt(values)) @ circle
