"""Draws in chunks: the same result with less memory."""

import itertools
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

import bbalpha as bb
from bbalpha.engine.draws import chunk_of_draws, map_draws

KEY = jax.random.key(0)


def test_draws_and_gradients_do_not_depend_on_the_chunk(x64):
    def total(q, noise, chunk):
        return jnp.sum(map_draws(lambda params, _: jnp.sin(params), q, noise, chunk) ** 2)

    lower = jnp.array([[0.0, 0.0, 0.0], [0.7, 0.0, 0.0], [-1.2, 0.4, 0.0]])
    q = bb.FullGaussian(jnp.array([0.3, -1.0, 2.0]), jnp.array([0.1, -0.6, 0.4]), lower)
    keys = jax.random.split(KEY, 10)
    noise = jax.vmap(q.noise)(keys)
    expected, expected_gradient = jax.value_and_grad(total)(q, noise, 10)
    for given, chunk in itertools.product([keys, noise], [1, 3, 7, 10, 20]):
        value, gradient = jax.value_and_grad(total)(q, given, chunk)
        np.testing.assert_allclose(value, expected, rtol=1e-10)
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9), gradient, expected_gradient)


def test_products_that_fit_are_kept_for_the_backward_pass_and_change_no_gradient(x64):
    """Of two products the derivative asks for the first, 4 numbers for each of ten draws."""
    first, second = jnp.arange(12.0).reshape(4, 3) / 10, jnp.arange(8.0).reshape(2, 4) / 10
    q = bb.DiagonalGaussian(jnp.array([0.3, -1.0, 2.0]), jnp.array([0.1, -0.6, 0.4]))
    noise = jax.vmap(q.noise)(jax.random.split(KEY, 10))

    def total(q, kept_products):
        def of_draw(params, _):
            return second @ jnp.tanh(first @ jnp.sin(params))

        return jnp.sum(jnp.square(map_draws(of_draw, q, noise, 5, kept_products)))

    gradients, num_products = {}, {}
    for kept in (0, 39, 40):
        gradient = jax.grad(partial(total, kept_products=kept))
        gradients[kept] = gradient(q)
        num_products[kept] = str(jax.make_jaxpr(gradient)(q)).count("dot_general")
    assert num_products == {0: 5, 39: 5, 40: 4}  # two forward, two backward, one computed again
    for kept in (39, 40):
        jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-10), gradients[kept], gradients[0])


def test_small_models_take_all_draws_at_once_and_large_ones_few():
    assert chunk_of_draws(num_params=1501, num_rows=32, num_samples=100) == 100
    assert chunk_of_draws(num_params=1501, num_rows=32, num_samples=10_000) < 200
    assert chunk_of_draws(num_params=478_410, num_rows=250, num_samples=50) == 1
