"""Facts about degrees of freedom: weights that do the same work count once."""

from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import bbalpha as bb
from bbalpha.interfaces.freedom import freedom_together, real_pull
from bbalpha.interfaces.network import Head, Network

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("num_slopes", [3, 20])
def test_freedom_together_is_a_trace(num_slopes):
    scaled = RANDOM.normal(size=(num_slopes, 8))
    covariance = np.linalg.inv(np.eye(8) + 2.5 * scaled.T @ scaled)
    expected = np.trace(scaled @ covariance @ scaled.T)
    assert freedom_together(scaled, 2.5) == pytest.approx(expected)


def linear_probit(inputs, mean, prior_variance):
    """A model whose q is the best one with independent weights, by Laplace's approximation."""
    network = Network(inputs.shape[1], (), (Head(1),), "scaled")
    layout = bb.Layout.of(network.shapes())
    design = np.column_stack([np.ones(len(inputs)), inputs])  # biases come first in the vector
    mean = np.concatenate([[0.0], mean])
    outputs = design @ mean
    information = norm.pdf(outputs) ** 2 / (norm.cdf(outputs) * norm.cdf(-outputs))
    precision = np.diag(np.full(len(mean), 1 / prior_variance))
    precision = precision + design.T @ (information[:, None] * design)
    variance = 1 / np.diag(precision)
    q, prior = (
        bb.DiagonalGaussian(jnp.asarray(mean, jnp.float32), jnp.asarray(np.log(v), jnp.float32))
        for v in (variance, np.full(len(mean), prior_variance))
    )
    posterior = SimpleNamespace(
        q=q, prior=prior, layout=layout, hyperparams=bb.Probit(), num_data=len(inputs)
    )
    model = SimpleNamespace(posterior_=posterior, classes_=[0, 1], activation="relu")
    weighted = information[:, None] * design
    freedom = np.trace(np.linalg.solve(precision, design.T @ weighted))
    return model, freedom, np.sum(weighted * design @ np.diag(variance))


def test_independent_weights_pull_as_hard_as_they_seem():
    inputs = np.concatenate([np.eye(4), -np.eye(4)]).repeat(5, axis=0)
    model, freedom, _ = linear_probit(inputs, np.zeros(4), 2.0)
    assert real_pull(model, inputs) == pytest.approx(1 / (1 - freedom / 40), rel=1e-5)


def test_weights_that_do_the_same_work_share_the_pull():
    column = RANDOM.normal(size=(60, 1))
    inputs = column + 0.01 * RANDOM.normal(size=(60, 10))
    model, freedom, alone = linear_probit(inputs, np.full(10, 0.05), 2.0)
    expected = freedom / alone / (1 - freedom / 60)
    assert expected < 0.5
    assert real_pull(model, inputs) == pytest.approx(expected, rel=1e-3)
