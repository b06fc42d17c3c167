"""EP for probit regression: the first call, a second one, and GPy's EP on the same model.

Pima and Colon have the model of `relatives.py`, fitted to all rows. GPy sees it as a Gaussian
process with a linear kernel; it runs in another interpreter, because it needs an older NumPy.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import jax
import numpy as np

import bbalpha as bb

FIRST_CALL = """
import time
started, used = time.perf_counter(), time.process_time()
import jax, numpy as np, bbalpha as bb
bb.power_ep
imported = time.perf_counter() - started, time.process_time() - used
random = np.random.default_rng(0)
x = random.normal(size=(10_000, 10))
y = (x @ random.normal(size=10) + random.normal(size=10_000) > 0).astype(float)
for _ in range(6):
    started, used = time.perf_counter(), time.process_time()
    jax.block_until_ready(bb.power_ep(bb.Probit(), x, y).q)
    print(time.perf_counter() - started, time.process_time() - used)
print(*imported)
"""

GPY = """
import json, sys, time
import numpy as np
import GPy
from GPy.inference.latent_function_inference import EP
from paramz import ObsAr

table = np.load(sys.argv[1])
x, y = table["inputs"], table["labels"][:, None]

def run(x, y, is_parallel):
    kernel = GPy.kern.Linear(x.shape[1], variances=1.0)
    np.random.seed(0)  # the order of its updates
    method = EP(parallel_updates=is_parallel)
    return method.inference(kernel, x, GPy.likelihoods.Bernoulli(), ObsAr(y))

is_parallel = sys.argv[2] == "parallel"
run(x[:50], y[:50], is_parallel)
started, used = time.perf_counter(), time.process_time()
log_evidence = run(x, y, is_parallel)[1]
times = time.perf_counter() - started, time.process_time() - used
print(json.dumps([*times, float(log_evidence), GPy.__version__]))
"""


def first_calls(repetitions=3):
    """Median (wall, CPU) seconds of imports, of the first call, and of later ones."""
    environment = {
        name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"
    }
    found = {"imports": [], "first": [], "again": []}
    for _ in range(repetitions):
        command = [sys.executable, "-c", FIRST_CALL]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        first, *again, imports = [
            tuple(map(float, line.split())) for line in done.stdout.splitlines()
        ]
        found["first"].append(first)
        found["imports"].append(imports)
        found["again"] += again
    return {name: _medians(times) for name, times in found.items()}


def problem(name):
    """All rows: standardized inputs with an intercept, and labels 0 and 1."""
    from bbalpha_paper import datasets  # not installed where other parts run

    table = datasets.load(name)
    inputs = np.insert(bb.standardize(table.inputs)[0], 0, 1.0, axis=1)
    return inputs, table.targets.astype(float)


def warm(name, repetitions=7):
    """Median (wall, CPU) seconds of EP on a data set after a first call, and its log-evidence."""
    inputs, labels = problem(name)
    posterior = bb.power_ep(bb.Probit(), inputs, labels)
    times = []
    for _ in range(repetitions):
        started, used = time.perf_counter(), time.process_time()
        jax.block_until_ready(bb.power_ep(bb.Probit(), inputs, labels).q)
        times.append((time.perf_counter() - started, time.process_time() - used))
    return _medians(times), -posterior.info.energies[-1]


def gpys(python, name="pima", repetitions=2):
    """(wall, CPU) seconds of GPy's EP in its faster mode, its log-evidence, version and mode.

    Each of its runs follows one of ours, so that a busy machine slows both alike; our times come
    first in the result.
    """
    inputs, labels = problem(name)
    ours, its = [], {"parallel": [], "sequential": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npz"
        np.savez(path, inputs=inputs, labels=labels)
        for _ in range(repetitions):
            for mode, runs in its.items():
                (times, log_evidence) = warm(name)
                ours.append(times)
                command = [python, "-c", GPY, str(path), mode]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                runs.append(json.loads(done.stdout.splitlines()[-1]))
    medians = {mode: _medians([run[:2] for run in runs]) for mode, runs in its.items()}
    mode = min(medians, key=lambda mode: medians[mode][1])
    return _medians(ours), log_evidence, medians[mode], its[mode][-1][2:], mode


def _medians(times):
    return tuple(median(column) for column in zip(*times, strict=True))
