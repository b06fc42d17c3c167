"""Steps and fits: what is compiled, what is random, what is learned."""

import dataclasses
import subprocess
import sys
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import bbalpha as bb
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.optimizers import decaying_adam

KEY = jax.random.key(0)


def log_likelihood(weights, batch):
    inputs, labels = batch
    return jax.scipy.stats.norm.logcdf(labels * (inputs @ weights))


def probit_data(seed=0, num_rows=50):
    generator = np.random.default_rng(seed)
    inputs = generator.normal(size=(num_rows, 3)).astype(np.float32)
    labels = np.sign(inputs @ [1.0, -2.0, 0.5] + generator.normal(size=num_rows))
    return inputs, labels.astype(np.float32)


fit = partial(bb.fit, log_likelihood, jnp.zeros(3), num_epochs=20, num_samples=10)


def test_ten_fits_at_ten_powers_with_ten_keys_compile_once(compilations):
    run_steps.program.clear_cache()  # data of a nearby size in another test share the program
    fit(probit_data(0), alpha=0.3, key=KEY)
    assert "jit(run_steps)" in compilations
    compilations.clear()
    for index in range(10):
        alpha, key = index / 10 - 0.2, jax.random.key(index)
        fit(probit_data(index), alpha=alpha, key=key, num_epochs=20 + index)
    assert compilations == []


def test_data_of_a_nearby_size_compile_nothing_anew(compilations):
    inputs, labels = probit_data()
    fit((inputs, labels), key=KEY)
    compilations.clear()
    for num_rows in (33, 40, 49):
        fit((inputs[:num_rows], labels[:num_rows]), key=KEY)
    assert not [name for name in compilations if "run_steps" in name or "energy" in name]


def test_padding_changes_nothing(monkeypatch):
    data = probit_data()
    padded = fit(data, key=KEY)
    monkeypatch.setattr("bbalpha.engine.batches.padded_length", lambda num_rows: num_rows)
    plain = fit(data, key=KEY)
    for one, other in zip(jax.tree.leaves(padded), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(padded.info.energies, plain.info.energies, rtol=2e-5)


def test_many_fits_equal_the_single_ones():
    """Ten powers with three keys each, in one program and in thirty calls."""
    data = probit_data()
    alphas = np.repeat(np.linspace(-1.0, 1.0, 10), 3)
    keys = jax.random.split(KEY, 30)
    starts = 0.1 * jax.random.normal(KEY, (30, 3))
    together = bb.fit_many(
        log_likelihood, starts, data, keys=keys, alpha=alphas, num_epochs=20, num_samples=10
    )
    for start, alpha, key, replica in zip(starts, alphas, keys, together, strict=True):
        alone = bb.fit(
            log_likelihood, start, data, alpha=alpha, key=key, num_epochs=20, num_samples=10
        )
        for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(replica), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(alone.info.energies, replica.info.energies, rtol=2e-5)


def test_many_fits_on_splits_equal_the_single_ones():
    inputs, labels = probit_data()
    train, _ = bb.splits(50, 3)
    together = bb.fit_many(
        log_likelihood,
        jnp.zeros((3, 3)),
        (inputs[train], labels[train]),
        keys=jax.random.split(KEY, 3),
        data_axis=0,
        num_epochs=20,
        num_samples=10,
    )
    for rows, key, replica in zip(train, jax.random.split(KEY, 3), together, strict=True):
        alone = fit((inputs[rows], labels[rows]), key=key)
        np.testing.assert_allclose(alone.q.mean, replica.q.mean, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(alone.energy, replica.energy, rtol=2e-5)


def test_a_fit_is_reproducible_from_its_key():
    first, second = (fit(probit_data(), key=KEY) for _ in range(2))
    other = fit(probit_data(), key=jax.random.key(1))
    np.testing.assert_array_equal(first.q.mean, second.q.mean)
    assert np.any(first.q.mean != other.q.mean)


def test_an_energy_after_steps_has_a_gradient_whatever_the_chunk(x64):
    """As in learning to learn: reverse through a step, which itself differentiates in reverse."""
    data = probit_data()

    def energy_after_steps(mean, sample_chunk):
        settings = {"num_samples": 6, "sample_chunk": sample_chunk, "optimizer": optax.sgd(1e-2)}
        state = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, **settings)
        state = eqx.tree_at(lambda state: state.variables.q.mean, state, mean)
        for _ in range(2):
            state, info = bb.step(state, data)
        return info.energy

    mean = jnp.array([0.3, -0.2, 0.1])
    gradients = [jax.grad(energy_after_steps)(mean, sample_chunk) for sample_chunk in (6, 2)]
    np.testing.assert_allclose(*gradients, rtol=1e-10)
    step = 1e-5 * jnp.array([1.0, 0.0, 0.0])
    difference = energy_after_steps(mean + step, 6) - energy_after_steps(mean - step, 6)
    np.testing.assert_allclose(gradients[0][0], difference / 2e-5, rtol=1e-6)


def test_noise_is_the_same_for_resample_every_steps():
    state = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, resample_every=3)
    keys = []
    for _ in range(7):
        keys.append(jax.random.key_data(state.noise_keys()).tolist())
        state, _ = jax.jit(bb.step)(state, probit_data())
    assert keys[0] == keys[1] == keys[2] != keys[3]
    assert keys[3] == keys[4] == keys[5] != keys[6]


