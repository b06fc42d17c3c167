"""The Gaussian nearest to two modes is the one that mathematics says, for every α."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

POINTS = np.linspace(-12.0, 17.0, 5801)  # closer than the experiment's
SPACING = 0.005


@pytest.fixture(scope="module")
def gaussians(smoke):
    """The nearest Gaussian for each α."""
    return {row.alpha: row.metrics for row in smoke.rows("divergence")}


def log_p():
    modes = np.log([0.7, 0.3])[:, None] + scipy.stats.norm.logpdf(POINTS, [[0.0], [5.0]], 1.0)
    return np.logaddexp(*modes)


def log_q(gaussian):
    log_shape = scipy.stats.norm.logpdf(POINTS, gaussian["mean"], gaussian["deviation"])
    return gaussian["log_mass"] + log_shape


def test_gaussian_at_alpha_one_has_the_moments_of_p(gaussians):
    found = gaussians[1.0]
    np.testing.assert_allclose(found["mean"], 1.5, rtol=1e-7)
    np.testing.assert_allclose(found["deviation"], 2.5, rtol=1e-7)
    np.testing.assert_allclose(found["log_mass"], 0.0, atol=1e-7)


def test_gaussian_at_alpha_zero_minimizes_the_divergence_of_q_from_p(gaussians):
    """With normalized q the least is KL[q‖p], and its mass is then exp(−KL[q‖p])."""

    def kl_divergence(moments):
        log_shape = scipy.stats.norm.logpdf(POINTS, moments[0], np.exp(moments[1]))
        return SPACING * np.sum(np.exp(log_shape) * (log_shape - log_p()))

    best = min(
        (
            scipy.optimize.minimize(kl_divergence, start, method="Nelder-Mead", tol=1e-10)
            for start in [(0.0, 0.0), (5.0, 0.0), (1.5, 1.0)]
        ),
        key=lambda result: result.fun,
    )
    found = gaussians[0.0]
    np.testing.assert_allclose(found["mean"], best.x[0], rtol=1e-4)
    np.testing.assert_allclose(found["deviation"], np.exp(best.x[1]), rtol=1e-5)
    np.testing.assert_allclose(found["log_mass"], -best.fun, rtol=1e-7)
    assert abs(found["mean"]) < 0.1  # the larger mode alone
    assert found["deviation"] < 1.1


def test_gaussians_widen_and_gain_mass_as_alpha_grows(gaussians):
    for smaller, larger in pairwise(sorted(gaussians)):
        for name in ("deviation", "log_mass"):
            assert gaussians[smaller][name] < gaussians[larger][name], (name, larger)


def test_least_divergence_is_the_difference_of_the_masses(gaussians):
    """Where D_α is stationary in the mass of q, ∫ p^α q^(1−α) is that mass."""
    for alpha in set(gaussians) - {1.0}:
        found = gaussians[alpha]
        expected = np.log((1 - np.exp(found["log_mass"])) / (1 - alpha))
        np.testing.assert_allclose(found["log_divergence"], expected, atol=1e-7)


def test_gaussian_lies_below_p_at_one_end_and_above_it_at_the_other(gaussians):
    """To a few percent at |α| = 100, wherever p is not negligible."""
    lowest, highest = gaussians[min(gaussians)], gaussians[max(gaussians)]
    kept = log_p() > np.log(1e-4)
    assert np.max((log_q(lowest) - log_p())[kept]) < 0.05
    assert np.exp(lowest["log_mass"]) >= 0.7  # the larger mode is a Gaussian below p
    assert np.min((log_q(highest) - log_p())[kept]) > -0.05
    assert np.exp(highest["log_mass"]) > 1.0
