"""Stochastic and averaged EP: close to EP, closer with more data, in flat memory."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.projected import INPUTS, LABELS

import bbalpha as bb
from bbalpha.message_passing.arguments import prepare
from bbalpha.message_passing.tied import Schedule, tied_program

KEY = jax.random.key(0)


def labels_of(num_data):
    random = np.random.default_rng(num_data)
    inputs = random.normal(size=(num_data, 3))
    return inputs, (inputs @ [1.0, -1.0, 0.5] + random.normal(size=num_data) > 0).astype(float)


def distance(one, other):
    """The largest difference of means and deviations, in deviations of the second."""
    deviations = np.sqrt(other.variance)
    means = np.abs(one.mean - other.mean) / deviations
    return max(means.max(), np.abs(np.sqrt(one.variance) / deviations - 1).max())


def test_averaged_ep_approaches_ep_as_data_grow():
    distances = []
    for num_data in (50, 500, 5000):
        arguments = (bb.Probit(), *labels_of(num_data))
        distances.append(distance(bb.averaged_ep(*arguments), bb.power_ep(*arguments)))
    assert distances[0] > 2 * distances[1] > 4 * distances[2]
    assert distances[2] < 0.01


def test_stochastic_ep_is_averaged_ep_with_noise():
    averaged = bb.averaged_ep(bb.Probit(), INPUTS, LABELS)
    stochastic = bb.stochastic_ep(bb.Probit(), INPUTS, LABELS, batch_size=10, key=KEY)
    assert stochastic.info.converged
    assert distance(stochastic, averaged) < 0.02


@pytest.mark.parametrize("family", [bb.FullGaussian, bb.DiagonalGaussian])
def test_memory_does_not_grow_with_rows(x64, family):
    schedule = Schedule(32, 10, 64, is_averaged=False)

    def temporary(num_data):
        problem = prepare(bb.Probit(), np.zeros((4, 3)), np.zeros(4), np.float64(1.0), None, family)
        shapes = jax.tree.map(
            lambda leaf: (
                jax.ShapeDtypeStruct((num_data, *leaf.shape[1:]), leaf.dtype)
                if leaf.ndim
                else jax.ShapeDtypeStruct((), leaf.dtype)
            ),
            problem,
        )
        numbers = (jnp.array(1.0), jnp.array(1e-2), KEY)
        program = jax.jit(
            lambda problem, *numbers: tied_program(problem, numbers, schedule, "float32")
        )
        return program.lower(shapes, *numbers).compile().memory_analysis().temp_size_in_bytes

    few, many = temporary(10**3), temporary(10**6)
    # Chunks of the final pass hold at most 4,096 rows; 10³ rows make a shorter one.
    assert many <= 5 * few
    assert many < 10**6 * 3 * 8 / 2  # less than half of the inputs
