"""What a user feels: imports, the first fit and the second, predictions for many rows."""

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
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


README_FIT = """
import sys, time
import jax, jax.numpy as jnp, bbalpha as bb
if sys.argv[1]:
    bb.use_compilation_cache(sys.argv[1])
x = jax.random.normal(jax.random.key(2), (200, 3))
y = jnp.sign(x @ jnp.array([1.0, -1.0, 0.5]) + jax.random.normal(jax.random.key(3), (200,)))
def log_likelihood(weights, batch):
    inputs, labels = batch
    return bb.log_ndtr(labels * (inputs @ weights))
start, key = jnp.zeros(3), jax.random.key(0)
jax.block_until_ready((x, y, start))
bb.fit
started, used = time.perf_counter(), time.process_time()
posterior = bb.fit(log_likelihood, start, (x, y), alpha=0.5, key=key)
jax.block_until_ready((posterior.mean, posterior.variance))
print(time.perf_counter() - started, time.process_time() - used)
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


def first_answer(other, repetitions=5):
    """Median seconds and CPU seconds until the first answer of a new process.

    The candidates are README's first `fit` (the call alone) and `bbalpha fit` of 400 rows (from
    prompt to prompt), of another source tree and of this one, without compiled programs on disk
    and, of this one, with them. They take turns.

    Args:
        other: the folder `src` of the other tree, which need not know the cache.
        repetitions: how often each is timed.
    """
    own = Path(bb.__file__).parents[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_table(folder / "table.csv")
        cache = folder / "cache"
        candidates = {
            "other": (Path(other), ""),
            "cold": (own, ""),
            "warm": (own, str(cache)),
        }
        figures = {(what, how): [] for what in ("fit", "command") for how in candidates}
        for turn in range(repetitions + 1):
            for how, (source, where) in candidates.items():
                times = {
                    "fit": _readme_fit(source, where),
                    "command": _command(source, where, folder),
                }
                for what, time_of in times.items():
                    if turn:  # the first fills the cache
                        figures[what, how].append(time_of)
    return {key: tuple(map(median, zip(*of_one, strict=True))) for key, of_one in figures.items()}


def _readme_fit(source, cache):
    command = [sys.executable, "-c", README_FIT, cache]
    done = subprocess.run(
        command, env=_environment(source, ""), capture_output=True, text=True, check=True
    )
    return tuple(map(float, done.stdout.split()))


def _command(source, cache, folder):
    command = [sys.executable, "-m", "bbalpha", "fit", "table.csv", "--target", "target"]
    for model in folder.glob("*.safetensors"):
        model.unlink()  # a model that is there is not replaced
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        command, cwd=folder, env=_environment(source, cache), capture_output=True, check=True
    )
    seconds_taken = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds_taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _environment(source, cache):
    """The environment of a process that imports bbalpha from a source tree, compiled once."""
    own = {"PYTHONPATH": str(source), "BBALPHA_CACHE_DIR": cache, "PYTHONDONTWRITEBYTECODE": ""}
    return {name: value for name, value in os.environ.items() if not name.startswith("JAX_")} | own


def _write_table(path, num_rows=400):
    from sklearn.datasets import load_diabetes

    load_diabetes(as_frame=True, scaled=False).frame[:num_rows].to_csv(path, index=False)


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
