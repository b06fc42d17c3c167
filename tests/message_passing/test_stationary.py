"""The stationary point of BB-α against the Appendix, the energy, and power EP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.projected import INPUTS, LINEAR_TARGETS, NOISE_VARIANCE, exact_linear

import bbalpha as bb

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


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("family", [bb.FullGaussian, bb.DiagonalGaussian])
def test_the_tied_power_ep_energy_is_the_energy_that_fit_minimizes(family):
    """At the q that was found, on a grid of noise fine enough to be exact."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    noise = jnp.asarray(np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)], axis=1))
    noise_weights = jnp.asarray(np.outer(weights, weights).ravel() / weights.sum() ** 2)
    posterior = bb.fixed_point(GAUSSIAN, INPUTS[:4], LINEAR_TARGETS[:4], alpha=0.5, family=family)

    def log_likelihood(params, batch):
        inputs, targets = batch
        return jax.scipy.stats.norm.logpdf(targets, inputs @ params, NOISE_VARIANCE**0.5)

    energy = bb.alpha_energy(
        log_likelihood,
        posterior.q,
        posterior.prior,
        (jnp.asarray(INPUTS[:4]), jnp.asarray(LINEAR_TARGETS[:4])),
        noise,
        alpha=0.5,
        num_data=4,
        noise_weights=noise_weights,
    )
    np.testing.assert_allclose(posterior.energy, energy, atol=1e-8)
