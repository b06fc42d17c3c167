"""The scikit-learn classifier: classes with their predictive probabilities."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy
from jaxtyping import Array
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from bbalpha.data import Standardizer
from bbalpha.interfaces.estimator import Estimator, Rows, Uncertainty, all_or_nothing
from bbalpha.interfaces.settings import check_settings
from bbalpha.likelihoods import Categorical, Likelihood, Probit

# Labels by the kind of their array: its type in full, and theirs in a file.
KINDS = {
    "b": (bool, bool),
    "i": (np.int64, int),
    "u": (np.uint64, int),
    "f": (np.float64, float | int),
    "U": (np.str_, str),
    "O": (object, str),
    "T": (np.dtypes.StringDType(), str),
}


class BBAlphaClassifier(ClassifierMixin, Estimator):
    """A Bayesian network for classes, inferred by BB-α.

    Likelihoods: "softmax" (the default) and, for two classes, "probit". Inputs are standardized
    inside. The other settings are explained at `__init__`.

    Attributes:
        posterior_: The `Posterior` of the weights, for standardized inputs.
        classes_: The labels, in the order of the columns of `predict_proba`.
        input_units_: The `Standardizer` of the inputs.
        n_iter_: Epochs of the last fit; with early stopping, those up to the posterior kept.
        n_features_in_: Columns of the inputs.
        feature_names_in_: Their names, if `fit` saw a DataFrame.

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

        Rows are kept, and used again with the next pieces, until there are more than
        `memory_size`; so many small pieces give what one `fit` gives. Then they are forgotten and
        their posterior is the prior of what follows, by Bayes' rule: every row counts once, and a
        row given twice counts twice. The units are those of the first piece.

        Args:
            X: Inputs.
            y: Labels.
            classes: All labels that may come; needed in the first call.
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
                    "classes must be those of the first call of partial_fit, "
                    f"{self.classes_.tolist()}; got {classes.tolist()}."
                )
        with all_or_nothing(self):
            X, y = self._validated(X, y, reset=first, classes=classes)
            self._update(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> np.ndarray:
        """The most probable label of every row."""
        check_is_fitted(self)
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """The predictive probability of every class, of shape (rows, classes)."""
        probabilities = self._summary(X, _mean_probabilities)
        return probabilities / probabilities.sum(axis=1, keepdims=True)  # to double precision

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of new labels, of shape (rows, n_samples).

        Every draw has weights of its own, which all rows share.
        """
        draws = self._draws(X, n_samples, random_state)
        return self.classes_[draws.reshape(draws.shape[:2]).T]

    def decompose(self, X: Any) -> Uncertainty:
        """The entropy of every row's label as noise and what is not known of the weights."""
        total, aleatoric = self._summary(X, _entropies)
        return Uncertainty(total, aleatoric, np.maximum(total - aleatoric, 0))

    def _validated(
        self, X: Any, y: Any, reset: bool, classes: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Inputs as a float64 matrix, labels as their numbers in a column."""
        X, y = validate_data(self, X, y, reset=reset, dtype=np.float64)
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
                f"y must hold numbers, texts or booleans as labels; got type {classes.dtype}."
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

    def _most_typical(self, X: Any) -> np.ndarray:
        return self.predict(X)

    def _target_facts(self) -> dict[str, Any]:
        """What a file must say of the labels."""
        return {"classes": self.classes_.tolist(), "kind": self.classes_.dtype.kind}

    def _restore_targets(self, facts: dict[str, Any]) -> None:
        dtype, kind = KINDS[facts["kind"]]
        labels = facts["classes"]
        if not all(isinstance(label, kind) for label in labels) or len(set(labels)) < len(labels):
            raise ValueError("classes are not different labels of one kind.")
        self._set_classes(np.array(labels, dtype))
        if not np.array_equal(self.classes_, np.unique(self.classes_)):
            raise ValueError("classes are not in order.")

    def _units_of_targets(self, y: np.ndarray, weights: np.ndarray) -> Standardizer:
        """Labels have no units."""
        return Standardizer(np.zeros(1), np.ones(1))

    def _new_likelihood(self) -> Likelihood:
        return Probit() if self.likelihood == "probit" else Categorical()

    def _num_outputs(self) -> int:
        return 1 if self.likelihood == "probit" else len(self.classes_)

    def _level(self, rows: Rows) -> np.ndarray:
        return np.zeros(self._num_outputs())

    def _strata(self, rows: Rows) -> np.ndarray:
        return rows.targets


def _probabilities(likelihood: Likelihood, outputs: Array) -> Array:
    """Those of all classes for every draw and row."""
    if outputs.shape[-1] == 1:  # probit: 1 − Φ(x) = Φ(−x), without the cancellation
        outputs = jnp.concatenate([-outputs, outputs], axis=-1)
    return likelihood.mean(outputs)


def _mean_probabilities(likelihood: Likelihood, outputs: Array) -> Array:
    return jnp.mean(_probabilities(likelihood, outputs), axis=0)


def _entropies(likelihood: Likelihood, outputs: Array) -> tuple[Array, Array]:
    """The entropy of the averaged probabilities, and the average entropy."""
    probabilities = _probabilities(likelihood, outputs)
    return _entropy(jnp.mean(probabilities, axis=0)), jnp.mean(_entropy(probabilities), axis=0)


def _entropy(probabilities: Array) -> Array:
    return -jnp.sum(xlogy(probabilities, probabilities), axis=-1)
