"""The bias of the gradient is right where it is known: for the mean of a Gaussian."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha_paper.experiments.gradient import (
    Batches,
    bias_and_deviation,
    gradient_moments,
)

NUM_DATA = 4
MEAN, LOG_VARIANCE = 0.3, -0.2  # of q, far from the posterior's so that the bias is large
TARGETS = np.array([[0.5, 1.5], [-1.0, 2.5]])  # two minibatches of two
SETTINGS = {
    "compared_samples": [1, 5, 10],
    "repetitions": 4000,
    "reference_samples": 10_000,
    "blocks": 10,
    "block_samples": 10_000,
}
STANDARD_ERRORS = 4

pytestmark = pytest.mark.usefixtures("x64")


def log_likelihood(mean, batch):
    return jax.scipy.stats.norm.logpdf(batch, mean)


def start(mean, prior):
    return bb.DiagonalGaussian(mean, jnp.full_like(mean, LOG_VARIANCE))


def state_at(alpha):
    state = bb.init(
        log_likelihood,
        jnp.asarray(MEAN),
        num_data=NUM_DATA,
        key=jax.random.key(0),
        family=start,
    )
    return dataclasses.replace(state, alpha=jnp.asarray(alpha))


def batches():
    return Batches(jnp.asarray(TARGETS), jnp.full(TARGETS.shape, NUM_DATA / TARGETS.shape[1]))


@pytest.fixture(scope="module")
def measured():
    """The metrics for some α, with the same draws."""
    with jax.enable_x64(True):
        key = jax.random.key(1)
        return {
            alpha: bias_and_deviation(log_likelihood, state_at(alpha), batches(), key, SETTINGS)
            for alpha in (1.0, 0.5, 1e-6, 0.0)
        }


def exact_energy(variables, targets, alpha):
    """The energy with infinitely many draws on a minibatch, by a Gaussian integral for each datum.

    log p(y|θ) − log f(θ) = −½ A θ² + B θ + C, and q = N(m, v).
    """
    mean, variance = variables[0], jnp.exp(variables[1])
    curvature = 1 + 1 / NUM_DATA - 1 / (NUM_DATA * variance)  # A
    slope = targets - mean / (NUM_DATA * variance)  # B
    constant = (mean**2 / variance + jnp.log(variance)) / NUM_DATA - targets**2
    constant = 0.5 * (constant - jnp.log(2 * jnp.pi))  # C
    if alpha == 0:
        means = -0.5 * curvature * (mean**2 + variance) + slope * mean + constant
    else:
        precision = 1 / variance + alpha * curvature
        shift = mean / variance + alpha * slope
        log_integral = (
            shift**2 / precision - mean**2 / variance - jnp.log(variance * precision)
        ) / 2
        means = log_integral / alpha + constant
    return -NUM_DATA * jnp.mean(means)


def exact_gradients(alpha):
    gradient = jax.vmap(jax.grad(partial(exact_energy, alpha=alpha)), in_axes=(None, 0))
    return np.asarray(jax.jit(gradient)(jnp.array([MEAN, LOG_VARIANCE]), jnp.asarray(TARGETS)))


def norm(vectors):
    """Per dimension, averaged over batches."""
    return np.mean(np.sqrt(np.mean(np.square(vectors), axis=-1)))


@pytest.mark.parametrize("alpha", [1.0, 0.5, 1e-6])
def test_bias_of_one_draw_is_the_exact_gradient_at_alpha_0_minus_that_at_alpha(measured, alpha):
    exact = norm(exact_gradients(0.0) - exact_gradients(alpha))
    found, error = measured[alpha]["denoised_bias"][0], measured[alpha]["denoised_error"][0]
    assert 0 < error < 0.02 * exact
    assert abs(found - exact) < STANDARD_ERRORS * error


def test_one_draw_has_the_same_gradient_for_every_alpha():
    key = jax.random.key(2)
    of_vb, *others = (
        gradient_moments(log_likelihood, state_at(alpha), batches(), key, 7, 1)
        for alpha in (0.0, -1.0, 0.5, 1.0)
    )
    for moments in others:
        np.testing.assert_allclose(moments.mean, of_vb.mean, rtol=1e-10)
        np.testing.assert_allclose(moments.square, of_vb.square, rtol=1e-10)


def test_mean_gradient_at_alpha_0_is_the_exact_one():
    state, key = state_at(0.0), jax.random.key(3)
    moments = gradient_moments(log_likelihood, state, batches(), key, 4000, 5)
    error = np.sqrt((moments.square - moments.mean**2) / 4000)
    assert np.all(np.abs(moments.mean - exact_gradients(0.0)) < STANDARD_ERRORS * error)


def test_denoised_bias_at_alpha_0_is_rounding(measured):
    np.testing.assert_allclose(measured[0.0]["denoised_bias"], 0.0, atol=1e-12)
    assert min(measured[0.0]["bias"]) > 1e-3  # which is noise


def test_denoised_bias_falls_with_the_number_of_draws_and_with_alpha(measured):
    biases = np.array([measured[alpha]["denoised_bias"] for alpha in (1.0, 0.5, 1e-6)])
    errors = np.array([measured[alpha]["denoised_error"] for alpha in (1.0, 0.5, 1e-6)])
    assert np.all(np.diff(biases, axis=0) < 0)
    assert np.all(biases[:, :-1] - biases[:, 1:] > STANDARD_ERRORS * errors[:, :-1])
    # As 1/K where α is small.
    assert biases[2, 0] / biases[2] == pytest.approx([1.0, 5.0, 10.0], rel=0.1)


@pytest.mark.parametrize("index", [0, 1])
def test_squared_bias_is_the_denoised_one_plus_the_variance_of_both_means(index):
    state, key = state_at(1.0), jax.random.key(5)
    one_batch = jax.tree.map(lambda leaf: leaf[jnp.array([1, 1])], batches())  # twice
    found = bias_and_deviation(log_likelihood, state, one_batch, key, SETTINGS)
    num_samples = found["num_samples"][index]
    noise = 0.0
    for count, times in ((num_samples, SETTINGS["repetitions"]), (10_000, 1)):
        moments = gradient_moments(log_likelihood, state, one_batch, jax.random.key(6), 50, count)
        noise += float(np.mean(moments.square - moments.mean**2)) / times
    expected = found["denoised_bias"][index] ** 2 + noise
    # The square of a Gaussian vector of this mean and variance in both directions.
    error = np.sqrt(4 * found["denoised_bias"][index] ** 2 * noise + 2 * noise**2)
    assert abs(found["bias"][index] ** 2 - expected) < STANDARD_ERRORS * error


def test_deviation_is_taken_over_all_batches_and_repetitions():
    state, key, num_repetitions = state_at(0.5), jax.random.key(1), 13
    settings = {**SETTINGS, "repetitions": num_repetitions, "compared_samples": [5]}
    found = bias_and_deviation(log_likelihood, state, batches(), key, settings)
    stream = jax.random.fold_in(jax.random.split(key, 3)[0], 5)
    sums = [
        count * gradient_moments(log_likelihood, state, batches(), stream, count, 5).mean
        for count in range(1, num_repetitions + 1)
    ]
    gradients = np.diff(np.stack([np.zeros_like(sums[0]), *sums]), axis=0)
    variance = np.var(gradients, axis=(0, 1)).mean()
    assert found["deviation"] == pytest.approx([np.sqrt(variance)], rel=1e-10)


def test_run_again_gives_the_same_metrics(smoke):
    again = smoke.repeated("gradient")
    assert again["metrics"] == [row.metrics for row in smoke.rows("gradient")]
    assert again["progress"] == [0.25, 0.5, 0.75, 1.0]


def test_bias_is_below_the_deviation_and_falls_with_alpha(smoke):
    found = {row.alpha: row.metrics for row in smoke.rows("gradient")}
    for metrics in found.values():
        assert metrics["num_samples"] == [1, 10]
        assert np.all(np.array(metrics["bias"]) < metrics["deviation"])
    for alpha in (1.0, 0.5):
        biases, errors = (np.array(found[alpha][f"denoised_{n}"]) for n in ("bias", "error"))
        assert np.all(STANDARD_ERRORS * errors > 0)
        assert np.all(STANDARD_ERRORS * errors < biases)
        assert np.all(biases < found[alpha]["bias"])
    assert np.all(np.array(found[0.5]["denoised_bias"]) < found[1.0]["denoised_bias"])
