"""The picture of a fit: predictions and calibration on the training rows."""

import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from bbalpha.cli.paths import replacing
from bbalpha.cli.printing import count
from bbalpha.cli.saved import Model
from bbalpha.cli.scores import LEVEL, interval, levels_needed, pit_and_crps

BLUE, ORANGE = "#0072B2", "#D55E00"  # Okabe and Ito's, safe for color-blind readers
STYLE: Any = {"font.size": 10.5, "axes.spines.top": False, "axes.spines.right": False}
Z90 = 1.645  # 90 % of a Gaussian lies within this many standard deviations
NUM_INTERVALS = 300  # that can be seen side by side
NUM_BINS = 10


def draw_fit(path: Path, model: Model, features: np.ndarray, targets: np.ndarray) -> None:
    """Draw how the model fits these rows, and write the picture whole or not at all."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # in a column's name
        figure = Figure(figsize=(10, 4.8), dpi=150, layout="constrained")
        axes = figure.subplots(1, 2)
        if model.target.task == "regression":
            _draw_numbers(axes, model, features, targets)
        else:
            _draw_classes(axes, model, features, targets)
        rows = count(len(targets), "training row")
        figure.suptitle(f"{_plain(model.target.name)}: {rows} (not a test)")
        with replacing(path, "--plot") as temporary:
            figure.savefig(temporary, format=path.suffix.lower().removeprefix("."))


def _draw_numbers(axes: Any, model: Model, features: np.ndarray, targets: np.ndarray) -> None:
    """Predictions against observations, and the coverage of central intervals."""
    shown = np.linspace(0, len(targets) - 1, min(len(targets), NUM_INTERVALS)).astype(int)
    described = model.estimator._described(features[shown], interval(LEVEL))
    mean, (lower, upper) = described.mean, described.quantiles.T
    left, right = axes
    left.vlines(targets[shown], lower, upper, color=BLUE, alpha=0.25, label="90 % interval")
    left.scatter(targets[shown], mean, s=9, color=BLUE, linewidths=0, label="mean", zorder=3)
    left.axline((targets.mean(), targets.mean()), slope=1, color="0.4", linewidth=1)
    name = _plain(model.target.name)
    left.set(xlabel=f"observed {name}", ylabel=f"predicted {name}", title="Predictions")
    left.legend(frameon=False, loc="upper left")

    levels = np.linspace(0, 1, 101)
    needed = levels_needed(pit_and_crps(model.estimator, features, targets)[0])
    covered = np.mean(needed[:, None] <= levels, axis=0)
    _draw_diagonal(right, levels, len(targets))
    right.plot(100 * levels, 100 * covered, color=BLUE, linewidth=2, label="model")
    right.set(xlabel="level of the central interval (%)", ylabel="rows inside (%)")
    right.set_title("Calibration")
    right.text(97, 3, "below: intervals too narrow\nabove: too wide", color="0.4", ha="right")
    right.legend(frameon=False, loc="upper left")


def _draw_diagonal(axis: Any, levels: np.ndarray, num_rows: int) -> None:
    """The line of a calibrated model, in the band that chance allows."""
    chance = Z90 * np.sqrt(levels * (1 - levels) / num_rows)
    low, high = 100 * np.clip(levels - chance, 0, 1), 100 * np.clip(levels + chance, 0, 1)
    axis.fill_between(100 * levels, low, high, color="0.9", linewidth=0, label="calibrated")
    axis.plot([0, 100], [0, 100], color="0.4", linewidth=1)
    axis.set(xlim=(0, 100), ylim=(0, 102))


def _draw_classes(axes: Any, model: Model, features: np.ndarray, targets: np.ndarray) -> None:
    """Accuracy against confidence, and the probabilities of the true classes."""
    probabilities = model.probabilities(features)
    labels = np.array([model.target.classes.index(label) for label in targets])
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
        left.annotate(
            f"{number:,}", (x, y), (-9, -4), textcoords="offset points", ha="right", color="0.4"
        )
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
