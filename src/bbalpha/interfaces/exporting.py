"""Export: write an estimator to a file that `bbalpha.predictor` reads with NumPy alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bbalpha.engine.checks import check_counts
from bbalpha.files import model_file
from bbalpha.interfaces.bounded import Bounded
from bbalpha.interfaces.settings import check_draws
from bbalpha.interfaces.spread import Spread
from bbalpha.interfaces.stacking import Members


def export(
    path: str | Path,
    estimator: Any,
    num_draws: Any = None,
    encoder: Any = None,
    target: str | None = None,
    dropped: Sequence[str] = (),
) -> None:
    """Write draws of the weights of a fitted estimator, and everything needed to predict with them.

    Args:
        path: The file to write.
        estimator: The estimator.
        num_draws: Number of draws; by default as many as its predictions average over.
        encoder: The `Encoder` of the training table, if the estimator does not have one itself.
        target: The name of the target in that table.
        dropped: Columns left out in training, which new rows may have.

    Raises:
        OSError: If the file cannot be written; an existing file is then left as it was.
        ValueError: If `num_draws` is not a positive integer, if the spread was repaired, or if
            stacked posteriors differ in their noise.
    """
    _check_plain(estimator.posterior_.hyperparams)
    num_draws = estimator.num_predictive_samples if num_draws is None else num_draws
    check_counts(num_draws=num_draws)
    check_draws(num_draws, estimator._network().size)
    weights = estimator.posterior_.sample(num_draws, key=estimator._key())
    leaves = jax.tree_util.tree_leaves_with_path(weights)
    draws = np.concatenate([np.asarray(leaf).reshape(num_draws, -1) for _, leaf in leaves], axis=1)
    layers = [_layer(keys, leaf) for keys, leaf in leaves]
    if encoder is None and estimator.encoder_ is not None:
        encoder = estimator.encoder_.encoder_
    facts = _facts(estimator) | {
        "layers": layers,
        "table": None if encoder is None else _table(encoder, target, dropped),
        "target": target,
    }
    model_file.write(path, {"draws": draws}, facts, model_file.PREDICTOR)


def _check_plain(likelihood: Any) -> None:
    """Raise if a predictor does not support the likelihood."""
    if isinstance(likelihood, Members | Spread):
        why = "a spread changed by calibrate, or stacked posteriors that differ in their noise"
        raise ValueError(f"the model must be one that a predictor can hold; got one with {why}.")


def _layer(keys: Any, leaf: Any) -> list[Any]:
    """The layer, its number, the part and the shape of an array of the network."""
    group, number, part = keys
    return [group.key, number.idx, part.key, list(leaf.shape[1:])]


def _facts(estimator: Any) -> dict[str, Any]:
    """The facts needed in addition to the draws and the table, for JSON."""
    likelihood = estimator.posterior_.hyperparams
    is_bounded = isinstance(likelihood, Bounded)
    inner = likelihood.likelihood if is_bounded else likelihood
    units, targets = estimator.input_units_, estimator.target_units_
    classes = getattr(estimator, "classes_", None)
    names = getattr(estimator, "feature_names_in_", None)
    return {
        "likelihood": _name(estimator),
        "noise": {name: np.asarray(field).tolist() for name, field in vars(inner).items()},
        "limits": [np.asarray(x).tolist() for x in (likelihood.lower, likelihood.upper)]
        if is_bounded
        else None,
        "activation": estimator.activation,
        "inputs": {name: getattr(units, name).tolist() for name in vars(units)},
        "outputs": {
            name: np.asarray(getattr(targets, name)).tolist() for name in ("mean", "scale")
        },
        "is_vector": bool(getattr(estimator, "_is_vector", False)),
        "classes": None if classes is None else classes.tolist(),
        "kind": None if classes is None else classes.dtype.kind,
        "names": None if names is None else list(names),
    }


def _name(estimator: Any) -> str:
    """The name of the likelihood, as set by the user or chosen by `fit`."""
    if hasattr(estimator, "classes_"):
        return "probit" if estimator.likelihood == "probit" else "softmax"
    return estimator._likelihood


def _table(encoder: Any, target: str | None, dropped: Sequence[str]) -> dict[str, Any]:
    """The columns of the table, all texts that stand for missing cells, and other columns."""
    from bbalpha.tables.cells import MISSING, MISSING_VALUES  # needs pyarrow

    columns = [
        {name: value for name, value in column.to_json().items() if name != "reason"}
        for column in encoder.columns
    ]
    others = [*dropped, *([] if target is None else [target])]
    missing = sorted({*MISSING, *encoder.missing})
    facts = {"columns": columns, "missing": missing, "others": others}
    return facts | {"missing_values": sorted(MISSING_VALUES)}
