"""Workers of SNEP: each holds a part of the data and a site, and answers messages about q.

A message is a pair of NumPy arrays, the natural parameters of a Gaussian over z, where the prior is
N(0, I). So a worker may also run in another process or on another machine.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from bbalpha.message_passing.arguments import Problem, in_64_bits
from bbalpha.message_passing.programs import in_double_precision, run
from bbalpha.message_passing.sites import keep_proper
from bbalpha.message_passing.tilted import Natural

NUM_CHAINS = 64
MOST_SHRINKS = 50  # of a slice; every draw is accepted long before
LEAST_LEFT = 0.25  # share of q's precision left in any direction after all workers have moved


class Message(NamedTuple):
    """Natural parameters of a Gaussian over z: a precision matrix and a shift."""

    precision: np.ndarray
    shift: np.ndarray


class WorkerState(NamedTuple):
    """The changing state of a worker: its site, its chains, and the data of its key."""

    site: Message
    chains: np.ndarray
    key: np.ndarray


@runtime_checkable
class Worker(Protocol):
    """What the server needs of a worker, here or elsewhere."""

    def site(self) -> Message:
        """The worker's present site."""
        ...

    def update(self, q: Message, step: float) -> Message:
        """The worker's site after one step, given the server's q."""
        ...


class LocalWorker:
    """A worker in this process: a part of the data, chains that draw from its tilted distribution.

    The step is a natural-gradient step in the geometry of q = N(m, L Lᵀ). In the coordinates
    u = L⁻¹(z − m), with E over the tilted distribution of a power α of the worker's likelihood pₖ,
    the natural parameters of the site fₖ change by

        shift: E[u]/α,   precision: −(E[u uᵀ] − I)/α.

    By Stein's identity, u may be replaced by r = α ∇ log(pₖ/fₖ), and u uᵀ − I by u rᵀ made
    symmetric. Close to the fixed point, r is small, so these averages have far less noise; the
    shorter one of r and u is used. Both are averages over draws, so noise does not bias a step.
    """

    def __init__(
        self,
        problem: Problem,
        num_workers: int,
        alpha: float,
        num_draws: int,
        key: Key[Array, ""],
    ):
        size = problem.inputs.shape[1]
        self._problem = problem
        self._key, self._impl = np.asarray(jax.random.key_data(key)), jax.random.key_impl(key)
        self._num_workers, self._alpha, self._num_draws = num_workers, alpha, num_draws
        self._site = Message(np.zeros((size, size)), np.zeros(size))
        self._chains = np.zeros((NUM_CHAINS, size))

    def site(self) -> Message:
        """The worker's present site."""
        return self._site

    def update(self, q: Message, step: float) -> Message:
        """The worker's site after one step, given the server's q."""
        key, own = jax.random.split(
            jax.random.wrap_key_data(jnp.asarray(self._key), impl=self._impl)
        )
        self._key = np.asarray(jax.random.key_data(key))
        with in_double_precision():
            given = (q, self._site, self._chains, self._alpha, step, self._num_workers)
            q64, site64, chains, *numbers = (in_64_bits(part) for part in given)
            state = (Natural(*q64), Natural(*site64), chains)
            settings = (*numbers, own)
            site, chains = run(worker_program, self._problem, state, settings, self._num_draws)
        self._site = Message(np.asarray(site.precision), np.asarray(site.shift))
        self._chains = np.asarray(chains)
        return self._site

    def state(self) -> WorkerState:
        """The state that the next step needs in addition to the data."""
        return WorkerState(self._site, self._chains, self._key)

    def restore(self, state: WorkerState) -> None:
        """Continue from an earlier state of this worker, or of one with the same data."""
        self._site, self._chains, self._key = state


