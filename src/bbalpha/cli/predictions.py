"""Predictions as a table: one row of numbers or probabilities for every row of the input."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.parts import in_parts
from bbalpha.cli.saved import Model
from bbalpha.tables import TableError, select_column
from bbalpha.tables.messages import check_has_column

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of cells that spreadsheets run


def predictions_of(
    model: Model, features: np.ndarray, levels: Sequence[float], show: bool = False
) -> pandas.DataFrame:
    """One row of predictions for every row of features.

    Args:
        model: The model.
        features: The inputs.
        levels: Quantiles to predict, if the target is a number.
        show: Whether to show a progress bar on a terminal.
    """
    return table_of(model, levels, in_parts(asking(model, levels), features, show=show))


def asking(model: Model, levels: Sequence[float]) -> Callable[[np.ndarray], Any]:
    """The function that predicts from features."""
    if model.target.task == "classification":
        return model.probabilities
    return partial(model.estimator._described, levels=levels)


def table_of(model: Model, levels: Sequence[float], described: Any) -> pandas.DataFrame:
    """The predictions for some rows, as a table."""
    if model.target.task == "classification":
        probabilities = described
        labels = [model.target.classes[index] for index in probabilities.argmax(axis=1)]
        names = [f"p_{label}" for label in model.target.classes]
        table = pandas.DataFrame(probabilities, columns=pandas.Index(names))
        table.insert(0, "prediction", labels)
        return table
    columns = {"mean": described.mean, "std": described.std}
    for index, level in enumerate(levels):
        columns[f"q{level!r}"] = described.quantiles[:, index]
    return pandas.DataFrame(columns)


def ids_of(model: Model, frame: Any, id: str | None) -> pandas.Series | None:
    """The ID column: the given one, or the one named in training if the table has it.

    Raises:
        Refusal: If the given column is not in the table.
    """
    name = id_of(model, frame.column_names, id)
    return None if name is None else select_column(frame, name).to_pandas().rename(name)


def id_of(model: Model, names: Sequence[str], id: str | None) -> str | None:
    """The name of the ID column that `ids_of` returns, if there is one."""
    name = model.id if id is None and model.id in names else id
    if name is not None:
        with refusing(TableError):
            check_has_column(names, name, "--id")
    return name


def with_ids(predictions: pandas.DataFrame, ids: pandas.Series | None) -> pandas.DataFrame:
    """The predictions with the row names, if any, as the first column."""
    if ids is None:
        return predictions
    if ids.name in predictions:
        raise Refusal(f"--id must not be the name of a prediction; got {ids.name!r}.")
    predictions.insert(0, ids.name, ids.to_numpy())
    return predictions


def without_formulas(predictions: pandas.DataFrame) -> pandas.DataFrame:
    """The predictions with an apostrophe before every text that a spreadsheet would run."""
    texts = predictions.select_dtypes(exclude=["number", "bool", "datetime"]).columns
    safe = {name: predictions[name].map(_without_formula) for name in texts}
    return predictions.assign(**safe).rename(columns=_without_formula)


def _without_formula(cell: Any) -> Any:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
