"""An Equinox module without an adapter: its arrays are learned, the rest is put back to call it."""

import equinox as eqx
import jax
import numpy as np
from sklearn.datasets import load_digits

import bbalpha as bb

inputs, labels = load_digits(return_X_y=True)  # 1,797 images of 8 × 8 points
inputs = inputs.astype(np.float32) / 16
(train,), (test,) = bb.splits(len(labels), num_splits=1)

network = eqx.nn.MLP(64, 10, width_size=50, depth=1, key=jax.random.key(0))
params, static = eqx.partition(network, eqx.is_inexact_array)


def model(params, inputs):
    return jax.vmap(eqx.combine(params, static))(inputs)


def log_likelihood(params, batch):
    inputs, labels = batch
    return bb.Categorical().log_prob(model(params, inputs), labels)


posterior = bb.fit(
    log_likelihood,
    params,
    (inputs[train], labels[train]),
    alpha=0.5,
    key=jax.random.key(1),
    num_epochs=90,
    num_samples=20,
)
outputs = posterior.predict(model, inputs[test], key=jax.random.key(2))  # (draws, images, 10)
probabilities = bb.predictive_mean(bb.Categorical(), outputs)
log_density = bb.predictive_log_density(bb.Categorical(), outputs, labels[test])
print(f"test error: {bb.metrics.error_rate(probabilities, labels[test]):.3f}")
print(f"test log-likelihood: {np.mean(log_density):.3f}")
