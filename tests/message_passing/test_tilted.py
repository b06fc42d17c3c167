"""Tilted moments against fine grids, and the rule against Gauss–Hermite."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.message_passing.tilted import (
    Centers,
    Factors,
    Natural,
    nodes_and_log_weights,
    tilted_moments,
)

CASES = {
    "probit": (bb.Probit(), 1.0),
    "logit": (bb.Bernoulli(), 0.0),
    "Poisson": (bb.Poisson(), 40.0),
    "Student-t": (bb.StudentT(log_scale=-1.0), 3.0),
    "Gaussian": (bb.Gaussian(log_variance=-1.0), 0.7),
    "function": (lambda f, y: -jnp.log(jnp.cosh(f - y)), 0.3),
}
PRECISION, SHIFT, OFFSET = 0.5, 0.4, -0.2


def on_grid(log_density, center, deviation):
    """Log-normalizer, mean and variance, by the trapezoidal rule on 20,001 points."""
    g = np.linspace(center - 60 * deviation, center + 60 * deviation, 20_001)
    terms = np.asarray(log_density(g))
    largest = terms.max()
    weights = np.exp(terms - largest)
    mean = weights @ g / weights.sum()
    log_normalizer = largest + np.log(weights.sum() * (g[1] - g[0]))
    return log_normalizer, mean, weights @ (g - mean) ** 2 / weights.sum()


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("alpha", [1.0, 0.5, 1.7])
@pytest.mark.parametrize("case", CASES)
def test_moments_are_those_of_a_fine_grid(case, alpha):
    likelihood, target = CASES[case]
    one = jnp.ones(1)
    factors = Factors(likelihood, target * one, OFFSET * one)
    base = Natural(PRECISION * one, SHIFT * one)
    centers = Centers(base.mean, 1 / jnp.sqrt(base.precision))
    tilted, _ = jax.jit(lambda: tilted_moments(factors, base, alpha * one, centers))()

    def log_density(g):
        log_prob = Factors(likelihood, jnp.full(1, target), OFFSET * one).log_prob(
            jnp.asarray(g)[:, None]
        )[:, 0]
        return SHIFT * g - 0.5 * PRECISION * g**2 + alpha * np.asarray(log_prob)

    deviation = float(tilted.variance[0]) ** 0.5
    expected = on_grid(log_density, float(tilted.mean[0]), deviation)
    assert tilted.exists.all()
    found = (tilted.log_normalizer[0], tilted.mean[0], tilted.variance[0])
    np.testing.assert_allclose(found, expected, atol=2e-6)


def gauss_hermite(num_nodes):
    nodes, weights = np.polynomial.hermite.hermgauss(num_nodes)
    return np.sqrt(2) * nodes, np.log(weights) + nodes**2 + 0.5 * np.log(2)


def error_of(rule, log_density, mean, deviation, exact):
    nodes, log_weights = rule
    g = mean + deviation * nodes
    terms = log_weights + np.log(deviation) + log_density(g)
    return abs(np.log(np.sum(np.exp(terms))) - exact)


def test_the_rule_beats_gauss_hermite_where_a_wide_cavity_meets_a_logistic_factor():
    def log_density(g):
        return -0.5 * g**2 / 25 - np.logaddexp(0, -g)

    exact, mean, variance = on_grid(log_density, 0.0, 5.0)
    errors = [
        error_of(rule(64), log_density, mean, variance**0.5, exact)
        for rule in (nodes_and_log_weights, gauss_hermite)
    ]
    assert errors[0] < 1e-9 < 1e-7 < errors[1]


def test_a_narrow_distribution_is_found_from_a_wide_start(x64):
    one = jnp.ones(1)
    factors = Factors(bb.Poisson(), 1000 * one, 0 * one)
    base = Natural(1e-2 * one, 0 * one)  # a deviation of 10 for log λ; tilted it is 0.03
    tilted, _ = tilted_moments(factors, base, one, Centers(0 * one, 10 * one))
    np.testing.assert_allclose(tilted.mean, np.log(1000), atol=2e-3)
    np.testing.assert_allclose(tilted.variance, 1e-3, rtol=2e-3)


def test_a_distribution_without_moments_is_reported(x64):
    one = jnp.ones(1)
    factors = Factors(lambda f, y: -(f**2), one, one)
    base = Natural(one, 0 * one)
    tilted, _ = tilted_moments(factors, base, -one, Centers(0 * one, one))
    assert not tilted.exists.any()
