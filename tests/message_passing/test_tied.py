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


def errors(posterior, ep):
    """The largest differences of means and of deviations from those of EP, in its deviations."""
    deviations = np.sqrt(ep.variance)
    means = np.abs(posterior.mean - ep.mean) / deviations
    return means.max(), np.abs(np.sqrt(posterior.variance) / deviations - 1).max()


def test_moments_approach_those_of_ep_as_data_grow():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(5000, 2))
    labels = (inputs @ [1.0, -1.0] + random.normal(size=5000) > 0).astype(float)
    averaged, stochastic = [], []
    for arguments in ((bb.Probit(), INPUTS, LABELS), (bb.Probit(), inputs, labels)):
        ep = bb.power_ep(*arguments)
        averaged.append(errors(bb.averaged_ep(*arguments), ep))
        stochastic.append(errors(bb.stochastic_ep(*arguments, key=KEY), ep))
    # 50 times the data: the errors fall as 1/N. Means of stochastic EP also have its noise.
    for (_, of_few), (_, of_many) in (averaged, stochastic):
        assert of_few > 20 * of_many
    assert averaged[0][0] > 20 * averaged[1][0]
    assert max(stochastic[0][0], stochastic[1][0]) < 0.02


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
