"""Models: outputs against numpy, and the scales of the initial parameters."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.test_util import check_grads

from bbalpha import models

KEY = jax.random.key(0)

# Compiled once, where plain calls would compile every operation for every shape.
compiled_mlp = jax.jit(models.mlp, static_argnames="activation")


def inputs_of(num_data, num_inputs):
    return jax.random.normal(jax.random.key(1), (num_data, num_inputs))


def test_linear_is_an_affine_map_of_the_inputs():
    params, inputs = models.init_linear(3, 2, key=KEY), inputs_of(5, 3)
    expected = np.asarray(inputs) @ np.asarray(params["weights"]).T + np.asarray(params["biases"])
    np.testing.assert_allclose(models.linear(params, inputs), expected, rtol=2e-5, atol=2e-6)


def test_linear_takes_numpy_inputs():
    params, inputs = models.init_linear(3, key=KEY), inputs_of(5, 3)
    np.testing.assert_array_equal(
        models.linear(params, np.asarray(inputs)), models.linear(params, inputs)
    )


def test_mlp_applies_the_activation_to_every_layer_but_the_last():
    params, inputs = models.init_mlp([3, 4, 4, 2], key=KEY, scheme="glorot"), inputs_of(5, 3)
    hidden = np.asarray(inputs, np.float64)
    for layer in params[:-1]:
        weights, biases = np.asarray(layer["weights"]), np.asarray(layer["biases"])
        hidden = np.maximum(hidden @ weights.T + biases, 0)
    expected = hidden @ np.asarray(params[-1]["weights"]).T + np.asarray(params[-1]["biases"])
    assert (expected < 0).any()
    np.testing.assert_allclose(compiled_mlp(params, inputs), expected, rtol=2e-5, atol=2e-6)


def test_mlp_with_the_identity_as_activation_is_linear():
    params, inputs = models.init_mlp([3, 4, 1], key=KEY, scheme="glorot"), inputs_of(5, 3)
    first, second = params
    product = {
        "weights": second["weights"] @ first["weights"],
        "biases": second["weights"] @ first["biases"] + second["biases"],
    }
    outputs = compiled_mlp(params, inputs, activation=lambda hidden: hidden)
    np.testing.assert_allclose(outputs, models.linear(product, inputs), rtol=2e-5, atol=2e-6)


def test_mlp_of_one_layer_is_linear():
    (layer,), inputs = models.init_mlp([3, 1], key=KEY), inputs_of(5, 3)
    np.testing.assert_array_equal(models.mlp([layer], inputs), models.linear(layer, inputs))


def test_jit_and_vmap_over_draws_agree_with_plain_calls():
    draws = [
        models.init_mlp([3, 4, 1], key=key, scheme="glorot") for key in jax.random.split(KEY, 6)
    ]
    stacked, inputs = jax.tree.map(lambda *leaves: jnp.stack(leaves), *draws), inputs_of(5, 3)
    expected = jnp.stack([models.mlp(params, inputs) for params in draws])
    outputs = jax.jit(jax.vmap(models.mlp, in_axes=(0, None)))(stacked, inputs)
    np.testing.assert_allclose(outputs, expected, rtol=2e-5, atol=2e-6)


def test_gradient_of_mlp_agrees_with_finite_differences(x64):
    params, inputs = models.init_mlp([3, 4, 2], key=KEY, scheme="glorot"), inputs_of(5, 3)
    check_grads(lambda p: compiled_mlp(p, inputs, jnp.tanh), (params,), order=1, modes=["rev"])


@pytest.mark.parametrize(
    ("scheme", "weights_variance", "biases_variance"),
    [("normal", 0.1**2, 0.1**2), ("glorot", 2 / (20 + 4000), 2 / (1 + 4000))],
)
def test_initial_parameters_have_the_variances_of_the_scheme(
    scheme, weights_variance, biases_variance
):
    (layer,) = models.init_mlp([20, 4000], key=KEY, scheme=scheme)
    for values, variance in [
        (layer["weights"], weights_variance),
        (layer["biases"], biases_variance),
    ]:
        assert abs(jnp.mean(values)) < 4 * np.sqrt(variance / values.size)
        assert abs(jnp.var(values) - variance) < 4 * variance * np.sqrt(2 / values.size)


def test_init_linear_draws_with_standard_deviation_one_tenth():
    weights = models.init_linear(10_000, key=KEY)["weights"]
    assert abs(jnp.std(weights) - 0.1) < 4 * 0.1 / np.sqrt(2 * weights.size)


def test_every_layer_gets_numbers_of_its_own():
    first, second = models.init_mlp([3, 3, 3], key=KEY)
    numbers = [first["weights"], second["weights"], first["biases"][None], second["biases"][None]]
    assert np.unique(np.concatenate(numbers)).size == 24


@pytest.mark.parametrize("sizes", [[], [13], [13, 0, 1], [-1, 1]])
def test_bad_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match=r"sizes must list the numbers of inputs.*; got sizes=\["):
        models.init_mlp(sizes, key=KEY)


def test_a_layer_without_columns_is_refused():
    with pytest.raises(ValueError, match="at least 1; got num_inputs=0, num_outputs=1"):
        models.init_linear(0, key=KEY)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match="scheme must be one of normal, glorot; got scheme='he'"):
        models.init_mlp([3, 1], key=KEY, scheme="he")


@pytest.mark.parametrize("shape", [(3,), (5, 4)])
def test_inputs_that_do_not_fit_the_weights_are_refused(shape):
    with pytest.raises(ValueError, match=r"inputs must have shape \(data, 3\).*; got \("):
        models.linear(models.init_linear(3, key=KEY), jnp.ones(shape))
