"""Settings of the estimators: their defaults and the rules that they must keep."""

import inspect

import pytest

import bbalpha as bb
from bbalpha import planning, training
from bbalpha.interfaces import settings


def regressor(**settings):
    """A linear regressor, not yet fitted."""
    return bb.BBAlphaRegressor(**{"hidden_layer_sizes": (), "random_state": 0} | settings)


@pytest.mark.parametrize("kind", [bb.BBAlphaRegressor, bb.BBAlphaClassifier])
def test_defaults_are_those_of_fit_but_for_the_number_of_draws(kind):
    """Which is the authors' 50 rather than the paper's 100, to halve the time of a step."""
    defaults, of_fit = kind().get_params(), inspect.signature(bb.fit).parameters
    assert defaults["alpha"] == of_fit["alpha"].default
    assert defaults["prior_scale"] == of_fit["prior"].default
    assert defaults["learn_prior"] == of_fit["learn_prior"].default
    assert defaults["max_epochs"] == of_fit["num_epochs"].default
    assert defaults["learning_rate"] == of_fit["optimizer"].default
    assert defaults["batch_size"] == planning.BATCH_SIZE == 32
    assert defaults["num_samples"] == settings.NUM_SAMPLES == 50
    assert of_fit["num_samples"].default is None  # 100, or more for natural gradients
    assert training.NUM_SAMPLES == 100


BAD = {
    "activation": ({"activation": "sine"}, "activation must be one of relu, tanh, logistic, soft"),
    "likelihood": ({"likelihood": "cauchy"}, "likelihood must be one of auto, gaussian, hetero"),
    "layers": (
        {"hidden_layer_sizes": (10, 0)},
        r"hidden_layer_sizes must hold positive whole numbers",
    ),
    "half a unit": ({"hidden_layer_sizes": (1.5,)}, r"got hidden_layer_sizes=\(1.5,\)"),
    "samples": ({"num_samples": 0}, "num_samples must be at least 1; got num_samples=0"),
    "epochs": ({"max_epochs": -1}, "max_epochs must be at least 1; got max_epochs=-1"),
    "prior": ({"prior_scale": 0.0}, "prior_scale must be positive and finite; got prior_scale=0.0"),
    "rate": ({"learning_rate": -1.0}, "learning_rate must be positive and finite; got"),
    "no prior": (
        {"prior_scale": None},
        "prior_scale must be positive and finite; got prior_scale=N",
    ),
    "no fraction": ({"validation_fraction": None}, "validation_fraction must be between 0 and 1; "),
    "fraction": ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1; got"),
    "alpha": ({"alpha": 65.0}, "alpha must not exceed the number of data points"),
    "memory": ({"memory_size": -1}, "memory_size must be a non-negative whole number; got"),
    "counts": ({"likelihood": "poisson"}, "y must hold counts for likelihood='poisson'; got"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_setting_that_breaks_its_rule_is_refused(table, name):
    wrong, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        regressor(**wrong).fit(table.inputs, table.numbers)


@pytest.mark.parametrize("name", ["patience", "num_samples", "batch_size"])
def test_only_the_epochs_may_be_left_open(table, name):
    with pytest.raises(TypeError, match=f"^{name} must be a whole number; got {name}=None.$"):
        regressor(**{name: None}).fit(table.inputs, table.numbers)
