"""Workers of SNEP: each holds a part of the data and a site, and answers messages about q.

A message is a pair of NumPy arrays, the natural parameters of a Gaussian over z, where the prior is
N(0, I); so a worker may live in another process or on another machine.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bbalpha.message_passing.arguments import Problem
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.tilted import Natural

NUM_CHAINS = 64
NUM_HALVINGS = 12  # of a step that would leave a Gaussian improper
MOST_SHRINKS = 50  # of a slice; each draw is accepted long before


class Message(NamedTuple):
    """Natural parameters of a Gaussian over z: a precision matrix and a shift."""

    precision: np.ndarray
    shift: np.ndarray


@runtime_checkable
class Worker(Protocol):
    """What the server asks of a worker, here or elsewhere."""

    def site(self) -> Message:
        """The worker's present site."""
        ...

    def update(self, q: Message, step: float) -> Message:
        """The worker's site after one step, given what the server holds."""
        ...


class LocalWorker:
    """A worker in this process: a part of the data, chains that draw from its tilted distribution.

    The step is the natural-gradient step of Teh et al. (2015): in the moments of the site, by the
    difference of the moments of the tilted distribution, from draws, and of q.
    """

    def __init__(
        self, problem: Problem, start: Message, alpha: float, num_draws: int, key: Key[Array, ""]
    ):
        self._problem, self._site, self._key = problem, start, key
        self._alpha, self._num_draws = alpha, num_draws
        self._chains: Any = np.zeros((NUM_CHAINS, len(start.shift)))

    def site(self) -> Message:
        """The worker's present site."""
        return self._site

    def update(self, q: Message, step: float) -> Message:
        """The worker's site after one step, given what the server holds."""
        self._key, key = jax.random.split(self._key)
        with in_double_precision():
            numbers = (jnp.asarray(self._alpha, float), jnp.asarray(step, float), key)
            given = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), (q, self._site))
            state = (Natural(*given[0]), Natural(*given[1]), jnp.asarray(self._chains, float))
            site, self._chains = run(worker_program, self._problem, state, numbers, self._num_draws)
        self._site = Message(np.asarray(site.precision), np.asarray(site.shift))
        return self._site


def worker_program(
    problem: Problem,
    state: tuple[Natural, Natural, Array],
    numbers: tuple[Array, Array, Array],
    num_draws: int,
) -> tuple[Natural, Array]:
    """The site after a step, and where the chains are."""
    q, site, chains = state
    alpha, step, key = numbers
    cavity = Natural(q.precision - alpha * site.precision, q.shift - alpha * site.shift)
    rows = problem.prior.whiten(problem.inputs)
    factors = problem.factors(problem.projections())

    def log_likelihood(z: Float[Array, " params"]) -> Float[Array, ""]:
        return alpha * jnp.sum(factors.log_prob((rows @ z)[None]))

    draws, chains = _elliptical_slices(log_likelihood, cavity, chains, num_draws, key)
    mean = jnp.mean(draws, axis=0)
    second = draws.T @ draws / len(draws)
    changes = _moments(q)
    changes = (mean - changes[0], second - changes[1])
    steps = step * 0.5 ** jnp.arange(NUM_HALVINGS)
    tried = jax.vmap(lambda step: _moved(site, changes, step))(steps)
    is_fine = jax.vmap(lambda new: _is_proper(q, site, new, alpha))(tried)
    place = jnp.argmax(is_fine)  # the longest step that keeps all Gaussians proper
    return jax.tree.map(
        lambda new, old: jnp.where(is_fine.any(), new[place], old), tried, site
    ), chains


def _moments(gaussian: Natural) -> tuple[Array, Array]:
    """Mean and second moment."""
    covariance = jnp.linalg.inv(gaussian.precision)
    mean = covariance @ gaussian.shift
    return mean, covariance + mean[:, None] * mean[None]


def _moved(site: Natural, changes: tuple[Array, Array], step: Array) -> Natural:
    """The site after a step in its moments."""
    mean, second = (
        old + step * change for old, change in zip(_moments(site), changes, strict=True)
    )
    covariance = second - mean[:, None] * mean[None]
    precision = jnp.linalg.inv(0.5 * (covariance + covariance.T))
    return Natural(precision, precision @ mean)


def _is_proper(q: Natural, old: Natural, new: Natural, alpha: Array) -> Array:
    """Whether the site, q with it, and the next cavity are proper."""
    rest = q.precision - old.precision
    matrices = jnp.stack([new.precision, rest + new.precision, rest + (1 - alpha) * new.precision])
    return jnp.all(jnp.isfinite(jnp.linalg.cholesky(matrices)))


def _elliptical_slices(
    log_likelihood: Any, cavity: Natural, chains: Array, num_draws: int, key: Array
) -> tuple[Float[Array, "draws params"], Array]:
    """Draws of the tilted distribution by elliptical slice sampling (Murray et al. 2010)."""
    cholesky = jnp.linalg.cholesky(cavity.precision)
    center = jax.scipy.linalg.cho_solve((cholesky, True), cavity.shift)

    def one(z: Array, key: Array) -> Array:
        for_ellipse, for_height, for_angle = jax.random.split(key, 3)
        noise = jax.random.normal(for_ellipse, z.shape)
        other = jax.scipy.linalg.solve_triangular(cholesky, noise, lower=True, trans=1)
        height = log_likelihood(z) + jnp.log(jax.random.uniform(for_height))
        own = z - center
        angle = jax.random.uniform(for_angle, maxval=2 * jnp.pi)

        def at(angle: Array) -> Array:
            return center + own * jnp.cos(angle) + other * jnp.sin(angle)

        def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
            angle, low, high, key, count = state
            low = jnp.where(angle < 0, angle, low)
            high = jnp.where(angle < 0, high, angle)
            key, fresh = jax.random.split(key)
            angle = low + (high - low) * jax.random.uniform(fresh)
            return angle, low, high, key, count + 1

        start = (angle, angle - 2 * jnp.pi, angle, for_angle, jnp.array(0))
        found = jax.lax.while_loop(
            lambda state: (log_likelihood(at(state[0])) <= height) & (state[4] < MOST_SHRINKS),
            body,
            start,
        )
        return jnp.where(found[4] < MOST_SHRINKS, at(found[0]), z)

    def sweep(chains: Array, key: Array) -> tuple[Array, Array]:
        chains = jax.vmap(one)(chains, jax.random.split(key, len(chains)))
        return chains, chains

    chains, draws = jax.lax.scan(sweep, chains, jax.random.split(key, num_draws))
    return draws.reshape(-1, chains.shape[1]), chains
