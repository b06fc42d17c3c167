"""A Flax module without an adapter: `module.apply` is the model, its parameters are learned."""

import flax.linen as nn
import jax
import numpy as np
from sklearn.datasets import load_breast_cancer

import bbalpha as bb


class Network(nn.Module):
    @nn.compact
    def __call__(self, inputs):
        return nn.Dense(1)(nn.relu(nn.Dense(20)(inputs)))


inputs, labels = load_breast_cancer(return_X_y=True)  # 569 tumors, 1 where benign
(train,), (test,) = bb.splits(len(labels), num_splits=1)
train_inputs, scale = bb.standardize(inputs[train])
test_inputs = scale.transform(inputs[test])
network = Network()
params = network.init(jax.random.key(0), train_inputs[:1])


def log_likelihood(params, batch):
    inputs, labels = batch
    return bb.Bernoulli().log_prob(network.apply(params, inputs), labels)


posterior = bb.fit(
    log_likelihood,
    params,
    (train_inputs, labels[train]),
    alpha=0.5,
    key=jax.random.key(1),
    learn_prior=True,
    num_epochs=200,
    num_samples=20,
)
outputs = posterior.predict(network.apply, test_inputs, key=jax.random.key(2))  # draws, tumors, 1
probabilities = bb.predictive_mean(bb.Bernoulli(), outputs)[:, 0]
log_density = bb.predictive_log_density(bb.Bernoulli(), outputs, labels[test])
print(f"test error: {bb.metrics.error_rate(probabilities, labels[test]):.3f}")
print(f"test log-likelihood: {np.mean(log_density):.3f}")
