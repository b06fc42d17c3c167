"""What a user feels: imports, the first fit and the second, predictions for many rows."""

import time
from statistics import median

import jax
import jax.numpy as jnp
import problems
from timing import run_python, seconds

import bbalpha as bb

IMPORTS = {
    "python": "pass",
    "jax": "import jax",
    "bbalpha": "import bbalpha",
    "everything": "import bbalpha; bbalpha.fit",
    "help": "import sys; sys.argv = ['bbalpha', '--help']; from bbalpha.cli import app; app()",
}

TWO_FITS = """
import time
started = time.perf_counter()
import jax, jax.numpy as jnp, bbalpha as bb
x = jax.random.normal(jax.random.key(2), (200, 3))
y = jnp.sign(x @ jnp.ones(3))
log_likelihood = lambda weights, batch: bb.log_ndtr(batch[1] * (batch[0] @ weights))
compiled = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if "backend_compile" in event else None
)
jax.block_until_ready(y)
for key in (0, 1):
    before, started = len(compiled), time.perf_counter()
    bb.fit(log_likelihood, jnp.zeros(3), (x, y), key=jax.random.key(key)).mean.block_until_ready()
    print(time.perf_counter() - started, len(compiled) - before)
"""


def imports(repetitions=9):
    """Median seconds of a fresh interpreter that imports each, and of the command line's help."""
    times = {name: [] for name in IMPORTS}
    for _ in range(repetitions):
        for name, code in IMPORTS.items():
            times[name].append(run_python(code)[1])
    return {name: median(of_one) for name, of_one in times.items()}


def two_fits():
    """Seconds and compilations of the first fit of the probit example and of the second."""
    first, second = (line.split() for line in run_python(TWO_FITS)[0].splitlines())
    return (float(first[0]), int(first[1])), (float(second[0]), int(second[1]))


def prediction(num_rows=100_000, num_samples=1000):
    """Seconds to average the outputs of a network 13-100-1 over draws, and for its products alone.

    The products are the layers' own, for all rows and all draws, one draw at a time.
    """
    problem = problems.regression()
    state = bb.init(
        problem.log_likelihood,
        problem.params,
        num_data=problem.num_data,
        key=jax.random.key(0),
        hyperparams=problem.hyperparams,
    )
    posterior = state.posterior()
    inputs = jax.random.normal(jax.random.key(1), (num_rows, 13))
    matrices = [jnp.asarray(layer["weights"]) for layer in problem.plain_params]

    def predict():
        return posterior.predict(
            bb.mlp, inputs, key=jax.random.key(2), num_samples=num_samples, summary=_mean
        )

    @jax.jit
    def multiply():
        def of_draw(_, carry):
            first, last = matrices
            return carry + 1e-30 * (((inputs + carry) @ first) @ last)[0, 0]

        return jax.lax.fori_loop(0, num_samples, of_draw, jnp.zeros(()))

    started = time.perf_counter()
    jax.block_until_ready(predict())
    first = time.perf_counter() - started
    return first, seconds({"predict": predict, "products": multiply}, repetitions=3)


def _mean(outputs):
    return outputs.mean(axis=0)
