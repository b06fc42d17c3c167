"""Models in words, and as facts that JSON can hold."""

from typing import Any

import numpy as np

from bbalpha.cli.printing import count
from bbalpha.cli.saved import Model
from bbalpha.likelihoods import Gaussian, StudentT
from bbalpha.tables import Encoder, Target
from bbalpha.tables.messages import join, listing, quote

NUM_NAMED = 6  # columns of a kind that are named


def target_in_words(target: Target) -> str:
    """The name, the task and the classes."""
    if target.task == "regression":
        return f"{target.name}, a number"
    return f"{target.name}, one of {len(target.classes)} classes: {listing(target.classes, 10)}"


def columns_in_words(encoder: Encoder) -> str:
    """How many features there are, and which columns are not numbers."""
    columns = encoder.columns
    numbers, dates, texts = (
        [column for column in columns if column.kind == kind] for kind in ("number", "date", "text")
    )
    parts = [count(len(numbers), "number")] if numbers else []
    if dates:
        parts.append(f"{count(len(dates), 'date')} ({_named([quote(c.name) for c in dates])})")
    if texts:
        words = [f"{quote(column.name)}: {len(column.categories)}" for column in texts]
        parts.append(f"{count(len(texts), 'text')} with their categories ({_named(words)})")
    features = count(len(encoder.feature_names), "feature")
    return f"{count(len(columns), 'column')}, {features}: {join(parts)}"


def network_in_words(model: Model) -> str:
    """Layers, power and likelihood."""
    estimator = model.estimator
    hidden = "-".join(map(str, estimator.hidden_layer_sizes))
    layers = f"hidden layers {hidden}" if hidden else "linear"
    return f"{layers}, α = {estimator.alpha:g}, {likelihood_name(estimator)} likelihood"


def likelihood_name(estimator: Any) -> str:
    """The name of the likelihood, also where it was left to the estimator."""
    name = estimator.likelihood
    return estimator._likelihoods[0] if name == "auto" else name


def estimator_facts(estimator: Any) -> dict[str, Any]:
    """What is known of a fitted estimator."""
    posterior = estimator.posterior_
    num_rows = float(posterior.num_data)
    return {
        "class": type(estimator).__name__,
        "layers": list(estimator._sizes()),
        "activation": estimator.activation,
        "alpha": float(posterior.alpha),
        "likelihood": likelihood_name(estimator),
        "noise": noise_of(estimator),
        "prior_scale": estimator.prior_scale,
        "learn_prior": estimator.learn_prior,
        "rows": int(num_rows) if num_rows.is_integer() else num_rows,
        "energy": float(posterior.energy),
        "epochs": len(posterior.info.energies),
        "stopped": posterior.info.stopped,
        "seconds": posterior.info.seconds,
        "seed": estimator.random_state,
    }


def noise_of(estimator: Any) -> dict[str, float]:
    """What was learned of the noise, in the units of the target."""
    likelihood = estimator.posterior_.hyperparams
    scale = np.asarray(estimator.target_units_.scale)
    if isinstance(likelihood, Gaussian):
        deviation = np.exp(0.5 * np.asarray(likelihood.log_variance, np.float64)) * scale
        return {"standard_deviation": float(deviation.flat[0])}
    if isinstance(likelihood, StudentT):
        width = np.exp(np.asarray(likelihood.log_scale, np.float64)) * scale
        degrees = np.exp(np.asarray(likelihood.log_degrees_of_freedom, np.float64))
        return {"scale": float(width.flat[0]), "degrees_of_freedom": float(degrees.flat[0])}
    return {}


def _named(words: list[str]) -> str:
    return join(words[:NUM_NAMED], len(words) - NUM_NAMED)
