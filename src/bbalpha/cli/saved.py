"""Saved models: an estimator together with the table that it was fitted to."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.interfaces import estimator_file
from bbalpha.interfaces.classifier import BBAlphaClassifier
from bbalpha.interfaces.regressor import BBAlphaRegressor
from bbalpha.tables import Encoder, TableError, Target

KEYS = {"encoder", "target", "dropped"}
ESTIMATORS = {"regression": BBAlphaRegressor, "classification": BBAlphaClassifier}
CLASSES = {kind.__name__: kind for kind in ESTIMATORS.values()}


@dataclass(frozen=True)
class Model:
    """A fitted estimator and what it needs to read a table.

    Attributes:
        estimator: The regressor, or the classifier, whose labels are those of the file as text.
        encoder: How the other columns become its features.
        target: The column that it predicts.
        dropped: Columns that were left out; a new table may have them or not.
    """

    estimator: Any
    encoder: Encoder
    target: Target
    dropped: tuple[str, ...]

    def features(self, frame: pandas.DataFrame, unknown: str) -> np.ndarray:
        """The inputs of a new table, which may hold the target and what was left out."""
        allowed = (self.target.name, *self.dropped)
        with refusing(TableError):
            return self.encoder.encode(frame, unknown=unknown, allowed=allowed)

    def targets(self, frame: pandas.DataFrame) -> np.ndarray:
        """The targets of a table as the estimator takes them."""
        with refusing(TableError):
            return as_labels(self.target, self.target.encode(frame))

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """Those of every class, in the order of the target's classes."""
        order = [self.estimator.classes_.tolist().index(label) for label in self.target.classes]
        return self.estimator.predict_proba(features)[:, order]


def as_labels(target: Target, encoded: np.ndarray) -> np.ndarray:
    """Encoded targets with the labels in place of their numbers, where there are labels."""
    if target.task == "regression":
        return encoded
    return np.array(target.classes, dtype=object)[encoded]


def new_estimator(task: str, settings: dict[str, Any]) -> Any:
    """The estimator of the task, not yet fitted."""
    return ESTIMATORS[task](**settings)


def write_model(path: Path, model: Model) -> None:
    """Write a model, whole or not at all."""
    table = {
        "encoder": model.encoder.to_json(),
        "target": model.target.to_json(),
        "dropped": list(model.dropped),
    }
    with refusing(OSError):
        estimator_file.write(path, model.estimator, table)


def read_model(path: Path) -> Model:
    """The model in a file, which may come from anyone."""
    estimator, table = read_estimator(path)
    if table is None:
        raise Refusal(
            f"{path} must be a model that bbalpha fit has written; got one that was saved from "
            "Python, which does not say how columns become features."
        )
    try:
        return _model_of_table(estimator, table)
    except TableError as error:
        raise Refusal(f"{path} must be an intact model; got one in which {error}") from None


def read_estimator(path: Path) -> tuple[Any, Any]:
    """The estimator in a file, and what it says of a table, not yet checked."""
    try:
        with refusing(OSError, ValueError):
            return estimator_file.read(path, CLASSES)
    except Refusal as refusal:  # in the words of Python, where it is an argument
        raise Refusal(refusal.message.replace("path must name", "MODEL must be", 1)) from None


def _model_of_table(estimator: Any, table: Any) -> Model:
    """The model, provided that the estimator and the table belong together."""
    if not isinstance(table, dict) or set(table) != KEYS:
        raise TableError("the table is not described by an encoder, a target and what was dropped.")
    encoder, target = Encoder.from_json(table["encoder"]), Target.from_json(table["target"])
    dropped = table["dropped"]
    if not isinstance(dropped, list) or not all(isinstance(name, str) for name in dropped):
        raise TableError("the dropped columns are not a list of names.")
    if {target.name, *dropped} & {column.name for column in encoder.columns}:
        raise TableError("the target or a dropped column is among the inputs.")
    if not isinstance(estimator, ESTIMATORS[target.task]):
        raise TableError(f"a {type(estimator).__name__} has a {target.task} as its target.")
    if estimator.n_features_in_ != len(encoder.feature_names):
        raise TableError(
            f"{estimator.n_features_in_} features of the estimator stand against "
            f"{len(encoder.feature_names)} of its table."
        )
    if set(getattr(estimator, "classes_", ())) != set(target.classes):
        raise TableError("the classes of the estimator are not those of its target.")
    if target.task == "regression" and not estimator._is_vector:
        raise TableError(f"the estimator has {estimator.n_outputs_} targets.")
    return Model(estimator, encoder, target, tuple(dropped))
