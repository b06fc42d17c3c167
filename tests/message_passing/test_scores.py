"""Scores of new rows, against closed forms and sums over draws."""

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import bbalpha as bb
from bbalpha.message_passing.arguments import prepare
from bbalpha.message_passing.scores import scores_of_draws, scores_under

random = np.random.default_rng(0)
INPUTS, TARGETS = random.normal(size=(6, 3)), random.normal(size=6)
BASIS = np.linalg.qr(random.normal(size=(3, 2)))[0]
LOWER = np.array([[0.6, 0.0], [0.2, 0.9]])
MEAN, LOG_SCALE = np.array([0.3, -1.0, 0.5]), np.array([0.1, -0.4, 0.3])
FAMILIES = {
    "diagonal": (bb.DiagonalGaussian, MEAN, LOG_SCALE),
    "full": (bb.FullGaussian, MEAN, LOG_SCALE, np.tril(random.normal(size=(3, 3)), -1)),
    "low-rank": (bb.LowRankGaussian, MEAN, LOG_SCALE, random.normal(size=(3, 2))),
    "narrowed": (bb.NarrowedGaussian, MEAN, LOG_SCALE, BASIS, LOWER),
}


def rows_of(likelihood, targets=TARGETS):
    return prepare(likelihood, INPUTS, targets, 1.0, None, bb.FullGaussian)


@pytest.mark.parametrize("name", FAMILIES)
def test_gaussian_noise_widens_the_projections(x64, name):
    family, *arrays = FAMILIES[name]
    q = family(*map(jnp.asarray, arrays))
    covariance = np.diag(q.variance) if name == "diagonal" else np.asarray(q.covariance)
    variance = np.diag(INPUTS @ covariance @ INPUTS.T) + 0.25
    expected = scipy.stats.norm.logpdf(TARGETS, INPUTS @ MEAN, np.sqrt(variance))
    found = scores_under(q, rows_of(bb.Gaussian(np.log(0.25))))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_draws_are_weighted(x64):
    draws, labels = random.normal(size=(40, 3)), (TARGETS > 0).astype(float)
    weights = random.dirichlet(np.ones(40))
    probabilities = weights @ scipy.stats.norm.cdf((2 * labels - 1) * (draws @ INPUTS.T))
    found = scores_of_draws(draws, weights, rows_of(bb.Probit(), labels))
    np.testing.assert_allclose(found, np.log(probabilities), rtol=1e-10)
