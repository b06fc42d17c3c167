"""The picture that `--plot` draws: predictions and calibration on the rows of a table."""

import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from bbalpha.cli.paths import replacing
from bbalpha.cli.printing import count
from bbalpha.cli.saved import Model
from bbalpha.cli.scores import (
    LEVEL,
    ClassOutcomes,
    NumberOutcomes,
    Outcomes,
    class_numbers,
    interval,
    levels_needed,
)
from bbalpha.interfaces.alpha_curve import AlphaCurve

BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito's, safe for color-blind readers
STYLE: Any = {"font.size": 10.5, "axes.spines.top": False, "axes.spines.right": False}
Z90 = 1.645  # 90 % of a Gaussian lies within this many standard deviations
NUM_INTERVALS = 300  # that can be seen side by side
NUM_BINS, ROWS_FOR_MORE_BINS = 10, 400


def draw(
    path: Path,
    model: Model,
    features: np.ndarray,
    targets: np.ndarray,
    outcomes: Outcomes,
    kind: str,
) -> None:
    """Draw the predictions for these rows, and write the picture whole or not at all.

    Args:
        path: The file to write.
        model: The model.
        features: The inputs of the rows.
        targets: The targets of the rows.
        outcomes: The model's predictions and scores for the rows.
        kind: "test" or "training" rows.
    """
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # in a column's name
        curve = model.estimator.alpha_curve_ if kind == "training" else None
        has_curve = curve is not None
        if isinstance(outcomes, ClassOutcomes):
            figure, axes = _panels(2 + has_curve)
            _draw_classes(axes[:2], outcomes.probabilities, class_numbers(model, targets))
        else:
            figure, axes = _panels(3 + has_curve)
            _draw_predictions(axes[0], model, features, targets)
            _draw_calibration(axes[1], outcomes)
            _draw_pit(axes[2], outcomes)
        if curve is not None:
            _draw_curve(axes[-1], curve)
        remark = " (not a test)" if kind == "training" else ""
        rows = count(len(targets), f"{kind} row")
        figure.suptitle(f"{_plain(model.target.name)}: {rows}{remark}")
        with replacing(path, "--plot") as temporary:
            figure.savefig(temporary, format=path.suffix.lower().removeprefix("."))


def _panels(number: int) -> tuple[Figure, Any]:
    figure = Figure(figsize=(5 * number, 4.8), dpi=150, layout="constrained")
    return figure, figure.subplots(1, number)


def _draw_curve(axis: Any, curve: AlphaCurve) -> None:
    """Each score relative to the best, with standard errors, and the power that was chosen."""
    behind = -np.array(curve.behind)
    axis.errorbar(curve.alphas, behind, curve.behind_errors, color=BLUE, marker="o", capsize=3)
    axis.axvline(curve.chosen, color=ORANGE, linewidth=1, label=f"chosen: {curve.chosen:g}")
    axis.set(title="Leave-one-out", xlabel="α", ylabel="nats per row, relative to the best")
    axis.legend(frameon=False)


def _draw_predictions(axis: Any, model: Model, features: np.ndarray, targets: np.ndarray) -> None:
    """Predictions against observations."""
    shown = np.linspace(0, len(targets) - 1, min(len(targets), NUM_INTERVALS)).astype(int)
    described = model.estimator._described(features[shown], interval(LEVEL))
    mean, (lower, upper) = described.mean, described.quantiles.T
    axis.vlines(targets[shown], lower, upper, color=BLUE, alpha=0.25, label="90 % interval")
    axis.scatter(targets[shown], mean, s=9, color=BLUE, linewidths=0, label="mean", zorder=3)
    axis.axline((targets.mean(), targets.mean()), slope=1, color="0.4", linewidth=1)
    name = _plain(model.target.name)
    some = f" ({len(shown)} of {len(targets):,} rows)" if len(shown) < len(targets) else ""
    axis.set(xlabel=f"observed {name}", ylabel=f"predicted {name}", title=f"Predictions{some}")
    axis.legend(frameon=False, loc="upper left")


