"""`BBAlphaClassifier`, the scikit-learn classifier: classes and their probabilities."""

import reprlib
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy
from jaxtyping import Array
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bbalpha.data import Standardizer
from bbalpha.interfaces.door import check_labels, checked, without_weightless_rows
from bbalpha.interfaces.estimator import Estimator
from bbalpha.interfaces.network import Head
from bbalpha.interfaces.settings import check_settings
from bbalpha.interfaces.training import Rows, all_or_nothing
from bbalpha.interfaces.uncertainty import Uncertainty
from bbalpha.likelihoods import Categorical, Likelihood, Probit

# For each kind of array that labels may have: its full type, and the type of a label in a file.
KINDS = {
    "b": (bool, bool),
    "i": (np.int64, int),
    "u": (np.uint64, int),
    "f": (np.float64, float | int),
    "U": (np.str_, str),
    "O": (object, str),
    "T": (np.dtypes.StringDType(), str),
}

LOGIT_SCALE = 4.0  # prior deviation of the contribution of all hidden units to a logit
BLOCK = 32  # draws whose probabilities are added in float32


class BBAlphaClassifier(ClassifierMixin, Estimator):
    """A Bayesian neural network for classification, trained with BB-α.

    Likelihoods: "softmax" (the default) and, for two classes, "probit". Inputs are standardized
    internally. `__init__` explains the other settings.

    Attributes:
        posterior_: The `Posterior` of the weights, for standardized inputs.
        classes_: The labels, in the order of the columns of `predict_proba`.
        input_units_: Mean, scale and limits of each input column.
        alpha_curve_: The `AlphaCurve` from which "tuned" or "stacked" chose, or None.
        calibration_: The `Calibration` on left-out rows that `calibrate=True` found, or None.
        n_iter_: Epochs of the last fit; with early stopping, up to the posterior that was kept.
        n_features_in_: Number of input columns.
        feature_names_in_: The names of the input columns, if `fit` got a DataFrame.
        encoder_: The `TableEncoder` of a DataFrame, or None.

    >>> from sklearn.datasets import load_iris
    >>> model = bb.BBAlphaClassifier(hidden_layer_sizes=(), max_epochs=200, random_state=0)
    >>> model.fit(*load_iris(return_X_y=True)).predict_proba([[6.0, 2.7, 5.1, 1.6]]).round(1)
    array([[0. , 0.5, 0.5]])
    """

    _likelihoods = ("softmax", "probit")

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> "BBAlphaClassifier":
        """Learn from one more piece of the data.

        Rows are kept and trained on again with the next pieces, so that many small pieces give the
        same result as one `fit`. Once there are more than `memory_size` rows, they are forgotten,
        and their posterior becomes the prior for the next pieces by Bayes' rule: every row counts
        once, and a row given twice counts twice. The first piece determines the units.

        Args:
            X: Inputs.
            y: Labels.
            classes: All labels that may occur; required in the first call.
            sample_weight: How many data points each row stands for; 1 by default.
        """
        first = not hasattr(self, "posterior_")
        check_settings(self)
        if first and classes is None:
            raise ValueError("classes must be given in the first call of partial_fit; got None.")
        if classes is not None:
            classes = np.unique(column_or_1d(classes))
            if not first and not np.array_equal(classes, self.classes_):
                raise ValueError(
                    "classes must be the same as in the first call of partial_fit, "
                    f"{self.classes_.tolist()}; got {classes.tolist()}."
                )
        with all_or_nothing(self):
            X, y, sample_weight = without_weightless_rows(X, y, sample_weight)
            X, y = self._validated(X, y, reset=first, classes=classes)
            self._update(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every row."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The predictive probability of every class, of shape (rows, classes)."""
        return _normalized(self._summary(X, _partial_sums))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of new labels, of shape (rows, n_samples).

        Each draw has its own weights, which all rows share.
        """
        draws = self._draws(X, n_samples, random_state)
        return self.classes_[draws.reshape(draws.shape[:2]).T]

    def decompose(self, X: Any) -> Uncertainty:
        """The entropy of every row's label, split into noise and weight uncertainty."""
        total, aleatoric = self._summary(X, entropies)
        return Uncertainty(total, aleatoric, np.maximum(total - aleatoric, 0))

    def _validated(
        self, X: Any, y: Any, reset: bool, classes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs as a float64 matrix, labels as a column of class numbers."""
        check_labels(y)
        X, y = checked(self, X, y, reset=reset)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        if reset:
            self._set_classes(np.unique(y) if classes is None else classes)
        unknown = np.setdiff1d(y, self.classes_)
        if unknown.size:
            raise ValueError(
                f"y must hold the classes {self.classes_.tolist()}; got {unknown.tolist()[0]!r}."
            )
        return X, np.searchsorted(self.classes_, y).reshape(-1, 1)

    def _set_classes(self, classes: np.ndarray) -> None:
        if classes.dtype.kind not in KINDS:
            raise ValueError(
                f"y must hold labels that are numbers, texts or booleans; got type {classes.dtype}."
            )
        if len(classes) < 2:
            found = f"one class, {classes.tolist()[0]!r}" if len(classes) else "none"
            raise ValueError(f"y must hold at least two classes; got {found}.")
        if self.likelihood == "probit" and len(classes) > 2:
            raise ValueError(
                f"likelihood must be 'softmax' for more than two classes; got likelihood='probit' "
                f"with {len(classes)} classes."
            )
        self.classes_ = classes

    def _described(self, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
        """`predict_proba` and `score_samples`, from one pass over the draws."""
        log_densities, sums = self._scores(X, y, _partial_sums)
        return _normalized(sums), log_densities

    def _most_typical(self, X: Any) -> np.ndarray:
        return self.predict(X)

    def _target_facts(self) -> dict[str, Any]:
        """What a file must say about the labels."""
        return {"classes": self.classes_.tolist(), "kind": self.classes_.dtype.kind}

    def _restore_targets(self, facts: dict[str, Any]) -> None:
        if facts["kind"] not in KINDS:
            raise ValueError(f"the kind of labels is {reprlib.repr(facts['kind'])}.")
        dtype, kind = KINDS[facts["kind"]]
        labels = facts["classes"]
        if not all(isinstance(label, kind) for label in labels) or len(set(labels)) < len(labels):
            raise ValueError("classes does not hold distinct labels of one kind.")
        self._set_classes(np.array(labels, dtype))
        if not np.array_equal(self.classes_, np.unique(self.classes_)):
            raise ValueError("classes is not sorted.")

    def _units_of_targets(self, y: np.ndarray, weights: np.ndarray) -> Standardizer:
        """Labels have no units."""
        return Standardizer(np.zeros(1), np.ones(1))

    def _new_likelihood(self, level: np.ndarray) -> Likelihood:
        return Probit() if self.likelihood == "probit" else Categorical()

    def _heads(self) -> tuple[Head, ...]:
        return (Head(1 if self.likelihood == "probit" else len(self.classes_), LOGIT_SCALE),)

    def _level(self, rows: Rows) -> np.ndarray:
        return np.zeros(self._heads()[0].num_outputs)

    def _strata(self, rows: Rows) -> np.ndarray:
        return rows.targets


def _probabilities(likelihood: Likelihood, outputs: Array) -> Array:
    """The probability of every class, for every draw and row."""
    if outputs.shape[-1] == 1:  # probit: 1 − Φ(x) = Φ(−x) without the cancellation
        outputs = jnp.concatenate([-outputs, outputs], axis=-1)
    return likelihood.mean(outputs)


def _partial_sums(likelihood: Likelihood, outputs: Array) -> Array:
    """Sums of the probabilities over blocks of draws, of shape (rows, blocks, classes).

    The caller adds the blocks in float64. In float32, the sum would be off by up to 1.3e-7, and by
    how much would depend on how many rows share the program.
    """
    padding = [(0, -len(outputs) % BLOCK), (0, 0), (0, 0)]
    padded = jnp.pad(_probabilities(likelihood, outputs), padding)
    blocks = padded.reshape(-1, BLOCK, *padded.shape[1:])
    return jnp.swapaxes(jnp.sum(blocks, axis=1), 0, 1)


def _normalized(partial_sums: np.ndarray) -> np.ndarray:
    """The probabilities that sum to 1, given sums over blocks of draws."""
    sums = partial_sums.sum(axis=1)
    return sums / sums.sum(axis=1, keepdims=True)


def entropies(likelihood: Likelihood, outputs: Array) -> tuple[Array, Array]:
    """The entropy of the averaged probabilities, and the average entropy."""
    probabilities = _probabilities(likelihood, outputs)
    return _entropy(jnp.mean(probabilities, axis=0)), jnp.mean(_entropy(probabilities), axis=0)


def _entropy(probabilities: Array) -> Array:
    return -jnp.sum(xlogy(probabilities, probabilities), axis=-1)