def test_the_chunk_of_draws_changes_nothing_but_memory():
    whole, chunked = (fit(probit_data(), key=KEY, sample_chunk=chunk) for chunk in (10, 3))
    np.testing.assert_allclose(whole.q.mean, chunked.q.mean, rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(whole.energy, chunked.energy, rtol=2e-5)


def test_a_constant_schedule_equals_a_constant_power():
    constant = fit(probit_data(), key=KEY, alpha=0.7)
    scheduled = fit(probit_data(), key=KEY, alpha=optax.constant_schedule(0.7))
    np.testing.assert_allclose(constant.q.mean, scheduled.q.mean, rtol=2e-5)
    np.testing.assert_allclose(constant.energy, scheduled.energy, rtol=2e-5)


def test_a_schedule_gives_each_step_its_power():
    def alpha(step):
        return jnp.where(step < 1, 0.0, 0.9)

    scheduled = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, alpha=alpha)
    for power in (0.0, 0.9):
        constant = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, alpha=power)
        constant = dataclasses.replace(scheduled, alpha=constant.alpha, method=constant.method)
        _, expected = bb.step(constant, probit_data())
        scheduled, info = bb.step(scheduled, probit_data())
        np.testing.assert_allclose(info.energy, expected.energy, rtol=1e-6)


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


def test_the_learned_prior_has_the_second_moment_of_q_in_each_leaf():
    """At α = 0 the energy is least in v₀ where v₀ = mean of (m² + v) over the leaf."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(60, 3)).astype(np.float32)
    data = inputs, (inputs @ [1.0, 2.0, -3.0] + 1.0).astype(np.float32)
    params = {"a": jnp.zeros(2), "b": jnp.zeros(1)}

    def two_leaves(params, batch):
        inputs, targets = batch
        weights = jnp.concatenate([params["a"], params["b"]])
        return jax.scipy.stats.norm.logpdf(targets, inputs @ weights + 1.0, 0.5)

    posterior = bb.fit(
        two_leaves,
        params,
        data,
        alpha=0.0,
        key=KEY,
        learn_prior=True,
        family=bb.DiagonalGaussian,
        num_epochs=3000,
        num_samples=50,
    )
    moments = posterior.q.mean**2 + posterior.q.variance
    expected = [moments[0:2].mean(), moments[0:2].mean(), moments[2]]
    np.testing.assert_allclose(posterior.prior.variance, expected, rtol=0.02)
    np.testing.assert_allclose(expected, [2.5, 2.5, 9.0], rtol=0.1)  # of the weights above


def test_the_gradient_with_respect_to_a_learned_prior_passes_through_the_capped_variances(x64):
    """By central differences; at an optimum it would vanish, so the fits cannot tell."""
    state = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, learn_prior=True)
    wide = dataclasses.replace(state.variables.q, logit_variance=jnp.zeros(3))

    @jax.jit
    def energy(log_prior_scale):
        variables = state.variables._replace(q=wide, log_prior_scale=log_prior_scale)
        return dataclasses.replace(state, variables=variables).energy(probit_data())

    start, step = jnp.array([0.3]), 1e-5
    slope = (energy(start + step) - energy(start - step)) / (2 * step)
    np.testing.assert_allclose(jax.grad(energy)(start), [slope], rtol=1e-6)


def test_the_posterior_of_a_fit_can_be_the_prior_of_the_next():
    """Two halves one after the other equal all data at once, for VB with exact Gaussians."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(40, 2)).astype(np.float32)
    targets = inputs @ np.array([1.0, -1.0], np.float32)

    def gaussian(weights, batch):
        inputs, targets = batch
        return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)

    settings = {"alpha": 0.0, "key": KEY, "family": bb.FullGaussian, "num_epochs": 3000}
    first = bb.fit(gaussian, jnp.zeros(2), (inputs[:20], targets[:20]), **settings)
    second = bb.fit(gaussian, first.mean, (inputs[20:], targets[20:]), prior=first.q, **settings)
    covariance = np.linalg.inv(inputs.T @ inputs + np.eye(2))
    np.testing.assert_allclose(second.q.covariance, covariance, rtol=0.03, atol=1e-3)
    np.testing.assert_allclose(second.mean, covariance @ inputs.T @ targets, atol=0.02)


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


