"""The door of the estimators: checks data and turns DataFrames, matrices and lists into numbers."""

import contextlib
import math
from typing import Any

import jax
import numpy as np
from scipy.sparse import issparse
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import (
    _check_sample_weight,
    _num_samples,
    check_array,
    check_consistent_length,
    check_X_y,
    validate_data,
)

from bbalpha.data import as_weights

MOST_CELLS = 2**28  # of a sparse matrix made dense: 2 GiB of float64
NO_TARGETS = "no_validation"  # scikit-learn's word; None would mean that targets were forgotten


def checked(estimator: Any, X: Any, y: Any = NO_TARGETS, *, reset: bool, **rules: Any) -> Any:
    """Inputs, and targets if there are any, as checked arrays.

    A DataFrame is encoded by the estimator's encoder; with `reset`, by a new one. A sparse matrix
    is made dense.

    Args:
        estimator: The estimator. Its `encoder_`, `n_features_in_` and `feature_names_in_` are set
            with `reset` and compared with the data otherwise.
        X: Inputs.
        y: Targets, if there are any.
        reset: Whether these data define the model.
        rules: Further arguments for scikit-learn's checks of the targets.
    """
    try:
        return _checked(estimator, X, y, reset, rules)
    except OverflowError:  # from Python's float
        largest = f"{np.finfo(np.float64).max:.2g}"
        raise ValueError(
            f"X and y must hold numbers up to {largest} in size; got a larger one."
        ) from None


def _checked(estimator: Any, X: Any, y: Any, reset: bool, rules: dict[str, Any]) -> Any:
    check_real(X=X, y=y)
    X = _dense(X)
    if reset:
        estimator.encoder_ = _new_encoder(estimator.encoder, X)
    encoder = estimator.encoder_
    if encoder is None:
        return validate_data(estimator, X, y, reset=reset, dtype=np.float64, **rules)
    features = encoder.fit_transform(X, y) if reset else encoder.transform(X)
    if reset:
        estimator.n_features_in_ = encoder.n_features_in_
        vars(estimator).pop("feature_names_in_", None)
        if hasattr(encoder, "feature_names_in_"):  # only if all names are texts
            estimator.feature_names_in_ = encoder.feature_names_in_
    if isinstance(y, str) and y == NO_TARGETS:
        return check_array(features, dtype="float64")
    return check_X_y(features, y, dtype="float64", **rules)


def check_real(**arrays: Any) -> None:
    """Raise if one of the named arrays holds complex numbers.

    scikit-learn's own message prints the whole array. Its test suite demands that the message of an
    estimator begins like the one here.
    """
    for name, array in arrays.items():
        dtype = getattr(array, "dtype", None)
        if isinstance(dtype, np.dtype) and dtype.kind == "c":
            raise ValueError(
                f"Complex data not supported: {name} must hold real numbers; got the type {dtype}."
            )


def checked_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """One weight per row, 1 by default; raise if their sum overflows in the precision of jax."""
    check_real(sample_weight=sample_weight)
    if sample_weight is not None:
        sample_weight = as_weights(sample_weight, "sample_weight")
    weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
    dtype = jax.dtypes.canonicalize_dtype(np.float64)
    with np.errstate(over="ignore"):
        total = weights.sum()
    if total > np.finfo(dtype).max:
        raise ValueError(
            f"sample_weight must have a sum that is a number in {dtype}; got a sum of {total:g}."
        )
    return weights


def without_weightless_rows(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """The rows of positive weight, as they were given, and their weights.

    Rows of weight 0 count for nothing: not for the encoder, the classes or the likelihood either.
    If all weights are 0, all rows are returned, for later checks to refuse.
    """
    if sample_weight is None or y is None:
        return X, y, sample_weight
    check_consistent_length(X, y, sample_weight)
    kept = np.flatnonzero(checked_weights(sample_weight, X) > 0)
    if len(kept) in (0, _num_samples(X)):
        return X, y, sample_weight
    X = X.tocsr() if issparse(X) else X
    weights = as_weights(sample_weight, "sample_weight")
    return _safe_indexing(X, kept), _safe_indexing(y, kept), weights[kept]


def check_numbers(y: Any) -> None:
    """Raise if targets are not numbers; scikit-learn would parse texts such as "3.5".

    Raises:
        ValueError: With the first value that is not a number.
    """
    array = np.asarray(y)
    if array.dtype.kind in "biufc" or array.ndim == 0 or array.size == 0:
        return  # scikit-learn checks the rest
    is_mixed = array.dtype.kind == "O"
    values = (x for x in array.ravel() if not is_mixed or isinstance(x, str | bytes))
    if (wrong := next(values, None)) is not None:
        remedy = " Convert texts with y.astype(float)." if isinstance(wrong, str) else ""
        raise ValueError(f"y must hold numbers; got {str(wrong)!r}.{remedy}")


def check_labels(y: Any) -> None:
    """Raise if a label is missing, or is a text that numpy would truncate.

    Raises:
        ValueError: With the first such label and its row.
    """
    labels = y if isinstance(y, list | tuple) else np.asarray(y)
    if isinstance(labels, np.ndarray) and (labels.ndim == 0 or labels.dtype.kind not in "OT"):
        return  # scikit-learn checks the rest
    labels = np.ravel(labels) if isinstance(labels, np.ndarray) else labels
    with contextlib.suppress(TypeError):  # labels that cannot be hashed are looked at one by one
        labels = labels if _may_be_wrong(set(labels)) else ()
    for row, label in enumerate(labels):
        if label is None:
            raise ValueError(f"y must have a label in every row; got None in row {row}.")
        if isinstance(label, str) and label.endswith("\0"):
            raise ValueError(
                "y must hold labels that do not end in a null character, which numpy drops; "
                f"got {label!r} in row {row}."
            )


def _may_be_wrong(labels: set[Any]) -> bool:
    """Whether one of the different labels is missing or ends in a null character."""
    return None in labels or any(isinstance(x, str) and x.endswith("\0") for x in labels)


def _dense(X: Any) -> Any:
    """A sparse matrix as an array, if it is not too large; other inputs unchanged."""
    if not issparse(X):
        return X
    cells = math.prod(X.shape)
    if cells > MOST_CELLS:
        raise ValueError(
            f"X must have at most {MOST_CELLS:,} cells, because sparse matrices are made dense; "
            f"got shape {X.shape} with {cells:,} cells."
        )
    return X.toarray()


def _new_encoder(encoder: Any, X: Any) -> Any:
    """A new encoder for a DataFrame; None for a matrix, or if the settings exclude one."""
    if encoder is None or not hasattr(X, "columns"):
        return None
    try:
        from bbalpha.tables.transformer import TableEncoder  # needs pandas and pyarrow
    except ImportError:
        return None
    return TableEncoder()
