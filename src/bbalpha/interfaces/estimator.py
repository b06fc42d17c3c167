"""The base of the two scikit-learn estimators: settings, training, and averages over draws.

An estimator passes `fit` a network on standardized inputs with a likelihood on top. All its
predictions are averages over the same draws of the weights. The prediction for a row therefore
depends on the other rows by no more than rounding: a different number of rows means a different
compiled program, which may sum in a different order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from bbalpha.data import Dataset, Standardizer
from bbalpha.distributions import Distribution
from bbalpha.engine import streams, threefry
from bbalpha.engine.checks import check_counts
from bbalpha.interfaces.alpha_curve import AlphaCurve
from bbalpha.interfaces.calibration import Calibration
from bbalpha.interfaces.door import checked, checked_weights, without_weightless_rows
from bbalpha.interfaces.explorable import Explorable
from bbalpha.interfaces.finite import checked_densities, checked_summary
from bbalpha.interfaces.inputs import InputUnits
from bbalpha.interfaces.limits import STACKED, TUNED
from bbalpha.interfaces.network import (
    Head,
    Network,
    corrected_log_mean_exp,
    log_likelihood_of,
    model_of,
    scored,
    scored_model_of,
    summarized,
)
from bbalpha.interfaces.portable import Portable
from bbalpha.interfaces.repair import repaired
from bbalpha.interfaces.settings import HIDDEN, NUM_SAMPLES, check_settings, default_alpha
from bbalpha.interfaces.training import (
    Rows,
    Training,
    all_or_nothing,
    check_continues,
    check_resumable,
    last_posterior,
    warn_of_ending,
)
from bbalpha.interfaces.tuning import tuned
from bbalpha.likelihoods import Likelihood
from bbalpha.planning import BATCH_SIZE
from bbalpha.posterior import Posterior, log_mean_exp, map_rows

Self = TypeVar("Self", bound="Estimator")


class Estimator(Explorable, Portable, BaseEstimator, ABC):
    """A Bayesian neural network trained with BB-α; the base of the two estimators."""

    n_features_in_: int
    alpha_curve_: AlphaCurve | None = None
    calibration_: Calibration | None = None
    _likelihoods: tuple[str, ...]  # the values that `likelihood` may have
    _seed: int  # for the start, the training and the draws for predictions
    _turn: int = 0  # which of several sets of draws predictions average over
    _draws_are_few: bool = False  # whether to correct log-densities for that
    _memory: Rows | None  # rows that `partial_fit` keeps
    _memory_prior: Distribution | None  # the prior for these rows; None for the settings' prior

    def __init__(
        self,
        hidden_layer_sizes: Any = HIDDEN,
        activation: Any = "relu",
        *,
        alpha: Any = "auto",
        likelihood: Any = "auto",
        encoder: Any = "auto",
        prior: Any = "scaled",
        prior_scale: Any = 1.0,
        learn_prior: Any = "auto",
        num_samples: Any = NUM_SAMPLES,
        batch_size: Any = BATCH_SIZE,
        max_epochs: Any = None,
        learning_rate: Any = None,
        calibrate: Any = False,
        early_stopping: Any = False,
        validation_fraction: Any = 0.1,
        patience: Any = 20,
        num_predictive_samples: Any = 1000,
        memory_size: Any = 10_000,
        random_state: Any = None,
        warm_start: Any = False,
        verbose: Any = False,
    ):
        """Store the settings, which `fit` checks.

        Args:
            hidden_layer_sizes: Units of each hidden layer; `()` makes the model linear.
            activation: "relu", "tanh", "logistic" or "softplus".
            alpha: The power α. A number: 0 is variational Bayes, 1 is like expectation propagation.
                "auto": ½ from 30 rows on (60 for classes), 0 for fewer. "tuned": `fit` tries 0, ½
                and 1 and keeps the one that predicts training rows best when they are left out,
                which takes about three times as long (see `alpha_curve_`). "stacked": `fit` mixes
                the posteriors at these powers, with the shares that predict left-out rows best.
                After both, `partial_fit` continues at the chosen power or at the one with the
                largest share.
            likelihood: The distribution of targets given the outputs of the network.
            encoder: "auto" to encode the columns of a DataFrame as `bbalpha.TableEncoder` does, so
                that they may hold texts, dates and gaps; None to accept numbers only.
            prior: "scaled" for standard deviations of 1/√(number of inputs) in each layer and a
                linear path from the inputs to the outputs; "paper" for a standard deviation of 1
                everywhere and no such path.
            prior_scale: Factor on the prior standard deviations of weights and biases.
            learn_prior: Whether to learn factors on the prior's variances: one for the weights of
                each hidden unit, and others for the remaining weights and biases of each layer.
                "auto" learns them for the scaled prior only.
            num_samples: Draws of the weights per minibatch, in pairs of opposite noise.
            batch_size: Rows per minibatch.
            max_epochs: Passes over the data; by default 100, but never fewer than 5,000 or more
                than 10,000 minibatches in all.
            learning_rate: A constant rate for Adam; by default, the rate starts at 7e-3 and falls
                to 0.
            calibrate: Test the calibration on left-out rows and, if it fails, multiply the noise
                (or the temperature of classes) by the factor with the best leave-one-out score.
            early_stopping: Hold out rows and stop when their log-likelihood no longer improves.
            validation_fraction: Fraction of the rows to hold out for early stopping.
            patience: Epochs to wait for an improvement.
            num_predictive_samples: Draws of the weights that predictions average over.
            memory_size: The most rows that `partial_fit` keeps; see there.
            random_state: Seed, generator or None, as everywhere in scikit-learn.
            warm_start: Let `fit` start from the posterior of the last `fit`, in the same units.
            verbose: Show a progress bar on a terminal.
        """
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.alpha = alpha
        self.likelihood = likelihood
        self.encoder = encoder
        self.prior = prior
        self.prior_scale = prior_scale
        self.learn_prior = learn_prior
        self.num_samples = num_samples
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.calibrate = calibrate
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.num_predictive_samples = num_predictive_samples
        self.memory_size = memory_size
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(
        self: Self, X: Any, y: Any, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> Self:
        """Infer the posterior of the weights from a table.

        Ctrl-C ends the fit with a warning and keeps the posterior reached so far. If the energy
        was still falling at the end, `fit` gives scikit-learn's `ConvergenceWarning`.

        Args:
            X: Inputs, of shape (rows, features); they are standardized internally. A sparse matrix
                is made dense and must have at most 2²⁸ cells.
            y: Targets, one per row (or several, for the regressor).
            sample_weight: How many data points each row stands for; 1 by default.
            checkpoint: A folder, or a `bb.Checkpoint`, in which to save the fit. If it is cut off,
                the same call continues it. Needs a `random_state`.

        Raises:
            ValueError: If the data or a setting breaks its rule; the message shows the value.
            NonFiniteEnergyError: If the energy stops being finite.
        """
        last = last_posterior(self) if self.warm_start else None
        check_settings(self)
        check_resumable(self.random_state, checkpoint)
        with all_or_nothing(self):
            X, y, sample_weight = without_weightless_rows(X, y, sample_weight)
            X, y = self._validated(X, y, reset=last is None)
            if last is None:
                self._choose_likelihood(y)
            rows = self._rows(X, y, sample_weight, new_units=last is None)
            self.posterior_, trained = self._train(rows, None, last, checkpoint, tunes=True)
            done = repaired(self, trained) if self.calibrate else (self.posterior_, None)
            self.posterior_, self.calibration_ = done
            self._memory, self._memory_prior = None, None
        return self

    def score_samples(self, X: Any, y: Any = None) -> np.ndarray:
        """The predictive log-density of each row, in nats and in the units of `y`.

        Higher is better; the mean over test rows is the test log-likelihood. Several outputs have
        one joint density. Without `y`, this is the density of the prediction itself (the most
        probable label or the median), which tells how certain the prediction is.
        """
        check_is_fitted(self)
        X, y = self._validated(X, self._most_typical(X) if y is None else y, reset=False)
        found = self.posterior_.log_density(
            log_likelihood_of(self.activation),
            Dataset(self.input_units_.transform(X), self.target_units_.transform(y)),
            key=self._key(),
            num_samples=self.num_predictive_samples,
        )
        with np.errstate(invalid="ignore"):
            densities = np.asarray(found, np.float64) - float(self.target_units_.log_scale)
        return checked_densities(densities)

    def outside(self, X: Any) -> np.ndarray:
        """Whether each row has an input beyond the limits to which predictions clip inputs.

        The limits are the ends of the training range, moved outwards by half its width.
        """
        check_is_fitted(self)
        return np.any(self.input_units_.is_outside(checked(self, X, reset=False)), axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @abstractmethod
    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets as checked matrices; with `reset`, they define the model."""

    def _choose_likelihood(self, y: np.ndarray) -> None:
        """Decide what `likelihood="auto"` stands for, if that depends on the targets."""

    @abstractmethod
    def _units_of_targets(self, y: np.ndarray, weights: np.ndarray) -> Standardizer:
        """The units in which the network predicts."""

    @abstractmethod
    def _new_likelihood(self, level: np.ndarray) -> Likelihood:
        """The likelihood before training; `level` is the typical value of each output."""

    @abstractmethod
    def _heads(self) -> tuple[Head, ...]:
        """The groups of outputs of the network, and their priors."""

    @abstractmethod
    def _level(self, rows: Rows) -> np.ndarray:
        """The typical value of each output, around which the last biases start."""

    @abstractmethod
    def _strata(self, rows: Rows) -> np.ndarray | None:
        """The groups by which held-out rows are stratified."""

    @abstractmethod
    def _most_typical(self, X: Any) -> np.ndarray:
        """The prediction that `score_samples` scores when it gets no targets."""

    @abstractmethod
    def _target_facts(self) -> dict[str, Any]:
        """What a file must say about the targets in addition to their units."""

    @abstractmethod
    def _restore_targets(self, facts: dict[str, Any]) -> None:
        """Restore the facts that a file holds about the targets, or raise if they are invalid."""

    def _update(self, X: np.ndarray, y: np.ndarray, sample_weight: Any) -> None:
        """Train on these rows and the kept ones; the posterior of all other rows is the prior."""
        last = last_posterior(self)
        rows = self._rows(X, y, sample_weight, new_units=last is None)
        if last is None:
            prior = None
        elif self._memory is None:
            prior = last.q
        else:
            prior = self._memory_prior
            rows = Rows(*map(np.concatenate, zip(self._memory, rows, strict=True)))
        self.posterior_, _ = self._train(rows, prior, last)
        self.calibration_ = None
        full = len(rows.inputs) > self.memory_size
        self._memory, self._memory_prior = (None, None) if full else (rows, prior)

    def _rows(self, X: np.ndarray, y: np.ndarray, sample_weight: Any, new_units: bool) -> Rows:
        """The rows of positive weight, in the units of the network."""
        weights = checked_weights(sample_weight, X)
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        if new_units:
            self.input_units_ = InputUnits.learn(X, weights, with_axes=self.prior == "scaled")
            self.target_units_ = self._units_of_targets(y, weights)
        return Rows(self.input_units_.transform(X), self.target_units_.transform(y), weights)

    def _train(
        self,
        rows: Rows,
        prior: Distribution | None,
        last: Posterior | None,
        checkpoint: Any = None,
        tunes: bool = False,
    ) -> tuple[Posterior, Rows]:
        """The posterior of these rows, and the rows that it was trained on.

        Args:
            rows: The rows to learn from.
            prior: The prior; by default the one in the settings.
            last: The posterior to start from; by default the start is random.
            checkpoint: Where to save the fit.
            tunes: Whether to choose the power, if the settings ask for that.
        """
        if last is None:
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        else:
            check_continues(self, last)
        training = Training.of(self, rows, prior)
        if self.alpha in (TUNED, STACKED) and tunes:
            posterior, self.alpha_curve_ = tuned(training, last, checkpoint)
        else:
            alpha = self._power(len(rows.inputs), last)
            posterior = training.posterior(alpha, last, checkpoint=checkpoint)
            self.alpha_curve_ = None
        self.n_iter_ = len(posterior.info.energies)
        warn_of_ending(posterior.info)
        return posterior, training.rows

    def _learns_prior(self) -> bool:
        return self.prior == "scaled" if self.learn_prior == "auto" else bool(self.learn_prior)

    def _power(self, num_rows: int, last: Posterior | None) -> Any:
        if self.alpha in (TUNED, STACKED) and last is not None:  # continues at the chosen power
            return float(last.alpha)
        if isinstance(self.alpha, str):
            return default_alpha(num_rows, is_classes=hasattr(self, "classes_"))
        return self.alpha

    def _network(self) -> Network:
        hidden = np.atleast_1d(np.asarray(self.hidden_layer_sizes, int)).tolist()
        return Network(self.input_units_.mean.size, tuple(hidden), self._heads(), self.prior)

    def _summary(self, X: Any, function: Callable, *args: Any) -> Any:
        """`function(likelihood, outputs, *args)`, given the outputs of all draws for every row."""
        check_is_fitted(self)
        X = checked(self, X, reset=False)
        summary = eqx.Partial(summarized, function, self.posterior_.hyperparams, args)
        rows = self.input_units_.transform(X)
        found = self._over_draws(model_of(self.activation), rows, summary)
        return checked_summary(found, self.posterior_.hyperparams)

    def _scores(self, X: Any, y: Any, function: Callable, *args: Any) -> tuple[np.ndarray, Any]:
        """`score_samples` and `_summary` of the rows, from one pass over the draws."""
        X, y = self._validated(X, y, reset=False)
        rows = Dataset(self.input_units_.transform(X), self.target_units_.transform(y))
        likelihood = self.posterior_.hyperparams
        model = eqx.Partial(scored_model_of(self.activation), likelihood)
        summary = eqx.Partial(scored, self._log_mean, function, likelihood, args)
        densities, result = self._over_draws(model, rows, summary)
        densities = checked_densities(densities - float(self.target_units_.log_scale))
        return densities, checked_summary(result, likelihood)

    def _over_draws(self, model: Callable, rows: Any, summary: Callable) -> Any:
        num_samples = self.num_predictive_samples
        settings = {"key": self._key(), "num_samples": num_samples, "summary": summary}
        predict = partial(self.posterior_.predict, model, **settings)
        most = self._network().rows_at_once(num_samples)
        is_small = len(jax.tree.leaves(rows)[0]) <= most
        result = predict(rows) if is_small else map_rows(predict, rows, most, 0)
        with np.errstate(invalid="ignore"):  # the caller checks for NaN
            return jax.tree.map(lambda array: np.asarray(array, np.float64), result)

    def _draws(self, X: Any, n_samples: int, random_state: Any) -> np.ndarray:
        """Draws of targets in the units of the network, each with its own weights."""
        check_is_fitted(self)
        check_counts(n_samples=n_samples)
        X = checked(self, X, reset=False)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        of_weights, of_targets = jax.random.split(jax.random.key(seed))
        outputs = self.posterior_.predict(
            model_of(self.activation),
            self.input_units_.transform(X),
            key=of_weights,
            num_samples=n_samples,
        )
        return np.asarray(self.posterior_.hyperparams.sample(outputs, key=of_targets))

    def _with_other_draws(self: Self, num_samples: int, turn: int) -> Self:
        """A copy whose predictions average over fewer and, unless `turn` is 0, other draws."""
        other: Any = copy(self)
        other.num_predictive_samples, other._turn = num_samples, turn
        other._draws_are_few = True
        return other

    @property
    def _log_mean(self) -> Callable:
        """The function from the log-densities of all draws to the logarithm of their average."""
        return corrected_log_mean_exp if self._draws_are_few else log_mean_exp

    def _key(self) -> Array:
        """The key of the draws that all predictions share."""
        key = threefry.fold_in(threefry.key_of(self._seed), streams.PREDICTIONS)
        return threefry.fold_in(key, self._turn) if self._turn else key
