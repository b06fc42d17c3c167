"""The default optimizer."""

import jax.numpy as jnp
import numpy as np

from bbalpha.engine.optimizers import decaying_adam


def test_the_default_rate_falls_along_a_cosine():
    optimizer = decaying_adam(100)
    gradient = jnp.ones(1)
    state = optimizer.init(gradient)
    rates = []
    for _ in range(101):
        update, state = optimizer.update(gradient, state)
        rates.append(-update.item())  # the direction of Adam is 1 for a constant gradient
    expected = 0.5e-2 * (1 + np.cos(np.pi * np.arange(101) / 100))
    np.testing.assert_allclose(rates, expected, rtol=1e-3, atol=1e-7)
