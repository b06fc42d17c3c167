"""Pieces of the engine, and the alternatives tried."""

import math
from dataclasses import replace
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import problems
import steps
from timing import seconds

import bbalpha as bb
from bbalpha import energy
from bbalpha.engine import replicas, threefry
from bbalpha.engine.draws import chunk_of_draws
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.options import STEP_OPTIONS

NUM_SAMPLES, NUM_PARAMS = 100, 1501  # of (b)
NUM_PARAMS_OF_C = 478_410
REPEATS = 50


def normals():
    """Microseconds to draw the noise of one step of (b), by each way."""
    shape = (NUM_SAMPLES, NUM_PARAMS)

    def per_draw(key, draw):
        return jax.vmap(lambda key: draw(key, (NUM_PARAMS,), jnp.float32))(key)

    ways = {
        "`jax.random.normal`": lambda key: jax.random.normal(key, shape),
        "`jax.random.normal`, a key per draw": lambda key: per_draw(
            jax.random.split(key, NUM_SAMPLES), jax.random.normal
        ),
        "the rounds written out, the inverse error function": lambda key: per_draw(
            threefry.consecutive(key, NUM_SAMPLES), _inverse_error_function
        ),
        "the rounds written out, Box and Muller's transform (taken)": lambda key: per_draw(
            threefry.consecutive(key, NUM_SAMPLES), threefry.normal
        ),
        "Box and Muller's transform of the words of `jax.random`": partial(
            _box_muller, shape=shape
        ),
        "a multiplicative hash for Threefry": partial(_hashed, shape=shape),
    }
    return _microseconds({name: _drawn(draw, shape) for name, draw in ways.items()})


def large_draw():
    """Microseconds to draw the noise of one draw of (c), by each way."""
    shape = (1, NUM_PARAMS_OF_C)
    ways = {
        "a table of 256 columns (taken)": lambda key: threefry.normal(key, shape, jnp.float32),
        "one axis": partial(_in_one_axis, shape=shape),
    }
    return _microseconds({name: _drawn(draw, shape) for name, draw in ways.items()})


def probit_gradients():
    """Microseconds for log Φ and its derivative at the margins of one step of (a)."""
    margins = jax.random.normal(jax.random.key(0), (100, 32))
    ways = {
        "`jax.scipy.stats.norm.logcdf`": jax.scipy.stats.norm.logcdf,
        "`bb.log_ndtr`, a series for Mills' ratio (taken)": bb.log_ndtr,
    }
    timed = {}
    for name, function in ways.items():
        gradient = jax.value_and_grad(lambda x, function=function: jnp.sum(function(x)))
        timed[name] = _repeated(
            lambda x, gradient=gradient: x + 1e-30 * gradient(x)[1] + 1e-30 * gradient(x)[0],
            margins,
        )
    return _microseconds(timed)


def layouts(problem, num_steps, resample_every):
    """Milliseconds of a step, with the weights in each layout."""
    plain = replace(problem, log_likelihood=problem.plain, params=problem.plain_params)
    rows = [jnp.column_stack([layer["weights"], layer["biases"]]) for layer in problem.params]
    timed = {
        "a row of weights for each unit, multiplied from the left (taken)": problem,
        "the same, with the bias at the end of the row": replace(
            problem, log_likelihood=_log_likelihood_of_rows, params=rows
        ),
        "a column of weights for each unit, `x @ w`": plain,
    }
    timed = {name: steps.ours(each, num_steps, resample_every) for name, each in timed.items()}
    return {name: 1e3 * value / num_steps for name, value in seconds(timed, 15).items()}


def chunks(problem, sizes, num_steps):
    """Milliseconds of a step for each number of draws in memory at once."""
    timed = {size: steps.ours(problem, num_steps, sample_chunk=size) for size in sizes}
    chosen = chunk_of_draws(
        sum(leaf.size for leaf in jax.tree.leaves(problem.params)),
        problem.batch_size,
        problem.num_samples,
    )
    return {
        f"{size} draws at once{' (taken)' if size == chosen else ''}": 1e3 * value / num_steps
        for size, value in seconds(timed, repetitions=3).items()
    }


def products_kept(problem, num_steps):
    """Milliseconds of a step that keeps its noise, with and without its products kept too."""
    again = replace(problem, log_likelihood=lambda *args: problem.log_likelihood(*args))
    timed = {
        "kept (taken)": steps.ours(problem, num_steps, resample_every=10),
        "computed again": steps.ours(again, num_steps, resample_every=10),
    }
    with mock.patch.object(energy, "KEPT_PRODUCTS", 0):  # while it is compiled
        jax.block_until_ready(timed["computed again"]())
    return {name: 1e3 * value / num_steps for name, value in seconds(timed, 3).items()}


