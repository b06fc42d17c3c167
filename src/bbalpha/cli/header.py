"""The facts about a model file, read without jax, scikit-learn and pandas.

This module checks the checksum, the format version, the types of the facts, and that the estimator
and the table have the same kind of target. The commands that use a model check everything else.
"""

import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.printing import count
from bbalpha.files import model_file
from bbalpha.files.wording import one_line
from bbalpha.tables.messages import listing

NUM_CLASSES = 10  # classes to name
NOISE = {
    "standard_deviation": "standard deviation",
    "scale": "scale",
    "degrees_of_freedom": "degrees of freedom",
    "size": "size of the negative binomial",
}
TASKS = {"BBAlphaRegressor": "regression", "BBAlphaClassifier": "classification"}
DEFAULT_LIKELIHOODS = {"BBAlphaRegressor": "heteroscedastic", "BBAlphaClassifier": "softmax"}
ERRORS = (AttributeError, LookupError, TypeError, ValueError, OverflowError)  # from wrong types


def facts_of_file(path: Path) -> dict[str, Any]:
    """All facts about a model file, for JSON; None for those that it does not contain."""
    with refusing(OSError, ValueError):
        arrays, metadata = model_file.read(path)
    size = path.stat().st_size
    file = {"file": str(path), "version": model_file.FORMAT_VERSION, "bytes": size}
    facts: dict[str, Any] = {}
    try:
        facts |= _facts_of_estimator(arrays, metadata.get("estimator"), metadata["params"])
        facts |= _facts_of_fit(arrays, metadata["info"]) | _facts_of_table(metadata.get("table"))
        facts_in_words(file | facts)  # fails if something is of the wrong type
        problem = _impossible(facts) or _mismatch(metadata.get("estimator"), facts)
    except ERRORS:
        problem = "its metadata do not describe a posterior or an estimator"
    if problem:
        raise Refusal(str(model_file.invalid(path, problem)))
    return file | facts


def facts_in_words(facts: dict[str, Any]) -> dict[str, str]:
    """The facts about a model file, for people to read."""
    size = f"{facts['bytes'] / 1000:,.1f} kB"
    words = {
        "file": f"{facts['file']}, {size}, format version {facts['version']}",
        "class": facts["class"],
        "network": f"{'-'.join(map(str, facts['layers']))} units, {facts['activation']}",
        "α": f"{facts['alpha']:g}",
        "likelihood": facts["likelihood"],
        "noise": ", ".join(f"{NOISE[n]} {value:.4g}" for n, value in facts["noise"].items()),
        "prior": _prior_in_words(facts),
        "rows": f"{facts['rows']:,g}",
        "energy": f"{facts['energy']:.6g}",
        "epochs": f"{facts['epochs']:,}, {facts['stopped']}",
        "converged": "yes" if facts["converged"] else "no",
        "seconds": f"{facts['seconds']:.1f}",
        "seed": str(facts["seed"]),
    }
    if facts["likelihood"] is None:
        words = {name: words[name] for name in words if name not in ("network", "prior", "seed")}
    words = {name: one_line(text) for name, text in words.items() if text}
    return words | _table_in_words(facts)


def target_in_words(name: str, task: str, classes: Any) -> str:
    """The name of the target, and whether it is a number or which classes it has."""
    if task == "regression":
        return f"{name}, a number"
    return f"{name}, one of {len(classes)} classes: {listing(classes, NUM_CLASSES)}"


def _facts_of_estimator(arrays: dict, section: Any, params: list) -> dict[str, Any]:
    """The settings of an estimator, or nulls for a posterior that was saved without one."""
    names = ("activation", "prior", "prior_scale", "learn_prior")
    if section is None:
        nothing = dict.fromkeys(("layers", *names, "likelihood", "seed"))
        return {"class": "Posterior", "noise": {}} | nothing | {"layers": []}
    settings = section["settings"]
    likelihood, default = settings["likelihood"], DEFAULT_LIKELIHOODS[section["class"]]
    chosen = section["targets"].get("likelihood")
    return {
        "class": section["class"],
        "layers": _layers(params),
        **{name: settings[name] for name in names},
        "likelihood": (chosen or default) if likelihood == "auto" else likelihood,
        "noise": _noise(arrays, float(section["target_units"]["scale"][0])),
        "seed": settings["random_state"],
    }


