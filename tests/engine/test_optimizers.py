"""The default optimizer."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from bbalpha.engine.optimizers import WAIT, decaying_adam


def default_rates(num_steps):
    """7e-3 for seven tenths of the run, then a cosine to 0."""
    steps = np.arange(num_steps + 1)
    falling = 3.5e-3 * (1 + np.cos(np.pi * (steps - 0.7 * num_steps) / (0.3 * num_steps)))
    return np.where(steps < 0.7 * num_steps, 7e-3, falling)


def test_the_default_rate_is_held_and_then_falls_along_a_cosine():
    optimizer = decaying_adam(100)
    gradient = jnp.ones(1)
    state = optimizer.init(gradient)
    rates = []
    for _ in range(101):
        update, state = optimizer.update(gradient, state)
        rates.append(-update.item())  # the direction of Adam is 1 for a constant gradient
    np.testing.assert_allclose(rates, default_rates(100), rtol=1e-3, atol=1e-7)


class Moved(NamedTuple):
    """As much of what a fit moves as the optimizer asks for."""

    q: Any
    log_prior_scale: Any


def test_scales_of_a_learned_prior_wait_for_a_part_of_the_run():
    """They then move as Adam says, whose averages have seen all gradients."""
    optimizer = decaying_adam(50)
    gradient = Moved(jnp.ones(2), (-jnp.ones(()), -jnp.ones((2, 1))))
    state, updates = optimizer.init(gradient), []
    for _ in range(50):
        update, state = optimizer.update(gradient, state)
        updates.append(update)
    rates = default_rates(50)[:-1]
    waited = int(WAIT * 50)
    assert waited == 20
    for found in zip(*(update.log_prior_scale for update in updates), strict=True):
        moved = np.array(found).reshape(50, -1)
        np.testing.assert_array_equal(moved[:waited], 0)
        expected = rates[waited:, None] * np.ones((1, moved.shape[1]))
        np.testing.assert_allclose(moved[waited:], expected, rtol=1e-3)
    np.testing.assert_allclose([u.q for u in updates], -rates[:, None] * np.ones(2), rtol=1e-3)


def test_without_a_learned_prior_nothing_waits():
    optimizer = decaying_adam(50)
    gradient = Moved(jnp.ones(2), None)
    update, _ = optimizer.update(gradient, optimizer.init(gradient))
    assert update.log_prior_scale is None
    np.testing.assert_allclose(update.q, -7e-3 * np.ones(2), rtol=1e-3)