def options(problem, num_steps, repetitions):
    """Milliseconds of a step that keeps its noise, by the options of its compilation."""
    with_sums, width = STEP_OPTIONS.items()
    given = {
        "products and sums by YNNPACK, the compiler's default": {},
        "512-bit vectors": dict([width]),
        "sums alone by YNNPACK": dict([with_sums]),
        "sums alone by YNNPACK, 512-bit vectors (taken)": dict([with_sums, width]),
        "nothing by YNNPACK, 512-bit vectors": dict([(with_sums[0], ""), width]),
    }
    timed = {}
    for name, each in given.items():
        program = jax.jit(
            run_steps.function, static_argnames=run_steps.static_argnames, compiler_options=each
        )
        timed[name] = steps.ours(problem, num_steps, resample_every=10, run=program)
    return {name: 1e3 * value / num_steps for name, value in seconds(timed, repetitions).items()}


def threads(problem, num_steps, num_replicas=50):
    """Microseconds of a step of one replica, by how the replicas share the cores."""
    timed = {"a thread for each core (taken)": steps.replicas(problem, num_steps, num_replicas)}
    with mock.patch.object(replicas, "_num_threads", return_value=1):
        timed["one thread"] = steps.replicas(problem, num_steps, num_replicas)
    scale = 1e6 / num_steps / num_replicas
    return {name: scale * value for name, value in seconds(timed, 5).items()}


def of_all(say):
    """A title, a unit and the figures of each comparison."""
    say("ways to draw noise")
    yield "Noise of one step of (b), 100 × 1501 numbers", "µs", normals()
    yield "Noise of one draw of (c), 478,410 numbers", "µs", large_draw()
    say("ways to log Φ")
    yield "log Φ and its derivative for (a), 100 × 32 margins", "µs", probit_gradients()
    say("options of the compiler")
    yield "A step of (b), redrawn every 10", "ms", options(problems.regression(), 100, 15)
    yield "A step of (c), redrawn every 10", "ms", options(problems.classification(), 10, 2)
    say("cores of the replicas")
    yield "A step of one of fifty replicas of (a)", "µs", threads(problems.probit(), 200)
    say("layouts of the weights")
    yield "A step of (b)", "ms", layouts(problems.regression(), 100, 1)
    yield "A step of (b), redrawn every 10", "ms", layouts(problems.regression(), 100, 10)
    say("chunks of (b)")
    yield "A step of (b)", "ms", chunks(problems.regression(), (10, 25, 50, 100), 50)
    say("products of (c), kept or not")
    title = "Products of (c) from forward to backward pass, a step redrawn every 10"
    yield title, "ms", products_kept(problems.classification(), 10)
    say("chunks of (c)")
    yield "A step of (c)", "ms", chunks(problems.classification(), (1, 2, 5, 10), 1)


def _drawn(draw, shape):
    """A loop that draws again and again."""

    def body(index, carry):
        total, noise = carry
        return total + noise[0, 0], draw(threefry.fold_in(jax.random.key(0), index))

    start = (jnp.zeros(()), jnp.zeros(shape))
    return jax.jit(lambda: jax.lax.fori_loop(0, REPEATS, body, start))


def _inverse_error_function(key, shape, dtype):
    uniform = (threefry.bits(key, math.prod(shape)) >> 8).astype(dtype) * 2.0**-23
    return (math.sqrt(2) * jax.lax.erf_inv(uniform - (1 - 2.0**-24))).reshape(shape)


def _in_one_axis(key, shape):
    with mock.patch.object(threefry, "TABLE_WIDTH", math.prod(shape)):
        return threefry.normal(key, shape, jnp.float32)


def _log_likelihood_of_rows(rows, batch, likelihood):
    inputs, targets = batch
    units, ones = inputs.T, jnp.ones((1, len(inputs)))
    for layer in rows[:-1]:
        units = jax.nn.relu(layer @ jnp.concatenate([units, ones]))
    outputs = rows[-1] @ jnp.concatenate([units, ones])
    return likelihood.log_prob(outputs.T, targets)


def _box_muller(key, shape):
    count = -(-math.prod(shape) // 2)
    high, low = jnp.split(jax.random.bits(key, (2 * count,)), 2)
    uniform = (high >> 8).astype(jnp.float32) * 2.0**-24 + 2.0**-25
    angle = (low >> 8).astype(jnp.float32) * (2 * math.pi * 2.0**-24)
    radius = jnp.sqrt(-2 * jnp.log(uniform))
    both = jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)])
    return both[: math.prod(shape)].reshape(shape)


def _hashed(key, shape):
    first, last = jax.random.key_data(key)
    word = jax.lax.iota(jnp.uint32, math.prod(shape)) + first
    for multiplier in (0xED5AD4BB, 0xAC4C1B51, 0x31848BAB):
        word = (word ^ (word >> 16)) * np.uint32(multiplier) + last
    uniform = (word >> 8).astype(jnp.float32) * 2.0**-23 - (1 - 2.0**-24)
    return (math.sqrt(2) * jax.lax.erf_inv(uniform)).reshape(shape)


def _repeated(function, start):
    return jax.jit(lambda: jax.lax.fori_loop(0, REPEATS, lambda _, x: function(x), start))


def _microseconds(timed):
    return {name: 1e6 * value / REPEATS for name, value in seconds(timed, 9).items()}
