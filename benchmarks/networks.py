"""Ways to train the estimators' networks: held-out log-likelihood against time.

    python benchmarks/networks.py --data ../shared/data

Four UCI regression sets, five published splits each, the network of the paper. Every candidate
starts at the same q; differences in log-likelihood are paired by split. Times are steps times the
time per step of one fit, measured in turns with today's default. Results are kept in a temporary
folder (`--results`), so an interrupted run continues; the tables are printed.
"""

import argparse
import json
import sys
import tempfile
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from adams import constant, cosine, held, is_over, latest_switch, scheduled_adam, stopping_adam
from timing import seconds

import bbalpha as bb
from bbalpha.engine.batches import no_order, padded_rows
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.loop import Plan
from bbalpha.interfaces.network import Head, Network, log_likelihood_of, model_of
from bbalpha.metrics import rmse, standard_error
from bbalpha.planning import optimizer_for
from bbalpha.replicas import replica_of

SETS = ("boston", "concrete", "energy", "yacht")
NUM_SPLITS = 5
NUM_HIDDEN = 50
NUM_PREDICTIVE = 1000
TIMED_STEPS = 300
RATE = 1e-2
NUM_ERRORS, LEAST_FALL = 4.0, 0.01  # standard errors and nats from which a fall is visible
MOST_SHARE, MOST_FALL = 0.08, 0.5  # of the whole fall, or nats: more means not converged
LEVEL = np.zeros(1)
LOG_LIKELIHOOD = log_likelihood_of("relu")
MODEL = model_of("relu")


@dataclass(frozen=True)
class Candidate:
    """A way to train."""

    name: str
    num_steps: int = 10_000
    rate: float = RATE  # Adam's, at the start; it falls to 0 along a cosine
    kind: str = "cosine"  # or "constant", "stopping", "natural"
    batch_size: int | None = 32  # None: all rows
    num_samples: int = 50
    draws: str | None = None
    decay: float = 0.5  # of "stopping": steps with a falling rate per step before

    def optimizer(self, num_batches, num_steps):
        match self.kind:
            case "natural":
                return "natural"
            case "held":
                return scheduled_adam(held, self.rate, num_steps)
            case "constant":
                return scheduled_adam(constant, self.rate, num_steps)
            case "stopping":
                return stopping_adam(self.rate, self.decay, num_batches, num_steps)
            case _:
                return scheduled_adam(cosine, self.rate, num_steps)


TODAY = Candidate("Adam, 10,000 steps")
CANDIDATES = {
    "today": TODAY,
    "half": replace(TODAY, name="Adam, 5,000 steps", num_steps=5000),
    "held-long": replace(
        TODAY, name="Adam, 10,000 steps, rate held at 7e-3", rate=7e-3, kind="held"
    ),
    "held": replace(TODAY, name="Adam, 5,000 steps, rate held", num_steps=5000, kind="held"),
    "held-antithetic": replace(
        TODAY,
        name="Adam, 5,000 steps, rate held, 16 antithetic draws",
        num_steps=5000,
        kind="held",
        num_samples=16,
        draws="antithetic",
    ),
    "half-fast": replace(TODAY, name="Adam, 5,000 steps from 2e-2", num_steps=5000, rate=2e-2),
    "quarter": replace(TODAY, name="Adam, 2,500 steps", num_steps=2500),
    "tenth": replace(TODAY, name="Adam, 1,000 steps", num_steps=1000),
    "long": replace(TODAY, name="Adam, 40,000 steps", num_steps=40_000),
    "antithetic": replace(
        TODAY, name="Adam, 5,000 steps, antithetic draws", num_steps=5000, draws="antithetic"
    ),
    "antithetic-20": replace(
        TODAY, name="Adam, 20 antithetic draws", num_samples=20, draws="antithetic"
    ),
    "antithetic-10": replace(
        TODAY, name="Adam, 10 antithetic draws", num_samples=10, draws="antithetic"
    ),
    "stopping": replace(TODAY, name="Adam, stopped by a rule", kind="stopping"),
    "natural": replace(TODAY, name="natural, 3,000 steps", num_steps=3000, kind="natural"),
    "natural-all": replace(
        TODAY, name="natural, all rows, 500 steps", num_steps=500, kind="natural", batch_size=None
    ),
    "slow": replace(TODAY, name="Adam at 1e-3", rate=1e-3, kind="constant"),
    "slow-tenth": replace(
        TODAY, name="Adam at 1e-3, 1,000 steps", rate=1e-3, kind="constant", num_steps=1000
    ),
}


class Problem(NamedTuple):
    """A data set, standardized for each split: training rows, test rows, log-scale of targets."""

    train: bb.Dataset
    test: bb.Dataset
    log_scales: np.ndarray

    @property
    def num_data(self):
        return self.train.inputs.shape[1]

    @property
    def network(self):
        return Network(self.train.inputs.shape[-1], (NUM_HIDDEN,), (Head(1),), prior="paper")


