"""Natural-gradient steps: along the inverse Fisher information times the gradient, guarded.

In coordinates in which that information is the identity, the length of a step counts in posterior
deviations. The rate adapts: it grows while successive gradients agree and falls when they point
back. A step that would raise the energy on the same data and draws, or leave the finite region, is
not taken, and the next one is shorter. Prior scales and hyper-parameters, which have no Fisher
information, move by Adam.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, PyTree

from bbalpha.distributions import under_prior
from bbalpha.engine.arrays import on_device
from bbalpha.engine.noise import MATCHED_SHARE

LOWEST_RATE = 0.1  # relative to the highest; below it averaging is better than a smaller rate
FASTER, SLOWER = 1.15, 0.7  # changes of the rate when successive gradients agree or disagree
AGREEMENT = 0.1  # cosine between successive gradients from which they count as agreeing
QUIET = 0.05  # length of a gradient, in posterior deviations, that is no reason for a lower rate
FIRST_RADIUS = 8.0  # posterior deviations that the first step may take
SHORTER = 0.25  # how much of a refused step the next one may take
ALLOWED_RISE = 1.0  # nats; steps along a path gradient may raise the energy by its noise
ROUNDING = 1e-5  # of the energy, in single precision
TRAVEL_AT_ZERO = 10.0  # sum of rates at α = 0, before it rises to its value over as much again
ADAM_RATE = 0.05  # of prior scales and hyper-parameters, times the highest rate
ADAM = optax.scale_by_adam()


class Record(NamedTuple):
    """Sums over some steps: of the variables, of q's means and log-deviations, of the rates."""

    variables: Any
    mean: Float[Array, " params"]
    log_deviation: Float[Array, " params"]
    travel: Float[Array, ""]
    num_steps: Int[Array, ""]


class NaturalState(NamedTuple):
    """What a natural-gradient step needs of the last one."""

    highest_rate: Float[Array, ""]
    rate: Float[Array, ""]
    radius: Float[Array, ""]  # the longest step allowed, in posterior deviations
    coordinates: PyTree  # of the last gradient
    adam: PyTree
    travel: Float[Array, ""]  # sum of all rates; an error shrinks e-fold with each 1
    record: Record

    @property
    def share_of_alpha(self) -> Float[Array, "..."]:
        """How much of α counts by now: nothing at first, then more and more, then all.

        Far from the posterior few draws carry all the weight at α > 0, and q would widen along the
        gradient. Steps at α = 0 lead near it first. The difference comes before the division: in
        the other order, some of the kernels that compute α again would round 0 to 1e-8.
        """
        return jnp.clip((self.travel - TRAVEL_AT_ZERO) / TRAVEL_AT_ZERO, 0.0, 1.0)

    def at_full_alpha(self) -> "NaturalState":
        """The same state, with all of α."""
        travel = max(float(self.travel), 2 * TRAVEL_AT_ZERO)
        return self._replace(travel=on_device(travel, self.travel.dtype))

    @property
    def is_settled(self) -> bool:
        """Whether all steps of the record had the full α."""
        return float(self.travel) - float(self.record.travel) >= 2 * TRAVEL_AT_ZERO


def highest_rate(num_params: int, num_samples: int, batch_share: float, matched: bool) -> float:
    """The largest rate at which noisy steps still contract.

    A step multiplies an error by I − ρ S, where S is the covariance of K/2 pairs of draws. Its mean
    square shrinks for ρ < 2/(1 + 2 (D + 1)/K), the fastest at half of that; matched draws have
    S = I. A minibatch of a share of the data has a noise of its own, of variance 1/share.
    """
    is_matched = matched and num_params <= MATCHED_SHARE * num_samples
    of_draws = 1.0 if is_matched else 1 / (1 + 2 * (num_params + 1) / num_samples)
    return min(of_draws, batch_share)


def natural_gradients(highest_rate: float) -> optax.GradientTransformationExtraArgs:
    """An optimizer for the variables of a fit; its states and updates share one compiled program.

    Its `update` takes the natural gradient of q with its coordinates, the energy (`value`), the
    energy as a function of the variables (`value_fn`), and the prior.
    """
    rate = on_device(highest_rate)
    return optax.GradientTransformationExtraArgs(
        Partial(_init_natural, rate), Partial(_update_natural)
    )


