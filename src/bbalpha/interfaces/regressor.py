"""`BBAlphaRegressor`, the scikit-learn regressor: numbers and their predictive distributions."""

import reprlib
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bbalpha.counts import NegativeBinomial, Poisson
from bbalpha.data import Standardizer, standardize
from bbalpha.engine.arrays import on_device
from bbalpha.interfaces.bounded import UNLIMITED, Bounded
from bbalpha.interfaces.counting import are_counts
from bbalpha.interfaces.door import check_numbers, checked, without_weightless_rows
from bbalpha.interfaces.estimator import Estimator
from bbalpha.interfaces.finite import checked_summary, has_variance
from bbalpha.interfaces.limits import LOWEST_LEVEL
from bbalpha.interfaces.network import Head
from bbalpha.interfaces.settings import COUNTS, check_settings
from bbalpha.interfaces.training import Rows, all_or_nothing
from bbalpha.interfaces.uncertainty import Uncertainty
from bbalpha.interfaces.wild import has_wild_values
from bbalpha.likelihoods import (
    LOG_DEGREES_OF_FREEDOM,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    StudentT,
)
from bbalpha.predictive import predictive_mean, predictive_variance, quantiles_at_tails, tails

NOISE_LEVEL = -1.0  # where log-variances start: noise of 0.6 times the targets' deviation
NOISE_SCALE = 0.1  # initial prior deviation of log-variances; small, so that means are found first
NOISE_BIAS_SCALE = 1.5  # prior deviation of the log-variance at the center of the inputs
# Limits on logarithms; beyond them, variances and rates grow only linearly.
LOWEST_NOISE, HIGHEST_NOISE = np.log(1e-6), np.log(4.0)  # relative to the targets' variance
HIGHEST_COUNT = 3.0  # log-rate above that of the average count: 20 times as many

HALF_A_COUNT = 0.5  # added so that the level of counts that are all zero has a logarithm


class Described(NamedTuple):
    """Predictions for some rows from one pass over the draws, in the units of the targets."""

    mean: np.ndarray
    std: np.ndarray
    quantiles: np.ndarray | None  # on the last axis, if levels were given
    log_densities: np.ndarray | None  # if targets were given


