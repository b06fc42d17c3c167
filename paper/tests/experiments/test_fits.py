"""Fits that were interrupted or lost their energy do not pass for complete ones."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha_paper.experiments.fits import check_ended, optimizer_of, unless_lost


def ended(how):
    """A posterior whose fit ended in this way."""
    state = bb.init(lambda mean, batch: batch, jnp.zeros(()), num_data=1, key=jax.random.key(0))
    return replace(state.posterior(), info=bb.FitInfo(stopped=how))


def test_an_interrupted_fit_makes_no_row():
    check_ended([ended("finished"), ended("non-finite")])
    with pytest.raises(KeyboardInterrupt):
        check_ended([ended("finished"), ended("interrupted")])


def test_a_fit_whose_energy_was_lost_has_no_scores():
    assert unless_lost(ended("finished"), {"rmse": 2.0}) == {"rmse": 2.0}
    assert math.isnan(unless_lost(ended("non-finite"), {"rmse": 2.0})["rmse"])


def test_fits_at_one_rate_share_an_optimizer():
    """And therefore a compiled program."""
    assert optimizer_of(1e-3, 100) is optimizer_of(1e-3, 200)


def test_a_rate_in_words_falls_along_a_cosine():
    optimizer = optimizer_of("1e-2 falling to 0", 4)
    state, rates = optimizer.init(jnp.ones(1)), []
    for _ in range(5):
        update, state = optimizer.update(jnp.ones(1), state)
        rates.append(-update.item())  # the direction of Adam is 1 for a constant gradient
    expected = 0.5e-2 * (1 + np.cos(np.pi * np.arange(5) / 4))
    np.testing.assert_allclose(rates, expected, rtol=1e-3, atol=1e-7)