def empty_record(variables: Any) -> Record:
    """The sums over no steps."""
    zeros, zero = _zeros(variables), on_device(0.0, variables.q.mean.dtype)
    return Record(zeros, zeros.q.mean, zeros.q.mean, zero, on_device(np.int32(0)))


def _init_natural(highest_rate: Float[Array, ""], variables: Any) -> NaturalState:
    dtype = variables.q.mean.dtype
    return NaturalState(
        highest_rate=on_device(highest_rate, dtype),
        rate=on_device(highest_rate, dtype),
        radius=on_device(FIRST_RADIUS, dtype),
        coordinates=_no_coordinates(variables.q),
        adam=_zeros(jax.eval_shape(ADAM.init, _rest(variables))),
        travel=on_device(0.0, dtype),
        record=empty_record(variables),
    )


def _update_natural(
    gradient: Any,
    state: NaturalState,
    variables: Any,
    *,
    value: Float[Array, ""],
    value_fn: Any,
    prior: Any,
    coordinates: PyTree,
    **_: Any,
) -> tuple[Any, NaturalState]:
    """The update of all variables, zero if the step is refused, and the next state."""
    length = jnp.sqrt(_dot(coordinates, coordinates))
    rate = _adapted_rate(state, coordinates)
    used = jnp.minimum(rate, state.radius / jnp.maximum(length, jnp.finfo(length.dtype).tiny))
    rest, adam = ADAM.update(_rest(gradient), state.adam)
    log_prior_scale, hyperparams = _scaled(-ADAM_RATE * state.highest_rate, rest)
    update = variables._replace(
        q=_scaled(-used, gradient.q), log_prior_scale=log_prior_scale, hyperparams=hyperparams
    )
    moved = value_fn(optax.apply_updates(variables, update))
    is_taken = moved <= value + ALLOWED_RISE + ROUNDING * jnp.abs(value)  # false if not finite
    traveled = jnp.where(is_taken, used, 0.0)
    radius = jnp.where(used < rate, 2 * state.radius, state.radius)
    next_state = NaturalState(
        highest_rate=state.highest_rate,
        rate=rate,
        radius=jnp.where(is_taken, radius, SHORTER * used * length),
        coordinates=coordinates,
        adam=adam,
        travel=state.travel + traveled,
        record=_added(state.record, variables, prior, traveled),
    )
    return jax.tree.map(lambda leaf: jnp.where(is_taken, leaf, 0.0), update), next_state


def _no_coordinates(q: Any) -> PyTree:
    """Zeros in the form of the coordinates of a gradient."""
    noise = jax.eval_shape(q.noise, jax.random.key(0))
    draws = jax.ShapeDtypeStruct((1, *noise.shape), noise.dtype)
    _, coordinates = jax.eval_shape(q.natural_gradient, draws, draws, q)
    return _zeros(coordinates)


def _zeros(tree: PyTree) -> PyTree:
    """Zeros in the shapes of a tree, made on the host."""
    return jax.tree.map(lambda leaf: on_device(np.zeros(leaf.shape, leaf.dtype)), tree)


def _adapted_rate(state: NaturalState, coordinates: PyTree) -> Float[Array, ""]:
    """The rate after comparing a gradient with the last one."""
    product, square = _dot(coordinates, state.coordinates), _dot(coordinates, coordinates)
    threshold = AGREEMENT * jnp.sqrt(square * _dot(state.coordinates, state.coordinates))
    is_faster = (product > threshold) | (square < QUIET**2)
    factor = jnp.where(is_faster, FASTER, jnp.where(product < -threshold, SLOWER, 1.0))
    return jnp.clip(state.rate * factor, LOWEST_RATE * state.highest_rate, state.highest_rate)


def _added(record: Record, variables: Any, prior: Any, used: Float[Array, ""]) -> Record:
    """The record with one more step."""
    q = under_prior(variables.q, prior)
    now = (variables, q.mean, 0.5 * jnp.log(q.variance), used, jnp.ones((), jnp.int32))
    return Record(*jax.tree.map(jnp.add, tuple(record), now))


def _rest(variables: Any) -> tuple[Any, PyTree]:
    """The variables besides q."""
    return variables.log_prior_scale, variables.hyperparams


def _scaled(factor: Float[Array, ""], tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: factor * leaf, tree)


def _dot(tree: PyTree, other: PyTree) -> Float[Array, ""]:
    products = jax.tree.map(lambda leaf, of_other: jnp.sum(leaf * of_other), tree, other)
    return jnp.sum(jnp.stack(jax.tree.leaves(products)))
