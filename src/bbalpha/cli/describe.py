"""Models described in words: the lines that `fit`, `explore` and `compare` print about them."""

from typing import Any

from bbalpha.cli.printing import count
from bbalpha.cli.saved import Model
from bbalpha.interfaces.limits import STACKED, TUNED
from bbalpha.tables import Encoder
from bbalpha.tables.messages import join, quote
from bbalpha.tables.text_column import TextColumn

NUM_NAMED = 6  # columns of one kind that a line names


def columns_in_words(encoder: Encoder) -> str:
    """The numbers of columns and features, and of columns of each kind; names dates and text."""
    columns = {
        kind: [column for column in encoder.columns if column.kind == kind]
        for kind in ("number", "boolean", "date", "text")
    }
    parts = [count(len(columns[kind]), kind) for kind in ("number", "boolean") if columns[kind]]
    if dates := columns["date"]:
        parts.append(f"{count(len(dates), 'date')} ({_named([quote(c.name) for c in dates])})")
    if texts := [column for column in encoder.columns if isinstance(column, TextColumn)]:
        words = [f"{quote(c.name)} in {c.num_texts:,} categories" for c in texts]
        parts.append(f"{count(len(texts), 'text')} ({_named(words)})")
    features = count(len(encoder.feature_names), "feature")
    return f"{count(sum(map(len, columns.values())), 'column')}, {features}: {join(parts)}"


def ignored_in_words(encoder: Encoder) -> str:
    """The columns that are not used as inputs, each with the reason."""
    return _named([f"{quote(column.name)} {column.reason}" for column in encoder.ignored])


REASONS = {  # why `likelihood="auto"` did not use the default likelihood
    "negative_binomial": "the targets look like counts",
    "student_t": "single targets look like recording errors",
}


def network_in_words(model: Model) -> str:
    """The layers, the power α and the likelihood."""
    estimator = model.estimator
    hidden = "-".join(map(str, estimator.hidden_layer_sizes))
    layers = f"hidden units {hidden}" if hidden else "linear"
    words = {
        "auto": "",
        TUNED: ", α chosen by leave-one-out",
        STACKED: ", several α stacked by leave-one-out",
    }
    named = isinstance(estimator.alpha, str)
    alpha = words[estimator.alpha] if named else f", α = {estimator.alpha:g}"
    name = _likelihood_name(estimator)
    is_chosen = estimator.likelihood == "auto" and name != estimator._likelihoods[0]
    reason = f" ({REASONS[name]})" if is_chosen else ""
    return f"{layers}{alpha}, {name} likelihood{reason}"


def _likelihood_name(estimator: Any) -> str:
    """The name of the likelihood, chosen by the user or by the estimator."""
    if estimator.likelihood != "auto":
        return estimator.likelihood
    default = estimator._likelihoods[0]
    return getattr(estimator, "likelihood_", default)


def _named(words: list[str]) -> str:
    return join(words[:NUM_NAMED], len(words) - NUM_NAMED)
