"""Settings of the estimators: defaults, and checks for `fit` and for model files."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from bbalpha.engine.checks import check_counts, check_optional_counts
from bbalpha.interfaces.network import ACTIVATIONS

# `bbalpha.training.NUM_SAMPLES` is 100, as in the paper, and the authors' code has 50, but draws of
# a network cost time: with 32 instead of 50, a fit of 400 rows takes 0.66 times as long and the
# held-out scores of three tables change by less than 0.003.
NUM_SAMPLES = 32
HIDDEN = (50,)
MOST_UNITS = 100_000  # of a hidden layer
COUNTS = ("poisson", "negative_binomial")  # likelihoods of targets without units
ENOUGH_ROWS = 30  # for α = ½; with ten rows it is over-confident, and 0 is not
ENOUGH_LABELS = 60  # the same for classes, of which a row tells less
PRIORS = ("scaled", "paper")

AUTOMATIC = {  # settings that may be "auto", and what else they may be
    "alpha": ("a number", Real),
    "encoder": ("None", type(None)),
    "learn_prior": ("True, False", bool | np.bool_),
}
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
    for name, (rule, kind) in AUTOMATIC.items():
        value = getattr(estimator, name)
        if not (isinstance(value, kind) or (isinstance(value, str) and value == "auto")):
            raise ValueError(f"{name} must be {rule} or 'auto'; got {name}={value!r}.")
    sizes = np.atleast_1d(np.asarray(estimator.hidden_layer_sizes))
    is_whole = sizes.dtype.kind in "iu" or not sizes.size
    if sizes.ndim != 1 or not is_whole or not np.all((sizes > 0) & (sizes <= MOST_UNITS)):
        raise ValueError(
            f"hidden_layer_sizes must hold positive whole numbers up to {MOST_UNITS:,}; "
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


def default_alpha(num_rows: int, *, is_classes: bool) -> float:
    """The power that `alpha="auto"` stands for."""
    return 0.5 if num_rows >= (ENOUGH_LABELS if is_classes else ENOUGH_ROWS) else 0.0


def _check_choice(name: str, value: Any, choices: Any) -> None:
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {name}={value!r}.")