def _draw_calibration(axis: Any, outcomes: NumberOutcomes) -> None:
    """The coverage of central intervals."""
    levels = np.linspace(0, 1, 101)
    needed = np.sort(levels_needed(outcomes.pit))
    covered = np.searchsorted(needed, levels, side="right") / len(needed)
    _draw_diagonal(axis, levels, len(needed))
    axis.plot(100 * levels, 100 * covered, color=BLUE, linewidth=2, label="model")
    axis.set(xlabel="level of the central interval (%)", ylabel="rows inside (%)")
    axis.set_title("Calibration")
    axis.text(97, 3, "below: intervals too narrow\nabove: too wide", color="0.4", ha="right")
    axis.legend(frameon=False, loc="upper left")


def _draw_pit(axis: Any, outcomes: NumberOutcomes) -> None:
    """A histogram of where the targets fall in their predictive distributions."""
    num_rows = len(outcomes.pit)
    num_bins = NUM_BINS if num_rows < ROWS_FOR_MORE_BINS else 2 * NUM_BINS
    share = 1 / num_bins
    chance = Z90 * np.sqrt(share * (1 - share) / num_rows)
    low, high = 100 * max(0, share - chance), 100 * (share + chance)
    axis.axhspan(low, high, color="0.9", linewidth=0, label="calibrated")
    weights = np.full(num_rows, 100 / num_rows)
    edges = np.linspace(0, 1, num_bins + 1)
    axis.hist(outcomes.pit, edges, weights=weights, color=BLUE, alpha=0.7, label="model")
    axis.axhline(100 * share, color="0.4", linewidth=1)
    axis.set(xlabel="predicted probability of a smaller target", ylabel="rows (%)", xlim=(0, 1))
    axis.set_ylim(0, 1.25 * max(high, axis.get_ylim()[1]))
    axis.set_title("Probability integral transform")
    axis.legend(frameon=False, loc="upper center", ncols=2)


def _draw_diagonal(axis: Any, levels: np.ndarray, num_rows: int) -> None:
    """The line of a perfectly calibrated model, in the band that chance allows."""
    chance = Z90 * np.sqrt(levels * (1 - levels) / num_rows)
    low, high = 100 * np.clip(levels - chance, 0, 1), 100 * np.clip(levels + chance, 0, 1)
    axis.fill_between(100 * levels, low, high, color="0.9", linewidth=0, label="calibrated")
    axis.plot([0, 100], [0, 100], color="0.4", linewidth=1)
    axis.set(xlim=(0, 100), ylim=(0, 102))


def _draw_classes(axes: Any, probabilities: np.ndarray, labels: np.ndarray) -> None:
    """Accuracy against confidence, and the probabilities of the true classes."""
    confidence = probabilities.max(axis=1)
    right_label = probabilities.argmax(axis=1) == labels
    bins = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    used = np.unique(bins)
    counts = np.array([np.sum(bins == b) for b in used])
    sure = np.array([confidence[bins == b].mean() for b in used])
    accurate = np.array([right_label[bins == b].mean() for b in used])
    error = Z90 * np.sqrt(sure * (1 - sure) / counts)

    left, right = axes
    left.plot([0, 100], [0, 100], color="0.4", linewidth=1)
    ends = 100 * np.clip(sure - error, 0, 1), 100 * np.clip(sure + error, 0, 1)
    left.vlines(100 * sure, *ends, color="0.85", linewidth=7, label="calibrated")
    left.scatter(100 * sure, 100 * accurate, s=40, color=BLUE, zorder=3, label="model")
    for x, y, number in zip(100 * sure, 100 * accurate, counts, strict=True):
        text = f"{number}" if number < 1000 else f"{number / 1000:,.0f}k"
        left.annotate(text, (x, y), (0, -16), textcoords="offset points", ha="center", color="0.4")
    left.set(xlim=(0, 104), ylim=(0, 104), title="Reliability (with the number of rows)")
    left.set(xlabel="probability of the predicted class (%)", ylabel="correct predictions (%)")
    left.legend(frameon=False, loc="upper left")

    given = 100 * probabilities[np.arange(len(labels)), labels]
    edges = np.linspace(0, 100, 2 * NUM_BINS + 1)
    colors = {"correct prediction": BLUE, "wrong prediction": ORANGE}
    parts = [given[right_label], given[~right_label]]
    right.hist(parts, edges, stacked=True, color=list(colors.values()), label=list(colors))
    right.set(xlabel="probability (%)", ylabel="rows", xlim=(0, 100))
    right.set_title("Probability of the true class")
    right.legend(frameon=False, loc="best")


def _plain(text: str) -> str:
    """The text with dollar signs escaped, so that matplotlib sees no formula in it."""
    return text.replace("$", r"\$")
