"""Charts that several sections share: scores by α, and learning curves."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from bbalpha_paper.report.colors import alpha_color, is_dashed
from bbalpha_paper.report.document import Figure, Key, Panel
from bbalpha_paper.report.runs import Runs, numbers
from bbalpha_paper.report.statistics import Estimate
from bbalpha_paper.report.words import alpha_label, alpha_tick, number

MARGIN = 0.06  # around curves, in heights of the frame
SETTLED = 0.1  # the first part of a curve, which may leave the frame because it starts far off
LAST_PART = 0.9  # where the last part of a curve begins


def alpha_keys(alphas: Iterable[float]) -> tuple[Key, ...]:
    """The legend of lines by α."""
    return tuple(Key(alpha_label(a), alpha_color(a), is_dashed(a)) for a in alphas)


def draw_by_alpha(axes: Any, found: Mapping[float, Estimate], label: str) -> None:
    """A mean ± its standard error for every α, the lowest first."""
    for place, alpha in enumerate(sorted(found)):
        mean, error, _ = found[alpha]
        axes.errorbar(
            place, mean, error or 0.0, color=alpha_color(alpha), marker="o", capsize=4, linewidth=2
        )
    axes.set_xticks(range(len(found)), list(map(alpha_tick, sorted(found))))
    axes.set(xlim=(-0.6, len(found) - 0.4), xlabel="α", ylabel=label)
    axes.grid(visible=False, axis="x")


def learning_curves(
    runs: Runs, name: str, caption: str, metrics: Mapping[str, str]
) -> list[Figure]:
    """A panel per metric, a line per α; no figure if there are no curves.

    The caption ends with the last change of the energy, which shows how far training was from its
    end.
    """
    panels = []
    for metric, label in metrics.items():
        curves = {alpha: _mean_curve(runs.where(alpha=alpha), metric) for alpha in runs.alphas}
        curves = {alpha: curve for alpha, curve in curves.items() if curve is not None}
        if curves:
            panels.append(Panel(label, partial(_draw_curves, curves=curves)))
    if not panels:
        return []
    caption += _last_change(runs)
    legend = alpha_keys(runs.alphas)
    return [Figure(name=name, caption=caption, panels=tuple(panels), legend=legend)]


def _last_change(runs: Runs) -> str:
    """How much the energy still changed at the end: the range of changes over α."""
    curves = (_mean_curve(runs.where(alpha=alpha), "curve_energy") for alpha in runs.alphas)
    changes, start, end = [], 0, 0
    for epochs, energy in filter(None, curves):
        if len(earlier := np.flatnonzero(epochs <= LAST_PART * epochs[-1])):
            before = energy[earlier[-1]]
            start, end = epochs[earlier[-1]], epochs[-1]
            changes.append(100 * (energy[-1] - before) / abs(before))
    if not changes:
        return ""
    low, high = (number(value, 0, signed=True) for value in (min(changes), max(changes)))
    extent = low if low == high else f"{low} to {high}"
    return f"; from epoch {start:g} to {end:g} the energy changed by {extent} %"


def _mean_curve(runs: Runs, metric: str) -> tuple[np.ndarray, np.ndarray] | None:
    """Epochs and the mean over runs of full length."""
    found = [(numbers(row.metrics.get("epochs")), numbers(row.metrics.get(metric))) for row in runs]
    found = [(epochs, curve) for epochs, curve in found if curve and len(epochs) == len(curve)]
    if not found:
        return None
    longest = max((epochs for epochs, _ in found), key=len)
    curves = [curve for epochs, curve in found if epochs == longest]
    return np.array(longest), np.mean(curves, axis=0)


def _draw_curves(axes: Any, curves: dict) -> None:
    settled = []
    for alpha, (epochs, curve) in curves.items():
        style = "--" if is_dashed(alpha) else "-"
        axes.plot(epochs, curve, style, color=alpha_color(alpha), linewidth=1.8)
        settled.append(curve[int(SETTLED * len(curve)) :])
    low, high = np.min(np.concatenate(settled)), np.max(np.concatenate(settled))
    margin = MARGIN * (high - low) or 1.0
    axes.set(ylim=(low - margin, high + margin), xlabel="epoch")
