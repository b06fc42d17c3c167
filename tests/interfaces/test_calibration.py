"""Facts about calibration on left-out rows: the tests find what is wrong and nothing else."""

import math

import numpy as np
import pytest
from scipy import stats

import bbalpha as bb
from bbalpha.interfaces import calibration

RANDOM = np.random.default_rng(0)


def test_p_values_are_those_of_scipy():
    hits = np.arange(60) < 50
    expected = 2 * min(stats.binom.cdf(50, 60, 0.9), stats.binom.sf(49, 60, 0.9))
    assert calibration._binomial_test(hits, 0.9) == pytest.approx(expected)
    assert calibration._binomial_test(np.zeros(5, bool), 0.5) == pytest.approx(2 * 0.5**5)
    below = RANDOM.random(400) ** 1.1
    expected = stats.kstest(below, "uniform").pvalue
    assert calibration._uniform_test(below) == pytest.approx(expected, rel=0.1)


def test_calibrated_numbers_pass_as_often_as_they_should():
    """The share of 200 calibrated tables that fail is at most one percent but for chance."""
    failed = [not bb.Calibration.of_numbers(RANDOM.random(100)).is_calibrated for _ in range(200)]
    assert sum(failed) <= stats.binom.ppf(0.9999, 200, calibration.SIGNIFICANCE)


@pytest.mark.parametrize(("factor", "problem"), [(2.0, "too narrow"), (0.5, "too wide")])
def test_a_wrong_spread_fails_and_is_named(factor, problem):
    found = bb.Calibration.of_numbers(stats.norm.cdf(factor * RANDOM.normal(size=300)))
    assert not found.is_calibrated
    assert str(found).endswith(f"left-out rows: {problem}")
    expected = [1 - 2 * stats.norm.sf(stats.norm.ppf((1 + p) / 2) / factor) for p in found.levels]
    np.testing.assert_allclose(found.covered, expected, atol=4 * 0.5 / 300**0.5)
    assert sum(found.histogram) == pytest.approx(1)


def test_several_targets_are_tested_apart():
    below = np.stack([RANDOM.random(300), np.full(300, 0.5)], axis=1)
    found = bb.Calibration.of_numbers(below)
    assert not found.is_calibrated
    assert found.covered[0] == pytest.approx(0.75, abs=0.1)


@pytest.mark.parametrize(("power", "verdict"), [(1, "calibrated"), (3, "overconfident")])
def test_classes(power, verdict):
    truth = RANDOM.dirichlet(np.ones(3), size=600)
    labels = (RANDOM.random(600)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    said = truth**power / (truth**power).sum(axis=1, keepdims=True)
    found = bb.Calibration.of_classes(said, labels)
    assert str(found).endswith(verdict)
    assert found.is_calibrated == (verdict == "calibrated")
    assert found.error == pytest.approx(
        bb.metrics.expected_calibration_error(said, labels), abs=0.03
    )
    assert found.to_json()["confidence"] == pytest.approx(said.max(axis=1).mean())


def test_a_description_comes_back_and_a_wrong_one_is_refused():
    found = bb.Calibration.of_numbers(RANDOM.random(50))
    described = found.to_json()
    again = bb.Calibration.from_json(described)
    assert again.to_json() == described
    assert math.isnan(again.confidence)
    bad = {
        "does not have the fields of one": {"levels": []},
        "does not hold lists": described | {"covered": 1.0},
        "something other than a few positive numbers": described | {"error": math.inf},
        "does not have a number of rows": described | {"num_rows": 0},
    }
    for message, wrong in bad.items():
        with pytest.raises(ValueError, match=message):
            bb.Calibration.from_json(wrong)