def _facts_of_fit(arrays: dict, info: dict[str, Any]) -> dict[str, Any]:
    """The problem that was fitted, and the record of the fit."""
    num_rows = arrays[".num_data"].item()
    return {
        "alpha": arrays[".alpha"].item(),
        "rows": int(num_rows) if num_rows.is_integer() else num_rows,
        "energy": arrays[".energy"].item(),
        "epochs": len(info["energies"]),
        "stopped": info["stopped"],
        "converged": bool(info.get("converged", False)),  # older files lack it
        "seconds": float(info["seconds"]),
    }


def _facts_of_table(table: Any) -> dict[str, Any]:
    """The target and the columns, or nulls for a model that was saved from Python."""
    if table is None:
        return dict.fromkeys(("task", "target", "classes", "columns", "dropped"))
    target = table["target"]
    columns = table["encoder"]["columns"]
    names = [target["name"], *table["dropped"], *(column["name"] for column in columns)]
    if not all(isinstance(name, str) for name in names) or not isinstance(target["classes"], list):
        raise TypeError
    return {
        "task": target["task"],
        "target": target["name"],
        "classes": target["classes"],
        "columns": columns,
        "dropped": table["dropped"],
    }


def _impossible(facts: dict[str, Any]) -> str | None:
    """Why these numbers cannot come from a fit, or None if they can."""
    if not 0 < facts["rows"] < math.inf:
        return f".num_data is {facts['rows']}, which is not positive and finite"
    if not math.isfinite(facts["alpha"]):
        return f".alpha is {facts['alpha']}, which is not finite"
    if not 0 <= facts["seconds"] < math.inf:
        return f"info has {facts['seconds']} seconds"
    return None


def _mismatch(section: Any, facts: dict[str, Any]) -> str | None:
    """Why the estimator and the table do not belong together, or None if no reason is found."""
    if facts["task"] is None:
        return None
    if section is None:
        return "it has a table but no estimator"
    if TASKS[section["class"]] != facts["task"]:
        return f"a {section['class']} has the target of a {facts['task']}"
    if set(section["targets"].get("classes", ())) != set(facts["classes"]):
        return "the classes of the estimator and of its target differ"
    inputs = {column["name"] for column in facts["columns"]}
    if {facts["target"], *facts["dropped"]} & inputs:
        return "the target or a dropped column is also an input"
    return None


def _layers(params: list) -> list[int]:
    """The number of units of every layer, from the inputs to the outputs."""
    shapes = {"hidden": [], "heads": []}
    for path, shape, *_ in params:
        if path.endswith("['weights']"):
            shapes[path.split("'")[1]].append(shape)
    first, *_ = [*shapes["hidden"], *shapes["heads"]]
    num_outputs = sum(shape[0] for shape in shapes["heads"])
    return [first[1], *(shape[0] for shape in shapes["hidden"]), num_outputs]


def _noise(arrays: dict[str, np.ndarray], unit: float) -> dict[str, float]:
    """The learned noise, in the units of the target."""
    values = {}
    for path, array in arrays.items():
        name = path.rpartition(".")[2]
        if path.startswith(".hyperparams") and name.startswith("log_"):
            values[name] = float(np.exp(array.astype(float)).flat[0])
    if "log_variance" in values:
        return {"standard_deviation": values["log_variance"] ** 0.5 * unit}
    if "log_scale" in values:
        degrees = values["log_degrees_of_freedom"]
        return {"scale": values["log_scale"] * unit, "degrees_of_freedom": degrees}
    return {"size": values["log_size"]} if "log_size" in values else {}


def _prior_in_words(facts: dict[str, Any]) -> str:
    scale = "" if facts["prior_scale"] == 1 else f", times {facts['prior_scale']}"
    is_learned = (
        facts["prior"] == "scaled" if facts["learn_prior"] == "auto" else facts["learn_prior"]
    )
    return f"{facts['prior']}{scale}{', with learned factors' if is_learned else ''}"


def _table_in_words(facts: dict[str, Any]) -> dict[str, str]:
    """A line for the target and one for every column."""
    columns = facts["columns"]
    if columns is None:
        return {"columns": "unknown: saved from Python, so predict and evaluate cannot use it"}
    target = target_in_words(facts["target"], facts["task"], facts["classes"])
    words = {"target": one_line(target)}
    if facts["dropped"]:
        words["dropped"] = listing(facts["dropped"], len(facts["dropped"]))
    num_inputs = sum(column["kind"] != "ignored" for column in columns)
    words["columns"] = count(num_inputs, "input")
    lines = ((f"  {one_line(c['name'])}", _column_in_words(c)) for c in columns)
    return dict(chain(words.items(), lines))


def _column_in_words(column: dict[str, Any]) -> str:
    if not isinstance(column["words"], str):
        raise TypeError
    return one_line(column["words"])
