"""A linear regression on seven rows whose log-likelihood can be made NaN.

Tests that share it share its compiled programs.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import bbalpha as bb

# All fits here share one log-likelihood, optimizer and set of shapes, therefore compiled programs.
KEY = jax.random.key(3)
NUM_DATA, BATCH_SIZE, NUM_SAMPLES = 7, 3, 5
NUM_BATCHES = 3  # the last has one datum
OPTIMIZER = optax.adam(0.05)
INPUTS = np.random.default_rng(0).normal(size=(NUM_DATA, 2))
TARGETS = INPUTS @ np.array([1.0, -1.0])
NEVER = np.full(NUM_DATA, 1e9)
DATA = (INPUTS, TARGETS, NEVER)
SETTINGS = {
    "key": KEY,
    "batch_size": BATCH_SIZE,
    "num_samples": NUM_SAMPLES,
    "optimizer": OPTIMIZER,
    "num_epochs": 4,
}
# Held-out data of half the slope: the score grows until the fit passes them by, then falls.
HELD_OUT = (INPUTS, 0.5 * TARGETS, NEVER)


def log_likelihood(weights, batch):
    """A linear model with noise of variance one, NaN where the first weight is above a limit."""
    inputs, targets, limits = batch
    log_density = jax.scipy.stats.norm.logpdf(targets, inputs @ weights)
    return jnp.where(weights[0] > limits, jnp.nan, log_density)


def with_limit(limit):
    return (INPUTS, TARGETS, np.full(NUM_DATA, limit))


def fit(data=DATA, params=None, **settings):
    params = jnp.zeros(2) if params is None else params
    return bb.fit(log_likelihood, params, data, **SETTINGS | settings)


def assert_same_q(posterior, other):
    np.testing.assert_allclose(posterior.mean, other.mean, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(posterior.variance, other.variance, rtol=2e-5)
