"""Linear regression in closed form, against dense matrices and scipy."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems.projected import INPUTS, LINEAR_TARGETS, NOISE_VARIANCE, exact_linear

from bbalpha.message_passing.conjugate import LinearRegression
from bbalpha.message_passing.projections import GaussianPrior

COVARIANCE = np.array([[2.0, 0.6], [0.6, 0.5]])


@pytest.fixture
def model(x64):
    prior = GaussianPrior(jnp.zeros(2), jnp.linalg.cholesky(COVARIANCE))
    return LinearRegression.of(INPUTS, LINEAR_TARGETS, prior)


def test_moments_and_evidence_are_those_of_dense_matrices(model):
    mean, covariance, log_evidence = exact_linear(INPUTS, LINEAR_TARGETS, COVARIANCE)
    found = model.moments(NOISE_VARIANCE)
    np.testing.assert_allclose(found[0], mean, rtol=1e-10)
    np.testing.assert_allclose(found[1], np.sqrt(np.diag(covariance)), rtol=1e-10)
    assert model.log_evidence(NOISE_VARIANCE) == pytest.approx(log_evidence, rel=1e-12)


def test_projections_have_the_posterior_covariance(model):
    _, covariance, _ = exact_linear(INPUTS, LINEAR_TARGETS, COVARIANCE)
    rows = np.array([[1.0, 2.0], [-0.5, 0.1]])
    deviation = model.projected(rows, NOISE_VARIANCE)[1]
    np.testing.assert_allclose(deviation**2, np.diag(rows @ covariance @ rows.T), rtol=1e-10)


def test_fewer_rows_than_columns_and_a_prior_mean(x64):
    random = np.random.default_rng(0)
    inputs, targets = random.normal(size=(3, 5)), random.normal(size=3)
    center, deviations = random.normal(size=5), random.uniform(0.5, 2, 5)
    prior = GaussianPrior(jnp.asarray(center), jnp.asarray(deviations))
    model = LinearRegression.of(inputs, targets, prior)
    residual = targets - inputs @ center
    mean, covariance, log_evidence = exact_linear(inputs, residual, np.diag(deviations**2), 0.3)
    found = model.moments(0.3)
    np.testing.assert_allclose(found[0], center + mean, rtol=1e-10)
    np.testing.assert_allclose(found[1], np.sqrt(np.diag(covariance)), rtol=1e-10)
    assert model.log_evidence(0.3) == pytest.approx(log_evidence, rel=1e-12)


def test_no_other_noise_has_more_evidence(model):
    best = model.likeliest_noise_variance()
    others = best * np.exp(np.linspace(-3, 3, 201))
    assert model.log_evidence(best) >= max(map(model.log_evidence, others)) - 1e-10
    assert 0.5 * NOISE_VARIANCE < best < 2 * NOISE_VARIANCE  # which made the targets
