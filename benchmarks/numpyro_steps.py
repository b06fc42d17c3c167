"""Steps of `BBAlphaELBO` and of `Trace_ELBO` in SVI, in turns, and memory against particles.

`python benchmarks/numpyro_steps.py` times both; `make bench` writes the result. It
measures CPU time, because a busy machine disturbs wall time more.
"""

import time
from functools import partial
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

from bbalpha.interfaces.numpyro import BBAlphaELBO

ROWS, COLUMNS, HIDDEN = 2000, 13, 50


def network(inputs, targets, batch_size=None):
    """A network of one hidden layer."""
    sizes = {"first": (COLUMNS, HIDDEN), "bias": (HIDDEN,), "last": (HIDDEN,)}
    weights = {
        name: numpyro.sample(name, dist.Normal(0, 1).expand(shape).to_event(len(shape)))
        for name, shape in sizes.items()
    }
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("data", len(inputs), subsample_size=batch_size) as rows:
        hidden = jax.nn.relu(inputs[rows] @ weights["first"] + weights["bias"])
        numpyro.sample("y", dist.Normal(hidden @ weights["last"], scale), obs=targets[rows])


def linear(inputs, targets, batch_size=None):
    """A linear regression."""
    weights = numpyro.sample("weights", dist.Normal(0, 1).expand([COLUMNS]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1))
    with numpyro.plate("data", len(inputs), subsample_size=batch_size) as rows:
        numpyro.sample("y", dist.Normal(inputs[rows] @ weights, scale), obs=targets[rows])


def data():
    random = np.random.default_rng(0)
    inputs = random.normal(size=(ROWS, COLUMNS)).astype(np.float32)
    return jnp.asarray(inputs), jnp.asarray(np.sin(inputs.sum(axis=1)))


def steps_of(model, loss, num_steps):
    """A function that takes some steps, compiled."""
    inputs, targets = data()
    svi = SVI(model, AutoNormal(model), optax.adam(1e-3), loss)
    state = svi.init(jax.random.key(0), inputs, targets)

    @jax.jit
    def run(state, inputs, targets):
        def body(state, _):
            return svi.update(state, inputs, targets)

        return jax.lax.scan(body, state, length=num_steps)

    jax.block_until_ready(run(state, inputs, targets))
    return lambda: jax.block_until_ready(run(state, inputs, targets))


class Mean(BBAlphaELBO):
    """The same log-ratios of draws and data points, without any power: the negative bound."""

    def energy(self, draws, params):
        return -jnp.sum(draws.weights * jnp.mean(draws.log_ratios, axis=0))


class LogMeanExp(BBAlphaELBO):
    """One exponential for each draw and data point, which loses digits: the least a power costs."""

    def energy(self, draws, params):
        log_means = jax.nn.logsumexp(self.alpha * draws.log_ratios, axis=0)
        return -jnp.sum(draws.weights * (log_means - jnp.log(self.num_particles))) / self.alpha


def ratio(model, num_particles, num_steps, repetitions=9, loss=BBAlphaELBO):
    """CPU milliseconds of a step of both losses, and the median ratio of neighboring turns."""
    runs = [
        steps_of(model, each, num_steps)
        for each in (loss(0.5, num_particles), Trace_ELBO(num_particles))
    ]
    times = np.array([[cpu_seconds(run) for run in runs] for _ in range(repetitions)])
    ours, theirs = 1e3 * np.median(times, axis=0) / num_steps
    return ours, theirs, median(times[:, 0] / times[:, 1])


def cpu_seconds(run):
    started = time.process_time()
    run()
    return time.process_time() - started


def memory(num_particles, particle_chunk):
    """MiB that XLA sets aside for a step."""
    inputs, targets = data()
    loss = BBAlphaELBO(0.5, num_particles, particle_chunk=particle_chunk)
    model = partial(network, batch_size=256)
    svi = SVI(model, AutoNormal(model), optax.adam(1e-3), loss)
    state = svi.init(jax.random.key(0), inputs, targets)
    program = jax.jit(svi.update).lower(state, inputs, targets).compile()
    return program.memory_analysis().temp_size_in_bytes / 2**20


CASES = {
    "linear, 13 weights, all 2,000 rows, K = 10": (linear, 10, 200),
    "linear, 13 weights, 32 of 2,000 rows, K = 100": (partial(linear, batch_size=32), 100, 500),
    "network 13-50-1, 32 of 2,000 rows, K = 10": (partial(network, batch_size=32), 10, 500),
    "network 13-50-1, 32 of 2,000 rows, K = 100": (partial(network, batch_size=32), 100, 100),
    "network 13-50-1, 256 of 2,000 rows, K = 100": (partial(network, batch_size=256), 100, 20),
}
TARGET = 1.1
PARTICLES, CHUNK = (50, 100, 200, 400), 50

if __name__ == "__main__":
    for name, case in CASES.items():
        ours, theirs, of_turns = ratio(*case)
        print(f"{name}: {ours:.3f} ms against {theirs:.3f} ms, ratio {of_turns:.3f}", flush=True)
    for loss in (Mean, LogMeanExp):
        of_turns = ratio(*next(iter(CASES.values())), repetitions=41, loss=loss)[2]
        print(f"the first case with {loss.__name__} for the power mean: ratio {of_turns:.3f}")
    for chunk in (None, CHUNK):
        found = [f"{memory(number, chunk):.0f}" for number in PARTICLES]
        print(f"MiB for K = {PARTICLES}, particle_chunk={chunk}: {', '.join(found)}")
