"""Time until q has closed 99 % of the energy's gap between start and optimum, α = 0.

Ten reference problems, full Gaussian. Every candidate starts at the same q and is a `Candidate`: a
compiled loop over steps, the state before the first, and the q of a state. A first run records q
along the way and finds the number of steps; the time of that many steps is then measured alone.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import SVI, Trace_ELBO, init_to_value
from numpyro.infer.autoguide import AutoMultivariateNormal
from references import Model, cases, gaussian, sampled_energy
from steps import rows_of
from timing import seconds

import bbalpha as bb
from bbalpha.distributions import INITIAL_LOG_VARIANCE
from bbalpha.engine.batches import no_order
from bbalpha.engine.epochs import run_steps, whole_steps
from bbalpha.engine.loop import Plan
from bbalpha.planning import draws_for, optimizer_for

GAP = 0.01  # of the start's energy above the optimum's that may be left
NUM_SAMPLES = 100
FORMER_STEPS, FORMER_BATCH = 10_000, 32
NUMPYRO_STEPS = 20_000
NUMPYRO_RATES = (1e-3, 3e-3, 1e-2, 3e-2)
LOG2_DRAWS = 12  # of the energy that decides
LOOKS = 14  # q is inspected after every fourteenth of the steps so far: 7 %


@dataclass(frozen=True)
class Candidate:
    """A way to train: `run(state, num_steps)`, the first state, and the q of a state."""

    run: Callable
    start: Any
    q_of: Callable
    max_steps: int


@dataclass(frozen=True)
class Found:
    """How many steps a candidate needs; at least so many, if it has not arrived."""

    name: str
    candidate: Candidate
    num_steps: int
    arrived: bool

    def run(self):
        return self.candidate.run(self.candidate.start, self.num_steps)


def ours(problem):
    """The default of `bb.fit`: natural gradients on all rows."""
    rows = rows_of(problem)
    plan = Plan(len(rows.sample_weight), 1, 2000)
    num_samples = draws_for("natural", problem.params, None, problem.num_data)
    optimizer = optimizer_for(plan, "natural", problem.params, num_samples, None)
    settings = plan.batch_size, plan.num_epochs, num_samples
    return _fitted(problem, optimizer, *settings, program=whole_steps)


def former(problem):
    """The former default: Adam with a falling rate on minibatches."""
    rate = optax.cosine_decay_schedule(1e-2, FORMER_STEPS)
    return _fitted(problem, optax.adam(rate), FORMER_BATCH, FORMER_STEPS)


def numpyros(problem, rate):
    """NumPyro's SVI with a full Gaussian on all rows."""
    layout = bb.Layout.of(problem.params)
    data = jax.tree.map(jnp.asarray, problem.data)

    def model():
        prior = dist.Normal(0.0, 1.0).expand([layout.size]).to_event(1)
        params = layout.unflatten(numpyro.sample("params", prior))
        numpyro.factor("log_likelihood", problem.log_likelihood(params, data).sum())

    guide = AutoMultivariateNormal(
        model,
        init_loc_fn=init_to_value(values={"params": layout.flatten(problem.params)}),
        init_scale=math.exp(0.5 * INITIAL_LOG_VARIANCE),
    )
    elbo = Trace_ELBO(num_particles=NUM_SAMPLES, vectorize_particles=True)
    svi = SVI(model, guide, numpyro.optim.Adam(rate), elbo)

    @jax.jit
    def run(state, num_steps):
        return jax.lax.fori_loop(0, num_steps, lambda _, state: svi.update(state)[0], state)

    def q_of(state):
        found = svi.get_params(state)
        return gaussian(found["auto_loc"], found["auto_scale_tril"])

    return Candidate(run, svi.init(jax.random.key(0)), q_of, NUMPYRO_STEPS)


def of_all(say, names=None):
    """For each problem, the steps and seconds of each candidate: `{problem: [(found, time)]}`."""
    results = {}
    for name in names or cases.REFERENCES:
        problem, answer = cases.REFERENCES[name], cases.answers()[name]["alpha=0"]
        gap = answer["start_energy"] - answer["energy"]
        energy = sampled_energy(Model.of(problem), 0.0, 2, LOG2_DRAWS)
        arrived = partial(_is_below, energy, answer["energy"] + GAP * gap)
        say(f"{name}: bbalpha")
        found = [steps_of("bbalpha", ours(problem), arrived)]
        say(f"{name}: former default")
        found.append(steps_of("former default", former(problem), arrived))
        for rate in NUMPYRO_RATES:
            say(f"{name}: NumPyro at rate {rate:g}")
            found.append(steps_of(f"{rate:g}", numpyros(problem, rate), arrived))
        best = min(found[2:], key=lambda one: (not one.arrived, one.num_steps))
        found = [*found[:2], best]
        say(f"{name}: times")
        times = seconds({one.name: one.run for one in found}, repetitions=3)
        if not found[0].arrived:
            times["bbalpha"] = math.inf  # where others have not arrived, their time is a bound
        results[name] = [(one, times[one.name]) for one in found]
    return results


def steps_of(name, candidate, arrived):
    """Run a candidate, looking at q ever more rarely, until it arrives."""
    state, done = candidate.start, 0
    while done < candidate.max_steps:
        num_steps = min(1 + done // LOOKS, candidate.max_steps - done)
        state = candidate.run(state, num_steps)
        done += num_steps
        if arrived(candidate.q_of(state)):
            return Found(name, candidate, done, True)
    return Found(name, candidate, done, False)


def geometric_mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def _is_below(energy, threshold, q):
    return bool(energy(q) <= threshold)


def _fitted(problem, optimizer, batch_size, max_steps, num_samples=NUM_SAMPLES, program=run_steps):
    """The compiled loop inside `bb.fit`, compiled for speed, as `fit` does for large problems."""
    state = bb.init(
        problem.log_likelihood,
        problem.params,
        num_data=problem.num_data,
        key=jax.random.key(0),
        alpha=0.0,
        family=bb.FullGaussian,
        optimizer=optimizer,
        num_samples=num_samples,
    )
    rows = rows_of(problem)

    def run(state_and_order, num_steps):
        state, order = state_and_order
        return program(state, rows, order, jnp.asarray(num_steps), batch_size)[:2]

    start = (state, no_order(rows, batch_size))
    return Candidate(run, start, lambda state_and_order: state_and_order[0].variables.q, max_steps)
