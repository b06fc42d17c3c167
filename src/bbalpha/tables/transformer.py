"""`TableEncoder`, a scikit-learn transformer: columns of a DataFrame → features, as in `fit`."""

from typing import Any, TypeVar

import numpy as np
import pyarrow
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import (
    _check_feature_names,
    _check_n_features,
    check_is_fitted,
    validate_data,
)

from bbalpha.tables.encoder import Encoder, drop_columns
from bbalpha.tables.messages import TableError, check_choice, check_names, for_python, quote

MOST_CLASSES = 20  # distinct whole numbers; more are numbers rather than labels

Self = TypeVar("Self", bound="TableEncoder")


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turns the columns of a DataFrame into features, as `bbalpha fit` does.

    Numbers may have currency signs, percent signs and thousands separators; extreme numbers are
    pulled in. Missing numbers are replaced by the median and marked. Dates become days and the
    phases of year, week and day. Texts become zeros and ones; rare and unseen texts are pooled. A
    column with many texts also gets the effect of each text on the target, computed out of fold for
    training rows (use `fit_transform`, as pipelines do). Columns that cannot help are ignored.

    Args:
        text: Columns to treat as text, whatever they hold.
        drop: Columns to leave out.
        missing: Texts that mark missing cells, in addition to the usual ones.
        dayfirst: Whether 03/04/2024 is the 3rd of April; None to decide by each column's values.
        unknown: "other" to pool texts that did not occur in training with the rare ones, "error" to
            refuse them.

    Attributes:
        encoder_: The fitted `bbalpha.tables.Encoder`; its `summary` says what each column became,
            and its `to_json` describes it for a file.
        n_features_in_: Number of columns.
        feature_names_in_: The names of the columns, if `fit` got a DataFrame.

    >>> import pandas
    >>> houses = pandas.DataFrame({"size": ["80", "?", "95"] * 4, "town": ["Ely", "Wells"] * 6})
    >>> encoder = bb.TableEncoder().fit(houses)
    >>> print(*encoder.get_feature_names_out(), sep=", ")
    size, size is missing, town=Ely, town=Wells
    >>> encoder.transform(pandas.DataFrame({"size": ["70", None], "town": ["Ely", "Bath"]}))
    array([[70. ,  0. ,  1. ,  0. ],
           [87.5,  1. ,  0. ,  0. ]])
    >>> encoder.notes(pandas.DataFrame({"size": ["70"], "town": ["Bath"]}))[0][:57]
    "column 'town': 1 of 1 texts were not in the training tabl"
    """

    n_features_in_: int
    feature_names_in_: np.ndarray

    def __init__(
        self,
        *,
        text: Any = (),
        drop: Any = (),
        missing: Any = (),
        dayfirst: Any = None,
        unknown: Any = "other",
    ):
        """Store the settings, which `fit` checks."""
        self.text = text
        self.drop = drop
        self.missing = missing
        self.dayfirst = dayfirst
        self.unknown = unknown

    @classmethod
    def from_encoder(cls: type[Self], encoder: Encoder) -> Self:
        """Return a fitted transformer around an encoder, such as one read from a file."""
        self = cls(missing=encoder.missing)
        names = [column.name for column in encoder.columns]
        self.encoder_, self.n_features_in_ = encoder, len(names)
        if names != _names_of_array(len(names)):
            self.feature_names_in_ = np.array(names, dtype=object)
        return self

    def fit(self: Self, X: Any, y: Any = None) -> Self:
        """Learn how to encode a table.

        Args:
            X: A pandas DataFrame, an arrow table or an array.
            y: Targets for the effects of categories: numbers as floats, or labels.

        Raises:
            ValueError: If a column cannot be encoded; the message is one sentence.
        """
        self._learn(X, y)
        return self

    def fit_transform(self, X: Any, y: Any = None, **_: Any) -> np.ndarray:
        """Learn how to encode a table, and return the features of its rows.

        The features differ from those of `transform` only in the effects of categories, which do
        not use the row's own target.
        """
        return self._learn(X, y)

    def transform(self, X: Any) -> np.ndarray:
        """Return the features of a table, float64 of shape (rows, features)."""
        check_is_fitted(self)
        with for_python():
            return self.encoder_.encode(
                self._frame(X, reset=False), unknown=self.unknown, allowed=self.drop
            )

    def notes(self, X: Any) -> list[str]:
        """Sentences about the cells of a table: missing ones, and texts unseen in training."""
        check_is_fitted(self)
        with for_python():
            return list(self.encoder_.read(self._frame(X, reset=False), allowed=self.drop).notes)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the name of each feature; `input_features` is ignored."""
        check_is_fitted(self)
        return np.array(self.encoder_.feature_names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def _learn(self, X: Any, y: Any) -> np.ndarray:
        for name in ("text", "drop", "missing"):
            _check_texts(name, getattr(self, name))
        check_choice(self.dayfirst, (None, True, False), "dayfirst")
        frame = self._frame(X, reset=True)
        with for_python():
            self.encoder_, features = Encoder.learn_and_encode(
                drop_columns(frame, self.drop),
                _targets(y, frame),
                text=self.text,
                missing=self.missing,
                dayfirst=self.dayfirst,
            )
        return features

    def _frame(self, X: Any, reset: bool) -> Any:
        """The table, checked like in scikit-learn; columns of an array are called x0, x1, ..."""
        if isinstance(X, pyarrow.Table):
            X = X.to_pandas()
        if hasattr(X, "iloc") and hasattr(X, "columns"):
            if all(isinstance(name, str) for name in X.columns):
                check_names(list(X.columns), "the table")
            _check_feature_names(self, X, reset=reset)
            _check_n_features(self, X, reset=reset)
            if all(isinstance(name, str) for name in X.columns):
                return X
            return X.set_axis([str(name) for name in X.columns], axis=1)
        X = validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan")
        import pandas

        return pandas.DataFrame(X, columns=pandas.Index(_names_of_array(X.shape[1])))


def _check_texts(name: str, values: Any) -> None:
    if isinstance(values, str) or not all(isinstance(value, str) for value in values):
        raise TableError(f"{name} must be a list of texts; got {name}={quote(values)}.")


def _names_of_array(num_columns: int) -> list[str]:
    return [f"x{number}" for number in range(num_columns)]


def _targets(y: Any, frame: Any) -> np.ndarray | None:
    """Targets in the form that the encoder takes: numbers as floats, labels unchanged."""
    if y is None:
        return None
    values = np.asarray(y)
    if len(values) != len(frame):
        raise ValueError(
            f"y must have one target per row of X; got {len(values)} targets for {len(frame)} rows."
        )
    if values.dtype.kind in "iu" and np.unique(values).size > MOST_CLASSES:
        return values.astype(float)
    return values.astype(float) if values.dtype.kind == "f" or values.ndim > 1 else values
