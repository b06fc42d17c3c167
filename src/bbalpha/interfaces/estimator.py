"""What the two scikit-learn estimators share: settings, training, and sums over posterior draws.

An estimator is a network (`mlp`, standardized inputs) with a likelihood on top, given to `fit`.
All of its predictions are averages over the same draws of the weights, so that the prediction for a
row does not depend on which other rows are asked for.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from bbalpha.data import Dataset, Standardizer, standardize
from bbalpha.distributions import CappedGaussian, Distribution
from bbalpha.engine import streams
from bbalpha.engine.batches import padded_length
from bbalpha.engine.checks import check_counts, warn
from bbalpha.engine.layout import Layout
from bbalpha.engine.optimizers import adam
from bbalpha.fitting import fit
from bbalpha.interfaces import estimator_file
from bbalpha.interfaces.network import (
    as_wide_as,
    log_likelihood_of,
    model_of,
    prior_of,
    shapes_of,
    start_of,
)
from bbalpha.interfaces.settings import check_settings
from bbalpha.likelihoods import Likelihood
from bbalpha.posterior import Posterior
from bbalpha.stopping import EarlyStopping

Self = TypeVar("Self", bound="Estimator")


class Rows(NamedTuple):
    """Training data in the units of the network."""

    inputs: Any
    targets: Any
    sample_weight: np.ndarray


class Uncertainty(NamedTuple):
    """What makes a prediction uncertain, a number per row (and output).

    For numbers these are variances, total = aleatoric + epistemic. For classes they are entropies
    in nats: of the averaged probabilities, the average entropy, and their difference, which is the
    mutual information between the label and the weights.

    Attributes:
        total: All of it.
        aleatoric: What more data would not remove: noise.
        epistemic: What is not known about the weights.
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


