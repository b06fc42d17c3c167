"""The three experiments without data sets: what they find is what mathematics says."""

import json
from itertools import groupby, pairwise
from pathlib import Path

import numpy as np
import pytest
import scipy.optimize
import scipy.stats

from bbalpha_paper.experiments import divergence, linear, toy
from bbalpha_paper.experiments.plan import Bench

BENCH = Bench(Path("unused"), lambda part: None)
POINTS = np.linspace(-12.0, 17.0, 5801)  # closer than the experiment's
SPACING = 0.005
ORACLES = {  # variances at these α, found by minimizing the exact energy
    "example-1": {-1.0: 0.451416, 1e-3: 0.500063, 0.5: 0.535184, 1.0: 0.577350, 1.5: 0.622839},
    "example-2": {-1.0: 0.283485, 1e-3: 0.333407, 0.5: 0.379796, 1.0: 0.447214, 1.5: 0.526599},
}


def measured(experiment):
    """All runs at the smallest scale with their metrics."""
    groups = [
        group
        for configuration in experiment.configurations["smoke"]
        for group in configuration.groups()
    ]
    return [
        (run, metrics)
        for group in groups
        for run, metrics in zip(group, experiment.measure(group, BENCH), strict=True)
    ]


@pytest.fixture(scope="module")
def gaussians():
    """The nearest Gaussian for each α."""
    return {run.alpha: metrics for run, metrics in measured(divergence.EXPERIMENT)}


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


@pytest.fixture(scope="module")
def regressions():
    """What is found for each example and α."""
    return {(run.dataset, run.alpha): found for run, found in measured(linear.EXPERIMENT)}


@pytest.mark.parametrize("example", ORACLES)
def test_closed_forms_are_the_variances_of_the_least_energy(example):
    for alpha, variance in ORACLES[example].items():
        np.testing.assert_allclose(linear.CLOSED_FORMS[example](alpha, 1.0), variance, atol=6e-7)


def test_fitted_variances_are_the_closed_form(regressions):
    for (example, alpha), found in regressions.items():
        expected = found["variance_closed_form"] * np.eye(2)
        np.testing.assert_allclose(found["covariance"], expected, atol=1e-7)
        np.testing.assert_allclose(found["mean"], 0.0, atol=1e-7)
        if alpha in ORACLES[example]:
            variance = ORACLES[example][alpha]
            np.testing.assert_allclose(np.diag(found["covariance"]), variance, atol=6e-7)


def test_alpha_near_zero_finds_the_posterior_of_example_1_and_the_precisions_of_example_2(
    regressions,
):
    first, second = regressions["example-1", 1e-6], regressions["example-2", 1e-6]
    np.testing.assert_allclose(first["covariance"], first["true_covariance"], atol=1e-6)
    np.testing.assert_allclose(first["energy"], np.log(4 * np.pi), atol=1e-6)  # −log evidence
    precision = np.diag(np.linalg.inv(second["true_covariance"]))
    np.testing.assert_allclose(np.diag(second["covariance"]), 1 / precision, atol=1e-6)
    np.testing.assert_allclose(second["true_covariance"], [[0.6, 0.4], [0.4, 0.6]], rtol=1e-12)


def test_least_energy_falls_and_variance_grows_with_alpha(regressions):
    for example in ORACLES:
        alphas = sorted(alpha for name, alpha in regressions if name == example)
        for smaller, larger in pairwise(alphas):
            before, after = regressions[example, smaller], regressions[example, larger]
            assert before["energy"] > after["energy"]
            assert before["covariance"][0][0] < after["covariance"][0][0]


@pytest.fixture(scope="module")
def networks():
    """All runs with their metrics."""
    return measured(toy.EXPERIMENT)


def test_bands_and_data_have_the_shapes_of_the_figure(networks):
    for run, found in networks:
        assert len(found["grid"]) == len(found["mean"]) == len(found["deviation"]) == 121
        assert len(found["train_inputs"]) == len(found["train_targets"]) == 20
        assert max(map(abs, found["train_inputs"])) <= 4
        assert np.std(np.array(found["train_targets"]) - np.power(found["train_inputs"], 3)) < 6
        assert found["energies"][-1] < found["energies"][0]
        assert len(found["energies"]) <= toy.MOST_ENERGIES
        assert len(json.dumps([dict(run.settings), found])) < 10_000


def test_bands_hold_the_noise_and_are_wider_outside_the_data(networks):
    for run, found in networks:
        deviation = np.array(found["deviation"])
        assert np.all(deviation >= 3)
        inside = deviation[np.abs(found["grid"]) <= 3]
        assert np.median(inside) < min(deviation[0], deviation[-1]), run


def test_bands_widen_with_alpha(networks):
    for _, group in groupby(networks, key=lambda pair: pair[0].configuration):
        found = {run.alpha: np.mean(metrics["deviation"]) for run, metrics in group}
        widths = [found[alpha] for alpha in sorted(found)]
        assert all(narrower < wider for narrower, wider in pairwise(widths)), widths


def test_networks_fitted_again_are_the_same(networks):
    runs, expected = zip(*networks[:4], strict=True)
    assert toy.measure(runs, BENCH) == list(expected)
