"""Importance weights turn draws of q into draws of the exact posterior, or are refused."""

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest
from problems import conjugate
from problems.conjugate import COVARIANCE, DATA, INPUTS, MEAN, TARGETS, flat, log_likelihood

import bbalpha as bb
from bbalpha.importance import pareto_smoothed

KEY = jax.random.key(0)
NUM_SAMPLES = 4000


@pytest.fixture(scope="module")
def wide():
    """The exact posterior, from a q twice as wide."""
    return conjugate.posterior(width=2.0).reweighted(log_likelihood, DATA, key=KEY)


def test_weights_are_equal_if_q_is_the_posterior():
    exact = conjugate.posterior().reweighted(log_likelihood, DATA, key=KEY)
    assert exact.pareto_k == -np.inf
    np.testing.assert_allclose(exact.weights, 1 / NUM_SAMPLES, rtol=1e-12)
    assert exact.effective_size == pytest.approx(NUM_SAMPLES)


def test_weights_of_a_wide_q_give_back_the_exact_mean_and_variance(wide):
    draws, weights = flat(wide.draws), wide.weights[:, None]
    squares = np.square(draws - MEAN)
    mean_error = np.sqrt(np.sum(weights**2 * squares, axis=0))
    variance = np.diag(COVARIANCE)
    variance_error = np.sqrt(np.sum(weights**2 * np.square(squares - variance), axis=0))
    assert np.all(np.abs(flat(wide.mean) - MEAN) < 4 * mean_error)
    assert np.all(np.abs(flat(wide.variance) - variance) < 4 * variance_error)
    assert np.all(4 * variance_error < 3 * variance)  # so that q's own, 4 times as large, is told
    assert wide.weights.sum() == pytest.approx(1)
    assert wide.pareto_k < 0.5


def test_weights_are_the_exact_density_over_that_of_q_except_for_the_smoothed_tail(wide):
    posterior = conjugate.posterior(width=2.0)
    draws = flat(posterior.sample(NUM_SAMPLES, key=KEY))  # the draws that were weighted
    np.testing.assert_array_equal(flat(wide.draws), draws)
    log_ratios = conjugate.log_likelihoods(draws).sum(axis=1) + conjugate.log_prior(draws)
    log_ratios -= conjugate.log_q(posterior, draws)
    body = log_ratios < np.quantile(log_ratios, 0.9)
    found = np.log(wide.weights[body]) - log_ratios[body]
    np.testing.assert_allclose(found, found[0], atol=1e-4)


def test_a_narrow_q_is_refused():
    posterior = conjugate.posterior(width=0.2)  # the weights have the tail index 1 − 0.2² = 0.96
    message = (
        r"^q must be closer to the exact posterior to be reweighted; got Pareto k̂=\d\.\d\d, which "
        r"must not exceed 0\.70\. Fit a richer family such as bb\.FullGaussian, or another alpha"
    )
    with pytest.raises(ValueError, match=message):
        posterior.reweighted(log_likelihood, DATA, key=KEY)


@pytest.mark.parametrize("shape", [0.2, 0.9])
def test_the_shape_of_a_pareto_tail_is_found(shape):
    uniform = np.random.default_rng(0).uniform(size=NUM_SAMPLES)
    log_weights, pareto_k = pareto_smoothed(-shape * np.log(uniform))  # w = u^−k
    tail = 3 * np.sqrt(NUM_SAMPLES)
    assert abs(pareto_k - shape) < 4 * (1 + shape) / np.sqrt(tail)
    assert np.exp(log_weights).sum() == pytest.approx(1)


def test_weights_without_a_tail_have_the_lowest_shape_and_almost_only_zeros_the_highest():
    random = np.random.default_rng(0)
    tied = np.minimum(random.normal(size=1000), 0.0)  # half of all weights share the maximum
    log_weights, pareto_k = pareto_smoothed(tied)
    assert pareto_k == -np.inf
    np.testing.assert_allclose(np.exp(log_weights), np.exp(tied) / np.exp(tied).sum())
    zeros = np.where(np.arange(1000) < 900, -np.inf, random.normal(size=1000))
    assert pareto_smoothed(zeros)[1] == np.inf
    assert pareto_smoothed(np.where(np.arange(1000) < 500, -np.inf, tied))[1] == -np.inf


