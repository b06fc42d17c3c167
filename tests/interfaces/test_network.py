"""The network of an estimator: one function per activation, and where its weights start."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.interfaces.network import (
    ACTIVATIONS,
    INITIAL_DEVIATION,
    WIDEST,
    as_wide_as,
    log_likelihood_of,
    model_of,
    prior_of,
    shapes_of,
    start_of,
)

SIZES, LEVEL = (3, 200, 2), np.array([5.0, -7.0])


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_functions_are_made_once_so_that_programs_are_shared(activation):
    assert model_of(activation) is model_of(activation)
    assert log_likelihood_of(activation) is log_likelihood_of(activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_log_likelihood_is_that_of_the_outputs_of_the_network(activation):
    params = start_of((3, 4, 1), np.zeros(1), seed=0)
    batch = bb.Dataset(jnp.ones((5, 3)), jnp.arange(5.0))
    outputs = bb.mlp(params, batch.inputs, ACTIVATIONS[activation])
    found = log_likelihood_of(activation)(params, batch, bb.Gaussian(0.5))
    np.testing.assert_array_equal(found, bb.Gaussian(0.5).log_prob(outputs, batch.targets))


def test_shapes_are_those_of_an_mlp():
    params = bb.init_mlp(SIZES, key=jax.random.key(0))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), shapes_of(SIZES)) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), params
    )


def test_weights_start_at_random_around_zero_and_the_last_biases_around_the_level():
    start = start_of(SIZES, LEVEL, seed=0)
    first = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(start[0])])
    error = INITIAL_DEVIATION / np.sqrt(first.size)
    assert abs(first.mean()) < 4 * error
    assert abs(first.std() - INITIAL_DEVIATION) < 4 * error / np.sqrt(2)
    assert (abs(start[-1]["biases"] - LEVEL) < 4 * INITIAL_DEVIATION).all()
    again, other = (jax.tree.leaves(start_of(SIZES, LEVEL, seed)) for seed in (0, 1))
    for leaf, same, different in zip(jax.tree.leaves(start), again, other, strict=True):
        np.testing.assert_array_equal(leaf, same)
        assert (leaf != different).all()


def test_the_prior_has_one_scale_and_is_centered_at_the_level_in_the_last_biases():
    prior = prior_of(SIZES, LEVEL, scale=3.0)
    layout = bb.Layout.of(shapes_of(SIZES))
    np.testing.assert_allclose(prior.variance, np.full(layout.size, 9.0), rtol=1e-6)
    mean = layout.unflatten(prior.mean)
    np.testing.assert_array_equal(mean[-1]["biases"], LEVEL)
    assert all((leaf == 0).all() for leaf in (*mean[0].values(), mean[-1]["weights"]))


def test_q_starts_as_wide_as_the_last_one_but_narrower_than_the_prior():
    last = bb.DiagonalGaussian(jnp.zeros(3), jnp.log(jnp.array([0.01, 1.0, 100.0])))
    prior = bb.DiagonalGaussian(jnp.zeros(3), jnp.log(jnp.full(3, 4.0)))
    q = as_wide_as(last, jnp.arange(3.0), prior).under(prior)
    np.testing.assert_array_equal(q.mean, np.arange(3.0))
    np.testing.assert_allclose(q.variance, [0.01, 1.0, 4.0 * WIDEST], rtol=1e-5)
