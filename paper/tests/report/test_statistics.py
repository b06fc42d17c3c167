"""Means, standard errors, paired differences, distances and ranks."""

import math

import pytest

from bbalpha_paper.report.statistics import (
    Estimate,
    distance,
    estimate,
    means,
    over_cases,
    paired,
    ranks,
)


def test_an_estimate_is_a_mean_with_the_standard_error_of_the_mean():
    assert estimate([1.0, 2.0, 3.0]) == Estimate(2.0, pytest.approx(1 / math.sqrt(3)), 3)
    assert estimate([4.0]) == Estimate(4.0, None, 1)
    assert estimate([]) is None


def test_paired_differences_are_over_the_cases_that_both_have():
    ours = {("a", 0, 0): 1.0, ("a", 1, 0): 5.0, ("a", 2, 0): 9.0}
    reference = {("a", 0, 0): 0.5, ("a", 1, 0): 3.5, ("b", 2, 0): 0.0}
    assert paired(ours, reference) == Estimate(1.0, pytest.approx(0.5), 2)


def test_a_distance_is_counted_in_combined_standard_errors():
    assert distance(Estimate(1.0, 3.0), Estimate(-9.0, 4.0)) == 2.0
    assert distance(Estimate(1.0, 0.5), Estimate(0.0)) == 2.0
    assert distance(Estimate(1.0), Estimate(0.0, 1.0)) is None  # of one run
    assert distance(None, Estimate(0.0, 1.0)) is None


def test_ranks_are_over_the_cases_that_every_alpha_has():
    scores = {
        1.0: {("a", 0, 0): 3.0, ("a", 1, 0): 1.0, ("a", 2, 0): 9.0},
        0.0: {("a", 0, 0): 1.0, ("a", 1, 0): 2.0},
        0.5: {("a", 0, 0): 2.0, ("a", 1, 0): 2.0, ("a", 2, 0): 9.0},
    }
    found = ranks(scores, higher_is_better=True)
    assert found[0.5] == {("a", 0, 0): 2.0, ("a", 1, 0): 1.5}
    average = means(found)
    assert {alpha: rank.mean for alpha, rank in average.items()} == {1.0: 2.0, 0.0: 2.25, 0.5: 1.75}
    assert average[1.0].standard_error == pytest.approx(1.0)


def test_seeds_of_one_split_are_not_independent():
    values = {("a", split, seed): split + 0.1 * seed for split in range(3) for seed in range(2)}
    found = over_cases(values)
    assert found == pytest.approx((1.05, 1 / math.sqrt(3), 3))
    assert over_cases({("a", 0, seed): float(seed) for seed in range(4)}).num_values == 4
    assert over_cases({}) is None


def test_one_case_has_ranks_without_standard_errors():
    found = ranks({1.0: {("a", 0, 0): 0.1}, 0.0: {("a", 0, 0): 0.3}}, False)
    assert means(found) == {1.0: Estimate(1.0, None, 1), 0.0: Estimate(2.0, None, 1)}
