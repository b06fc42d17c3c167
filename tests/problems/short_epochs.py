"""A linear regression on seven rows in batches of two, where three steps share their noise."""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import bbalpha as bb
from bbalpha.engine.batches import Rows

NUM_DATA, BATCH_SIZE, NUM_SAMPLES, RESAMPLE_EVERY = 7, 2, 5, 3
NUM_BATCHES = 4  # so that every third step falls on the end of an epoch only by chance
OPTIMIZER = optax.adam(0.05)
INPUTS = jnp.asarray(np.random.default_rng(0).normal(size=(NUM_DATA, 2)), jnp.float32)
DATA = (INPUTS, INPUTS @ jnp.array([1.0, -1.0]))
ROWS = Rows(DATA, jnp.ones(NUM_DATA), jnp.asarray(NUM_DATA))


def log_likelihood(weights, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)


def start(family=bb.CappedGaussian):
    return bb.init(
        log_likelihood,
        jnp.zeros(2),
        num_data=NUM_DATA,
        key=jax.random.key(3),
        family=family,
        optimizer=OPTIMIZER,
        num_samples=NUM_SAMPLES,
        resample_every=RESAMPLE_EVERY,
    )
