"""The network of an estimator: its functions, and the start and prior of its weights.

Functions are made once per activation, because compiled programs are cached by them.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bbalpha.data import Dataset
from bbalpha.distributions import CappedGaussian, DiagonalGaussian, Distribution
from bbalpha.engine.arrays import on_device
from bbalpha.engine.layout import Layout
from bbalpha.likelihoods import Likelihood
from bbalpha.models import mlp
from bbalpha.posterior import log_mean_exp

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
}
INITIAL_DEVIATION = 0.1  # of the initial means of weights and biases, Section 4
WIDEST = 0.9  # largest initial variance of q relative to the prior's; at 1 it could not move


@cache
def model_of(activation: str) -> Callable:
    """The function from weights and inputs to outputs."""
    return partial(mlp, activation=ACTIVATIONS[activation])


@cache
def log_likelihood_of(activation: str) -> Callable:
    """The log-likelihood of a batch, one number per row; its hyper-parameter is the likelihood."""
    model = model_of(activation)

    def log_likelihood(params: PyTree, batch: Dataset, likelihood: Likelihood) -> Array:
        return likelihood.log_prob(model(params, batch.inputs), batch.targets)

    return log_likelihood


@cache
def scored_model_of(activation: str) -> Callable:
    """The function from likelihood, weights and rows to outputs and log-likelihoods."""
    model = model_of(activation)

    def scored_model(likelihood: Likelihood, params: PyTree, rows: Dataset) -> tuple[Array, Array]:
        outputs = model(params, rows.inputs)
        return outputs, likelihood.log_prob(outputs, rows.targets)

    return scored_model


def summarized(function: Callable, likelihood: Likelihood, args: tuple, outputs: Array) -> Any:
    """A summary of the outputs of all draws."""
    return function(likelihood, outputs, *args)


def scored(function: Callable, likelihood: Likelihood, args: tuple, results: tuple) -> Any:
    """The log-density of every row and a summary, of all that `scored_model_of` returns."""
    outputs, log_likelihoods = results
    return log_mean_exp(log_likelihoods), function(likelihood, outputs, *args)


def shapes_of(sizes: Sequence[int]) -> list[dict[str, jax.ShapeDtypeStruct]]:
    """Shapes and types of the weights, for layers of these sizes."""
    shape = partial(jax.ShapeDtypeStruct, dtype=jax.dtypes.canonicalize_dtype(float))
    return [
        {"weights": shape((num_outputs, num_inputs)), "biases": shape((num_outputs,))}
        for num_inputs, num_outputs in pairwise(sizes)
    ]


def start_of(sizes: Sequence[int], level: np.ndarray, seed: int) -> PyTree:
    """The initial mean of q, drawn around 0 and, for the last biases, around `level`."""
    stream = np.random.RandomState(seed)
    start = jax.tree.map(
        lambda leaf: stream.normal(0, INITIAL_DEVIATION, leaf.shape), shapes_of(sizes)
    )
    start[-1]["biases"] += level
    return jax.tree.map(on_device, start)


def prior_of(sizes: Sequence[int], level: np.ndarray, scale: float) -> DiagonalGaussian:
    """Independent Gaussians around 0 or, for the last biases, around `level`."""
    shapes = shapes_of(sizes)
    mean = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), shapes)
    mean[-1]["biases"] += level.astype(mean[-1]["biases"].dtype)
    layout = Layout.of(shapes)
    log_variance = on_device(np.full(layout.size, 2 * math.log(scale)))
    return DiagonalGaussian(layout.flatten(mean), log_variance)


def as_wide_as(
    last: Distribution, mean: Float[Array, " params"], prior: Distribution
) -> CappedGaussian:
    """An initial q with the variances of the last one, as far as the prior allows."""
    part = jnp.minimum(last.variance / prior.variance, WIDEST)
    return CappedGaussian(mean, jnp.log(part) - jnp.log1p(-part))
