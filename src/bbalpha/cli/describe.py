"""Descriptions of models: in words, and as facts for JSON."""

from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.cli.printing import count
from bbalpha.cli.saved import Model
from bbalpha.files.model_file import FORMAT_VERSION
from bbalpha.likelihoods import Gaussian, StudentT
from bbalpha.tables import Column, Encoder, Target
from bbalpha.tables.messages import join, listing, quote

NUM_NAMED = 6  # columns of one kind that are named
NUM_CLASSES = 10  # classes that are named
NUM_CATEGORIES = 20  # categories of a column that are named
NOISE = {
    "standard_deviation": "standard deviation",
    "scale": "scale",
    "degrees_of_freedom": "degrees of freedom",
}


def target_in_words(target: Target) -> str:
    """The name of the target, and whether it is a number or which class."""
    if target.task == "regression":
        return f"{target.name}, a number"
    classes = listing(target.classes, NUM_CLASSES)
    return f"{target.name}, one of {len(target.classes)} classes: {classes}"


def columns_in_words(encoder: Encoder) -> str:
    """The number of columns, features and columns of each kind; dates and text are named."""
    columns = encoder.columns
    numbers, dates, texts = (
        [column for column in columns if column.kind == kind] for kind in ("number", "date", "text")
    )
    parts = [count(len(numbers), "number")] if numbers else []
    if dates:
        parts.append(f"{count(len(dates), 'date')} ({_named([quote(c.name) for c in dates])})")
    if texts:
        words = [f"{quote(c.name)} in {len(c.categories)} categories" for c in texts]
        parts.append(f"{count(len(texts), 'text')} ({_named(words)})")
    features = count(len(encoder.feature_names), "feature")
    return f"{count(len(columns), 'column')}, {features}: {join(parts)}"


def network_in_words(model: Model) -> str:
    """The layers, the power α and the likelihood."""
    estimator = model.estimator
    hidden = "-".join(map(str, estimator.hidden_layer_sizes))
    layers = f"hidden units {hidden}" if hidden else "linear"
    return f"{layers}, α = {estimator.alpha:g}, {_likelihood_name(estimator)} likelihood"


def facts_of_model(path: Path, estimator: Any, model: Model | None) -> dict[str, Any]:
    """Everything about a model file.

    Args:
        path: The file.
        estimator: The estimator in it.
        model: The estimator with its table; None if it was saved from Python.
    """
    file = {"file": str(path), "version": FORMAT_VERSION, "bytes": path.stat().st_size}
    return file | _facts_of_estimator(estimator) | _facts_of_table(model)


def facts_in_words(facts: dict[str, Any], model: Model | None) -> dict[str, str]:
    """The facts about a model file, for people to read."""
    size = f"{facts['bytes'] / 1000:,.1f} kB"
    words = {
        "file": f"{facts['file']}, {size}, format version {facts['version']}",
        "class": facts["class"],
        "network": f"{'-'.join(map(str, facts['layers']))} units, {facts['activation']}",
        "α": f"{facts['alpha']:g}",
        "likelihood": facts["likelihood"],
    }
    if facts["noise"]:
        words["noise"] = ", ".join(f"{NOISE[n]} {value:.4g}" for n, value in facts["noise"].items())
    learned = ", times a factor learned for each layer" if facts["learn_prior"] else ""
    words |= {
        "prior": f"standard deviation {facts['prior_scale']:g}{learned}",
        "rows": f"{facts['rows']:,g}",
        "energy": f"{facts['energy']:.6g}",
        "epochs": f"{facts['epochs']:,}, {facts['stopped']}",
        "seconds": f"{facts['seconds']:.1f}",
        "seed": str(facts["seed"]),
    }
    return words | _table_in_words(model)


def _facts_of_estimator(estimator: Any) -> dict[str, Any]:
    """The settings of a fitted estimator and the record of its fit."""
    posterior = estimator.posterior_
    num_rows = float(posterior.num_data)
    return {
        "class": type(estimator).__name__,
        "layers": list(estimator._sizes()),
        "activation": estimator.activation,
        "alpha": float(posterior.alpha),
        "likelihood": _likelihood_name(estimator),
        "noise": _noise(estimator),
        "prior_scale": estimator.prior_scale,
        "learn_prior": estimator.learn_prior,
        "rows": int(num_rows) if num_rows.is_integer() else num_rows,
        "energy": float(posterior.energy),
        "epochs": len(posterior.info.energies),
        "stopped": posterior.info.stopped,
        "seconds": posterior.info.seconds,
        "seed": estimator.random_state,
    }


def _facts_of_table(model: Model | None) -> dict[str, Any]:
    """The target and the columns, or nulls for an estimator that was saved from Python."""
    if model is None:
        return {"task": None, "target": None, "classes": None, "columns": None, "dropped": None}
    target = model.target
    return {
        "task": target.task,
        "target": target.name,
        "classes": list(target.classes),
        "columns": model.encoder.to_json()["columns"],
        "dropped": list(model.dropped),
    }


def _table_in_words(model: Model | None) -> dict[str, str]:
    """A line for the target and one for every column."""
    if model is None:
        return {"columns": "unknown: saved from Python, so predict and evaluate cannot use it"}
    words = {"target": target_in_words(model.target)}
    if model.dropped:
        words["dropped"] = listing(model.dropped, len(model.dropped))
    features = count(len(model.encoder.feature_names), "feature")
    words["columns"] = f"{len(model.encoder.columns):,}, which make {features}"
    return words | {f"  {c.name}": _column_in_words(c) for c in model.encoder.columns}


def _column_in_words(column: Column) -> str:
    texts = ["missing" if text is None else quote(text) for text in column.categories]
    shown = join(texts[:NUM_CATEGORIES], len(texts) - NUM_CATEGORIES)
    kind = f"text: {shown}" if texts else column.kind
    unit = " days after 1970-01-01" if column.kind == "date" else ""
    fill = "" if column.fill is None else f", {column.fill:g}{unit} if missing"
    return kind + fill


def _likelihood_name(estimator: Any) -> str:
    """The name of the likelihood, even if the choice was left to the estimator."""
    name = estimator.likelihood
    return estimator._likelihoods[0] if name == "auto" else name


def _noise(estimator: Any) -> dict[str, float]:
    """The learned noise, in the units of the target."""
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
