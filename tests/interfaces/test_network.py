"""The network of an estimator: its outputs, its prior, and where its weights start."""

import itertools
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.interfaces.network import (
    ACTIVATIONS,
    HIDDEN_SCALE,
    INITIAL_BIAS,
    INITIAL_DEVIATION,
    SHARE_OF_HEADS,
    WIDEST,
    Head,
    Network,
    as_wide_as,
    corrected_log_mean_exp,
    log_likelihood_of,
    model_of,
    outputs_of,
)
from bbalpha.posterior import log_mean_exp

LEVEL = np.array([5.0, -7.0, 2.0])
HEADS = (Head(2), Head(1, scale=0.3, skip_scale=0.7, bias_scale=1.5))
HIDDEN = {"linear": (), "one layer": (200,), "two layers": (40, 30)}


def network(hidden=(200,), prior="scaled", num_inputs=3, heads=HEADS):
    return Network(num_inputs, hidden, heads, prior)


def shapes_and_types(tree):
    return jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), tree)


def deviations(network, scale=1.0):
    """The prior's deviations as a tree like the weights."""
    prior = network.prior_around(LEVEL[: network.num_outputs], scale)
    return bb.Layout.of(network.shapes()).unflatten(jnp.sqrt(prior.variance))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_functions_are_made_once_so_that_programs_are_shared(activation):
    assert model_of(activation) is model_of(activation)
    assert log_likelihood_of(activation) is log_likelihood_of(activation)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_log_likelihood_is_that_of_the_outputs_of_the_network(activation):
    params = network((4,), heads=(Head(1),)).start(np.zeros(1), seed=0)
    batch = bb.Dataset(jnp.ones((5, 3)), jnp.arange(5.0))
    outputs = outputs_of(params, batch.inputs, ACTIVATIONS[activation])
    found = log_likelihood_of(activation)(params, batch, bb.Gaussian(0.5))
    np.testing.assert_array_equal(found, bb.Gaussian(0.5).log_prob(outputs, batch.targets))


@pytest.mark.parametrize("prior", ["scaled", "paper"])
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_outputs_are_sums_over_units_and_inputs(hidden, prior):
    """In plain numpy, row by row, both heads side by side."""
    net = network(hidden, prior)
    prior_draw = net.prior_around(LEVEL, 1.0).transform(
        jnp.asarray(np.random.RandomState(1).normal(size=net.size), jnp.float32)
    )
    params = bb.Layout.of(net.shapes()).unflatten(prior_draw)
    inputs = np.random.RandomState(0).normal(size=(7, 3))
    plain = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    expected = []
    for row in inputs:
        units = row
        for layer in plain["hidden"]:
            units = np.maximum(layer["weights"] @ units + layer["biases"], 0)
        skips = [head["skip"] @ row if "skip" in head else 0.0 for head in plain["heads"]]
        expected.append(
            np.concatenate(
                [
                    head["weights"] @ units + head["biases"] + skip
                    for head, skip in zip(plain["heads"], skips, strict=True)
                ]
            )
        )
    found = outputs_of(params, jnp.asarray(inputs, jnp.float32), jax.nn.relu)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    assert [("skip" in head) for head in params["heads"]] == [
        prior == "scaled" and hidden != ()
    ] * 2


SIZES = list(
    itertools.product((1, 3), HIDDEN.values(), ((Head(1),), (Head(2),), HEADS), ("scaled", "paper"))
)


@pytest.mark.parametrize(("num_inputs", "hidden", "heads", "prior"), SIZES)
def test_the_size_is_the_number_of_all_entries(num_inputs, hidden, heads, prior):
    net = network(hidden, prior, num_inputs, heads)
    leaves = jax.tree.leaves(net.shapes())
    assert net.size == sum(math.prod(leaf.shape) for leaf in leaves)
    assert net.num_outputs == sum(head.num_outputs for head in heads)
    level = np.zeros(net.num_outputs)
    assert shapes_and_types(net.start(level, seed=0)) == shapes_and_types(net.shapes())
    assert net.prior_around(level, 1.0).mean.shape == (net.size,)


