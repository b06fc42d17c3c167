"""The stationary point of BB-α against the Appendix, the energy, `fit`, and power EP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.projected import INPUTS, LABELS, LINEAR_TARGETS, NOISE_VARIANCE, exact_linear

import bbalpha as bb
from bbalpha.message_passing.arguments import prepare
from bbalpha.message_passing.stationary import Averaging
from bbalpha.message_passing.tied_sites import tied_sites
from bbalpha.message_passing.tilted import Natural

# Appendix, Examples 1 and 2: variances found by minimizing the exact energy.
ALPHAS = [-1.0, 0.25, 0.5, 1.0, 1.5]
EXAMPLES = {1: [[1.0, 0.0], [0.0, 1.0]], 2: [[1.0, -1.0], [-1.0, 1.0]]}
VARIANCES = {
    1: [0.451416, 0.516611, 0.535184, 0.577350, 0.622839],
    2: [0.283485, 0.354066, 0.379796, 0.447214, 0.526599],
}
GAUSSIAN = bb.Gaussian(np.log(NOISE_VARIANCE))


@pytest.mark.parametrize("example", EXAMPLES)
def test_variances_are_those_of_the_appendix(example):
    found = [
        bb.fixed_point(
            bb.Gaussian(),
            np.array(EXAMPLES[example]),
            np.zeros(2),
            alpha=alpha,
            family=bb.DiagonalGaussian,
        ).variance[0]
        for alpha in ALPHAS
    ]
    np.testing.assert_allclose(found, VARIANCES[example], atol=1e-6)


@pytest.mark.parametrize("alpha", [0.5, 1.7])
def test_bb_alpha_is_wider_than_the_exact_posterior_where_power_ep_is_not(alpha):
    found = bb.fixed_point(GAUSSIAN, INPUTS, LINEAR_TARGETS, alpha=alpha)
    _, covariance, _ = exact_linear(INPUTS, LINEAR_TARGETS, np.eye(2))
    assert found.info.converged
    assert (np.sqrt(found.variance / np.diag(covariance)) > 1.05).all()


def linear_log_likelihood(params, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ params, NOISE_VARIANCE**0.5)


@pytest.mark.parametrize("alpha", [-1.0, 0.5, 1.0, 1.7])
def test_fit_finds_the_same_posterior(alpha):
    data = (INPUTS.astype(np.float32), LINEAR_TARGETS.astype(np.float32))
    settings = {"family": bb.FullGaussian, "key": jax.random.key(0), "progress": False}
    fitted = bb.fit(linear_log_likelihood, jnp.zeros(2), data, alpha=alpha, **settings)
    found = bb.fixed_point(GAUSSIAN, INPUTS, LINEAR_TARGETS, alpha=alpha)
    deviations = np.sqrt(found.variance)
    assert found.info.converged
    # `fit` knows q to its tolerance, 0.02 deviations.
    np.testing.assert_allclose((fitted.mean - found.mean) / deviations, 0, atol=0.02)
    np.testing.assert_allclose(np.sqrt(fitted.variance), deviations, rtol=0.02)


@pytest.mark.parametrize("alpha", [-0.01, 0.001])
def test_small_powers_are_close_to_variational_bayes(alpha):
    found = bb.fixed_point(GAUSSIAN, INPUTS, LINEAR_TARGETS, alpha=alpha)
    mean, covariance, _ = exact_linear(INPUTS, LINEAR_TARGETS, np.eye(2))
    assert found.info.converged
    np.testing.assert_allclose(found.mean, mean, atol=1e-3)
    np.testing.assert_allclose(found.variance, np.diag(covariance), rtol=0.02)


def random_natural(random, family):
    """Natural parameters of a random Gaussian, narrower than the prior."""
    if family is bb.DiagonalGaussian:
        return Natural(20 + random.exponential(size=2), 9 * random.normal(size=2))
    factor = random.normal(size=(2, 2))
    return Natural(factor @ factor.T + 20 * np.eye(2), 9 * random.normal(size=2))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("family", [bb.FullGaussian, bb.DiagonalGaussian])
def test_the_power_ep_energy_with_equal_sites_is_the_bb_alpha_energy(family):
    """For random q, with `alpha_energy` on a grid of noise fine enough to be exact."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    noise = jnp.asarray(np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)], axis=1))
    noise_weights = jnp.asarray(np.outer(weights, weights).ravel() / weights.sum() ** 2)
    data = (jnp.asarray(INPUTS[:4]), jnp.asarray(LABELS[:4]))
    problem = prepare(bb.Probit(), *data, 1.0, None, family)
    tied = tied_sites(problem)

    def log_likelihood(params, batch):
        inputs, labels = batch
        return bb.log_ndtr((2 * labels - 1) * (inputs @ params))

    @jax.jit
    def energies(q, alpha):
        settings = {"num_data": 4, "alpha": alpha, "noise_weights": noise_weights}
        prior = problem.prior.distribution
        energy = bb.alpha_energy(
            log_likelihood, tied.distribution(q), prior, data, noise, **settings
        )
        return Averaging(tied, alpha).step(q, 200).energy, energy

    random = np.random.default_rng(0)
    for alpha in (-1.0, 0.5, 1.0, 1.7):
        for _ in range(5):
            found = energies(random_natural(random, family), alpha)
            np.testing.assert_allclose(*found, rtol=0, atol=1e-8)
