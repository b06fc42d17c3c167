"""The picture of a comparison: one line per method, one panel per question."""

from typing import Any

import numpy as np

from bbalpha.message_passing.comparison import NONE, Comparison

BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito's, safe for color-blind readers
STYLE: Any = {"font.size": 10.5, "axes.spines.top": False, "axes.spines.right": False}
PANEL_WIDTH, LABEL_WIDTH, LINE_HEIGHT, MARGIN = 2.9, 1.9, 0.34, 1.3  # inches
MANY, FAINT = 20, 0.4  # more parameters than this are drawn with this opacity


def figure_of(comparison: Comparison) -> Any:
    """A matplotlib figure.

    Raises:
        ImportError: if matplotlib is not installed.
    """
    import matplotlib
    from matplotlib.figure import Figure

    rows, reference = comparison.rows, comparison.reference
    panels = _panels(comparison)
    size = (LABEL_WIDTH + PANEL_WIDTH * len(panels), MARGIN + LINE_HEIGHT * len(rows))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=size, dpi=150, layout="constrained")
        axes = np.atleast_1d(figure.subplots(1, len(panels), sharey=True))
        for axis, (title, values, line) in zip(axes, panels, strict=True):
            _draw(axis, title, values, line)
        axes[0].set_yticks(range(len(rows)), [row.label for row in rows])
        axes[0].set_ylim(len(rows) - 0.5, -0.5)
        if reference.method != NONE:
            figure.suptitle(f"Orange: the reference ({reference.method})", fontsize=10.5)
    return figure


def _panels(comparison: Comparison) -> list[tuple[str, list[np.ndarray], float]]:
    """Panels: the title, the numbers of each row, and the reference; empty panels are left out."""
    reference = comparison.reference

    def numbers(name: str) -> list[np.ndarray]:
        return [np.array([getattr(row, name)]) for row in comparison.rows]

    def each(function: Any) -> list[np.ndarray]:
        return [function(row) for row in comparison.rows]

    panels = [
        ("mean − reference\n(deviations)", each(comparison.mean_errors), 0.0),
        ("deviation\n(reference = 1)", each(comparison.deviation_ratios), 1.0),
        ("log evidence\n(nats)", numbers("log_evidence"), reference.log_evidence),
        ("held-out log-likelihood\n(nats per row)", numbers("held_out"), reference.held_out),
        ("time\n(seconds)", numbers("seconds"), np.nan),
    ]
    return [panel for panel in panels if np.isfinite(np.concatenate(panel[1])).any()]


def _draw(axis: Any, title: str, values: list[np.ndarray], line: float) -> None:
    """Draw the numbers of each row on a separate line."""
    for place, numbers in enumerate(values):
        shown = numbers[np.isfinite(numbers)]
        axis.axhline(place, color="0.9", linewidth=0.8, zorder=0)
        alpha = 1.0 if len(numbers) < MANY else FAINT
        axis.scatter(shown, np.full(len(shown), place), s=26, color=BLUE, alpha=alpha, zorder=3)
    axis.set_xlabel(title)
    axis.tick_params(axis="y", length=0)
    if np.isfinite(line):
        axis.axvline(line, color=ORANGE, linewidth=1.2, zorder=1)
    if title.startswith("time"):
        _use_decades(axis, np.concatenate(values))
    else:
        axis.locator_params(axis="x", nbins=4)


def _use_decades(axis: Any, seconds: np.ndarray) -> None:
    """A logarithmic axis between powers of ten."""
    from matplotlib.ticker import NullFormatter

    shown = seconds[seconds > 0]
    low, high = np.floor(np.log10(shown.min())), np.ceil(np.log10(shown.max()))
    axis.set_xscale("log")
    axis.set_xlim(10.0**low, 10.0 ** max(high, low + 1))
    axis.xaxis.set_major_formatter(lambda number, _: f"{number:g}")
    axis.xaxis.set_minor_formatter(NullFormatter())
