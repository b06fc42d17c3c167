"""NumPyro models and data that several test files share, each next to bbalpha's log-likelihood."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.stats import norm
from numpyro import handlers

import bbalpha as bb

random = np.random.default_rng(0)
INPUTS = jnp.asarray(random.normal(size=(200, 3)), jnp.float32)
NOISE = jnp.asarray(random.normal(size=200), jnp.float32)
TARGETS = INPUTS @ jnp.array([1.0, -1.0, 0.5]) + 0.5 * NOISE
LABELS = (INPUTS @ jnp.array([1.0, -1.0, 0.5]) + NOISE > 0).astype(jnp.float32)


def linear(inputs, targets, batch_size=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("data", len(inputs), subsample_size=batch_size) as rows:
        numpyro.sample("y", dist.Normal(inputs[rows] @ weights, 0.5), obs=targets[rows])


def probit(inputs, labels, batch_size=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("data", len(inputs), subsample_size=batch_size) as rows:
        signs = 2 * labels[rows] - 1
        numpyro.factor("y", bb.log_ndtr(signs * (inputs[rows] @ weights)))


def network(inputs, targets, batch_size=None):
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([21]).to_event(1))
    with numpyro.plate("data", len(inputs), subsample_size=batch_size) as rows:
        numpyro.sample("y", dist.Normal(outputs(weights, inputs[rows]), 0.5), obs=targets[rows])


def outputs(weights, inputs):
    hidden = jnp.tanh(inputs @ weights[:12].reshape(3, 4) + weights[None, 12:16])
    return hidden @ weights[16:20] + weights[20]


def linear_log_likelihood(weights, batch):
    inputs, targets = batch
    return norm.logpdf(targets, inputs @ weights, 0.5)


def probit_log_likelihood(weights, batch):
    inputs, labels = batch
    return bb.log_ndtr((2 * labels - 1) * (inputs @ weights))


def network_log_likelihood(weights, batch):
    inputs, targets = batch
    return norm.logpdf(targets, outputs(weights, inputs), 0.5)


PAIRS = {  # a model, its data, the log-likelihood, the number of weights
    "linear": (linear, (INPUTS, TARGETS), linear_log_likelihood, 3),
    "probit": (probit, (INPUTS, LABELS), probit_log_likelihood, 3),
    "network": (network, (INPUTS, TARGETS), network_log_likelihood, 21),
}


def gaussian_guide(num_weights):
    """A guide of independent Gaussians, and the same as bbalpha's distribution."""

    def guide(*args, **kwargs):
        mean = numpyro.param("mean", 0.1 * jnp.arange(num_weights))
        deviation = numpyro.param(
            "deviation", jnp.full(num_weights, 0.3), constraint=dist.constraints.positive
        )
        numpyro.sample("weights", dist.Normal(mean, deviation).to_event(1))

    mean = 0.1 * jnp.arange(num_weights)
    q = bb.DiagonalGaussian(mean, 2 * jnp.log(jnp.full(num_weights, 0.3)))
    return guide, {"mean": mean, "deviation": jnp.full(num_weights, 0.3)}, q


def draws_of(guide, params, keys, *args):
    """The weights that the loss draws for these keys."""

    def draw(key):
        seeded = handlers.seed(guide, jax.random.split(key)[1])
        trace = handlers.trace(handlers.substitute(seeded, params)).get_trace(*args)
        return trace["weights"]["value"]

    return jax.vmap(draw)(keys)