def test_deviations_of_the_scaled_prior_fall_with_the_inputs_of_each_layer():
    first, second = deviations(network((40, 30)), scale=3.0)["heads"]
    layers = deviations(network((40, 30)), scale=3.0)["hidden"]
    expected = {
        3 * HIDDEN_SCALE / 3**0.5: layers[0]["weights"],
        3 * HIDDEN_SCALE / 40**0.5: layers[1]["weights"],
        3 * 2.0 / 30**0.5: first["weights"],
        3 * 1.0 / 3**0.5: first["skip"],
        3 * 1.0: first["biases"],
        3 * 0.3 / 30**0.5: second["weights"],
        3 * 0.7 / 3**0.5: second["skip"],
        3 * 1.5: second["biases"],
    }
    for deviation, leaf in expected.items():
        np.testing.assert_allclose(leaf, np.full(leaf.shape, deviation), rtol=1e-6)
    for layer in layers:
        np.testing.assert_allclose(layer["biases"], 3 * HIDDEN_SCALE, rtol=1e-6)


def test_a_linear_model_has_the_deviations_of_the_linear_path():
    linear, deep = (deviations(network(hidden)) for hidden in ((), (40,)))
    for head, other in zip(linear["heads"], deep["heads"], strict=True):
        np.testing.assert_array_equal(head["weights"], other["skip"])


@pytest.mark.parametrize("widths", [(1, 3), (1, 50), (20, 3), (20, 50), (5, 50, 4), (5, 4, 50)])
def test_the_prior_predictive_variance_depends_neither_on_the_width_nor_on_the_inputs(widths):
    """A unit has variance v at each layer; after a ReLU, its square has the mean v / 2."""
    num_inputs, *hidden = widths
    head = Head(1)
    net = network(tuple(hidden), num_inputs=num_inputs, heads=(head,))
    prior, layout = net.prior_around(np.zeros(1), 1.0), bb.Layout.of(net.shapes())
    noise = jnp.asarray(np.random.RandomState(0).normal(size=(8000, net.size)), jnp.float32)
    inputs = jnp.ones((1, num_inputs))
    draws = jax.vmap(
        lambda row: outputs_of(layout.unflatten(prior.transform(row)), inputs, jax.nn.relu)
    )(noise)
    squares = np.square(np.asarray(draws, np.float64).ravel())
    square_of_units = 1.0  # of the inputs
    for _ in hidden:
        square_of_units = HIDDEN_SCALE**2 * (square_of_units + 1) / 2
    expected = head.scale**2 * square_of_units + head.skip_scale**2 + head.bias_scale**2
    error = squares.std() / np.sqrt(squares.size)
    assert abs(squares.mean() - expected) < 4 * error


def test_weights_of_the_scaled_prior_start_at_random_and_the_last_biases_at_the_level():
    start = network((200,)).start(LEVEL, seed=0)
    (layer,), (head, other) = start["hidden"], start["heads"]
    expected = [
        (layer["weights"], 3**-0.5),
        (layer["biases"], INITIAL_BIAS),
        (head["weights"], SHARE_OF_HEADS * 2.0 / 200**0.5),
        (other["weights"], SHARE_OF_HEADS * 0.3 / 200**0.5),
    ]
    for leaf, deviation in expected:
        error = deviation / np.sqrt(leaf.size)
        assert abs(np.mean(leaf)) < 4 * error
        assert abs(np.std(leaf) - deviation) < 4 * error / np.sqrt(2)
    np.testing.assert_array_equal(head["biases"], LEVEL[:2])
    np.testing.assert_array_equal(other["biases"], LEVEL[2:])


def test_weights_of_the_papers_prior_start_around_zero_and_the_last_biases_around_the_level():
    start = network(prior="paper", heads=(Head(2),)).start(LEVEL[:2], seed=0)
    first = np.concatenate([np.ravel(leaf) for leaf in jax.tree.leaves(start["hidden"])])
    error = INITIAL_DEVIATION / np.sqrt(first.size)
    assert INITIAL_DEVIATION == 0.1
    assert abs(first.mean()) < 4 * error
    assert abs(first.std() - INITIAL_DEVIATION) < 4 * error / np.sqrt(2)
    assert (abs(start["heads"][0]["biases"] - LEVEL[:2]) < 4 * INITIAL_DEVIATION).all()


@pytest.mark.parametrize("prior", ["scaled", "paper"])
@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_each_hidden_unit_has_factors_of_its_own_on_the_prior_of_its_weights(hidden, prior):
    net = network(hidden, prior)
    factors, shapes = net.factors(), net.shapes()
    assert jax.tree.structure(factors) == jax.tree.structure(shapes)
    for factor, shape in zip(jax.tree.leaves(factors), jax.tree.leaves(shapes), strict=True):
        assert (factor == 1).all()
        assert np.broadcast_shapes(factor.shape, shape.shape) == shape.shape
    assert [layer["weights"].shape for layer in factors["hidden"]] == [(n, 1) for n in hidden]
    width = hidden[-1] if hidden else 1
    assert [head["weights"].shape for head in factors["heads"]] == [(1, width)] * 2


