"""Facts about the factor on the spread of predictions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import norm, t

import bbalpha as bb
from bbalpha.interfaces.bounded import UNLIMITED, Bounded
from bbalpha.interfaces.spread import as_fitted, log_factor_of, with_factor
from bbalpha.interfaces.stacking import Members

OUTPUTS = jnp.array([[0.5, -1.0], [2.0, 0.3]])
TARGETS = jnp.array([1.0, -0.5])
LOG_FACTOR = np.log(1.5)


def test_deviations_are_multiplied():
    gaussian = with_factor(bb.Gaussian(jnp.log(0.25)), LOG_FACTOR)
    expected = norm.logpdf(TARGETS, OUTPUTS[:, 0], 0.75)
    np.testing.assert_allclose(gaussian.log_prob(OUTPUTS[:, :1], TARGETS), expected, rtol=1e-5)
    student = with_factor(bb.StudentT(jnp.log(2.0), jnp.log(3.0)), LOG_FACTOR)
    expected = t.logpdf(TARGETS, 3, OUTPUTS[:, 0], 3.0)
    np.testing.assert_allclose(student.log_prob(OUTPUTS[:, :1], TARGETS), expected, rtol=1e-5)
    lower, upper = np.array([-UNLIMITED, -5.0]), np.array([UNLIMITED, 0.0])
    bounded = Bounded(bb.HeteroscedasticGaussian(), lower, upper)
    wider = with_factor(bounded, LOG_FACTOR)
    np.testing.assert_allclose(
        wider.variance(OUTPUTS), 1.5**2 * bounded.variance(OUTPUTS), rtol=1e-5
    )
    np.testing.assert_array_equal(wider.mean(OUTPUTS), bounded.mean(OUTPUTS))
    score = (np.asarray(TARGETS)[:, None] - wider.mean(OUTPUTS)) / np.sqrt(wider.variance(OUTPUTS))
    np.testing.assert_allclose(wider.cdf(OUTPUTS, TARGETS), norm.cdf(score), rtol=1e-4)
    np.testing.assert_allclose(wider.survival(OUTPUTS, TARGETS), norm.sf(score), rtol=1e-4)
    draws = wider.sample(jnp.broadcast_to(OUTPUTS, (4000, 2, 2)), key=jax.random.key(0))
    error = np.sqrt(2 / 4000) * wider.variance(OUTPUTS)
    assert (np.abs(draws.var(axis=0) - wider.variance(OUTPUTS)) < 5 * error).all()


def test_logits_are_divided():
    wider = with_factor(bb.Categorical(), LOG_FACTOR)
    expected = expit((OUTPUTS[:, 0] - OUTPUTS[:, 1]) / 1.5)
    np.testing.assert_allclose(wider.mean(OUTPUTS)[:, 0], expected, rtol=1e-5)
    probit = with_factor(bb.Probit(), LOG_FACTOR)
    np.testing.assert_allclose(probit.mean(OUTPUTS), norm.cdf(OUTPUTS / 1.5), rtol=1e-4)


def test_a_factor_can_be_taken_off_and_replaced():
    wider = with_factor(bb.Categorical(), LOG_FACTOR)
    assert log_factor_of(wider) == pytest.approx(LOG_FACTOR)
    assert log_factor_of(bb.Categorical()) == 0
    assert as_fitted(with_factor(wider, 1.0)) == bb.Categorical()
    members = Members(bb.Gaussian(jnp.zeros((2, 1))))
    changed = with_factor(members, LOG_FACTOR)
    assert log_factor_of(changed) == pytest.approx(LOG_FACTOR)
    np.testing.assert_array_equal(as_fitted(changed).each.log_variance, members.each.log_variance)
    numbered = jnp.array([[0.0, 0.0], [0.0, 1.0]])
    np.testing.assert_allclose(changed.variance(numbered), 1.5**2, rtol=1e-5)


def test_counts_have_no_spread_of_their_own():
    assert with_factor(bb.Poisson(), LOG_FACTOR) is None
    assert with_factor(Bounded(bb.NegativeBinomial(), np.zeros(1), np.ones(1)), LOG_FACTOR) is None
