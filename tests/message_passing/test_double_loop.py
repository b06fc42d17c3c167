"""The double loop: the same fixed point, an energy that falls, and a case where sweeps fail."""

import jax
import numpy as np
import pytest
from problems.projected import INPUTS, LABELS

import bbalpha as bb

PLACES = np.linspace(0, 1, 25)
TARGETS = np.sin(4 * PLACES) + 6.0 * (np.arange(25) == 5) - 5.0 * (np.arange(25) == 15)
KERNEL = 100 * np.exp(-0.5 * (PLACES[:, None] - PLACES) ** 2 / 0.3**2) + 1e-6 * np.eye(25)
HARD = (bb.StudentT(log_scale=np.log(0.1)), np.eye(25), TARGETS)  # a smooth curve, two outliers


def test_it_reaches_the_fixed_point_of_power_ep(x64):
    sweeps = bb.power_ep(bb.Probit(), INPUTS, LABELS)
    double = bb.double_loop_ep(bb.Probit(), INPUTS, LABELS)
    np.testing.assert_allclose(double.mean, sweeps.mean, atol=1e-6)
    np.testing.assert_allclose(double.energy, sweeps.energy, atol=1e-8)


@pytest.fixture(scope="module")
def hard():
    with jax.enable_x64(True), pytest.warns(bb.ConvergenceWarning, match="double loop took over"):
        return bb.power_ep(*HARD, prior=KERNEL)


def test_undamped_sweeps_diverge_where_the_double_loop_converges(hard):
    with pytest.warns(bb.ConvergenceWarning, match="q became improper at sweep"):
        undamped = bb.power_ep(*HARD, prior=KERNEL, step=1.0)
    assert undamped.info.stopped == "diverged"
    assert not undamped.info.converged
    assert hard.info.stopped == "double loop"
    assert hard.info.converged


def test_its_energy_falls_at_every_step(hard):
    rises = np.diff(hard.info.energies)
    assert len(rises) > 10
    assert rises.max() <= 1e-11 * abs(hard.info.energies[-1])
    assert rises.min() < -1e-4


def test_a_negative_power_is_refused():
    with pytest.raises(ValueError, match=r"alpha must be positive, .*; got alpha=-1\.0\."):
        bb.double_loop_ep(bb.Probit(), INPUTS, LABELS, alpha=-1.0)
