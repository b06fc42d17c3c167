"""`init`: optimizers, priors, precisions and hyper-parameters that a fit may start with."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems.probit import KEY, fit, log_likelihood, probit_data

import bbalpha as bb


@pytest.mark.parametrize(
    "optimizer",
    [
        optax.sgd(1e-4, momentum=0.9),
        optax.chain(optax.clip_by_global_norm(1.0), optax.rmsprop(1e-2)),
        optax.chain(optax.adam(1e-2), optax.contrib.reduce_on_plateau()),
        optax.MultiSteps(optax.adam(3e-2), every_k_schedule=2),
    ],
    ids=["sgd", "clipped rmsprop", "adam that watches the energy", "adam every other step"],
)
def test_any_optax_optimizer_lowers_the_energy(optimizer):
    posterior = fit(probit_data(), key=KEY, optimizer=optimizer, num_epochs=100)
    assert posterior.info.energies[-1] < posterior.info.energies[0] - 5


def test_a_prior_may_be_a_number_a_tree_or_a_distribution():
    params = {"weights": jnp.zeros((1, 3)), "biases": jnp.zeros(1)}

    def tree_log_likelihood(params, batch):
        inputs, labels = batch
        return jax.scipy.stats.norm.logcdf(labels * bb.linear(params, inputs)[:, 0])

    init = partial(bb.init, tree_log_likelihood, params, num_data=50, key=KEY)
    number = init(prior=2.0).prior
    np.testing.assert_allclose(number.variance, 4.0, rtol=1e-6)
    tree = init(prior={"weights": 2.0, "biases": jnp.array([3.0])}).prior
    np.testing.assert_allclose(tree.variance, [9.0, 4.0, 4.0, 4.0], rtol=1e-6)
    family = bb.FullGaussian(jnp.ones(4), jnp.zeros(4), jnp.zeros((4, 4)))
    assert init(prior=family).prior is family


def test_everything_is_in_float64_when_asked(x64):
    posterior = bb.fit(log_likelihood, jnp.zeros(3), probit_data(), key=KEY, num_epochs=2)
    assert {leaf.dtype for leaf in jax.tree.leaves(posterior)} == {jnp.dtype("float64")}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_params_of_lower_precision_are_trained_in_float32_and_used_in_their_own(dtype):
    seen = set()

    def noting_log_likelihood(weights, batch):
        seen.add(str(weights.dtype))
        return log_likelihood(weights.astype(jnp.float32), batch)

    start = jnp.zeros(3, dtype)
    with jax.enable_x64(dtype == "float32"):
        posterior = bb.fit(noting_log_likelihood, start, probit_data(), key=KEY, num_epochs=2)
    assert seen == {dtype}
    assert posterior.q.mean.dtype == jnp.float32
    assert posterior.num_data == 50


def test_weights_may_sum_to_one_and_alpha_be_one():
    posterior = fit(probit_data(), key=KEY, sample_weight=np.full(50, 1 / 50), alpha=1.0)
    np.testing.assert_allclose(posterior.num_data, 1.0, rtol=1e-6)


def test_a_likelihood_without_fields_may_be_the_hyperparams():
    def labeled(weights, batch, likelihood):
        inputs, labels = batch
        return likelihood.log_prob((inputs @ weights)[:, None], (labels + 1) / 2)

    posterior = bb.fit(
        labeled, jnp.zeros(3), probit_data(), hyperparams=bb.Probit(), key=KEY, num_epochs=2
    )
    assert isinstance(posterior.hyperparams, bb.Probit)


def test_a_family_may_be_a_class_a_function_or_an_instance():
    start = jnp.array([0.1, -0.2, 0.3])
    init = partial(bb.init, log_likelihood, start, num_data=50, key=KEY)
    by_class = init(family=bb.FullGaussian).variables.q
    by_function = init(family=lambda mean, prior: bb.FullGaussian.init(mean, prior)).variables.q
    by_instance = init(family=by_class).variables.q
    assert by_instance is by_class
    for one, other in zip(jax.tree.leaves(by_class), jax.tree.leaves(by_function), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_instance_starts_with_its_own_mean():
    q = bb.DiagonalGaussian(jnp.array([1.0, 2.0, 3.0]), jnp.full(3, -4.0))
    state = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, family=q)
    np.testing.assert_array_equal(state.posterior().mean, q.mean)
