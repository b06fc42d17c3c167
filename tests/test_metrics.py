"""Facts about the scores: closed forms, brute force, and scipy as oracles."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from bbalpha import metrics


def normal(shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def normal_quantiles(num):
    return stats.norm.ppf((np.arange(num) + 0.5) / num)


# Log-likelihood


def test_predictive_log_likelihood_is_the_mean_of_log_mean_exp():
    log_densities = normal((30, 8)) * 3 - 1e4  # far below where exp underflows
    expected = np.mean(special.logsumexp(log_densities, axis=0) - np.log(30))
    assert metrics.predictive_log_likelihood(log_densities) == pytest.approx(expected, rel=1e-10)


def test_predictive_log_likelihood_takes_impossible_draws():
    log_densities = np.array([[-np.inf, 0.0], [np.log(0.5), 0.0]])
    assert metrics.predictive_log_likelihood(log_densities) == pytest.approx(np.log(0.25) / 2)
    assert metrics.predictive_log_likelihood(np.full((2, 1), -np.inf)) == -np.inf


def test_predictive_log_likelihood_in_original_units_is_that_of_the_scaled_density():
    scale, targets, means = 7.0, normal(20, seed=1), normal((50, 1), seed=2)
    original = stats.norm.logpdf(scale * targets, scale * means, scale)
    standardized = stats.norm.logpdf(targets, means, 1.0)
    assert metrics.predictive_log_likelihood(
        standardized, log_scale=jnp.log(scale)
    ) == pytest.approx(metrics.predictive_log_likelihood(original), rel=2e-5)


# Point predictions


def test_rmse_is_the_norm_of_the_errors_over_root_n():
    mean, targets = normal((6, 2)), normal((6, 2), seed=1)
    expected = np.linalg.norm(mean - targets) / np.sqrt(12)
    assert metrics.rmse(mean, targets) == pytest.approx(expected, rel=1e-10)


def test_scores_take_jax_arrays_and_return_floats():
    draws, targets = jnp.asarray(normal((20, 5))), jnp.asarray(normal(5, seed=1))
    scores = [
        metrics.predictive_log_likelihood(draws),
        metrics.rmse(draws[0], targets),
        metrics.error_rate(jnp.full(5, 0.3), jnp.zeros(5, int)),
        metrics.expected_calibration_error(jnp.full(5, 0.3), jnp.zeros(5, int)),
        metrics.coverage(draws, targets),
        metrics.calibration_error(draws, targets),
        metrics.crps(draws, targets),
        metrics.standard_error(targets),
    ]
    assert all(type(score) is float for score in scores)


# Classes


def test_error_rate_counts_the_wrong_most_probable_classes():
    probabilities = np.array([[0.6, 0.3, 0.1], [0.2, 0.3, 0.5], [0.1, 0.8, 0.1], [0.4, 0.4, 0.2]])
    assert metrics.error_rate(probabilities, np.array([0, 1, 1, 0])) == 0.25
    binary = np.array([0.9, 0.49, 0.51, 0.5])
    assert metrics.error_rate(binary, np.array([1, 0, 0, 0])) == 0.25
    two_columns = np.stack([1 - binary, binary], axis=1)
    assert metrics.error_rate(two_columns, np.array([1, 0, 0, 0])) == 0.25


def test_expected_calibration_error_by_hand():
    # Bins of width ½: (0, ½] holds the second datum, confident .5 and right; (½, 1] the others,
    # confident .8, .9, .7 and right, wrong, right. ECE = ¼·|1 − .5| + ¾·|2/3 − .8| = .225.
    probabilities = np.array([[0.8, 0.2], [0.5, 0.5], [0.9, 0.1], [0.3, 0.7]])
    labels = np.array([0, 0, 1, 1])
    score = metrics.expected_calibration_error(probabilities, labels, num_bins=2)
    assert score == pytest.approx(0.225, abs=1e-10)
    binary = metrics.expected_calibration_error(probabilities[:, 1], labels, num_bins=2)
    assert binary == pytest.approx(0.225, abs=1e-10)


def test_expected_calibration_error_of_certainty_is_the_error_rate():
    probabilities, labels = np.array([1.0, 0.0, 1.0, 1.0 + 1e-6]), np.array([1, 0, 0, 1])
    score = metrics.expected_calibration_error(probabilities, labels)
    assert score == pytest.approx(metrics.error_rate(probabilities, labels), abs=1e-5)


# Coverage and calibration


@pytest.mark.parametrize("level", [0.5, 0.9])
@pytest.mark.parametrize("num_draws", [19, 99])
def test_coverage_of_a_correct_model_is_the_level_even_with_few_draws(level, num_draws):
    num_data = 20_000
    draws, targets = normal((num_draws, num_data)), normal(num_data, seed=1)
    standard_error = np.sqrt(level * (1 - level) / num_data)
    assert abs(metrics.coverage(draws, targets, level) - level) < 4 * standard_error


def test_coverage_of_several_outputs_is_that_of_all_of_them_together():
    draws, targets = normal((50, 30, 2)), normal((30, 2), seed=1)
    flat = metrics.coverage(draws.reshape(50, 60), targets.reshape(60))
    assert metrics.coverage(draws, targets) == flat


def test_pit_of_a_correct_model_is_uniform():
    uniform = metrics.pit(normal((99, 5000)), normal(5000, seed=1))
    assert stats.kstest(uniform, "uniform").statistic < 0.005 + 2 / np.sqrt(5000)  # ½/100, then K-S


def test_pit_is_the_distribution_function_of_the_draws():
    draws = np.random.default_rng(0).uniform(size=(5, 1))
    targets = np.array([0.3])
    rank = stats.percentileofscore(draws[:, 0], 0.3) / 100 * 5
    assert metrics.pit(draws, targets)[0] == pytest.approx((rank + 0.5) / 6, abs=1e-10)
    assert metrics.pit(np.ones((4, 1)), np.ones(1))[0] == 0.5  # ties count half


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.5])
def test_calibration_error_of_a_misscaled_gaussian_is_its_closed_form(scale):
    num_draws, num_data = 1000, 2000
    draws = scale * normal_quantiles(num_draws)[:, None] * np.ones((1, num_data))
    levels = np.arange(1, 100) / 100
    actual = 2 * stats.norm.cdf(scale * stats.norm.ppf((1 + levels) / 2)) - 1
    expected = np.mean(np.abs(actual - levels))
    score = metrics.calibration_error(draws, normal_quantiles(num_data))
    # A nominal level is off by at most 2/K, steepness max(1, scale); an empirical one by 2/N.
    assert abs(score - expected) < 2 * max(1, scale) / num_draws + 2 / num_data


# CRPS


def brute_force_crps(draws, target):
    num_draws = len(draws)
    pairs = np.abs(draws[:, None] - draws[None, :]).sum()
    return np.abs(draws - target).mean() - pairs / (2 * num_draws * (num_draws - 1))


def test_crps_equals_the_double_sum():
    draws, targets = 1e3 + normal((41, 6, 2)), 1e3 + normal((6, 2), seed=1)
    expected = np.mean(
        [brute_force_crps(draws[:, i, j], targets[i, j]) for i in range(6) for j in range(2)]
    )
    assert metrics.crps(draws, targets) == pytest.approx(expected, abs=1e-10)


def test_crps_of_one_draw_is_its_distance():
    assert metrics.crps(np.array([[2.0, 5.0]]), np.array([3.0, 1.0])) == 2.5


@pytest.mark.parametrize("num_draws", [2, 100])
def test_crps_of_gaussian_draws_is_unbiased_for_the_closed_form(num_draws):
    target, repeats = 0.7, 5000
    exact = (
        target * (2 * stats.norm.cdf(target) - 1) + 2 * stats.norm.pdf(target) - 1 / np.sqrt(np.pi)
    )
    draws = normal((num_draws, repeats))
    scores = [metrics.crps(draws[:, i], np.array(target)) for i in range(repeats)]
    assert np.mean(scores) == pytest.approx(metrics.crps(draws, np.full(repeats, target)))
    assert abs(np.mean(scores) - exact) < 4 * metrics.standard_error(np.array(scores))


# Ranks


@pytest.mark.parametrize("higher_is_better", [True, False])
def test_average_rank_is_that_of_scipy_with_ties(higher_is_better):
    scores = np.random.default_rng(0).integers(0, 4, size=(25, 5)).astype(float)
    ranks = stats.rankdata(-scores if higher_is_better else scores, axis=1)
    mean, standard_error = metrics.average_rank(scores, higher_is_better)
    np.testing.assert_allclose(mean, ranks.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(standard_error, stats.sem(ranks, axis=0), rtol=1e-10)


def test_the_best_method_has_rank_one_and_a_failed_one_comes_last():
    scores = np.array([[-1.0, -np.inf, -2.0], [-1.5, -np.inf, -1.6]])
    assert metrics.average_rank(scores).mean.tolist() == [1.0, 3.0, 2.0]


def test_standard_error_is_that_of_scipy():
    values = normal(17)
    assert metrics.standard_error(values) == pytest.approx(stats.sem(values), rel=1e-10)


# Messages

HALF, ZERO = np.full(3, 0.5), np.zeros(3, int)
BAD_CALLS = {
    "densities without draws": (
        lambda: metrics.predictive_log_likelihood(np.ones(5)),
        r"log_densities must have shape \(draws, data\); got shape \(5,\)\.",
    ),
    "no densities": (
        lambda: metrics.predictive_log_likelihood(np.ones((3, 0))),
        r"log_densities must not be empty; got shape \(3, 0\)\.",
    ),
    "mean broadcasts": (
        lambda: metrics.rmse(np.ones((3, 1)), np.ones(3)),
        r"mean must have the shape of targets; got \(3, 1\) with targets \(3,\)\.",
    ),
    "no targets": (
        lambda: metrics.rmse(np.ones(3), np.ones(0)),
        r"targets must not be empty; got shape \(0,\)\.",
    ),
    "draws of another shape": (
        lambda: metrics.crps(np.ones((10, 3)), np.ones(4)),
        r"draws must have shape \(draws, \*targets\.shape\); got \(10, 3\) with targets \(4,\)\.",
    ),
    "draws without an axis": (
        lambda: metrics.pit(np.ones(()), np.ones(())),
        r"draws must have shape \(draws, \*targets\.shape\); got \(\) with targets \(\)\.",
    ),
    "no draws": (
        lambda: metrics.calibration_error(np.ones((0, 4)), np.ones(4)),
        r"draws must not be empty; got shape \(0, 4\)\.",
    ),
    "level in percent": (
        lambda: metrics.coverage(np.ones((10, 4)), np.ones(4), level=90.0),
        r"level must lie between 0 and 1; got level=90\.0\.",
    ),
    "labels of another length": (
        lambda: metrics.error_rate(HALF, np.zeros(4, int)),
        r"probabilities must have shape \(data, classes\) or \(data,\) and labels \(data,\); "
        r"got \(3,\) with labels \(4,\)\.",
    ),
    "logits": (
        lambda: metrics.error_rate(np.array([0.5, -3.0, 2.0]), ZERO),
        r"probabilities must lie between 0 and 1; got -3\.0\.",
    ),
    "labels of ±1": (
        lambda: metrics.expected_calibration_error(HALF, np.array([0, 1, -1])),
        r"labels must be class numbers from 0 to 1; got label -1\.",
    ),
    "no bins": (
        lambda: metrics.expected_calibration_error(HALF, ZERO, num_bins=0),
        r"num_bins must be at least 1; got num_bins=0\.",
    ),
    "one case": (
        lambda: metrics.average_rank(np.ones((1, 3))),
        r"scores must have shape \(cases, methods\) with at least two cases; got shape \(1, 3\)\.",
    ),
    "missing score": (
        lambda: metrics.average_rank(np.array([[1.0, 2.0], [3.0, np.nan]])),
        r"scores must not be NaN; got NaN for case 1, method 1\.",
    ),
    "one value": (
        lambda: metrics.standard_error(np.ones(1)),
        r"values must have shape \(n,\) with n at least 2; got shape \(1,\)\.",
    ),
}


@pytest.mark.parametrize(("call", "message"), BAD_CALLS.values(), ids=BAD_CALLS.keys())
def test_bad_arguments_are_named_with_their_values(call, message):
    with pytest.raises(ValueError, match=message):
        call()
