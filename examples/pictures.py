"""How the pictures of the examples are drawn: matplotlib only, nothing of bbalpha is needed."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

COLORS = ("#0072B2", "#009E73", "#D55E00")  # Okabe and Ito, told apart by every eye
Z90 = 1.645  # a Gaussian lies within this many deviations with probability 90 %
STYLE = {"font.size": 10.5, "axes.spines.top": False, "axes.spines.right": False}


def diabetes(mass_index, progression, alphas, curves, levels=None):
    """Predictions at each α and, given the levels of `calibration`, whether intervals hold true."""
    widths = [1, 1, 1] if levels is None else [1, 1, 1, 1.2]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(3.3 * sum(widths), 4 if levels is None else 4.8), dpi=150)
        figure.set_layout_engine("constrained")
        axes = figure.subplots(1, len(widths), width_ratios=widths)
        for axis, alpha, color, curve in zip(axes[:3], alphas, COLORS, curves, strict=True):
            bands(axis, color, *curve)
            axis.scatter(mass_index, progression, s=9, color="0.15", alpha=0.6, linewidths=0)
            axis.set_title(f"α = {alpha:g}, {alphas[alpha]}", color=color, weight="bold")
            axis.set(xlabel="body-mass index", xlim=curve[0][[0, -1]], ylim=(-70, 530))
            axis.label_outer()
        axes[0].set_ylabel("disease progression after a year")
        lines = [] if levels is None else calibration(axes[3], alphas, levels)
        handles = [
            Line2D([], [], marker="o", markersize=3, linestyle="", color="0.15", label="patients"),
            Line2D([], [], color="0.3", linewidth=2, label="mean"),
            Patch(facecolor="0.6", label="90 % band of the network"),
            Patch(facecolor="0.85", label="90 % band of a new patient (with noise)"),
            *lines,
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=7, frameon=False)
    return figure


def bands(axis, color, grid, mean, network_deviation, total_deviation):
    """The mean, the 90 % band of the network and, lighter, the band of a new observation."""
    for deviation, opacity in ((total_deviation, 0.18), (network_deviation, 0.4)):
        low, high = mean - Z90 * deviation, mean + Z90 * deviation
        axis.fill_between(grid, low, high, color=color, alpha=opacity, linewidth=0)
    axis.plot(grid, mean, color=color, linewidth=2)


def calibration(axis, alphas, levels):
    """Coverage of the central intervals less their level, and the range that chance explains.

    The range holds for independent patients; it is a little too narrow, as test parts overlap.
    """
    nominal = np.linspace(0, 1, 101)
    chance = Z90 * 100 * np.sqrt(nominal * (1 - nominal) / len(levels[0]))
    gaps = [100 * (np.mean(needed[:, None] <= nominal, axis=0) - nominal) for needed in levels]
    limit = max(12.0, 1.2 * np.abs(gaps).max())
    axis.fill_between(100 * nominal, -chance, chance, color="0.93", linewidth=0)
    axis.axhline(0, color="0.5", linewidth=1)
    lines = [
        axis.plot(100 * nominal, gap, color=color, linewidth=2, label=f"α = {alpha:g}")[0]
        for alpha, color, gap in zip(alphas, COLORS, gaps, strict=True)
    ]
    axis.set_title("Calibration on held-out patients", weight="bold")
    axis.set(xlabel="level of the interval (%)", xlim=(0, 100), ylim=(-limit, limit))
    axis.set_ylabel("patients inside, less the level (points)")
    note = {"x": 0.5, "ha": "center", "color": "0.4", "transform": axis.transAxes}
    axis.text(y=0.97, va="top", s="intervals too wide", **note)
    axis.text(y=0.03, va="bottom", s="intervals too narrow (gray: chance, roughly)", **note)
    return lines