def test_chunks_of_rows_change_nothing(monkeypatch, wide):
    monkeypatch.setattr("bbalpha.importance.ROWS_TIMES_DRAWS", 7 * NUM_SAMPLES)
    chunked = conjugate.posterior(width=2.0).reweighted(log_likelihood, DATA, key=KEY)
    np.testing.assert_allclose(chunked.weights, wide.weights, rtol=1e-4)


def test_a_weighted_row_counts_as_several(wide):
    taken = np.arange(conjugate.NUM_DATA) < 20  # these once, the others in two halves
    twice = np.concatenate([np.arange(conjugate.NUM_DATA), np.flatnonzero(~taken)])
    found = conjugate.posterior(width=2.0).reweighted(
        log_likelihood,
        (INPUTS[twice], TARGETS[twice]),
        key=KEY,
        sample_weight=np.where(twice < 20, 1.0, 0.5),
    )
    np.testing.assert_allclose(found.weights, wide.weights, rtol=1e-4)


def test_learned_hyperparams_are_handed_to_the_log_likelihood(wide):
    def with_noise(params, batch, noise):
        inputs, targets = batch
        return noise.log_prob((inputs @ params["weights"] + params["bias"])[:, None], targets)

    posterior = conjugate.posterior(width=2.0, hyperparams=bb.Gaussian(0.0))  # variance one
    found = posterior.reweighted(with_noise, DATA, key=KEY)
    np.testing.assert_allclose(found.weights, wide.weights, rtol=1e-4)


def test_infinite_log_likelihoods_are_weight_zero():
    def positive_bias_only(params, batch):
        return jnp.where(params["bias"] > MEAN[0], log_likelihood(params, batch), -jnp.inf)

    half = conjugate.posterior(width=2.0).reweighted(positive_bias_only, DATA, key=KEY)
    below = flat(half.draws)[:, 0] < MEAN[0]
    assert np.all(half.weights[below] == 0)
    expected = np.sqrt(2 / np.pi * COVARIANCE[0, 0])  # mean of half a Gaussian
    error = np.sqrt(np.sum(half.weights**2 * COVARIANCE[0, 0]))
    assert abs(float(half.mean["bias"]) - MEAN[0] - expected) < 4 * error


@pytest.fixture
def _without_type_checks():
    """Messages as users see them: beartype, which only tests install, must not speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("_without_type_checks")
@pytest.mark.parametrize("method", ["reweighted", "diagnose"])
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"num_samples": 99}, ValueError, r"num_samples must be at least 100, because .*=99\.$"),
        ({"num_samples": 1e3}, TypeError, r"num_samples must be a whole number; got "),
        ({"key": 0}, TypeError, r"key must be made by jax\.random"),
        ({"data": (INPUTS, TARGETS[:3])}, ValueError, r"data must have the same number of rows"),
        (
            {"data": (INPUTS[:9], TARGETS[:9])},
            ValueError,
            r"data must be all that the posterior was fitted to, .*: 30 data points; got 9\.$",
        ),
        ({"data": (INPUTS, TARGETS * np.nan)}, ValueError, r"data\[1\] must be finite"),
        ({"sample_weight": np.ones(3)}, ValueError, r"sample_weight must have shape \(30,\)"),
        ({"log_likelihood": 1.0}, TypeError, r"log_likelihood must be the function .* got float"),
        (
            {"log_likelihood": lambda params, batch: jnp.sum(batch[1])},
            ValueError,
            r"log_likelihood must return one number per data point; got shape \(\) for 30",
        ),
        (
            {"log_likelihood": lambda params, batch: batch[1] * jnp.log(params["bias"] * 0 - 1)},
            ValueError,
            r"log_likelihood must not be NaN or \+∞ at draws of q; got nan for row 0\.$",
        ),
    ],
)
def test_bad_arguments_are_refused(method, changes, error, message):
    arguments = {"log_likelihood": log_likelihood, "data": DATA, "key": KEY} | changes
    with pytest.raises(error, match=f"^{message}"):
        getattr(conjugate.posterior(), method)(**arguments)
