"""Stochastic natural-gradient EP: a server that holds q, and workers that hold data and sites.

`workers` has the workers, `ray_workers` their counterparts on other machines.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from bbalpha.convergence import ConvergenceWarning
from bbalpha.distributions import FullGaussian
from bbalpha.engine.checks import as_keys, check_counts, warn
from bbalpha.message_passing.arguments import (
    Problem,
    ProjectedLikelihood,
    check_positive,
    check_power,
    prepare,
)
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.projections import Projections
from bbalpha.message_passing.results import Found, caller_dtype, cast, posterior_of
from bbalpha.message_passing.workers import LocalWorker, Message, Worker
from bbalpha.posterior import Posterior

TOLERANCE = 0.02  # posterior deviations
FEWEST_ROUNDS = 40
STEP = 0.5  # share of the way to matching moments; not all of it, because all sites move at once
CONSTANT_ROUNDS = 20  # after these, steps shrink as 1/round


def snep(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    *,
    key: Key[Array, ""],
    num_workers: int = 4,
    prior: Any = 1.0,
    alpha: float = 1.0,
    hyperparams: PyTree = None,
    num_draws: int = 10,
    tolerance: float = TOLERANCE,
    max_rounds: int = 400,
    place: Callable[[LocalWorker], Worker] | None = None,
) -> Posterior:
    """The posterior of stochastic natural-gradient EP, with one site per part of the data.

    The rows are divided among workers. In each round, the server sends q to all of them. Each
    worker draws from its tilted distribution, which has the likelihood of all its rows, by Markov
    chains, and moves its site by a natural-gradient step. The new q is the prior times all sites.
    The result is the average over the last half of the rounds. The energy of SNEP cannot be
    computed, so `posterior.energy` is NaN.

    Hasenclever et al. (2017) take gradient steps in the geometry of each site. Here, steps are in
    the geometry of q (So & Turner 2024), which needs far fewer rounds, and sites need not be
    proper.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        key: randomness of the parts and of the chains.
        num_workers: number of parts of the data, with one worker each.
        prior: as for `power_ep`.
        alpha: the power, any number except 0.
        hyperparams: as for `power_ep`.
        num_draws: draws per chain, worker and round; there are 64 chains.
        tolerance: the largest average full step over the last half of the rounds that counts as
            converged, in posterior deviations.
        max_rounds: the most rounds.
        place: moves a worker elsewhere and returns a stand-in for it, for example
            `bbalpha.message_passing.ray_workers.RayWorker`. The result is the same.

    Raises:
        ValueError: if an argument breaks its rule, or a site becomes NaN.
        TypeError: if an argument is of the wrong kind.

    >>> inputs = jnp.array([[1.0, 0.5], [1.0, -1.0], [1.0, 2.0], [1.0, -0.5]])
    >>> labels = jnp.array([1.0, 0.0, 1.0, 0.0])
    >>> posterior = bb.snep(bb.Probit(), inputs, labels, num_workers=2, key=jax.random.key(0))
    >>> posterior.mean.shape
    (2,)
    """
    check_power(alpha, "snep")
    check_counts(num_workers=num_workers, num_draws=num_draws, max_rounds=max_rounds)
    check_positive(tolerance=tolerance)
    key = as_keys(key, 0, "key")
    dtype, began = caller_dtype(), time.perf_counter()
    with in_double_precision():
        problem = prepare(log_likelihood, inputs, targets, prior, hyperparams, FullGaussian)
        if num_workers > problem.num_data:
            raise ValueError(
                "num_workers must not exceed the number of data points; "
                f"got num_workers={num_workers} with {problem.num_data} data points."
            )
        workers = local_workers(problem, num_workers, alpha, num_draws, key)
    if place is None:
        q, num_rounds, converged = serve(workers, max_rounds, tolerance)
    else:
        with ThreadPoolExecutor(num_workers) as pool:  # so that all workers run at once
            placed = [place(worker) for worker in workers]
            q, num_rounds, converged = serve(placed, max_rounds, tolerance, pool.map)
    with in_double_precision():
        mean = jnp.linalg.solve(jnp.asarray(q.precision), jnp.asarray(q.shift))
        found = run(_found, problem, (jnp.asarray(q.precision), mean), dtype)
    found = found._replace(num_sweeps=jnp.array(num_rounds), converged=jnp.array(converged))
    stopped = "converged" if converged else "finished"
    if not converged:
        warn(f"snep did not converge in {num_rounds} rounds.", ConvergenceWarning)
    seconds = time.perf_counter() - began
    return posterior_of(found, problem, alpha, hyperparams, seconds, stopped)


def local_workers(
    problem: Problem, num_workers: int, alpha: float, num_draws: int, key: Key[Array, ""]
) -> list[LocalWorker]:
    """Workers in this process, with random parts of the data and almost empty sites."""
    for_parts, *for_workers = jax.random.split(key, num_workers + 1)
    rows = np.asarray(jax.random.permutation(for_parts, problem.num_data))
    workers: list[LocalWorker] = []
    for part, own in zip(np.array_split(rows, num_workers), for_workers, strict=True):
        data = (problem.inputs, problem.targets)
        inputs, targets = jax.tree.map(lambda leaf, part=part: leaf[part], data)
        model = (problem.log_likelihood, inputs, targets, problem.prior_argument)
        # A diagonal problem does not reduce projections, so that workers share coordinates.
        share = Problem(*model, problem.hyperparams, is_diagonal=True, is_traced=False)
        workers.append(LocalWorker(share, num_workers, alpha, num_draws, own))
    return workers


def serve(
    workers: Sequence[Worker], max_rounds: int, tolerance: float, ask: Callable = map
) -> tuple[Message, int, bool]:
    """The average q over the last half of the rounds, their number, and whether q converged.

    Args:
        workers: The workers.
        max_rounds: The most rounds.
        tolerance: As for `snep`.
        ask: Applies a function to all workers, like `map`, perhaps in parallel.

    Raises:
        ValueError: if a site is not finite.
    """
    q = _product([worker.site() for worker in workers])
    reached: list[Message] = []
    full_steps: list[Message] = []
    for number in range(max_rounds):
        step = STEP * min(1.0, CONSTANT_ROUNDS / (number + 1))
        sites = list(ask(partial(_site_after, q=q, step=step), workers))
        _check_finite(sites, number)
        after = _product(sites)
        full_steps.append(Message(*((new - old) / step for new, old in zip(after, q, strict=True))))
        reached.append(after)
        q, half = after, len(reached) // 2
        if len(reached) >= FEWEST_ROUNDS:
            found = _average(reached[half:])
            if _length(_average(full_steps[half:]), found) <= tolerance:
                return found, len(reached), True
    return _average(reached[len(reached) // 2 :]), len(reached), False


def _site_after(worker: Worker, q: Message, step: float) -> Message:
    return worker.update(q, step)


def _product(sites: Sequence[Message]) -> Message:
    """The prior times all sites."""
    precision = np.eye(len(sites[0].shift)) + sum(site.precision for site in sites)
    return Message(precision, np.sum([site.shift for site in sites], axis=0))


def _average(messages: Sequence[Message]) -> Message:
    return Message(*(np.mean([message[place] for message in messages], axis=0) for place in (0, 1)))


def _length(change: Message, q: Message) -> float:
    """The largest change of a mean (in deviations of q) or a log-deviation, to first order."""
    covariance = np.linalg.inv(q.precision)
    variances = np.diag(covariance)
    means = covariance @ (change.shift - change.precision @ covariance @ q.shift)
    shrunk = np.diag(covariance @ change.precision @ covariance)
    return float(
        max(np.max(np.abs(means) / np.sqrt(variances)), np.max(abs(shrunk / variances)) / 2)
    )


def _check_finite(sites: Sequence[Message], number: int) -> None:
    for place, site in enumerate(sites):
        if not (np.isfinite(site.precision).all() and np.isfinite(site.shift).all()):
            raise ValueError(
                "log_likelihood must be finite with a finite gradient; got a site that is not for "
                f"worker {place} in round {number}."
            )


def _found(problem: Problem, q: tuple[Array, Array], dtype: str) -> Found:
    """The compiled part of the result."""
    precision, mean = q
    nothing = jnp.zeros((0, len(mean)))
    projections = Projections(nothing, jnp.zeros(0), problem.prior, None)
    covariance = jnp.linalg.inv(precision)
    cholesky = jnp.linalg.cholesky(0.5 * (covariance + covariance.T))
    unknown = jnp.array(jnp.nan)
    return Found(
        cast(projections.posterior(mean, cholesky), dtype),
        cast(problem.prior.distribution, dtype),
        cast(unknown, dtype),
        None,
        jnp.zeros(0),
        None,
        jnp.array(0),
        jnp.array(False),
    )
