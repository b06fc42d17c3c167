"""`bbalpha inspect`: what a model file holds."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbalpha.cli.options import Json, ModelFile
from bbalpha.cli.paths import check_model
from bbalpha.cli.printing import count, print_facts, print_json

if TYPE_CHECKING:
    from bbalpha.cli.saved import Model

NUM_CATEGORIES = 20  # of a column that are named


def inspect_model(model_file: ModelFile, json: Json = False) -> None:
    """Say what is in a model file.

    \b
    bbalpha inspect houses.safetensors
    bbalpha inspect houses.safetensors --json
    """  # noqa: D301
    check_model(model_file)

    from bbalpha.cli.describe import estimator_facts
    from bbalpha.cli.saved import read_estimator, read_model

    estimator, table = read_estimator(model_file)
    model = None if table is None else read_model(model_file)
    facts = _facts_of_file(model_file) | estimator_facts(estimator) | _facts_of_table(model)
    if json:
        print_json(facts)
        return
    print_facts(_in_words(facts, model))


def _facts_of_file(path: Path) -> dict[str, Any]:
    from bbalpha.files.model_file import FORMAT_VERSION

    return {"file": str(path), "version": FORMAT_VERSION, "bytes": path.stat().st_size}


def _facts_of_table(model: "Model | None") -> dict[str, Any]:
    """What the command line keeps beside the estimator, null if it was saved from Python."""
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


def _in_words(facts: dict[str, Any], model: "Model | None") -> dict[str, str]:
    size = f"{facts['bytes'] / 1000:,.1f} kB"
    words = {
        "file": f"{facts['file']}, {size}, version {facts['version']}",
        "class": facts["class"],
        "network": f"{'-'.join(map(str, facts['layers']))} units, {facts['activation']}",
        "α": f"{facts['alpha']:g}",
        "likelihood": facts["likelihood"],
    }
    names = {
        "standard_deviation": "standard deviation",
        "scale": "scale",
        "degrees_of_freedom": "degrees of freedom",
    }
    if facts["noise"]:
        words["noise"] = ", ".join(f"{names[n]} {value:.4g}" for n, value in facts["noise"].items())
    learned = ", a factor learned for each layer" if facts["learn_prior"] else ""
    words |= {
        "prior": f"standard deviation {facts['prior_scale']:g}{learned}",
        "rows": f"{facts['rows']:,g}",
        "energy": f"{facts['energy']:.6g}",
        "epochs": f"{facts['epochs']:,}, {facts['stopped']}",
        "seconds": f"{facts['seconds']:.1f}",
        "seed": str(facts["seed"]),
    }
    return words | _table_in_words(model)


def _table_in_words(model: "Model | None") -> dict[str, str]:
    """A line for the target and one for every column."""
    from bbalpha.cli.describe import target_in_words
    from bbalpha.tables.messages import join, listing, quote

    if model is None:
        return {"columns": "not known: saved from Python, so predict and evaluate cannot use it"}
    words = {"target": target_in_words(model.target)}
    if model.dropped:
        words["dropped"] = listing(model.dropped, len(model.dropped))
    features = count(len(model.encoder.feature_names), "feature")
    words["columns"] = f"{len(model.encoder.columns):,}, which make {features}"
    for column in model.encoder.columns:
        texts = ["missing" if text is None else quote(text) for text in column.categories]
        shown = join(texts[:NUM_CATEGORIES], len(texts) - NUM_CATEGORIES)
        kind = f"text: {shown}" if texts else column.kind
        unit = " days after 1970-01-01" if column.kind == "date" else ""
        fill = "" if column.fill is None else f", {column.fill:g}{unit} where missing"
        words[f"  {column.name}"] = kind + fill
    return words
