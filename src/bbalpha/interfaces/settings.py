"""The settings of the estimators: defaults, and checks for `fit` and for model files."""

from numbers import Integral, Real
from typing import Any

import numpy as np

from bbalpha.engine.checks import check_counts, check_optional_counts
from bbalpha.engine.limits import MOST
from bbalpha.interfaces.limits import (
    LARGEST_ALPHA,
    MOST_LAYERS,
    MOST_UNITS,
    POSITIVE,
    STACKED,
    TUNED,
)
from bbalpha.interfaces.network import ACTIVATIONS

# `bbalpha.training.NUM_SAMPLES` is 100, as in the paper; the authors' code uses 50. Draws of a
# network cost time, and 16 in pairs of opposite noise predict as well (docs/benchmarks.md).
NUM_SAMPLES = 16
HIDDEN = (50,)
COUNTS = ("poisson", "negative_binomial")  # likelihoods of targets without units
ENOUGH_ROWS = 30  # for α = ½; with ten rows, ½ is overconfident and 0 is not
ENOUGH_LABELS = 60  # the same for classes, because a label tells less than a number
PRIORS = ("scaled", "paper")

AUTOMATIC = {  # settings that may be "auto", and the other values that they may have
    "alpha": ("a number, 'tuned', 'stacked'", Real),
    "encoder": ("None", type(None)),
    "learn_prior": ("True, False", bool | np.bool_),
}
USUAL_DRAWS = 1000
MOST_WEIGHTS = 10**9  # most weights drawn for predictions, if there are more draws than usual


def check_settings(estimator: Any) -> None:
    """Raise if a setting breaks its rule; the message uses the name that the user knows."""
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
        words = ("auto", TUNED, STACKED) if name == "alpha" else ("auto",)
        if not (isinstance(value, kind) or (isinstance(value, str) and value in words)):
            raise ValueError(f"{name} must be {rule} or 'auto'; got {name}={value!r}.")
    _check_layers(estimator.hidden_layer_sizes)
    size = estimator.memory_size
    if not (isinstance(size, Integral) and 0 <= int(size) <= MOST):
        rule = f"a whole number from 0 to {MOST:,}"
        raise ValueError(f"memory_size must be {rule}; got memory_size={size!r}.")
    for name, highest in POSITIVE.items():
        value = getattr(estimator, name)
        is_default = value is None and name == "learning_rate"
        if not (is_default or (isinstance(value, Real) and 0 < float(value) < highest)):
            raise ValueError(f"{name} must be between 0 and {highest:g}; got {name}={value!r}.")
    alpha = estimator.alpha
    if isinstance(alpha, Real) and LARGEST_ALPHA < abs(float(alpha)) < np.inf:
        raise ValueError(f"alpha must be at most {LARGEST_ALPHA:g} in size; got alpha={alpha!r}.")


def check_draws(num_samples: int, num_weights: int) -> None:
    """Raise if predictions would draw too many weights."""
    if num_samples > USUAL_DRAWS and num_samples * num_weights > MOST_WEIGHTS:
        most = max(USUAL_DRAWS, MOST_WEIGHTS // num_weights)
        raise ValueError(
            f"num_predictive_samples must be at most {most:,} for {num_weights:,} weights; "
            f"got num_predictive_samples={num_samples}."
        )


def default_alpha(num_rows: int, *, is_classes: bool) -> float:
    """The power that `alpha="auto"` stands for."""
    return 0.5 if num_rows >= (ENOUGH_LABELS if is_classes else ENOUGH_ROWS) else 0.0


def _check_layers(hidden_layer_sizes: Any) -> None:
    sizes = np.atleast_1d(np.asarray(hidden_layer_sizes))
    if sizes.ndim == 1 and len(sizes) > MOST_LAYERS:
        raise ValueError(
            f"hidden_layer_sizes must have at most {MOST_LAYERS:,} layers; got {len(sizes):,}."
        )
    is_whole = sizes.dtype.kind in "iu" or not sizes.size
    if sizes.ndim != 1 or not is_whole or not np.all((sizes > 0) & (sizes <= MOST_UNITS)):
        raise ValueError(
            f"hidden_layer_sizes must hold positive whole numbers up to {MOST_UNITS:,}; "
            f"got hidden_layer_sizes={hidden_layer_sizes!r}."
        )


def _check_choice(name: str, value: Any, choices: Any) -> None:
    if not (isinstance(value, str) and value in choices):
        raise ValueError(f"{name} must be one of {', '.join(choices)}; got {name}={value!r}.")