class Estimator(BaseEstimator, ABC):
    """A Bayesian network whose weights are inferred by BB-α; the base of the two estimators."""

    n_features_in_: int
    _likelihoods: tuple[str, ...]  # the names that `likelihood` may have
    _seed: int  # of the start, the training and the draws for predictions
    _memory: Rows | None  # what `partial_fit` keeps
    _memory_prior: Distribution | None  # known before those rows; None: settings

    def __init__(
        self,
        hidden_layer_sizes: Any = (50,),
        activation: Any = "relu",
        *,
        alpha: Any = 0.5,
        likelihood: Any = "auto",
        prior_scale: Any = 1.0,
        learn_prior: Any = False,
        num_samples: Any = 50,
        batch_size: Any = 32,
        max_epochs: Any = None,
        learning_rate: Any = None,
        early_stopping: Any = False,
        validation_fraction: Any = 0.1,
        patience: Any = 20,
        num_predictive_samples: Any = 1000,
        memory_size: Any = 10_000,
        random_state: Any = None,
        warm_start: Any = False,
        verbose: Any = False,
    ):
        """Settings, which `fit` checks.

        Args:
            hidden_layer_sizes: Units of each hidden layer; `()` is the linear model.
            activation: "relu", "tanh", "logistic" or "softplus".
            alpha: The power: 0 is variational Bayes, 1 is like expectation propagation.
            likelihood: How targets come about given the outputs of the network.
            prior_scale: Standard deviation of weights and biases before any data.
            learn_prior: Learn a factor on the prior's variance for each layer's weights and biases.
            num_samples: Draws of the weights for each minibatch; 50 as in the authors' code.
            batch_size: Rows per minibatch.
            max_epochs: Passes over the data; by default as many as make 10,000 minibatches.
            learning_rate: A constant rate of Adam (the paper's is 1e-3); by default one that falls
                from 1e-2 to 0 along a cosine.
            early_stopping: Hold out rows, and stop when their log-likelihood no longer grows.
            validation_fraction: Part of the rows held out for that.
            patience: Epochs to wait for a better log-likelihood.
            num_predictive_samples: Draws of the weights that predictions average over.
            memory_size: How many rows `partial_fit` keeps; see there.
            random_state: Seed, generator or None, as everywhere in scikit-learn.
            warm_start: Let `fit` start from the posterior of the last `fit`, in the same units.
            verbose: Show a progress bar when there is a terminal.
        """
        self.hidden_layer_sizes = hidden_layer_sizes
        self.activation = activation
        self.alpha = alpha
        self.likelihood = likelihood
        self.prior_scale = prior_scale
        self.learn_prior = learn_prior
        self.num_samples = num_samples
        self.batch_size = batch_size
        self.max_epochs = max_epochs
        self.learning_rate = learning_rate
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.num_predictive_samples = num_predictive_samples
        self.memory_size = memory_size
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    def fit(self: Self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Infer the posterior of the weights from a table.

        Ctrl-C ends it with the posterior reached, and a warning.

        Args:
            X: Inputs, of shape (rows, features); they are standardized inside.
            y: Targets, one per row (or several, for the regressor).
            sample_weight: How many data points each row stands for; 1 by default.

        Raises:
            ValueError: If the data or a setting break their rule, with the value.
            NonFiniteEnergyError: If the energy stops being finite.
        """
        last = getattr(self, "posterior_", None) if self.warm_start else None
        check_settings(self)
        with all_or_nothing(self):
            X, y = self._validated(X, y, reset=last is None)
            rows = self._rows(X, y, sample_weight, new_units=last is None)
            self.posterior_ = self._train(rows, None, last)
            self._memory, self._memory_prior = None, None
        return self

    def score_samples(self, X: Any, y: Any = None) -> np.ndarray:
        """The predictive log-density of each row, in nats and in the units of `y`.

        Higher is better; its mean is the test log-likelihood. With several outputs it is that of
        all of them together. Without `y` it is that of the prediction itself (the most probable
        label, the median), which tells how sure it is.
        """
        check_is_fitted(self)
        X, y = self._validated(X, self._most_typical(X) if y is None else y, reset=False)
        densities = self.posterior_.log_density(
            log_likelihood_of(self.activation),
            Dataset(self.input_units_.transform(X), self.target_units_.transform(y)),
            key=self._key(),
            num_samples=self.num_predictive_samples,
        )
        return np.asarray(densities, np.float64) - float(self.target_units_.log_scale)

    def save(self, path: str | Path) -> None:
        """Write the fitted estimator to a safetensors file, which holds no code.

        Rows that `partial_fit` keeps are not written: after loading, the posterior is the prior of
        the next piece.
        """
        check_is_fitted(self)
        estimator_file.write(path, self)

    @classmethod
    def load(cls: type[Self], path: str | Path) -> Self:
        """Read an estimator that `save` wrote; nothing in the file is executed.

        Raises:
            FileNotFoundError: If there is no such file.
            ValueError: If it is damaged, of another version, or not an estimator of this class.
        """
        estimator, _ = estimator_file.read(path, {cls.__name__: cls})
        return estimator

    @abstractmethod
    def _validated(self, X: Any, y: Any, reset: bool) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets as checked matrices; `reset` when they define the model."""

    @abstractmethod
    def _units_of_targets(self, y: np.ndarray, weights: np.ndarray) -> Standardizer:
        """The units in which the network predicts."""

    @abstractmethod
    def _new_likelihood(self) -> Likelihood:
        """The likelihood before training."""

    @abstractmethod
    def _num_outputs(self) -> int:
        """Outputs of the network."""

    @abstractmethod
    def _level(self, rows: Rows) -> np.ndarray:
        """The usual value of each output, around which the last biases start."""

    @abstractmethod
    def _strata(self, rows: Rows) -> np.ndarray | None:
        """The groups of which held-out rows get their share."""

    @abstractmethod
    def _most_typical(self, X: Any) -> np.ndarray:
        """The prediction of which `score_samples` tells how sure it is."""

    @abstractmethod
    def _target_facts(self) -> dict[str, Any]:
        """What a file must say of the targets beside their units."""

    @abstractmethod
    def _restore_targets(self, facts: dict[str, Any]) -> None:
        """Take over what a file says of the targets, or raise."""

    def _update(self, X: np.ndarray, y: np.ndarray, sample_weight: Any) -> None:
        """Train on these rows and those in memory, with what is known of all others as prior."""
        last = getattr(self, "posterior_", None)
        rows = self._rows(X, y, sample_weight, new_units=last is None)
        if last is None:
            prior = None
        elif self._memory is None:
            prior = last.q
        else:
            prior = self._memory_prior
            rows = Rows(*map(np.concatenate, zip(self._memory, rows, strict=True)))
        self.posterior_ = self._train(rows, prior, last)
        full = len(rows.inputs) > self.memory_size
        self._memory, self._memory_prior = (None, None) if full else (rows, prior)

    def _rows(self, X: np.ndarray, y: np.ndarray, sample_weight: Any, new_units: bool) -> Rows:
        """The rows that count, in the units of the network."""
        weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        if new_units:
            self.input_units_ = standardize(X, weights)[1]
            self.target_units_ = self._units_of_targets(y, weights)
        return Rows(self.input_units_.transform(X), self.target_units_.transform(y), weights)

    def _train(self, rows: Rows, prior: Distribution | None, last: Posterior | None) -> Posterior:
        """The posterior of these rows.

        Args:
            rows: What to learn from.
            prior: What is known beforehand; by default what the settings say.
            last: Where to start; by default from scratch.
        """
        if last is None:
            self._seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        else:
            self._check_continues(last)
        training, early_stopping = self._hold_out(rows)
        level = self._level(training)
        posterior = fit(
            log_likelihood_of(self.activation),
            start_of(self._sizes(), level, self._seed) if last is None else last.mean,
            Dataset(training.inputs, training.targets),
            key=jax.random.key(self._seed),
            alpha=self.alpha,
            prior=prior or prior_of(self._sizes(), level, float(self.prior_scale)),
            learn_prior=bool(self.learn_prior) and prior is None,
            hyperparams=self._new_likelihood() if last is None else last.hyperparams,
            family=CappedGaussian if last is None else partial(as_wide_as, last.q),
            optimizer=None if self.learning_rate is None else adam(float(self.learning_rate)),
            num_epochs=self.max_epochs,
            batch_size=min(self.batch_size, padded_length(len(training.inputs))),
            num_samples=self.num_samples,
            sample_weight=training.sample_weight,
            early_stopping=early_stopping,
            progress=bool(self.verbose),
        )
        if posterior.info.stopped == "interrupted":
            warn(
                f"fit was interrupted after {posterior.info.num_steps:,} steps; the estimator "
                "holds the posterior reached so far."
            )
        self.n_iter_ = len(posterior.info.energies)
        return posterior

    def _check_continues(self, last: Posterior) -> None:
        """Refuse to go on from the posterior of another network."""
        if last.layout != Layout.of(shapes_of(self._sizes())):
            shapes = [leaf.shape for leaf in jax.tree.leaves(last.mean)]
            raise ValueError(
                "hidden_layer_sizes must be those of the last fit to go on from it; got "
                f"hidden_layer_sizes={self.hidden_layer_sizes!r} after arrays of shapes {shapes}."
            )
        if type(last.hyperparams) is not type(self._new_likelihood()):
            raise ValueError(
                "likelihood must be that of the last fit to go on from it; got "
                f"likelihood={self.likelihood!r} after a {type(last.hyperparams).__name__}."
            )

    def _hold_out(self, rows: Rows) -> tuple[Rows, EarlyStopping | None]:
        """The rows to train on, and those that end the fit if that is wanted."""
        if not self.early_stopping:
            return rows, None
        parts = train_test_split(
            np.arange(len(rows.inputs)),
            test_size=self.validation_fraction,
            random_state=self._seed,
            stratify=self._strata(rows),
        )
        training, held_out = (Rows(*(column[part] for column in rows)) for part in parts)
        data = Dataset(held_out.inputs, held_out.targets)
        rule = EarlyStopping(data, self.patience, sample_weight=held_out.sample_weight)
        return training, rule

    def _sizes(self) -> tuple[int, ...]:
        """Units of every layer, from the inputs to the outputs."""
        hidden = np.atleast_1d(np.asarray(self.hidden_layer_sizes, int)).tolist()
        return (self.n_features_in_, *hidden, self._num_outputs())

    def _summary(self, X: Any, function: Callable, *args: Any) -> Any:
        """`function(likelihood, outputs, *args)` of all draws' outputs, for every row of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        result = self.posterior_.predict(
            model_of(self.activation),
            self.input_units_.transform(X),
            key=self._key(),
            num_samples=self.num_predictive_samples,
            summary=eqx.Partial(_with_args, function, self.posterior_.hyperparams, args),
        )
        return jax.tree.map(lambda array: np.asarray(array, np.float64), result)

    def _draws(self, X: Any, n_samples: int, random_state: Any) -> np.ndarray:
        """Targets in the units of the network, each of other weights: (draws, rows, …)."""
        check_is_fitted(self)
        check_counts(n_samples=n_samples)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        seed = int(check_random_state(random_state).randint(2**31 - 1))
        of_weights, of_targets = jax.random.split(jax.random.key(seed))
        outputs = self.posterior_.predict(
            model_of(self.activation),
            self.input_units_.transform(X),
            key=of_weights,
            num_samples=n_samples,
        )
        return np.asarray(self.posterior_.hyperparams.sample(outputs, key=of_targets))

    def _key(self) -> Array:
        """The key of the draws that all predictions share."""
        return jax.random.fold_in(jax.random.key(self._seed), streams.PREDICTIONS)


@contextmanager
def all_or_nothing(estimator: Estimator) -> Iterator[None]:
    """Leave the estimator as it was if what is done to it fails."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise


def _with_args(function: Callable, likelihood: Likelihood, args: tuple, outputs: Array) -> Any:
    return function(likelihood, outputs, *args)
