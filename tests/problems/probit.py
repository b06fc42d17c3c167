"""Probit regression on a few rows. Tests that share it share its compiled programs."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import bbalpha as bb

KEY = jax.random.key(0)


def log_likelihood(weights, batch):
    inputs, labels = batch
    return jax.scipy.stats.norm.logcdf(labels * (inputs @ weights))


def probit_data(seed=0, num_rows=50):
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(num_rows, 3)).astype(np.float32)
    labels = np.sign(inputs @ [1.0, -2.0, 0.5] + generator.normal(size=num_rows))
    return inputs, labels.astype(np.float32)


fit = partial(bb.fit, log_likelihood, jnp.zeros(3), num_epochs=20, num_samples=10)
