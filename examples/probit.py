"""The first example: probit regression from a log-likelihood of one line."""

import jax
import jax.numpy as jnp

import bbalpha as bb

x = jax.random.normal(jax.random.key(2), (200, 3))
y = jnp.sign(x @ jnp.array([1.0, -1.0, 0.5]) + jax.random.normal(jax.random.key(3), (200,)))


def log_likelihood(weights, batch):  # one number per data point, never summed
    inputs, labels = batch
    return bb.log_ndtr(labels * (inputs @ weights))  # log Φ


posterior = bb.fit(log_likelihood, jnp.zeros(3), (x, y), alpha=0.5, key=jax.random.key(0))
deviation = jnp.sqrt(posterior.variance)
for j in range(3):
    print(f"weight {j}: {posterior.mean[j]:5.2f} ± {deviation[j]:.2f}")
print(f"energy: {posterior.energy:.1f}")
