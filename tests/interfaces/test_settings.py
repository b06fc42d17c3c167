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
    """Which is 16 in pairs rather than the paper's 100 or the authors' 50; a network's are slow."""
    defaults, of_fit = kind().get_params(), inspect.signature(bb.fit).parameters
    assert defaults["prior_scale"] == of_fit["prior"].default
    assert defaults["max_epochs"] == of_fit["num_epochs"].default
    assert defaults["learning_rate"] == of_fit["optimizer"].default
    assert defaults["batch_size"] == planning.BATCH_SIZE == 32
    assert defaults["num_samples"] == settings.NUM_SAMPLES == 16
    assert of_fit["num_samples"].default is None  # 100, or more for natural gradients
    assert training.NUM_SAMPLES == 100


@pytest.mark.parametrize("kind", [bb.BBAlphaRegressor, bb.BBAlphaClassifier])
def test_the_prior_is_learned_if_it_is_scaled_and_not_said_otherwise(kind):
    of_fit = inspect.signature(bb.fit).parameters["learn_prior"].default
    assert kind(prior="paper")._learns_prior() is of_fit is False
    assert kind()._learns_prior() is True
    for prior in settings.PRIORS:
        for choice in (True, False):
            assert kind(prior=prior, learn_prior=choice)._learns_prior() is choice


def test_the_power_is_that_of_fit_unless_rows_are_few():
    of_fit = inspect.signature(bb.fit).parameters["alpha"].default
    for is_classes, enough in ((False, 30), (True, 60)):
        for number, power in ((2, 0), (enough - 1, 0), (enough, of_fit), (10**6, of_fit)):
            assert settings.default_alpha(number, is_classes=is_classes) == power


BAD = {
    "activation": ({"activation": "sine"}, "activation must be one of relu, tanh, logistic, soft"),
    "likelihood": ({"likelihood": "cauchy"}, "likelihood must be one of auto, heterosced"),
    "prior": ({"prior": "flat"}, "prior must be one of scaled, paper; got prior='flat'"),
    "no prior at all": ({"prior": None}, "prior must be one of scaled, paper; got prior=None"),
    "power": (
        {"alpha": "half"},
        "alpha must be a number, 'tuned', 'stacked' or 'auto'; got alpha='half'",
    ),
    "learning": ({"learn_prior": "yes"}, "learn_prior must be True, False or 'auto'; got"),
    "encoder": ({"encoder": "one-hot"}, "encoder must be None or 'auto'; got encoder='one-hot'"),
    "more counts": (
        {"likelihood": "negative_binomial"},
        "y must hold counts for likelihood='negative_binomial'; got",
    ),
    "layers": (
        {"hidden_layer_sizes": (10, 0)},
        r"hidden_layer_sizes must hold positive whole numbers",
    ),
    "units beyond memory": (
        {"hidden_layer_sizes": 10**9},
        r"positive whole numbers up to 100,000; got hidden_layer_sizes=1000000000",
    ),
    "layers beyond those of a file": (
        {"hidden_layer_sizes": (1,) * 1001},
        r"hidden_layer_sizes must have at most 1,000 layers; got 1,001\.",
    ),
    "half a unit": ({"hidden_layer_sizes": (1.5,)}, r"got hidden_layer_sizes=\(1.5,\)"),
    "samples": ({"num_samples": 0}, "num_samples must be at least 1; got num_samples=0"),
    "epochs": ({"max_epochs": -1}, "max_epochs must be at least 1; got max_epochs=-1"),
    "prior scale": (
        {"prior_scale": 0.0},
        r"prior_scale must be between 0 and 1e\+15; got prior_scale=0.0",
    ),
    "rate": ({"learning_rate": -1.0}, r"learning_rate must be between 0 and 1e\+15; got"),
    "no prior scale": (
        {"prior_scale": None},
        r"prior_scale must be between 0 and 1e\+15; got prior_scale=N",
    ),
    "no fraction": ({"validation_fraction": None}, "validation_fraction must be between 0 and 1; "),
    "fraction": ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1; got"),
    "alpha": ({"alpha": 65.0}, "alpha must not exceed the number of data points"),
    "memory": ({"memory_size": -1}, "memory_size must be a whole number from 0 to 2,147,483,647;"),
    "much memory": ({"memory_size": 2**31}, r"2,147,483,647; got memory_size=2147483648\."),
    "a large prior scale": ({"prior_scale": 1e16}, r"1e\+15; got prior_scale=1e\+16"),
    "a large power": ({"alpha": -2e16}, r"alpha must be at most 1e\+15 in size; got alpha=-2e\+16"),
    "many draws": (
        {"num_predictive_samples": 10**6, "hidden_layer_sizes": (1000,)},
        r"num_predictive_samples must be at most \d+,\d+ for \d,\d+ weights; "
        r"got num_predictive_samples=1000000\.",
    ),
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
