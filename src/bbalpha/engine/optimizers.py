"""The default optimizers, made so that many fits share a compiled program."""

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, PyTree

from bbalpha.engine.arrays import on_device

Optimizer = optax.GradientTransformation | optax.MultiSteps

RATE = 7e-3  # highest rate of the default Adam
HELD = 0.7  # share of a run after which the rate begins to fall
WAIT = 0.4  # share of a run after which the scales of a learned prior begin to change


@cache
def adam(rate: float) -> optax.GradientTransformation:
    """Adam at a constant rate: one object per rate, because compiled programs are cached by it."""
    return optax.adam(rate)


def decaying_adam(num_steps: int) -> optax.GradientTransformation:
    """Adam at a rate of 7e-3, which falls to 0 along a cosine in the last 30 % of a run.

    At the authors' constant rate of 1e-3, a log-variance that starts at −10 needs ten thousand
    steps to reach 0, so most runs would end before q has spread out. A rate that falls from the
    start needs twice as many steps as this one (docs/benchmarks.md). The scales of a learned prior
    wait until q has found its place: if they were learned from the start, they would shrink around
    weights that have not moved yet, and keep them there. The optimizer sees all variables as one
    vector, because a dozen small arrays take longer to compile and to update. The number of steps
    is a leaf of the result, so runs of any length share one compiled program.
    """
    horizon = on_device(num_steps)
    return optax.GradientTransformation(
        Partial(_init_decaying_adam, horizon), Partial(_update_decaying_adam, horizon)
    )


def _decaying_adam(num_steps: Int[Array, ""]) -> optax.GradientTransformation:
    def rate(count: Any) -> Float[Array, ""]:
        share = jnp.clip((count / num_steps - HELD) / (1 - HELD), 0.0, 1.0)
        return 0.5 * RATE * (1 + jnp.cos(jnp.pi * share))

    return optax.flatten(optax.adam(rate))


def _init_decaying_adam(num_steps: Int[Array, ""], params: PyTree) -> PyTree:
    """The state of Adam before its first step: zeros, made on the host."""
    shapes = jax.eval_shape(_decaying_adam(num_steps).init, params)
    return jax.tree.map(lambda leaf: on_device(np.zeros(leaf.shape, leaf.dtype)), shapes)


def _update_decaying_adam(num_steps: Int[Array, ""], *args: PyTree) -> PyTree:
    result: Any = _decaying_adam(num_steps).update(*args)
    updates, state = result
    scales = getattr(updates, "log_prior_scale", None)
    if scales is None:
        return updates, state
    waits = state[0].count <= WAIT * num_steps
    scales = jax.tree.map(lambda scale: jnp.where(waits, 0, scale), scales)
    return updates._replace(log_prior_scale=scales), state


def as_tree(optimizer: Optimizer) -> optax.GradientTransformation:
    """The optimizer as a pytree, so that a state that holds it can be passed to compiled code."""
    is_plain = isinstance(optimizer, optax.GradientTransformation)
    if is_plain and isinstance(optimizer.update, Partial):
        return optimizer
    kind = type(optimizer) if is_plain else optax.GradientTransformation
    return kind(Partial(optimizer.init), Partial(optimizer.update))
