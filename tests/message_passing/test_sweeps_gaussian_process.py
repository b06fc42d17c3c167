"""Classification by a Gaussian process: the identity as inputs, the kernel as prior covariance."""

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate

import bbalpha as bb

GPY = json.loads((Path(__file__).parents[1] / "problems" / "gpy.json").read_text())
PLACES = np.array([-1.0, 0.0, 0.5, 2.0])
SIGNS = np.array([1.0, 1.0, -1.0, 1.0])


def kernel(places, variance, lengthscale):
    return variance * np.exp(-0.5 * np.square((places[:, None] - places) / lengthscale))


@pytest.mark.usefixtures("x64")
def test_moments_and_evidence_are_those_of_gpy():
    """The numbers were written by benchmarks/gpy_reference.py."""
    places, labels = np.array(GPY["places"]), np.array(GPY["labels"])
    covariance = kernel(places, GPY["variance"], GPY["lengthscale"])
    covariance += GPY["jitter"] * np.eye(len(places))
    posterior = bb.power_ep(bb.Probit(), np.eye(len(places)), labels, prior=covariance)
    np.testing.assert_allclose(posterior.mean, GPY["mean"], atol=1e-4)
    np.testing.assert_allclose(np.sqrt(posterior.variance), GPY["deviation"], atol=1e-4)
    np.testing.assert_allclose(-posterior.energy, GPY["log_evidence"], atol=1e-4)


def textbook_ep(covariance, signs, num_sweeps=30):
    """Sequential EP for a logistic likelihood (Rasmussen & Williams, Algorithm 3.5).

    Moments are by adaptive quadrature and all of the posterior is computed anew for every site.
    """
    count = len(signs)
    precision, shift = np.zeros(count), np.zeros(count)
    for _ in range(num_sweeps):
        log_evidence = 0.0
        for n in range(count):
            posterior = np.linalg.inv(np.linalg.inv(covariance) + np.diag(precision))
            cavity_precision = 1 / posterior[n, n] - precision[n]
            cavity_mean = (posterior[n] @ shift / posterior[n, n] - shift[n]) / cavity_precision

            def tilted(f, power, mean=cavity_mean, tau=cavity_precision, sign=signs[n]):
                density = np.sqrt(tau / (2 * np.pi)) * np.exp(-0.5 * tau * (f - mean) ** 2)
                return f**power * density / (1 + np.exp(-sign * f))

            ends = cavity_mean + np.array([-12, 12]) / np.sqrt(cavity_precision)
            zeroth, first, second = (
                scipy.integrate.quad(tilted, *ends, args=(power,), epsabs=1e-13)[0]
                for power in range(3)
            )
            mean, variance = first / zeroth, second / zeroth - (first / zeroth) ** 2
            precision[n] = 1 / variance - cavity_precision
            shift[n] = mean / variance - cavity_precision * cavity_mean
            # Minus the log-integral of the site's Gaussian against the cavity.
            log_evidence += np.log(zeroth) + 0.5 * np.log1p(precision[n] / cavity_precision)
            log_evidence += 0.5 * cavity_mean**2 * cavity_precision - 0.5 * mean**2 / variance
    posterior = np.linalg.inv(np.linalg.inv(covariance) + np.diag(precision))
    log_evidence -= 0.5 * np.linalg.slogdet(np.eye(count) + precision[:, None] * covariance)[1]
    return posterior @ shift, posterior, log_evidence + 0.5 * shift @ posterior @ shift


@pytest.mark.usefixtures("x64")
def test_a_small_bernoulli_case_is_that_of_the_textbook_algorithm():
    covariance = kernel(PLACES, 4.0, 1.0)
    mean, posterior, log_evidence = textbook_ep(covariance, SIGNS)
    found = bb.power_ep(bb.Bernoulli(), np.eye(4), (SIGNS > 0).astype(float), prior=covariance)
    np.testing.assert_allclose(found.mean, mean, atol=1e-6)
    np.testing.assert_allclose(found.q.covariance, posterior, atol=1e-6)
    np.testing.assert_allclose(-found.energy, log_evidence, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_independent_places_are_coins():
    """Without correlation EP is exact, and each label has probability one half."""
    found = bb.power_ep(bb.Bernoulli(), np.eye(4), (SIGNS > 0).astype(float), prior=4 * np.eye(4))
    np.testing.assert_allclose(-found.energy, 4 * np.log(0.5), atol=1e-8)
