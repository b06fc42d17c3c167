"""The contents of a predictor file, checked: everything that a `Predictor` needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.predictor import predictor_file
from bbalpha.predictor.networks import InputScales, Network
from bbalpha.predictor.rows import RowEncoder
from bbalpha.predictor.targets import Counts, Labels, Normal, StudentT, Targets

TARGETS = {
    "heteroscedastic": Normal,
    "gaussian": Normal,
    "student_t": StudentT,
    "poisson": Counts,
    "negative_binomial": Counts,
    "softmax": Labels,
    "probit": Labels,
}
COUNTS = ("poisson", "negative_binomial")
CLASSES = ("softmax", "probit")
LABELS = {"b": bool, "i": np.int64, "u": np.uint64, "f": np.float64, "U": np.str_}
# Errors that a value of the wrong kind can cause while it is being read.
ERRORS = (AttributeError, LookupError, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Contents:
    """A model as described by its file.

    Attributes:
        network: Draws of the weights.
        targets: The distribution of the targets given the outputs of the network.
        limits: Limits beyond which outputs are compressed to their logarithm, or None.
        inputs: The units of the inputs.
        target_mean: The mean of each column of the targets.
        target_scale: The unit of each column of the targets.
        is_vector: Whether the targets are a vector rather than a matrix.
        is_count: Whether the targets are counts.
        classes: The labels of a classifier, or None.
        names: Columns that rows must have, or None.
        encoder: How rows of a table become features, or None.
        target: The name of the target, or None.
    """

    network: Network
    targets: Targets
    limits: tuple[np.ndarray, np.ndarray] | None
    inputs: InputScales
    target_mean: np.ndarray
    target_scale: np.ndarray
    is_vector: bool
    is_count: bool
    classes: np.ndarray | None
    names: Sequence[str] | None
    encoder: RowEncoder | None
    target: str | None

    @classmethod
    def read(cls, path: str | Path) -> "Contents":
        """Return the contents of a file.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is not a predictor, is damaged or has another format version.
        """
        draws, facts = predictor_file.read(path)
        try:
            with np.errstate(all="ignore"):
                return cls._of(draws, facts)
        except ERRORS as error:
            text = str(error).rstrip(".") if isinstance(error, ValueError) else "a value is wrong"
            raise predictor_file.invalid(path, text or "a value is wrong") from None

    @classmethod
    def _of(cls, draws: np.ndarray, facts: dict[str, Any]) -> "Contents":
        network = Network.of(draws, facts["layers"], facts["activation"])
        units = {name: np.array(column, float) for name, column in facts["inputs"].items()}
        units["axes"] = units["axes"].reshape(len(units["mean"]), -1)
        inputs = InputScales(**units)
        mean, scale = (np.array(facts["outputs"][name], float) for name in ("mean", "scale"))
        noise = {name: np.array(column, float) for name, column in facts["noise"].items()}
        limits = None
        if facts["limits"] is not None:
            lower, upper = facts["limits"]
            limits = np.array(lower, float), np.array(upper, float)
        classes = None if facts["classes"] is None else _labels(facts)
        encoder = None if facts["table"] is None else _encoder(facts)
        contents = cls(
            network,
            TARGETS[facts["likelihood"]](**noise),
            limits,
            inputs,
            mean,
            scale,
            bool(facts["is_vector"]),
            facts["likelihood"] in COUNTS,
            classes,
            facts["names"] if encoder is None else encoder.names,
            encoder,
            facts["target"],
        )
        contents._check(facts["likelihood"])
        return contents

    def bounded(self, outputs: np.ndarray) -> np.ndarray:
        """Return the outputs, compressed beyond the limits."""
        if self.limits is None:
            return outputs
        lower, upper = self.limits
        below = lower - np.log1p(np.maximum(lower - outputs, 0))
        above = upper + np.log1p(np.maximum(outputs - upper, 0))
        return np.where(outputs > upper, above, np.where(outputs < lower, below, outputs))

    def standardized(self, y: Any, num_rows: int) -> np.ndarray:
        """Return targets in the units of the network; for classes, their numbers.

        Raises:
            ValueError: If `y` has another shape, is not finite, or holds an unknown class.
        """
        if self.classes is not None:
            places = {label: place for place, label in enumerate(self.classes.tolist())}
            found = [places.get(label) for label in np.asarray(y).ravel().tolist()]
            if None in found:
                wrong = np.asarray(y).ravel().tolist()[found.index(None)]
                raise ValueError(f"y must hold the classes {list(places)}; got {wrong!r}.")
            columns = np.array(found, float)[:, None]
        else:
            columns = np.asarray(y, float).reshape(len(y), -1)
        if columns.shape != (num_rows, len(self.target_mean)):
            rule = f"{len(self.target_mean)} numbers for each of {num_rows} rows"
            raise ValueError(f"y must have {rule}; got shape {np.shape(y)}.")
        if not np.isfinite(columns).all():
            raise ValueError("y must hold finite numbers; got NaN or infinity.")
        if self.is_count and not ((columns >= 0) & (columns == np.floor(columns))).all():
            raise ValueError("y must hold counts, from 0 on; got another number.")
        return (columns - self.target_mean) / self.target_scale

    def _check(self, likelihood: str) -> None:
        """Raise unless the parts fit each other."""
        units, num_outputs = self.inputs, self.network.num_outputs
        arrays = [units.mean, units.scale, units.lower, units.upper]
        if len({array.shape for array in arrays}) > 1 or units.mean.ndim != 1:
            raise ValueError("the units of the inputs do not have the same number of columns.")
        rest = [units.axes, self.target_mean, self.target_scale, *(self.limits or ())]
        if not all(np.isfinite(array).all() for array in [*arrays, *rest]):
            raise ValueError("the units are not finite.")
        if not (units.scale > 0).all() or not (self.target_scale > 0).all():
            raise ValueError("a scale is not positive.")
        if units.axes.shape not in ((len(units.mean), 0), (len(units.mean),) * 2):
            raise ValueError("the axes are not a rotation of the inputs.")
        self.network.check(len(units.mean), units.axes.shape[1])
        num_targets = num_outputs // (2 if likelihood == "heteroscedastic" else 1)
        if (self.classes is None) != (likelihood not in CLASSES):
            raise ValueError("only classifiers have classes.")
        if self.classes is not None:
            num_targets = 1
            if len(self.classes) != max(num_outputs, 2):
                raise ValueError("the classes do not fit the network.")
        if {self.target_mean.shape, self.target_scale.shape} != {(num_targets,)}:
            raise ValueError("the units of the targets do not fit the network.")
        for array in [*vars(self.targets).values(), *(self.limits or ())]:
            if array is not None and array.shape not in ((num_targets,), (num_outputs,)):
                raise ValueError("the noise does not fit the network.")
        if likelihood in ("gaussian", "student_t", "negative_binomial") and not vars(self.targets):
            raise ValueError("the noise is missing.")
        if self.is_vector and num_targets != 1:
            raise ValueError("a vector has one column.")
        if self.names is not None and self.encoder is None and len(self.names) != len(units.mean):
            raise ValueError("the names do not fit the inputs.")
        if self.encoder is not None:
            blank = self.encoder.encode({name: [None] for name in self.encoder.names})
            if blank.shape != (1, len(units.mean)):
                raise ValueError("the table does not fit the inputs.")


def _labels(facts: dict[str, Any]) -> np.ndarray:
    labels = facts["classes"]
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise ValueError("the classes are not distinct.")
    return np.array(labels, LABELS.get(facts["kind"], object))


def _encoder(facts: dict[str, Any]) -> RowEncoder:
    table = facts["table"]
    texts = (frozenset(table.get(name, ())) for name in ("missing", "others", "missing_values"))
    return RowEncoder(table["columns"], *texts)
