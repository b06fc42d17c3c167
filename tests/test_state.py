"""One step of a state: its noise, its power, its gradient, and when it stays where it is."""

import dataclasses
import subprocess
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from problems.probit import KEY, log_likelihood, probit_data

import bbalpha as bb


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
    energy_after_steps = jax.jit(energy_after_steps, static_argnames="sample_chunk")
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


def test_a_schedule_gives_each_step_its_power():
    def alpha(step):
        return jnp.where(step < 1, 0.0, 0.9)

    scheduled = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, alpha=alpha)
    for power in (0.0, 0.9):
        constant = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, alpha=power)
        constant = dataclasses.replace(scheduled, alpha=constant.alpha, method=constant.method)
        _, expected = jax.jit(bb.step)(constant, probit_data())
        scheduled, info = jax.jit(bb.step)(scheduled, probit_data())
        np.testing.assert_allclose(info.energy, expected.energy, rtol=1e-6)


def test_the_gradient_with_respect_to_a_learned_prior_passes_through_the_capped_variances(x64):
    """By central differences; at an optimum it would vanish, so the fits cannot tell."""
    state = bb.init(log_likelihood, jnp.zeros(3), num_data=50, key=KEY, learn_prior=True)
    wide = dataclasses.replace(state.variables.q, logit_variance=jnp.zeros(3))

    @jax.jit
    def energy(log_prior_scale):
        variables = state.variables._replace(q=wide, log_prior_scale=log_prior_scale)
        return dataclasses.replace(state, variables=variables).energy(probit_data())

    start, step = jnp.array(0.3), 1e-5
    slope = (energy((start + step,)) - energy((start - step,))) / (2 * step)
    np.testing.assert_allclose(jax.grad(energy)((start,)), [slope], rtol=1e-6)


def test_an_overflowing_gradient_leaves_the_state_though_the_energy_is_finite():
    def steep(weights, batch):
        return 1e25 * weights[0] + 0 * batch

    state = bb.init(steep, jnp.zeros(1), num_data=4, key=KEY)
    moved, info = jax.jit(bb.step)(state, jnp.ones(4))
    assert np.isfinite(info.energy)
    assert not info.finite
    assert moved.step == 0


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
