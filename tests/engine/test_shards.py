"""Rows spread over devices: the same sums, and nothing exchanged but gradients."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.engine.batches import no_order
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.shards import Failed, everywhere, here, mesh_of, over, padded, summed
from bbalpha.planning import optimizer_for, prepare

NUM_PARAMS, NUM_ROWS, BATCH_SIZE = 20, 64, 16
INPUTS = np.asarray(jax.random.normal(jax.random.key(1), (NUM_ROWS, NUM_PARAMS)))
LABELS = np.sign(INPUTS[:, 0] + 0.3).astype(np.float32)
REDUCE = re.compile(r"= (.*) (all-reduce|all-gather|all-to-all|collective-permute)\(")
SHAPE = re.compile(r"f32\[([\d,]*)\]")


def log_likelihood(weights, batch):
    inputs, labels = batch
    return bb.log_ndtr(labels * (inputs @ weights))


@pytest.fixture(scope="module")
def mesh():
    return mesh_of(jax.devices()[:2])


def run_of(optimizer, batch_size, mesh=None, family=None):
    """Arguments of `run_steps`, on a mesh or on one device."""
    data = (INPUTS, LABELS)
    rows, plan = prepare(data, None, optimizer, batch_size, 20)
    made = optimizer_for(plan, optimizer, jnp.zeros(NUM_PARAMS), 48, None)
    state = bb.init(
        log_likelihood,
        jnp.zeros(NUM_PARAMS),
        num_data=NUM_ROWS,
        key=jax.random.key(0),
        optimizer=made,
        num_samples=48,
        family=family,
    )
    state = dataclasses.replace(state, method=dataclasses.replace(state.method, mesh=mesh))
    return (state, rows, no_order(rows, batch_size), jnp.int32(10)), batch_size


def numbers_exchanged(args, batch_size):
    """The numbers in each exchange of the compiled loop."""
    text = run_steps.program.lower(*args, batch_size=batch_size).compile().as_text()
    found = [REDUCE.search(line) for line in text.splitlines()]
    kinds = [match[2] for match in found if match]
    sizes = [
        sum(int(np.prod([int(size) for size in shape.split(",") if size])) for shape in shapes)
        for shapes in (SHAPE.findall(match[1]) for match in found if match)
    ]
    return kinds, sizes


@pytest.mark.parametrize(
    ("optimizer", "batch_size", "family", "expected"),
    [
        ("adam", BATCH_SIZE, None, [1 + 2 * NUM_PARAMS]),
        # The direction and its coordinates; then the energy where the step leads.
        ("natural", NUM_ROWS, bb.FullGaussian, [1 + 4 * NUM_PARAMS + 2 * NUM_PARAMS**2, 1]),
    ],
)
def test_a_step_exchanges_the_gradient_and_nothing_else(
    mesh, optimizer, batch_size, family, expected
):
    args, batch_size = run_of(optimizer, batch_size, mesh, family)
    kinds, sizes = numbers_exchanged(everywhere(mesh, args), batch_size)
    assert set(kinds) == {"all-reduce"}
    assert sizes == expected


@pytest.mark.parametrize(("optimizer", "batch_size"), [("adam", 15), ("natural", NUM_ROWS)])
def test_steps_on_a_mesh_are_those_of_one_device(mesh, optimizer, batch_size):
    args, batch_size = run_of(optimizer, batch_size)
    expected = run_steps(*args, batch_size=batch_size)
    args, batch_size = run_of(optimizer, batch_size, mesh)
    found = over(mesh, run_steps, lambda error: error)(*args, batch_size=batch_size)
    np.testing.assert_allclose(found[2], expected[2], rtol=1e-5)
    np.testing.assert_allclose(
        found[0].variables.q.mean, expected[0].variables.q.mean, rtol=1e-4, atol=1e-6
    )
    assert jax.random.key_data(found[0].key).tolist() == [0, 0]


def test_a_derivative_through_a_sum_over_shards_is_that_of_the_sum(mesh):
    rows, weights = jnp.arange(6.0).reshape(6, 1), jnp.ones((1, 1))

    def total(rows, weights):
        return jnp.sum(jnp.sin(rows * weights))

    found = jax.jit(jax.grad(lambda weights: summed(mesh, total)(rows, weights)))(weights)
    np.testing.assert_allclose(found, jax.grad(total, 1)(rows, weights), rtol=1e-5)


def test_padding_repeats_the_last_row_at_weight_0(mesh):
    batch, weights = padded(mesh, {"x": np.arange(3.0)}, np.ones(3))
    assert batch["x"].tolist() == [0, 1, 2, 2]
    assert weights.tolist() == [1, 1, 1, 0]


def test_an_error_of_a_device_is_told_as_a_failure(mesh):
    def broken(values):
        raise jax.errors.JaxRuntimeError("Gloo all-reduce failed")

    with pytest.raises(Failed, match=r"^A process was lost\.$"):
        over(mesh, broken, lambda error: Failed("A process was lost.", writes=True))(jnp.ones(2))


def test_what_is_everywhere_is_here(mesh):
    tree = {"key": jax.random.key(3), "values": jnp.arange(2.0), "count": 4}
    placed = everywhere(mesh, tree)
    assert placed["values"].sharding.device_set == set(mesh.devices.flat)
    assert everywhere(mesh, placed)["values"] is placed["values"]
    back = here(mesh, placed)
    assert back["values"].tolist() == [0, 1]
    assert back["count"] == 4
    assert jax.random.key_data(back["key"]).tolist() == [0, 3]