def test_an_overflowing_gradient_leaves_the_state_though_the_energy_is_finite():
    def steep(weights, batch):
        return 1e25 * weights[0] + 0 * batch

    state = bb.init(steep, jnp.zeros(1), num_data=4, key=KEY)
    moved, info = jax.jit(bb.step)(state, jnp.ones(4))
    assert np.isfinite(info.energy)
    assert not info.finite
    assert moved.step == 0


def test_the_default_rate_falls_along_a_cosine():
    optimizer = decaying_adam(100)
    gradient = jnp.ones(1)
    state = optimizer.init(gradient)
    rates = []
    for _ in range(101):
        update, state = optimizer.update(gradient, state)
        rates.append(-update.item())  # the direction of Adam is 1 for a constant gradient
    expected = 0.5e-2 * (1 + np.cos(np.pi * np.arange(101) / 100))
    np.testing.assert_allclose(rates, expected, rtol=1e-3, atol=1e-7)


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


def test_a_step_that_is_not_finite_leaves_the_state():
    state = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY)
    inputs, labels = probit_data()
    moved, info = jax.jit(bb.step)(state, (inputs * jnp.nan, labels))
    assert not info.finite
    assert moved.step == 0
    np.testing.assert_array_equal(moved.variables.q.mean, state.variables.q.mean)


NETWORK = """
import resource, sys
import jax, jax.numpy as jnp, bbalpha as bb
from bbalpha import Categorical

def log_likelihood(params, batch):
    inputs, labels = batch
    return Categorical().log_prob(bb.mlp(params, inputs), labels)

params = bb.init_mlp((784, 400, 400, 10), key=jax.random.key(0), scheme="glorot")
batch = jax.random.normal(jax.random.key(1), (250, 784)), jnp.arange(250) % 10
state = bb.init(
    log_likelihood, params, num_data=60_000, key=jax.random.key(2), num_samples=int(sys.argv[1])
)
step = jax.jit(bb.step).lower(state, batch).compile()
if len(sys.argv) == 2:
    print(step.memory_analysis().temp_size_in_bytes)
else:
    _, info = jax.block_until_ready(step(state, batch))
    assert info.finite
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def memory_of_a_step(num_samples, *options):
    command = [sys.executable, "-c", NETWORK, str(num_samples), *options]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_ten_thousand_draws_of_a_network_need_memory_for_their_ratios_only():
    """By the compiler's count, beyond what the state itself takes; a draw has 478,410 weights."""
    ratios = 10_000 * 250 * 4  # bytes of a number for each draw and datum
    assert memory_of_a_step(10_000) < 4.5 * ratios  # densities, ratios, their powers, the gradient


@pytest.mark.slow
def test_a_step_with_ten_thousand_draws_runs_in_the_memory_of_fifty():
    assert memory_of_a_step(10_000, "run") < 1.5 * memory_of_a_step(50, "run")
