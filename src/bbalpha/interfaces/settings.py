"""Settings of the estimators: defaults, and checks for `fit` and for model files."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from bbalpha.engine.checks import check_counts, check_optional_counts
from bbalpha.interfaces.network import ACTIVATIONS

# As in the authors' code. `bbalpha.training.NUM_SAMPLES` is 100, as in the paper, but a network's
# draws cost time: with 50, a step of a 10-50-1 network on 400 rows takes 0.53 times as long.
NUM_SAMPLES = 50
HIDDEN = (50,)
COUNTS = ("poisson", "negative_binomial")  # likelihoods of targets without units
PRIORS = ("scaled", "paper")

POSITIVE = {"prior_scale": np.inf, "learning_rate": np.inf, "validation_fraction": 1}


def check_settings(estimator: Any) -> None:
    """Raise at a setting that breaks its rule, by the name that the user knows."""
    check_counts(
        num_samples=estimator.num_samples,
        batch_size=estimator.batch_size,
        patience=estimator.patience,
        num_predictive_samples=estimator.num_predictive_samples,
    )
    check_optional_counts(max_epochs=estimator.max_epochs)
    _check_choice("activation", estimator.activation, ACTIVATIONS)
    _check_choice("likelihood", estimator.likelihood, ("auto", *estimator._likelihoods))
    _check_choice("prior", estimator.prior, PRIORS)
    if estimator.encoder is not None:
        _check_choice("encoder", estimator.encoder, ("auto",))
    if isinstance(estimator.alpha, str):
        _check_choice("alpha", estimator.alpha, ("auto",))
    if isinstance(estimator.learn_prior, str):
        _check_choice("learn_prior", estimator.learn_prior, ("auto",))
    sizes = np.atleast_1d(np.asarray(estimator.hidden_layer_sizes))
    if sizes.ndim != 1 or (sizes.size and not (sizes.dtype.kind in "iu" and sizes.min() > 0)):
        raise ValueError(
            "hidden_layer_sizes must hold positive whole numbers; "
            f"got hidden_layer_sizes={estimator.hidden_layer_sizes!r}."
        )
    if not (isinstance(estimator.memory_size, Integral) and int(estimator.memory_size) >= 0):
        rule = "a non-negative whole number"
        raise ValueError(f"memory_size must be {rule}; got memory_size={estimator.memory_size!r}.")
    for name, highest in POSITIVE.items():
        value = getattr(estimator, name)
        is_default = value is None and name == "learning_rate"
        if not (is_default or (isinstance(value, Real) and 0 < float(value) < highest)):
            rule = "positive and finite" if highest == np.inf else f"between 0 and {highest}"
            raise ValueError(f"{name} must be {rule}; got {name}={value!r}.")


def _check_choice(name: str, value: Any, choices: Any) -> None:
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {name}={value!r}.")