def worker_program(
    problem: Problem,
    state: tuple[Natural, Natural, Array],
    settings: tuple[Array, Array, Array, Array],
    num_draws: int,
) -> tuple[Natural, Array]:
    """The site after a step, and the state of the chains."""
    q, site, chains = state
    alpha, step, num_workers, key = settings
    half = jnp.linalg.cholesky(q.precision)  # L⁻ᵀ
    mean = jax.scipy.linalg.cho_solve((half, True), q.shift)
    spread = jax.scipy.linalg.solve_triangular(half, jnp.eye(len(mean)), lower=True).T  # L
    own = Natural(
        spread.T @ site.precision @ spread, spread.T @ (site.shift - site.precision @ mean)
    )
    alpha = keep_proper(alpha, jnp.linalg.eigvalsh(own.precision)[-1])
    projections = problem.projections()
    factors, rows = problem.factors(projections), projections.rows @ spread
    center = projections.rows @ mean

    def log_ratio(u: Float[Array, " params"]) -> Float[Array, ""]:
        """Log pₖ/fₖ, up to a constant."""
        log_site = own.shift @ u - 0.5 * u @ own.precision @ u
        return jnp.sum(factors.log_prob((center + rows @ u)[None])) - log_site

    start = (chains - mean[None]) @ half
    draws = _elliptical_slices(lambda u: alpha * log_ratio(u), start, num_draws, key)
    shift, precision = _natural_gradient(draws, alpha * jax.vmap(jax.grad(log_ratio))(draws))
    # All workers together may remove only a share of the precision in any direction.
    loss = -num_workers * jnp.linalg.eigvalsh(precision / alpha)[0]
    step = jnp.minimum(step, (1 - LEAST_LEFT) / jnp.maximum(loss, 0.0)) / alpha
    rise = half @ precision @ half.T
    push = half @ shift + rise @ mean
    moved = Natural(site.precision + step * rise, site.shift + step * push)
    return moved, mean[None] + draws[-NUM_CHAINS:] @ spread.T


def _natural_gradient(
    draws: Float[Array, "draws params"], residuals: Float[Array, "draws params"]
) -> tuple[Float[Array, " params"], Float[Array, "params params"]]:
    """Changes of shift and precision, from the draws u or from the residuals r."""
    count, size = draws.shape
    second = draws.T @ residuals / count
    is_near = jnp.sum(jnp.square(residuals)) < jnp.sum(jnp.square(draws))
    shift = jnp.where(is_near, jnp.mean(residuals, axis=0), jnp.mean(draws, axis=0))
    excess = draws.T @ draws / count - jnp.eye(size)
    return shift, -jnp.where(is_near, 0.5 * (second + second.T), excess)


def _elliptical_slices(
    log_ratio: Any, chains: Array, num_draws: int, key: Array
) -> Float[Array, "draws params"]:
    """Draws from N(0, I) times a ratio, by elliptical slice sampling (Murray et al. 2010)."""

    def one(u: Array, key: Array) -> Array:
        for_ellipse, for_height, for_angle = jax.random.split(key, 3)
        other = jax.random.normal(for_ellipse, u.shape)
        height = log_ratio(u) + jnp.log(jax.random.uniform(for_height))
        angle = jax.random.uniform(for_angle, maxval=2 * jnp.pi)

        def at(angle: Array) -> Array:
            return u * jnp.cos(angle) + other * jnp.sin(angle)

        def body(state: tuple[Array, ...]) -> tuple[Array, ...]:
            angle, low, high, key, count = state
            low = jnp.where(angle < 0, angle, low)
            high = jnp.where(angle < 0, high, angle)
            key, fresh = jax.random.split(key)
            angle = low + (high - low) * jax.random.uniform(fresh)
            return angle, low, high, key, count + 1

        start = (angle, angle - 2 * jnp.pi, angle, for_angle, jnp.array(0))
        found = jax.lax.while_loop(
            lambda state: (log_ratio(at(state[0])) <= height) & (state[4] < MOST_SHRINKS),
            body,
            start,
        )
        return jnp.where(found[4] < MOST_SHRINKS, at(found[0]), u)

    def sweep(chains: Array, key: Array) -> tuple[Array, Array]:
        chains = jax.vmap(one)(chains, jax.random.split(key, len(chains)))
        return chains, chains

    _, draws = jax.lax.scan(sweep, chains, jax.random.split(key, num_draws))
    return draws.reshape(-1, chains.shape[1])