@pytest.mark.parametrize("hidden", HIDDEN.values(), ids=HIDDEN)
def test_factors_that_were_learned_are_found_again(hidden):
    net, stream = network(hidden), np.random.RandomState(0)
    layout, prior = bb.Layout.of(net.shapes()), net.prior_around(LEVEL, 1.5)
    factors = jax.tree.map(lambda one: stream.uniform(0.01, 10, one.shape), net.factors())
    spread = jax.tree.map(lambda x, leaf: np.broadcast_to(x, leaf.shape), factors, net.shapes())
    log_factors = jnp.log(layout.flatten(jax.tree.map(jnp.asarray, spread)))
    learned = bb.DiagonalGaussian(prior.mean, prior.log_variance + log_factors)
    jax.tree.map(
        partial(np.testing.assert_allclose, rtol=1e-4), net.factors_of(learned, prior), factors
    )
    noise = jnp.asarray(stream.normal(size=layout.size), jnp.float32)
    forgotten = bb.DiagonalGaussian(noise, learned.log_variance + 0.1 * noise)
    jax.tree.map(np.testing.assert_array_equal, net.factors_of(forgotten, prior), net.factors())


@pytest.mark.parametrize("prior", ["scaled", "paper"])
def test_equal_seeds_give_equal_starts_and_others_do_not(prior):
    starts = [network(prior=prior).start(LEVEL, seed)["hidden"] for seed in (0, 0, 1)]
    for leaf, same, different in zip(*map(jax.tree.leaves, starts), strict=True):
        np.testing.assert_array_equal(leaf, same)
        assert (leaf != different).all()


def test_the_papers_network_is_an_mlp_whose_prior_has_one_deviation():
    net = network(prior="paper", heads=(Head(2, scale=9.0, bias_scale=9.0),))
    shapes = net.shapes()
    params = bb.init_mlp((3, 200, 2), key=jax.random.key(0))
    assert shapes_and_types([*shapes["hidden"], *shapes["heads"]]) == shapes_and_types(params)
    found = outputs_of({"hidden": params[:1], "heads": params[1:]}, np.ones((4, 3)), jax.nn.relu)
    np.testing.assert_array_equal(found, bb.mlp(params, np.ones((4, 3))))
    prior = net.prior_around(LEVEL[:2], 3.0)
    np.testing.assert_allclose(prior.variance, np.full(net.size, 9.0), rtol=1e-6)


@pytest.mark.parametrize("prior", ["scaled", "paper"])
def test_the_prior_is_centered_at_the_level_in_the_last_biases(prior):
    net = network(prior=prior)
    mean = bb.Layout.of(net.shapes()).unflatten(net.prior_around(LEVEL, 3.0).mean)
    biases = [head.pop("biases") for head in mean["heads"]]
    np.testing.assert_array_equal(np.concatenate(biases), LEVEL)
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(mean))


def test_q_starts_as_wide_as_the_last_one_but_narrower_than_the_prior():
    last = bb.DiagonalGaussian(jnp.zeros(3), jnp.log(jnp.array([0.01, 1.0, 100.0])))
    prior = bb.DiagonalGaussian(jnp.zeros(3), jnp.log(jnp.full(3, 4.0)))
    q = as_wide_as(last, jnp.arange(3.0), prior).under(prior)
    np.testing.assert_array_equal(q.mean, np.arange(3.0))
    np.testing.assert_allclose(q.variance, [0.01, 1.0, 4.0 * WIDEST], rtol=1e-5)


def test_the_logarithm_of_a_mean_over_few_draws_is_corrected():
    """For densities exp(s z − s²/2) with z ~ N(0, 1), whose mean is 1."""
    logs = 0.5 * jax.random.normal(jax.random.key(0), (40, 50_000)) - 0.125
    error = float(jnp.std(corrected_log_mean_exp(logs))) / np.sqrt(50_000)
    plain, corrected = jnp.mean(log_mean_exp(logs)), jnp.mean(corrected_log_mean_exp(logs))
    np.testing.assert_allclose(plain, -np.expm1(0.25) / 80, atol=4 * error + 2e-4)
    np.testing.assert_allclose(corrected, 0.0, atol=4 * error + 2e-4)
    assert plain < -0.003
    far = corrected_log_mean_exp(jnp.array([[-2000.0, -jnp.inf], [-2000.0, -jnp.inf]]))
    np.testing.assert_array_equal(far, [-2000.0, -np.inf])
