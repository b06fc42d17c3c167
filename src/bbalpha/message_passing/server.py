"""Stochastic natural-gradient EP: a server that holds q, and workers that hold data and sites."""

import time
from collections.abc import Sequence
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
FEWEST_ROUNDS = 100
STEP = 0.5  # times the number of workers, because each site is that much wider than q
CONSTANT_ROUNDS = 60  # after which steps shrink as 1/round


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
    num_draws: int = 30,
    tolerance: float = TOLERANCE,
    max_rounds: int = 200,
) -> Posterior:
    """The posterior of stochastic natural-gradient EP, with one site per part of the data.

    Rows are dealt to workers. In each round the server sends q to all of them; each draws from its
    tilted distribution by Markov chains and moves its site by a natural-gradient step; q becomes
    the prior times the sites. The result is the average over the last half of the rounds. SNEP has
    no energy that could be computed: `posterior.energy` is NaN.

    Args:
        log_likelihood: as for `power_ep`.
        inputs: as for `power_ep`.
        targets: as for `power_ep`.
        key: randomness of the parts and of the chains.
        num_workers: how many parts.
        prior: as for `power_ep`.
        alpha: the power, any number except 0.
        hyperparams: as for `power_ep`.
        num_draws: draws per chain, worker and round; there are 64 chains.
        tolerance: how far, in posterior deviations, averages over the third and the last quarter of
            the rounds may differ at the end.
        max_rounds: the most rounds.

    Raises:
        ValueError: if an argument breaks its rule.
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
    q, num_rounds, converged = serve(workers, max_rounds, tolerance)
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
) -> list[Worker]:
    """Workers in this process, with random parts of the data and sites that say little."""
    for_parts, *for_workers = jax.random.split(key, num_workers + 1)
    rows = np.asarray(jax.random.permutation(for_parts, problem.num_data))
    size = problem.inputs.shape[1]
    start = Message(np.eye(size) / num_workers, np.zeros(size))
    workers: list[Worker] = []
    for part, own in zip(np.array_split(rows, num_workers), for_workers, strict=True):
        data = (problem.inputs, problem.targets)
        inputs, targets = jax.tree.map(lambda leaf, part=part: leaf[part], data)
        model = (problem.log_likelihood, inputs, targets, problem.prior_argument)
        # A diagonal problem keeps its projections unreduced: workers meet in the same coordinates.
        share = Problem(*model, problem.hyperparams, is_diagonal=True, is_traced=False)
        workers.append(LocalWorker(share, start, alpha, num_draws, own))
    return workers


def serve(
    workers: Sequence[Worker], max_rounds: int, tolerance: float
) -> tuple[Message, int, bool]:
    """Q averaged over the last half of the rounds, how many there were, and whether it settled."""
    sites = [worker.site() for worker in workers]
    history: list[Message] = []
    for number in range(max_rounds):
        q = _product(sites)
        step = STEP * len(workers) * min(1.0, CONSTANT_ROUNDS / (number + 1))
        sites = [worker.update(q, step) for worker in workers]
        history.append(_product(sites))
        quarter = len(history) // 4
        if len(history) >= FEWEST_ROUNDS and len(history) % 4 == 0:
            third, last = _average(history[2 * quarter : 3 * quarter]), _average(history[-quarter:])
            if _difference(third, last) <= tolerance:
                return _average(history[2 * quarter :]), len(history), True
    return _average(history[len(history) // 2 :]), len(history), False


def _product(sites: Sequence[Message]) -> Message:
    """The prior times all sites."""
    precision = np.eye(len(sites[0].shift)) + sum(site.precision for site in sites)
    return Message(precision, np.sum([site.shift for site in sites], axis=0))


def _average(messages: Sequence[Message]) -> Message:
    return Message(*(np.mean([message[place] for message in messages], axis=0) for place in (0, 1)))


def _difference(one: Message, other: Message) -> float:
    """The largest difference of means and log-deviations, in deviations of the second."""
    covariances = [np.linalg.inv(message.precision) for message in (one, other)]
    deviations = [np.sqrt(np.diag(covariance)) for covariance in covariances]
    means = [c @ message.shift for c, message in zip(covariances, (one, other), strict=True)]
    moved = np.abs(means[0] - means[1]) / deviations[1]
    return float(max(moved.max(), np.abs(np.log(deviations[0] / deviations[1])).max()))


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
