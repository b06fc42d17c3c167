"""The three problems of the comparison, on random data of the shapes of the paper's."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import bbalpha as bb


@dataclass(frozen=True)
class Problem:
    """A model with its data and the sizes of a step."""

    name: str
    log_likelihood: Callable
    plain: Callable  # the same, as one would write it without bbalpha
    params: Any
    data: tuple
    hyperparams: Any
    layers: tuple[int, ...]
    batch_size: int
    num_samples: int

    @property
    def num_data(self):
        return len(self.data[0])

    @property
    def plain_params(self):
        """The parameters of `plain`: a column for each unit."""
        return jax.tree.map(lambda leaf: leaf.T, self.params)


def probit(num_data=316):
    """(a): 34 weights, as on the Ionosphere data."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(num_data, 34)).astype(np.float32)
    labels = np.sign(random.normal(size=num_data)).astype(np.float32)
    return Problem(
        name="(a)",
        log_likelihood=probit_log_likelihood,
        plain=plain_probit_log_likelihood,
        params=np.zeros(34, np.float32),
        data=(inputs, labels),
        hyperparams=None,
        layers=(34, 1),
        batch_size=32,
        num_samples=100,
    )


def regression(num_hidden=100, num_data=455, num_samples=100):
    """(b): a network with one hidden layer, as on the Boston data."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(num_data, 13)).astype(np.float32)
    targets = random.normal(size=(num_data, 1)).astype(np.float32)
    layers = (13, num_hidden, 1)
    return Problem(
        name="(b)",
        log_likelihood=gaussian_log_likelihood,
        plain=plain_gaussian_log_likelihood,
        params=bb.init_mlp(layers, key=jax.random.key(0)),
        data=(inputs, targets),
        hyperparams=bb.Gaussian(),
        layers=layers,
        batch_size=32,
        num_samples=num_samples,
    )


def classification(num_samples=50):
    """(c): a network with two hidden layers, as on MNIST."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(2000, 784)).astype(np.float32)
    labels = random.integers(0, 10, size=2000)
    layers = (784, 400, 400, 10)
    return Problem(
        name="(c)",
        log_likelihood=softmax_log_likelihood,
        plain=plain_softmax_log_likelihood,
        params=bb.init_mlp(layers, key=jax.random.key(0), scheme="glorot"),
        data=(inputs, labels),
        hyperparams=None,
        layers=layers,
        batch_size=250,
        num_samples=num_samples,
    )


def probit_log_likelihood(weights, batch):
    inputs, labels = batch
    return bb.log_ndtr(labels * (inputs @ weights))


def plain_probit_log_likelihood(weights, batch):
    inputs, labels = batch
    return jax.scipy.stats.norm.logcdf(labels * (inputs @ weights))


def gaussian_log_likelihood(params, batch, likelihood, network=bb.mlp):
    inputs, targets = batch
    return likelihood.log_prob(network(params, inputs), targets)


def softmax_log_likelihood(params, batch, network=bb.mlp):
    inputs, labels = batch
    log_probabilities = jax.nn.log_softmax(network(params, inputs))
    return jnp.take_along_axis(log_probabilities, labels[:, None], axis=1)[:, 0]


def plain_network(params, inputs):
    *hidden_layers, last_layer = params
    for layer in hidden_layers:
        inputs = jax.nn.relu(inputs @ layer["weights"] + layer["biases"])
    return inputs @ last_layer["weights"] + last_layer["biases"]


plain_gaussian_log_likelihood = partial(gaussian_log_likelihood, network=plain_network)
plain_softmax_log_likelihood = partial(softmax_log_likelihood, network=plain_network)
