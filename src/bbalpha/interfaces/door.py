"""The door of the estimators: a DataFrame, a matrix or a list becomes a matrix of numbers."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_X_y, validate_data


def checked(estimator: Any, X: Any, y: Any = None, *, reset: bool, **rules: Any) -> Any:
    """Inputs, and targets if there are any, as checked arrays.

    A DataFrame goes through the estimator's encoder, which `reset` makes anew.

    Args:
        estimator: The estimator, whose `encoder_`, `n_features_in_` and `feature_names_in_` are set
            by `reset` and checked otherwise.
        X: Inputs.
        y: Targets, or None.
        reset: Whether these data define the model.
        rules: Further arguments of scikit-learn's checks of the targets.
    """
    if reset:
        estimator.encoder_ = _new_encoder(estimator.encoder, X)
    encoder = estimator.encoder_
    if encoder is None:
        targets = {} if y is None else {"y": y}
        return validate_data(estimator, X, reset=reset, dtype=np.float64, **targets, **rules)
    features = encoder.fit_transform(X, y) if reset else encoder.transform(X)
    if reset:
        estimator.n_features_in_ = encoder.n_features_in_
        estimator.feature_names_in_ = encoder.feature_names_in_
    if y is None:
        return check_array(features, dtype=np.float64)
    return check_X_y(features, y, dtype=np.float64, **rules)


def _new_encoder(encoder: Any, X: Any) -> Any:
    """A new encoder for a DataFrame; None for a matrix or if none is wanted."""
    if encoder is None or not hasattr(X, "columns"):
        return None
    try:
        from bbalpha.tables.transformer import TableEncoder  # needs pandas and pyarrow
    except ImportError:
        return None
    return TableEncoder()