class BBAlphaRegressor(RegressorMixin, Estimator):
    """A Bayesian neural network for regression on one or several targets, trained with BB-α.

    Likelihoods: "heteroscedastic" (the noise may depend on the inputs), "gaussian" (the same noise
    everywhere), "student_t" (outliers), "poisson" (counts) and "negative_binomial" (counts that
    vary more). With the default "auto", `fit` uses "negative_binomial" for targets that look like
    counts, "student_t" if a few targets look like recording errors, and "heteroscedastic" otherwise
    (see `likelihood_`); `partial_fit` always uses "heteroscedastic". Inputs are standardized
    internally, and so are targets other than counts. Noise variances are learned. `__init__`
    explains the other settings.

    Predictions stay bounded everywhere. Inputs are clipped to the training range, widened by half
    its width at each end; `outside(X)` tells which rows are affected. Noise variances beyond four
    times the variance of the targets, and rates beyond twenty times the average count, grow
    linearly with the output of the network instead of exponentially.

    Attributes:
        posterior_: The `Posterior` of the weights, in standardized units; `posterior_.hyperparams`
            is the likelihood with the learned noise.
        likelihood_: The name of the likelihood that was used. Targets look like counts if they are
            whole numbers from 0 to 10,000, with at least three different values in at least ten
            rows, and a constant negative binomial predicts left-out rows clearly better than a
            constant Gaussian. A target looks like a recording error if its distance from the median
            is more than 50 times the distance between the quartiles.
        input_units_: Mean, scale and limits of each input column.
        target_units_: The `Standardizer` of the targets.
        alpha_curve_: The `AlphaCurve` from which "tuned" or "stacked" chose, or None.
        calibration_: The `Calibration` on left-out rows that `calibrate=True` found, or None.
        n_iter_: Epochs of the last fit; with early stopping, up to the posterior that was kept.
        n_features_in_: Number of input columns.
        feature_names_in_: The names of the input columns, if `fit` got a DataFrame.
        encoder_: The `TableEncoder` of a DataFrame, or None.
        n_outputs_: Number of columns of the targets.

    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 100)[:, None]
    >>> y = 3 * x[:, 0] + np.random.RandomState(0).normal(size=100)
    >>> model = bb.BBAlphaRegressor(hidden_layer_sizes=(), random_state=0).fit(x, y)
    >>> mean, std = model.predict([[1.0]], return_std=True)
    >>> print(f"{mean[0]:.1f} ± {std[0]:.1f}")
    3.0 ± 1.0
    """

    _likelihoods = ("heteroscedastic", "gaussian", "student_t", *COUNTS)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> "BBAlphaRegressor":
        """Learn from one more piece of the data.

        Rows are kept and trained on again with the next pieces, so that many small pieces give the
        same result as one `fit`. Once there are more than `memory_size` rows, they are forgotten,
        and their posterior becomes the prior for the next pieces by Bayes' rule: every row counts
        once, and a row given twice counts twice. The first piece determines the units.
        """
        first = not hasattr(self, "posterior_")
        check_settings(self)
        with all_or_nothing(self):
            if first:
                self.likelihood_ = self._named_likelihood()
            X, y, sample_weight = without_weightless_rows(X, y, sample_weight)
            X, y = self._validated(X, y, reset=first)
            self._update(X, y, sample_weight)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """The predictive mean of every row and, with `return_std`, the standard deviation."""
        check_is_fitted(self)
        if return_std:
            described = self._described(X)
            return described.mean, described.std
        return self._shaped(self.target_units_.inverse(self._summary(X, predictive_mean)))

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of the predictive distribution, of shape (rows, [outputs,] quantiles).

        The predictive distribution is a mixture over the draws of the weights; its distribution
        function is inverted numerically.

        Args:
            X: Inputs.
            quantiles: Probabilities between 0 and 1.

        Raises:
            ValueError: If a probability is not between 0 and 1.
        """
        quantiles = np.atleast_1d(np.asarray(quantiles, float))
        if ((quantiles > 0) & (quantiles < LOWEST_LEVEL)).any():
            raise ValueError(
                f"quantiles must be at least {LOWEST_LEVEL:g}; got quantiles={quantiles.tolist()}."
            )
        if not ((quantiles > 0) & (quantiles < 1)).all():
            raise ValueError(
                f"quantiles must lie between 0 and 1; got quantiles={quantiles.tolist()}."
            )
        return self._quantiles(self._summary(X, quantiles_at_tails, *tails(quantiles)))

    def predict_interval(self, X: Any, coverage: Any = 0.9) -> np.ndarray:
        """The central interval that contains a new target with the given probability.

        Args:
            X: Inputs.
            coverage: Probability of the interval, between 0 and 1.

        Returns:
            Lower and upper ends, of shape (rows, [outputs,] 2).

        Raises:
            ValueError: If `coverage` is not between 0 and 1.
        """
        if not 0 < coverage < 1:
            raise ValueError(f"coverage must lie between 0 and 1; got coverage={coverage}.")
        return self.predict_quantiles(X, ((1 - coverage) / 2, (1 + coverage) / 2))

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Draws of new targets, of shape (rows, [outputs,] n_samples).

        Each draw has its own weights, which all rows share.
        """
        draws = self._draws(X, n_samples, random_state)
        return np.stack([self._shaped(self.target_units_.inverse(draw)) for draw in draws], -1)

    def decompose(self, X: Any) -> Uncertainty:
        """The predictive variance of every row, split into noise and weight uncertainty."""
        parts = [self.target_units_.inverse_variance(v) for v in self._summary(X, variances)]
        parts = checked_summary((parts[0] + parts[1], *parts), self.posterior_.hyperparams)
        return Uncertainty(*map(self._shaped, parts))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = self.likelihood in COUNTS
        return tags

    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Both as float64 matrices."""
        check_numbers(y)
        X, y = checked(self, X, y, reset=reset, y_numeric=True, multi_output=True)
        if reset:
            self._is_vector = y.ndim == 1
            self.n_outputs_ = 1 if y.ndim == 1 else y.shape[1]
        y = np.asarray(y, np.float64).reshape(len(X), -1)
        if y.shape[1] != self.n_outputs_:
            raise ValueError(
                f"y must have {self.n_outputs_} columns, as in the first fit; got {y.shape[1]}."
            )
        name = self._named_likelihood() if reset else self._likelihood
        if name in COUNTS and not ((y >= 0) & (y == np.floor(y))).all():
            wrong = y[(y < 0) | (y != np.floor(y))][0]
            raise ValueError(f"y must hold counts for likelihood={name!r}; got {wrong}.")
        return X, y

    def _choose_likelihood(self, y: np.ndarray) -> None:
        self.likelihood_ = self._named_likelihood()
        if self.likelihood == "auto" and are_counts(y):
            self.likelihood_ = "negative_binomial"
        elif self.likelihood == "auto" and has_wild_values(y):
            self.likelihood_ = "student_t"

    def _described(self, X: Any, levels: Any = (), y: Any = None) -> Described:
        """Predictions, quantiles and scores as requested, from one pass over the draws."""
        args = tails(levels) if len(levels) else ()
        if y is None:
            log_densities, summary = None, self._summary(X, _moments, *args)
        else:
            log_densities, summary = self._scores(X, y, _moments, *args)
        mean, variance, *quantiles = summary
        return Described(
            self._shaped(self.target_units_.inverse(mean)),
            self._shaped(np.sqrt(variance) * self.target_units_.scale),  # a square may overflow
            self._quantiles(*quantiles) if quantiles else None,
            log_densities,
        )

    def _quantiles(self, values: np.ndarray) -> np.ndarray:
        """Quantiles in the units of the targets, on the last axis."""
        columns = [self.target_units_.inverse(value) for value in np.moveaxis(values, -1, 0)]
        return np.stack([self._shaped(column) for column in columns], -1)

    def _most_typical(self, X: Any) -> np.ndarray:
        return self.predict_quantiles(X, 0.5)[..., 0]

    def _target_facts(self) -> dict[str, Any]:
        """What a file must say about the targets in addition to their units."""
        found = {"is_vector": self._is_vector}
        is_chosen = self._likelihood != self._named_likelihood()
        return found | {"likelihood": self._likelihood} if is_chosen else found

    def _restore_targets(self, facts: dict[str, Any]) -> None:
        self.likelihood_ = facts.get("likelihood", self._named_likelihood())
        if self.likelihood_ not in self._likelihoods:
            raise ValueError(f"likelihood is {reprlib.repr(self.likelihood_)}.")
        self.n_outputs_ = self.target_units_.mean.size
        self._is_vector = bool(facts["is_vector"]) and self.n_outputs_ == 1

    def _units_of_targets(self, y: np.ndarray, weights: np.ndarray) -> Standardizer:
        if self._likelihood in COUNTS:
            return Standardizer(np.zeros(self.n_outputs_), np.ones(self.n_outputs_))
        units = standardize(y, weights)[1]
        if not has_variance(units.scale):
            raise ValueError(
                "y must have a standard deviation between 1e-153 and 1e153, so that its variance "
                f"is a number; got {units.scale.max():.3g}. Change its unit."
            )
        return units

    def _new_likelihood(self, level: np.ndarray) -> Likelihood:
        zeros = np.zeros(self.n_outputs_)
        match self._likelihood:
            case "student_t":
                return StudentT(on_device(zeros), on_device(zeros + LOG_DEGREES_OF_FREEDOM))
            case "poisson":
                return Bounded(Poisson(), level - UNLIMITED, level + HIGHEST_COUNT)
            case "negative_binomial":
                counts = NegativeBinomial(on_device(zeros))
                return Bounded(counts, level - UNLIMITED, level + HIGHEST_COUNT)
            case "heteroscedastic":
                lower = np.concatenate([zeros - UNLIMITED, zeros + LOWEST_NOISE])
                upper = np.concatenate([zeros + UNLIMITED, zeros + HIGHEST_NOISE])
                return Bounded(HeteroscedasticGaussian(), lower, upper)
            case _:
                return Gaussian(on_device(zeros))

    def _heads(self) -> tuple[Head, ...]:
        targets = Head(self.n_outputs_)
        if self._likelihood != "heteroscedastic":
            return (targets,)
        return targets, Head(self.n_outputs_, NOISE_SCALE, NOISE_SCALE, NOISE_BIAS_SCALE)

    def _level(self, rows: Rows) -> np.ndarray:
        """The typical value of each output in the units of the network."""
        if self._likelihood in COUNTS:
            totals = rows.sample_weight @ rows.targets + HALF_A_COUNT
            return np.log(totals / rows.sample_weight.sum())
        zeros = np.zeros(self.n_outputs_)
        noise = [zeros + NOISE_LEVEL] if self._likelihood == "heteroscedastic" else []
        return np.concatenate([zeros, *noise])

    @property
    def _likelihood(self) -> str:
        """The name of the likelihood, as set by the user or chosen by `fit`."""
        chosen = getattr(self, "likelihood_", None)
        return chosen if self.likelihood == "auto" and chosen else self._named_likelihood()

    def _named_likelihood(self) -> str:
        """The name of the likelihood in the settings; "auto" stands for the first one."""
        return self._likelihoods[0] if self.likelihood == "auto" else self.likelihood

    def _strata(self, rows: Rows) -> None:
        return None

    def _shaped(self, columns: Any) -> np.ndarray:
        """A vector if `fit` got a vector of targets."""
        return columns[:, 0] if self._is_vector else columns


def _moments(likelihood: Likelihood, outputs: Array, *tails: Array) -> tuple[Array, ...]:
    """Mean and variance, and the quantiles if the tails of some levels are given."""
    moments = predictive_mean(likelihood, outputs), predictive_variance(likelihood, outputs)
    return (*moments, quantiles_at_tails(likelihood, outputs, *tails)) if tails else moments


def variances(likelihood: Likelihood, outputs: Array) -> tuple[Array, Array]:
    """The noise variance, and the variance of the mean over the draws."""
    noise = jnp.mean(likelihood.variance(outputs), axis=0)
    return noise, jnp.var(likelihood.mean(outputs), axis=0)
