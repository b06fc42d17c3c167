"""How time and memory grow with the draws, the data, the width and the replicas."""

import sys

import jax
import problems
import steps
from timing import run_python, seconds

import bbalpha as bb

NUM_SAMPLES = (1, 10, 100, 1000, 10_000)
NUM_DATA = (1000, 10_000, 100_000, 1_000_000)
NUM_HIDDEN = (10, 30, 100, 300, 1000)
NUM_REPLICAS = (1, 2, 5, 10, 20, 50)
NUM_EPOCHS = 200  # the paper's, for probit

PEAK_OF_ONE_STEP = """
import re, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import jax, problems, steps
problem = getattr(problems, sys.argv[2])(num_samples=int(sys.argv[3]))
jax.block_until_ready(steps.ours(problem, 1)())
print(int(re.search(r"VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024)
"""


def with_draws():
    """Milliseconds of a step of (b) for each K."""
    times = {}
    for num_samples in NUM_SAMPLES:
        num_steps = max(1, 10_000 // (num_samples + 20))
        problem = problems.regression(num_samples=num_samples)
        times[num_samples] = _milliseconds(steps.ours(problem, num_steps), num_steps)
    return times


def with_data():
    """Milliseconds of a step of (b) for each N, over an epoch or its first steps.

    An epoch starts with the order of its rows, so few steps would tell of that alone.
    """
    times = {}
    for num_data in NUM_DATA:
        num_steps = min(num_data // 32, 3000)
        problem = problems.regression(num_data=num_data)
        times[num_data] = _milliseconds(steps.ours(problem, num_steps), num_steps)
    return times


def with_width():
    """Milliseconds of a step of (b) for each number of hidden units."""
    times = {}
    for num_hidden in NUM_HIDDEN:
        num_steps = max(5, 10_000 // num_hidden // 2)
        problem = problems.regression(num_hidden=num_hidden)
        times[num_hidden] = _milliseconds(steps.ours(problem, num_steps), num_steps)
    return times


def with_replicas():
    """Milliseconds of a step of one replica of (a), for each number of replicas in one program."""
    problem, num_steps = problems.probit(), 100
    return {
        number: _milliseconds(steps.replicas(problem, num_steps, number), num_steps * number)
        for number in NUM_REPLICAS
    }


def fifty_fits():
    """Seconds of fifty fits of (a) by `fit_many` and by `fit`, both compiled before."""
    problem = problems.probit()
    keys = jax.random.split(jax.random.key(0), 50)
    starts = jax.numpy.zeros((50, 34))
    settings = {"num_epochs": NUM_EPOCHS, "progress": False}

    def together():
        found = bb.fit_many(problem.log_likelihood, starts, problem.data, keys=keys, **settings)
        return [posterior.mean for posterior in found]

    def one_by_one():
        return [
            bb.fit(problem.log_likelihood, starts[0], problem.data, key=key, **settings).mean
            for key in keys
        ]

    return seconds({"fit_many": together, "fit": one_by_one}, repetitions=3)


def memory_with_draws(name):
    """MiB of peak memory of a process that takes one step, for each K."""
    folder = sys.path[0]
    return {
        num_samples: float(run_python(PEAK_OF_ONE_STEP, folder, name, num_samples)[0])
        for num_samples in NUM_SAMPLES
    }


def _milliseconds(run, num_steps):
    return 1e3 * seconds({"": run}, repetitions=5)[""] / num_steps
