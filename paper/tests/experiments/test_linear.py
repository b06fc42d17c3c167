"""Linear regressions with two weights have the variances of the closed forms."""

from itertools import pairwise

import numpy as np
import pytest

from bbalpha_paper.experiments import linear

ORACLES = {  # variances at these α, found by minimizing the exact energy
    "example-1": {-1.0: 0.451416, 1e-3: 0.500063, 0.5: 0.535184, 1.0: 0.577350, 1.5: 0.622839},
    "example-2": {-1.0: 0.283485, 1e-3: 0.333407, 0.5: 0.379796, 1.0: 0.447214, 1.5: 0.526599},
}


@pytest.fixture(scope="module")
def regressions(smoke):
    """The metrics for each example and α."""
    return {(row.dataset, row.alpha): row.metrics for row in smoke.rows("linear")}


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