@cache
def problem_of(folder, name):
    table = np.genfromtxt(folder / name / f"{name}.csv.gz", delimiter=",", skip_header=1)
    splits, parts, log_scales = bb.splits(len(table), NUM_SPLITS), [], []
    for train, test in zip(*splits, strict=True):
        inputs, input_units = bb.standardize(table[train, :-1])
        targets, target_units = bb.standardize(table[train, -1:])
        held_out = bb.Dataset(
            input_units.transform(table[test, :-1]), target_units.transform(table[test, -1:])
        )
        parts.append((bb.Dataset(inputs, targets), held_out))
        log_scales.append(float(target_units.log_scale))
    train, test = jax.tree.map(lambda *leaves: np.stack(leaves), *parts)
    return Problem(train, test, np.array(log_scales))


def train(candidate, problem, alpha):
    """The posteriors of all splits."""
    batch_size = candidate.batch_size or problem.num_data
    num_batches = -(-problem.num_data // batch_size)
    num_epochs = -(-candidate.num_steps // num_batches)
    starts = [problem.network.start(LEVEL, seed) for seed in range(NUM_SPLITS)]
    return bb.fit_many(
        LOG_LIKELIHOOD,
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts),
        problem.train,
        keys=jax.random.split(jax.random.key(0), NUM_SPLITS),
        alpha=alpha,
        optimizer=candidate.optimizer(num_batches, num_epochs * num_batches),
        num_epochs=num_epochs,
        batch_size=batch_size,
        num_samples=candidate.num_samples,
        draws=candidate.draws,
        data_axis=0,
        progress=False,
        **fit_settings(problem),
    )


def first_state(candidate, problem, split, alpha):
    num_batches = -(-problem.num_data // (candidate.batch_size or problem.num_data))
    plan = Plan(candidate.batch_size, num_batches, -(-candidate.num_steps // num_batches))
    params = problem.network.start(LEVEL, split)
    optimizer = candidate.optimizer(num_batches, plan.num_steps)
    return bb.init(
        LOG_LIKELIHOOD,
        params,
        num_data=float(problem.num_data),
        key=jax.random.split(jax.random.key(0), NUM_SPLITS)[split],
        alpha=alpha,
        optimizer=optimizer_for(plan, optimizer, params, candidate.num_samples, candidate.draws),
        num_samples=candidate.num_samples,
        draws=candidate.draws,
        **fit_settings(problem),
    )


def fit_settings(problem):
    return {
        "prior": problem.network.prior_around(LEVEL, 1.0),
        "hyperparams": bb.Gaussian(jnp.zeros(1)),
        "family": bb.CappedGaussian,
    }


def scores(candidate, problem, alpha, posteriors):
    """A row of results: one number per split, and the energies of all epochs, per data point."""
    row = {"log_likelihood": [], "rmse": [], "energy": [], "num_steps": [], "energies": []}
    for split, posterior in enumerate(posteriors):
        rows, test = (replica_of(part, split) for part in problem[:2])
        key = jax.random.key(1 + split)
        draw = {"key": key, "num_samples": NUM_PREDICTIVE}
        densities = posterior.log_density(LOG_LIKELIHOOD, test, **draw)
        mean = np.mean(posterior.predict(MODEL, test.inputs, **draw), axis=0)
        scale = np.exp(problem.log_scales[split])
        energies = np.array(posterior.info.energies)
        row["log_likelihood"].append(float(np.mean(densities) - problem.log_scales[split]))
        row["rmse"].append(float(scale * rmse(mean, test.targets)))
        row["energy"].append(float(energy_of(posterior, rows, alpha, key)) / problem.num_data)
        row["num_steps"].append(steps_taken(candidate, problem, energies))
        row["energies"].append((energies / problem.num_data).round(5).tolist())
    return row


@jax.jit
def energy_of(posterior, rows, alpha, key):
    noise = jax.random.normal(key, (NUM_PREDICTIVE, posterior.q.mean.size))
    return bb.alpha_energy(
        LOG_LIKELIHOOD,
        posterior.q,
        posterior.prior,
        rows,
        noise,
        alpha=alpha,
        num_data=posterior.num_data,
        layout=posterior.layout,
        hyperparams=posterior.hyperparams,
        sample_chunk=50,
    )


def steps_taken(candidate, problem, energies):
    """How many steps a run needs; one stopped by the rule idles once its rate is 0."""
    num_batches = -(-problem.num_data // (candidate.batch_size or problem.num_data))
    if candidate.kind != "stopping":
        return len(energies) * num_batches
    last = latest_switch(candidate.decay, len(energies))
    for epoch in range(len(energies)):
        if is_over(energies, epoch + 1, num_batches) or epoch + 1 >= last:
            return int((epoch + 1) * num_batches * (1 + candidate.decay))
    raise AssertionError("latest_switch is an epoch of the run")


def time_per_step(candidate, problem):
    """Time per step, relative to today's, of one fit as an estimator runs it."""
    if replace(candidate, name=TODAY.name, num_steps=TODAY.num_steps, rate=RATE) == TODAY:
        return 1.0  # the same program
    times = seconds({"today": timed(TODAY, problem), "candidate": timed(candidate, problem)})
    return times["candidate"] / times["today"]


def timed(candidate, problem):
    state = first_state(candidate, problem, 0, 0.5)
    data = jax.tree.map(lambda leaf: leaf[0], problem.train)
    rows = padded_rows(data, np.ones(problem.num_data))
    size = candidate.batch_size or problem.num_data
    order = no_order(rows, size)
    return lambda: run_steps(state, rows, order, jnp.asarray(TIMED_STEPS), size)[0]


def result(folder, results, name, alpha, label):
    """A row of results, from its file if there is one."""
    path = results / f"{name}-{alpha:g}-{label}.json"
    if not path.exists():
        candidate, problem = CANDIDATES[label], problem_of(folder, name)
        print(f"{name}, α = {alpha:g}: {candidate.name}", file=sys.stderr)
        row = scores(candidate, problem, alpha, train(candidate, problem, alpha))
        row["time_per_step"] = time_per_step(candidate, problem)
        path.write_text(json.dumps(row))
    return json.loads(path.read_text())


def print_scores(rows, alpha, labels):
    """Held-out scores and times, each set against today's default."""
    print(f"\nα = {alpha:g}\n\n| set | training | log-likelihood | paired difference | ", end="")
    print("RMSE | energy per data point | steps | time |\n|---|---|---:|---:|---:|---:|---:|---:|")
    for name, label in product(SETS, labels):
        row, today = rows[name, label], rows[name, "today"]
        values = np.array(row["log_likelihood"])
        steps, before = np.mean(row["num_steps"]), np.mean(today["num_steps"])
        cells = (
            name,
            CANDIDATES[label].name,
            with_error(values),
            with_error(values - np.array(today["log_likelihood"])) if row != today else "",
            f"{np.mean(row['rmse']):.3f}",
            f"{np.mean(row['energy']):.3f}",
            f"{steps:,.0f}",
            f"{row['time_per_step'] * steps / before:.2f}",
        )
        print("|", " | ".join(cells), "|")


def with_error(values):
    return f"{np.mean(values):.3f} ± {standard_error(values):.3f}"


class Falls(NamedTuple):
    """Fall of the energy from the second to the third quarter of a run."""

    fall: float  # nats per data point
    share: float  # of the whole fall, from the first epoch to the last quarter
    error: float  # standard error of the fall

    @classmethod
    def of(cls, energies):
        """Of the energies of all epochs, per data point."""
        _, second, third, last = np.array_split(np.asarray(energies), 4)
        fall = second.mean() - third.mean()
        error = np.hypot(standard_error(second), standard_error(third))
        return cls(fall, fall / (energies[0] - last.mean()), error)

    @property
    def continues(self):
        """Whether the run has not converged."""
        is_visible = self.fall > max(NUM_ERRORS * self.error, LEAST_FALL)
        return bool(is_visible and (self.share > MOST_SHARE or self.fall > MOST_FALL))


def print_falls(rows, alpha, labels):
    """What the rule says of every run that Adam made."""
    print(
        f"\nα = {alpha:g}\n\n| set | training | fall, nats per data point | share of the ", end=""
    )
    print("whole fall | standard errors | not converged |\n|---|---|---:|---:|---:|---:|")
    for name, label in product(SETS, labels):
        if CANDIDATES[label].kind in ("natural", "stopping"):
            continue
        falls = [Falls.of(energies) for energies in rows[name, label]["energies"]]
        ranges = (
            [one.fall for one in falls],
            [one.share for one in falls],
            [one.fall / one.error for one in falls],
        )
        cells = [f"{min(values):.3g} to {max(values):.3g}" for values in ranges]
        verdict = f"{sum(one.continues for one in falls)} of {len(falls)}"
        print("|", " | ".join((name, CANDIDATES[label].name, *cells, verdict)), "|")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of <name>/<name>.csv.gz")
    parser.add_argument("--results", type=Path, help="folder of finished runs")
    parser.add_argument("--only", nargs="+", choices=CANDIDATES, default=list(CANDIDATES))
    parser.add_argument("--alpha", type=float, nargs="+", default=[0.5, 0.0])
    options = parser.parse_args()
    results = options.results or Path(tempfile.gettempdir()) / "bbalpha-networks"
    results.mkdir(parents=True, exist_ok=True)
    labels = list(dict.fromkeys(["today", *options.only]))
    for alpha in options.alpha:
        rows = {
            (name, label): result(options.data, results, name, alpha, label)
            for label, name in product(labels, SETS)
        }
        print_scores(rows, alpha, labels)
        print_falls(rows, alpha, labels)


if __name__ == "__main__":
    main()
