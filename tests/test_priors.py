"""Priors by log-density: in the user's units, with the Jacobian added."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.scipy.stats import norm

import bbalpha as bb

KEY = jax.random.key(0)
PARAMS = {"scale": jnp.array([1.0, 2.0]), "weights": jnp.zeros(3)}
TRANSFORMS = {"scale": bb.positive}
VECTOR = jnp.array([0.5, -1.0, 0.2, -0.3, 1.5])  # log scales, then weights


def log_likelihood(params, batch):
    return norm.logpdf(batch, jnp.sum(params["weights"]), params["scale"][0])


init = partial(bb.init, log_likelihood, PARAMS, num_data=10, key=KEY)


def log_half_normal(scale):
    return norm.logpdf(scale)


def test_a_half_normal_scale_has_the_density_of_its_logarithm():
    prior = init(prior={"scale": log_half_normal, "weights": 2.0}, transforms=TRANSFORMS).prior
    log_scales, weights = np.split(np.asarray(VECTOR, float), [2])
    expected = np.sum(scipy.stats.norm.logpdf(np.exp(log_scales)) + log_scales)
    expected += np.sum(scipy.stats.norm.logpdf(weights, scale=2.0))
    np.testing.assert_allclose(prior.log_prob(VECTOR), expected, rtol=2e-5)


def test_one_function_of_all_parameters_gives_the_same_prior():
    def log_density(params):
        return jnp.sum(norm.logpdf(params["scale"])) + jnp.sum(norm.logpdf(params["weights"]) / 4)

    whole = init(prior=log_density, transforms=TRANSFORMS).prior
    parts = {"scale": log_half_normal, "weights": lambda weights: norm.logpdf(weights) / 4}
    by_leaf = init(prior=parts, transforms=TRANSFORMS).prior
    np.testing.assert_allclose(whole.log_prob(VECTOR), by_leaf.log_prob(VECTOR), rtol=2e-5)


def test_a_function_and_a_deviation_of_the_same_gaussian_agree():
    by_number = init(prior={"scale": 0.5, "weights": 2.0}, transforms=TRANSFORMS).prior
    functions = {
        "scale": lambda scale: norm.logpdf(jnp.log(scale), scale=0.5) - jnp.log(scale),
        "weights": lambda weights: norm.logpdf(weights, scale=2.0),
    }
    by_function = init(prior=functions, transforms=TRANSFORMS).prior
    assert isinstance(by_number, bb.DiagonalGaussian)
    np.testing.assert_allclose(by_function.log_prob(VECTOR), by_number.log_prob(VECTOR), rtol=2e-5)


def test_a_function_of_a_single_array_is_summed_over_its_entries():
    start = partial(bb.init, log_likelihood, jnp.ones(3), num_data=10, key=KEY)
    summed = start(prior=lambda weights: jnp.sum(norm.logpdf(weights))).prior
    by_entry = start(prior=norm.logpdf).prior
    expected = start().prior.log_prob(VECTOR[:3])
    np.testing.assert_allclose(summed.log_prob(VECTOR[:3]), expected, rtol=2e-5)
    np.testing.assert_allclose(by_entry.log_prob(VECTOR[:3]), expected, rtol=2e-5)


def test_deviations_of_a_simplex_are_those_of_its_free_numbers():
    params = {"shares": jnp.full(3, 1 / 3)}
    start = partial(
        bb.init, log_likelihood, params, num_data=10, key=KEY, transforms={"shares": bb.simplex}
    )
    np.testing.assert_allclose(
        start(prior={"shares": jnp.array([1.0, 2.0])}).prior.variance, [1, 4]
    )
    message = r"^prior\['shares'\] must be a number or have shape \(2,\), .* got shape \(3,\)\.$"
    with pytest.raises(ValueError, match=message):
        start(prior={"shares": jnp.ones(3)})


def test_only_a_prior_with_a_known_variance_caps_q():
    assert isinstance(init().variables.q, bb.CappedGaussian)
    by_density = {"scale": log_half_normal, "weights": 2.0}
    state = init(prior=by_density, transforms=TRANSFORMS)
    assert isinstance(state.variables.q, bb.DiagonalGaussian)
    np.testing.assert_allclose(state.variables.q.mean, [0, np.log(2), 0, 0, 0], atol=2e-5)
    message = (
        r"^family must not depend on the prior's variance if the prior is given by its "
        r"log-density; got CappedGaussian\. Use bb\.DiagonalGaussian\.$"
    )
    with pytest.raises(ValueError, match=message):
        init(prior=by_density, transforms=TRANSFORMS, family=bb.CappedGaussian)


def test_a_prior_by_its_density_is_not_learned():
    message = (
        r"unless the prior is a diagonal Gaussian; got learn_prior=True with a DensityPrior\.$"
    )
    with pytest.raises(ValueError, match=message):
        init(prior={"scale": log_half_normal, "weights": 1.0}, learn_prior=True)


BAD_PRIORS = {
    "vector for all parameters": (
        lambda params: norm.logpdf(params["weights"]),
        r"^prior must return one number, the log-density of params; got shape \(3,\)\.$",
    ),
    "nothing": (
        lambda params: None,
        r"^prior must return one number, the log-density of params; got NoneType\.$",
    ),
    "nothing for a leaf": (
        {"scale": lambda scale: None, "weights": 1.0},
        r"^prior\['scale'\] must return one number, the log-density of params\['scale'\]; "
        r"got NoneType\.$",
    ),
    "no density at the start of a leaf": (
        {"scale": lambda scale: jnp.where(scale > 1.5, jnp.log(scale), -jnp.inf), "weights": 1.0},
        r"^prior\['scale'\] must have a finite log-density where the fit starts; "
        r"got -inf at params\['scale'\]=\[1, 2\]\.$",
    ),
    "no density at the start": (
        lambda params: jnp.log(-params["scale"][0]) + params["weights"][0],
        r"^prior must have a finite log-density where the fit starts; "
        r"got nan at params\['scale'\]=\[1, 2\], params\['weights'\]=\[0, 0, 0\]\.$",
    ),
    "functions in another tree": (
        {"scale": log_half_normal},
        r"^prior must be a number, a function, a tree like params or a bb\.Distribution; got a tr",
    ),
    "negative deviation beside a function": (
        {"scale": log_half_normal, "weights": -2.0},
        r"^prior must hold positive standard deviations; got prior=-2\.$",
    ),
}


@pytest.mark.parametrize("name", BAD_PRIORS)
def test_a_prior_that_breaks_a_rule_gets_a_sentence(name):
    prior, message = BAD_PRIORS[name]
    with pytest.raises(ValueError, match=message):
        init(prior=prior, transforms=TRANSFORMS)
