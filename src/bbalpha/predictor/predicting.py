"""`Predictor`: the predictions of a fitted model for a service, computed with NumPy alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.predictor.contents import Contents
from bbalpha.predictor.quantiles import quantile
from bbalpha.predictor.rows import cells_of, check_names, numbers_of

UNITS_AT_ONCE = 2**22  # activations of a layer over all draws and some rows: 16 MiB in float32
LOWEST_LEVEL = 1e-37  # of a quantile, as for the estimators


class Predictor:
    """A fitted estimator without jax, which averages over draws of the weights read from a file.

    Predictions equal those of the exported estimator up to rounding. X is a matrix of numbers or,
    if the model was fitted to a table with column names, a list of rows as dictionaries (as in
    JSON), a dictionary of columns, or a DataFrame.

    Attributes:
        classes_: The labels of a classifier, in the order of `predict_proba`; None for a regressor.
        feature_names: Columns that a row must have; None if X is a matrix without names.
        target: The name of the target, if the model was fitted by the command line.
        num_draws: Number of draws of the weights that predictions average over.

    >>> import tempfile
    >>> x = np.linspace(-2, 2, 100)[:, None]
    >>> model = bb.BBAlphaRegressor((), random_state=0).fit(x, 3 * x[:, 0])
    >>> with tempfile.NamedTemporaryFile(suffix=".predictor") as file:
    ...     model.export(file.name)
    ...     predictor = Predictor.load(file.name)
    >>> predictor.predict([[1.0]]).round(1)
    array([3.])
    """

    def __init__(self, contents: Contents):
        """Store the contents of a file; use `load` instead."""
        self._contents = contents
        self.classes_ = contents.classes
        self.feature_names = contents.names
        self.target = contents.target
        self.num_draws = contents.network.num_draws

    @classmethod
    def load(cls, path: str | Path) -> "Predictor":
        """Read a file that `export` wrote; nothing in it is executed.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is not a predictor, is damaged or has another format version.
        """
        return cls(Contents.read(path))

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean of every row and, with `return_std`, the standard deviation.

        For a classifier, this is the most probable label.
        """
        if self.classes_ is not None:
            if return_std:
                raise ValueError("return_std must be False for a classifier; got True.")
            return self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        mean, variance = self._over_rows(X, self._moments)
        scale = self._contents.target_scale
        found = self._shaped(mean * scale + self._contents.target_mean)
        return (found, self._shaped(np.sqrt(variance) * scale)) if return_std else found

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of the predictive distribution, of shape (rows, [outputs,] quantiles).

        Raises:
            ValueError: If a probability is not between 0 and 1, or the model is a classifier.
        """
        self._check_task(is_classifier=False, method="predict_quantiles")
        levels = np.atleast_1d(np.asarray(quantiles, float))
        if not ((levels >= LOWEST_LEVEL) & (levels < 1)).all():
            raise ValueError(
                f"quantiles must lie between 0 and 1; got quantiles={levels.tolist()}."
            )
        targets = self._contents.targets

        def of_levels(outputs: np.ndarray) -> tuple[np.ndarray, ...]:
            return tuple(quantile(targets, outputs, float(level)) for level in levels)

        found = self._over_rows(X, of_levels)
        scale, mean = self._contents.target_scale, self._contents.target_mean
        return np.stack([self._shaped(column * scale + mean) for column in found], axis=-1)

    def predict_interval(self, X: Any, coverage: Any = 0.9) -> np.ndarray:
        """The central interval that contains a new target with this probability.

        Raises:
            ValueError: If `coverage` is not between 0 and 1, or the model is a classifier.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1; got coverage={coverage}.")
        return self.predict_quantiles(X, ((1 - coverage) / 2, (1 + coverage) / 2))

    def predict_proba(self, X: Any) -> np.ndarray:
        """The predictive probability of every class, of shape (rows, classes).

        Raises:
            ValueError: If the model is a regressor.
        """
        self._check_task(is_classifier=True, method="predict_proba")
        (sums,) = self._over_rows(X, lambda x: (self._contents.targets.mean(x).mean(axis=0),))
        return sums / sums.sum(axis=1, keepdims=True)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of new targets, of shape (rows, [outputs,] n_samples).

        Each uses one of the stored draws of the weights, which all rows share; if you ask for more
        than are stored, some are used repeatedly. The results differ from those of the estimator,
        which draws new weights.
        """
        if not isinstance(n_samples, int | np.integer) or n_samples < 1:
            raise ValueError(f"n_samples must be a positive integer; got n_samples={n_samples!r}.")
        stream = np.random.default_rng(random_state)
        rounds = [
            stream.permutation(self.num_draws) for _ in range(-(-n_samples // self.num_draws))
        ]
        network = self._contents.network.take(np.concatenate(rounds)[:n_samples])
        targets = self._contents.targets

        def sample(outputs: np.ndarray) -> tuple[np.ndarray, ...]:
            return (targets.sample(outputs, stream).transpose(1, 2, 0),)

        (draws,) = self._over_rows(X, sample, network)
        if self.classes_ is not None:
            return self.classes_[draws[:, 0].astype(int)]
        scale, mean = self._contents.target_scale[:, None], self._contents.target_mean[:, None]
        return self._shaped(draws * scale + mean)

    def score_samples(self, X: Any, y: Any) -> np.ndarray:
        """The predictive log-density of each row's target, in nats and in the units of `y`.

        Raises:
            ValueError: If `y` has another shape, is not finite, or holds an unknown class.
        """
        inputs = self._inputs(X)
        targets = self._contents.standardized(y, len(inputs))
        rows = np.hstack([inputs, targets])

        def densities(outputs: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
            found = self._contents.targets.log_prob(outputs, targets)
            largest = found.max(axis=0)
            largest = np.where(np.isfinite(largest), largest, 0.0)
            return (largest + np.log(np.exp(found - largest).mean(axis=0)),)

        (found,) = self._in_chunks(rows, densities, num_targets=targets.shape[1])
        return found - np.log(self._contents.target_scale).sum()

    def outside(self, X: Any) -> np.ndarray:
        """Whether each row has an input beyond the limits to which predictions clip inputs."""
        return np.any(self._contents.inputs.is_outside(self._features(X)), axis=1)

    def _moments(self, outputs: np.ndarray) -> tuple[np.ndarray, ...]:
        """Mean and variance of the targets."""
        targets = self._contents.targets
        means = targets.mean(outputs)
        return means.mean(axis=0), targets.variance(outputs).mean(axis=0) + means.var(axis=0)

    def _features(self, X: Any) -> np.ndarray:
        """A checked matrix of the features that the model was fitted to."""
        cells, encoder = cells_of(_some(X)), self._contents.encoder
        if encoder is not None:
            if cells is None:
                raise ValueError(
                    f"X must be rows with the columns {', '.join(encoder.names[:5])}"
                    f"{', …' if encoder.names[5:] else ''}; got {type(X).__name__}."
                )
            return _some(encoder.encode(cells))
        if cells is not None and self.feature_names is not None:
            check_names(cells, self.feature_names)
            X = np.stack([numbers_of(name, cells[name]) for name in self.feature_names], axis=1)
        return _matrix(X, len(self._contents.inputs.mean))

    def _inputs(self, X: Any) -> np.ndarray:
        with np.errstate(all="ignore"):
            return self._contents.inputs.transform(self._features(X))

    def _over_rows(self, X: Any, summary: Callable, network: Any = None) -> list[np.ndarray]:
        """`summary(outputs)` of all rows, one chunk of rows at a time."""
        return self._in_chunks(self._inputs(X), summary, network)

    def _in_chunks(
        self, rows: np.ndarray, summary: Callable, network: Any = None, num_targets: int = 0
    ) -> list[np.ndarray]:
        """The same for inputs with targets in further columns, which the summary takes as well."""
        network = self._contents.network if network is None else network
        at_once = max(1, UNITS_AT_ONCE // (network.num_draws * network.widest()))
        num_inputs, pieces = rows.shape[1] - num_targets, []
        with np.errstate(all="ignore"):
            for start in range(0, len(rows), at_once):
                inputs, targets = np.split(rows[start : start + at_once], [num_inputs], axis=1)
                outputs = self._contents.bounded(network.outputs(inputs))
                pieces.append(summary(outputs, *([targets] if num_targets else [])))
        found = [np.concatenate(column) for column in zip(*pieces, strict=True)]
        is_wrong = np.zeros(len(rows), bool)
        for column in found:
            is_wrong |= np.isnan(column).reshape(len(rows), -1).any(axis=1)
        if is_wrong.any():
            raise ValueError(f"the prediction of row {int(is_wrong.argmax())} is not a number.")
        return found

    def _shaped(self, columns: np.ndarray) -> np.ndarray:
        """A vector if the model was fitted to a vector of targets."""
        return columns[:, 0] if self._contents.is_vector else columns

    def _check_task(self, is_classifier: bool, method: str) -> None:
        if is_classifier != (self.classes_ is not None):
            kinds = ("a regressor", "a classifier")
            raise ValueError(
                f"{method} must be called on {kinds[is_classifier]}; "
                f"got {kinds[not is_classifier]}."
            )


def _some(rows: Any) -> Any:
    """The rows; raises if there are none."""
    if isinstance(rows, list | tuple | np.ndarray) and len(rows) == 0:
        raise ValueError("X must have at least one row; got none.")
    return rows


def _matrix(X: Any, num_columns: int) -> np.ndarray:
    try:
        matrix = np.asarray(X, np.float64)
    except (TypeError, ValueError):
        raise ValueError(
            f"X must be a matrix of numbers with {num_columns} columns; got {type(X).__name__} "
            "with other values."
        ) from None
    if matrix.ndim != 2 or matrix.shape[1] != num_columns:
        raise ValueError(f"X must have shape (rows, {num_columns}); got {matrix.shape}.")
    if not (is_finite := np.isfinite(matrix)).all():
        row, column = np.argwhere(~is_finite)[0]
        raise ValueError(
            f"X must hold finite numbers; got {matrix[row, column]} in row {row}, column {column}."
        )
    return matrix
