"""Are fits without an optimum told from slow ones? `python benchmarks/runaways.py [NAME...]`.

For each fit, the table says how it ended, after how many steps, and the largest steady change of a
log-deviation seen on the way: the least of its changes from each quarter of the run to the next. A
fit counts as running away from 1 on (`bbalpha.runaway.STEADY_CHANGE`).
"""

import sys
import warnings
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

import bbalpha as bb
from bbalpha import convergence
from bbalpha.runaway import STEADY_STEPS

# By its path, because `problems` is another module here.
PROBLEMS = Path(__file__).parents[1] / "tests" / "problems" / "references.py"
cases: Any = SourceFileLoader("reference_problems", str(PROBLEMS)).load_module()

FULL = {"family": bb.FullGaussian}


def logistic(weights, batch):
    return jax.nn.log_sigmoid(batch[1] * (batch[0] @ weights))


def probit(weights, batch):
    return bb.log_ndtr(batch[1] * (batch[0] @ weights))


def robust_probit(weights, batch):
    return jnp.log(0.05 + 0.9 * stats.norm.cdf(batch[1] * (batch[0] @ weights)))


def linear(weights, batch):
    return stats.norm.logpdf(batch[1], batch[0] @ weights, 1.0)


def line_with_noise(weights, batch, log_noise):
    return stats.norm.logpdf(batch[1], batch[0] @ weights, jnp.exp(log_noise))


def undetermined(params, batch):
    return stats.norm.logpdf(batch, params["seen"]) + 0.0 * params["unseen"]


def groups(params, batch):
    return stats.norm.logpdf(batch[1], params["mean"] + params["effects"][batch[0]])


def cauchy(mean, batch):
    return stats.cauchy.logpdf(batch, mean)


def flat(params):
    return 0.0 * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(params))


def labels(num_wrong=0, scale=1.0):
    """Points at least half a unit from the plane that separates them; some are mislabeled."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(60, 3))
    signs = np.sign(inputs.sum(axis=1))
    inputs += 0.5 * signs[:, None] / np.sqrt(3)
    signs[:num_wrong] *= -1
    return (scale * inputs).astype(np.float32), signs.astype(np.float32)


def line(noise):
    random = np.random.default_rng(1)
    inputs = random.normal(size=(40, 3))
    targets = inputs.sum(axis=1) + noise * random.normal(size=40)
    return inputs.astype(np.float32), targets.astype(np.float32)


def correlated(num_data=80, num_weights=40):
    random = np.random.default_rng(5)
    inputs = random.normal(size=(num_data, 5)) @ random.normal(size=(5, num_weights))
    inputs += 0.3 * random.normal(size=inputs.shape)
    targets = inputs @ random.normal(size=num_weights) / 10 + random.normal(size=num_data)
    return inputs.astype(np.float32), targets.astype(np.float32)


def effects():
    random = np.random.default_rng(3)
    group = np.arange(100) % 10
    targets = 1 + 0.7 * random.normal(size=10)[group] + random.normal(size=100)
    return group.astype(np.int32), targets.astype(np.float32)


def without_optimum(alpha):
    """Name, arguments and settings of fits whose energy has no minimum, or none near by."""
    few, targets = jnp.zeros(3), np.linspace(-1, 1, 30).astype(np.float32)
    two = {"seen": jnp.zeros(()), "unseen": jnp.zeros(())}
    yield "separable, logistic, flat prior", (logistic, few, labels()), {"prior": flat} | FULL
    yield "the same, diagonal q", (logistic, few, labels()), {"prior": flat}
    yield "separable, probit, flat prior", (probit, few, labels()), {"prior": flat} | FULL
    if alpha == 0:  # too far away for 10,000 steps
        yield "separable, logistic, prior 1e6", (logistic, few, labels()), {"prior": 1e6} | FULL
    yield "bounded likelihood, flat", (robust_probit, few, labels(4)), {"prior": flat} | FULL
    yield "undetermined, flat prior", (undetermined, two, targets), {"prior": flat}
    if alpha > 0:  # a wide q has mass on the right side of every row
        yield "one wrong label, flat", (logistic, few, labels(1)), {"prior": flat} | FULL
    noise = {"hyperparams": jnp.zeros(())} | FULL
    yield "noise goes to zero", (line_with_noise, few, line(0.0)), noise


def with_optimum(alpha):
    """Name, arguments and settings of fits whose energy has a minimum, some of them slow."""
    few, weights = jnp.zeros(3), jnp.zeros(40)
    for name, problem in cases.REFERENCES.items():
        arguments = (problem.log_likelihood, problem.params, problem.data)
        yield name.replace("_", "-"), arguments, FULL
        yield f"{name.replace('_', '-')}, diagonal q", arguments, {"optimizer": "natural"}
    if alpha == 0:
        yield "one wrong label, flat", (logistic, few, labels(1)), {"prior": flat} | FULL
    else:
        yield "separable, logistic, prior 1e6", (logistic, few, labels()), {"prior": 1e6} | FULL
    yield "separable, probit, prior 100", (probit, few, labels()), {"prior": 100.0} | FULL
    yield "tiny inputs, flat", (linear, few, labels(0, 1e-6)), {"prior": flat} | FULL
    yield "huge inputs, flat", (linear, few, labels(0, 1e6)), {"prior": flat} | FULL
    yield "correlated, diagonal q", (linear, weights, correlated()), {}
    noise = {"hyperparams": jnp.full((), 8.0)} | FULL
    yield "noise learned from far off", (line_with_noise, few, line(0.01)), noise
    start = {"effects": jnp.zeros(10), "mean": jnp.zeros(())}
    yield "learned prior", (groups, start, effects()), {"learn_prior": True} | FULL
    values = np.random.default_rng(4).standard_cauchy(size=20).astype(np.float32)
    yield "Cauchy, far start", (cauchy, jnp.full((), 100.0), values), {"prior": flat}


def measured(arguments, settings):
    """How a fit ended, its steps, and the largest steady change of a log-deviation."""
    largest = 0.0
    judge = convergence.Convergence._runaway

    def recorded(self):
        nonlocal largest
        if sum(int(record.num_steps) for record in self.rounds) >= STEADY_STEPS:
            rounds = np.array([convergence._position(record)[1] for record in self.rounds])
            quarters = [part.mean(axis=0) for part in np.array_split(rounds, 4)]
            changes = np.diff(quarters, axis=0)
            largest = max(largest, *(np.min(sign * changes, axis=0).max() for sign in (1, -1)))
        return judge(self)

    convergence.Convergence._runaway = recorded
    try:
        info = bb.fit(*arguments, key=jax.random.key(0), progress=False, **settings).info
    except bb.NonFiniteEnergyError as error:
        info = error.posterior.info
    finally:
        convergence.Convergence._runaway = judge
    return info.stopped, info.num_steps, largest


def main():
    warnings.simplefilter("ignore")
    print("| fit | α | has an optimum | ended | steps | steady change |\n|---|---|---|---|---|---|")
    for has_optimum, fits in (("no", without_optimum), ("yes", with_optimum)):
        for alpha in (0.0, 0.5):
            for name, arguments, settings in fits(alpha):
                if len(sys.argv) == 1 or any(part in name for part in sys.argv[1:]):
                    stopped, steps, change = measured(arguments, {"alpha": alpha} | settings)
                    cells = (name, alpha, has_optimum, stopped, f"{steps:,}", f"{change:.2f}")
                    print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
