"""Sentences on the page: why α was chosen, and what the page leaves out."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bbalpha import metrics
from bbalpha.interfaces.settings import ENOUGH_LABELS, ENOUGH_ROWS
from bbalpha.interfaces.verdict import MARGIN
from bbalpha.tables.messages import join

FRACTIONS = {0.25: "¼", 0.5: "½", 0.75: "¾"}


def alpha_in_words(alpha: float) -> str:
    """α in the form that the page shows, such as −1, ¼ or 0.3."""
    sign = "−" if alpha < 0 else ""
    return sign + FRACTIONS.get(abs(alpha), f"{abs(alpha):.3g}")


def power_in_words(alpha: float | None) -> str:
    """One of the entries of the slider: a value of α, or the mixture of a stacked model."""
    return "the mixture" if alpha is None else f"α = {alpha_in_words(alpha)}"


def mixture_in_words(model: Any, own: float | None) -> list[str]:
    """A note about the members of a stacked model; none if the model has an α of its own."""
    if own is not None:
        return []
    curve = model.alpha_curve_
    pairs = zip(curve.alphas, curve.weights, strict=True)
    parts = [f"{share:.0%} from {power_in_words(alpha)}" for alpha, share in pairs if share]
    return [f"The networks of the mixture come from several fits: {join(parts)}."]


def reason_in_words(
    model: Any, own: float | None, held_out: Mapping[float | None, np.ndarray]
) -> str:
    """Why the model has its α, and how that compares with the others.

    Args:
        model: The estimator.
        own: The α of the estimator; None for a mixture.
        held_out: For every α, the log-likelihood of each left-out row.
    """
    means = {alpha: float(scores.mean()) for alpha, scores in held_out.items()}
    best = max(means, key=lambda alpha: means[alpha])
    origin = _origin(model, own)
    if not means[best] > means[own]:
        return f"{origin} Of the values compared, it predicts rows that are left out best."
    difference = held_out[best] - held_out[own]
    with np.errstate(invalid="ignore"):
        gain, error = float(difference.mean()), metrics.standard_error(difference)
    other = power_in_words(best)
    if gain <= max(error, MARGIN):
        return (
            f"{origin} As far as the scores can tell, it predicts rows that are left out as well "
            f"as the best value, {other}: the difference is {gain:.2g} ± {error:.2g} nats per row, "
            f"and the scores are approximations, off by about {MARGIN:g}."
        )
    return (
        f"{origin} {other} predicts rows that are left out better, by {gain:.2g} ± {error:.2g} "
        "nats per row."
    )


def notes_in_words(view: Any, num_rows: int, failed: Sequence[float]) -> list[str]:
    """Notes about what the page does not show."""
    notes = []
    if len(view.features) < num_rows:
        notes.append(f"Scores are of {len(view.features):,} evenly spread rows of {num_rows:,}.")
    if len(view.columns) < view.num_columns:
        notes.append(
            f"Of {view.num_columns:,} columns, the page shows the {len(view.columns)} to which the "
            "model responds most."
        )
    num_classes = len(np.unique(view.labels))
    if len(view.classes) < num_classes > 2:
        notes.append(
            f"Of {num_classes:,} classes, the curves show the {len(view.classes)} most frequent "
            "ones."
        )
    if failed:
        values = join([f"α = {alpha_in_words(alpha)}" for alpha in failed])
        verb, noun = ("is", "fit") if len(failed) == 1 else ("are", "fits")
        notes.append(f"{values} {verb} left out, because the {noun} did not stay finite.")
    return notes


def _origin(model: Any, own: float | None) -> str:
    """Where the model's α comes from."""
    if own is None:
        return f"The model is a mixture. {model.alpha_curve_.reason}"
    name = alpha_in_words(own)
    if model.alpha_curve_ is not None:
        return f"α = {name} was chosen when the model was fitted. {model.alpha_curve_.reason}"
    if model.alpha != "auto":
        return f"α = {name} was set when the model was fitted."
    enough = ENOUGH_LABELS if hasattr(model, "classes_") else ENOUGH_ROWS
    size = "fewer than" if own == 0 else "at least"
    return f"α = {name} is the default for tables of {size} {enough} rows."
