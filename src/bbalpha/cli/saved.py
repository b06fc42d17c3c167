"""Saved models: an estimator together with the encoding of the table that it was fitted to."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.parts import in_parts
from bbalpha.cli.training_table import labels_of
from bbalpha.interfaces import estimator_file
from bbalpha.interfaces.classifier import BBAlphaClassifier
from bbalpha.interfaces.regressor import BBAlphaRegressor
from bbalpha.tables import Encoder, TableError, Target

KEYS = {"encoder", "target", "dropped"}
ESTIMATORS = {"regression": BBAlphaRegressor, "classification": BBAlphaClassifier}
CLASSES = {kind.__name__: kind for kind in ESTIMATORS.values()}


@dataclass(frozen=True)
class Model:
    """An estimator and the encoding that it needs to read a table.

    Attributes:
        estimator: The regressor, or the classifier, whose labels are the texts in the file.
        encoder: How the input columns become features.
        target: The column that it predicts.
        dropped: Columns that were left out; a new table may have them or not.
    """

    estimator: Any
    encoder: Encoder
    target: Target
    dropped: tuple[str, ...]

    def features(self, frame: pandas.DataFrame, unknown: str) -> np.ndarray:
        """The inputs of a new table, which may have the target and the dropped columns, too."""
        allowed = (self.target.name, *self.dropped)
        with refusing(TableError):
            return self.encoder.encode(frame, unknown=unknown, allowed=allowed)

    def targets(self, frame: pandas.DataFrame) -> np.ndarray:
        """The targets of a table as the estimator takes them."""
        with refusing(TableError):
            return labels_of(self.target, self.target.encode(frame))

    def probabilities(self, features: np.ndarray) -> np.ndarray:
        """The probability of every class, in the order of the target's classes."""
        return self.estimator.predict_proba(features)[:, self._order()]

    def probabilities_and_scores(
        self, features: np.ndarray, targets: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """`probabilities`, and the log-probability of every target."""
        probabilities, log_densities = self.estimator._described(features, targets)
        return probabilities[:, self._order()], log_densities

    def _order(self) -> list[int]:
        return [self.estimator.classes_.tolist().index(label) for label in self.target.classes]

    def predictions(
        self, features: np.ndarray, levels: Sequence[float], show: bool = False
    ) -> pandas.DataFrame:
        """A row of predictions for every row of features.

        Args:
            features: The inputs.
            levels: Quantiles to predict, if the target is a number.
            show: Whether to show a progress bar on a terminal.
        """
        if self.target.task == "classification":
            probabilities = in_parts(self.probabilities, features, show=show)
            labels = [self.target.classes[index] for index in probabilities.argmax(axis=1)]
            names = [f"p_{label}" for label in self.target.classes]
            table = pandas.DataFrame(probabilities, columns=pandas.Index(names))
            table.insert(0, "prediction", labels)
            return table
        ask = partial(self.estimator._described, levels=levels)
        described = in_parts(ask, features, show=show)
        columns = {"mean": described.mean, "std": described.std}
        for index, level in enumerate(levels):
            columns[f"q{level!r}"] = described.quantiles[:, index]
        return pandas.DataFrame(columns)


def write_model(path: Path, model: Model) -> None:
    """Write a model to a file, whole or not at all."""
    table = {
        "encoder": model.encoder.to_json(),
        "target": model.target.to_json(),
        "dropped": list(model.dropped),
    }
    with refusing(OSError):
        estimator_file.write(path, model.estimator, table)


def read_model(path: Path) -> Model:
    """The model in a file, which is not trusted."""
    with refusing(OSError, ValueError):
        estimator, table = estimator_file.read(path, CLASSES)
    if table is None:
        raise Refusal(
            f"{path} was saved from Python, so it does not say how columns become features; this "
            "command needs a model that bbalpha fit has written."
        )
    try:
        return _checked_model(estimator, table)
    except TableError as error:
        raise Refusal(f"{path} is not a valid bbalpha model: {error}") from None


def _checked_model(estimator: Any, table: Any) -> Model:
    if not isinstance(table, dict) or set(table) != KEYS:
        raise TableError("its table is not described by an encoder, a target and dropped columns.")
    encoder, target = Encoder.from_json(table["encoder"]), Target.from_json(table["target"])
    dropped = table["dropped"]
    if not isinstance(dropped, list) or not all(isinstance(name, str) for name in dropped):
        raise TableError("the dropped columns are not a list of names.")
    if {target.name, *dropped} & {column.name for column in encoder.columns}:
        raise TableError("the target or a dropped column is also an input.")
    if not isinstance(estimator, ESTIMATORS[target.task]):
        raise TableError(f"a {type(estimator).__name__} has the target of a {target.task}.")
    num_features = len(encoder.feature_names)
    if estimator.n_features_in_ != num_features:
        raise TableError(
            f"the estimator has {estimator.n_features_in_} features, but its table {num_features}."
        )
    if set(getattr(estimator, "classes_", ())) != set(target.classes):
        raise TableError("the classes of the estimator and of its target differ.")
    if target.task == "regression" and not estimator._is_vector:
        raise TableError(f"the estimator has {estimator.n_outputs_} targets.")
    return Model(estimator, encoder, target, tuple(dropped))
