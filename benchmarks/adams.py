"""Adam for the comparison of networks: along a schedule, or until the energy stops falling."""

from functools import cache, partial
from itertools import pairwise
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax.tree_util import Partial

CHECK_STEPS = 250  # about so many steps pass between two looks of the stopping rule
FEWEST_STEPS = 1000


def is_over(energies, num_epochs, num_batches):
    """Whether the mean energy no longer fell from the third quarter to the last."""
    epochs = jnp.arange(len(energies))
    ends = [num_epochs * part // 4 for part in (2, 3, 4)]
    third, last = (
        _moments(jnp.asarray(energies), (epochs >= begin) & (epochs < end))
        for begin, end in pairwise(ends)
    )
    noise = jnp.sqrt(third[1] + last[1])
    is_time = (num_epochs % max(1, CHECK_STEPS // num_batches) == 0) & (
        num_epochs * num_batches >= FEWEST_STEPS
    )
    return is_time & (third[0] - last[0] <= 2 * noise)


def _moments(energies, chosen):
    """The mean of the chosen energies, and its variance."""
    count = jnp.maximum(jnp.sum(chosen), 2)
    mean = jnp.sum(jnp.where(chosen, energies, 0.0)) / count
    squares = jnp.sum(jnp.where(chosen, jnp.square(energies - mean), 0.0))
    return mean, squares / (count - 1) / count


def latest_switch(decay, num_epochs):
    return int(num_epochs / (1 + decay))


@cache
def bound(function, argument):
    """`partial`, one object per pair, because compiled programs are cached by it."""
    return partial(function, argument)


class StoppingState(NamedTuple):
    """State of Adam with the stopping rule: energies per epoch, the step from which it falls."""

    adam: optax.OptState
    count: jax.Array
    energies: jax.Array
    switch: jax.Array  # 0: not yet


def stopping_adam(rate, decay, num_batches, num_steps):
    """Adam at a constant rate until the energy stops falling, then along a cosine to 0."""
    settings = (rate, decay, num_batches, num_steps // num_batches)
    return optax.GradientTransformationExtraArgs(
        Partial(bound(_init_stopping, settings)), Partial(bound(_update_stopping, settings))
    )


def _init_stopping(settings, variables):
    zero = jnp.zeros((), jnp.int32)
    return StoppingState(optax.scale_by_adam().init(variables), zero, jnp.zeros(settings[3]), zero)


def _update_stopping(settings, gradient, state, variables, *, value, **_):
    rate, decay, num_batches, num_epochs = settings
    update, adam = optax.scale_by_adam().update(gradient, state.adam)
    count = state.count + 1
    energies = state.energies.at[state.count // num_batches].add(value / num_batches)
    done = count // num_batches
    stops = is_over(energies, done, num_batches) | (done >= latest_switch(decay, num_epochs))
    stops = stops & (count % num_batches == 0) & (state.switch == 0)
    since = (state.count - state.switch) / jnp.maximum(decay * state.switch, 1.0)
    falling = 0.5 * (1 + jnp.cos(jnp.pi * jnp.minimum(since, 1.0)))
    rate = rate * jnp.where(state.switch > 0, falling, 1.0)
    update = jax.tree.map(lambda leaf: -rate * leaf, update)
    return update, StoppingState(adam, count, energies, jnp.where(stops, count, state.switch))


def scheduled_adam(schedule, rate, num_steps):
    """Adam whose rate and steps are leaves, so that all runs share one compiled program."""
    leaves = jnp.asarray(rate), jnp.asarray(num_steps)
    return optax.GradientTransformation(
        Partial(bound(_init_scheduled, schedule), *leaves),
        Partial(bound(_update_scheduled, schedule), *leaves),
    )


def cosine(rate, num_steps, count):
    return 0.5 * rate * (1 + jnp.cos(jnp.pi * jnp.minimum(count / num_steps, 1.0)))


def held(rate, num_steps, count):
    """The rate until 0.7 of the run, then along a cosine to 0."""
    share = jnp.clip((count / num_steps - 0.7) / 0.3, 0.0, 1.0)
    return 0.5 * rate * (1 + jnp.cos(jnp.pi * share))


def constant(rate, num_steps, count):
    return rate


def _init_scheduled(schedule, rate, num_steps, variables):
    return optax.adam(partial(schedule, rate, num_steps)).init(variables)


def _update_scheduled(schedule, rate, num_steps, *args):
    return optax.adam(partial(schedule, rate, num_steps)).update(*args)
