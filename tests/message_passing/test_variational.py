"""Variational message passing against direct minimization, `fit`, and power EP."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from problems.projected import INPUTS, LABELS

import bbalpha as bb


def test_it_minimizes_the_free_energy(x64):
    """Against BFGS on means and a Cholesky factor, with Gauss–Hermite expectations."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def free_energy(vector):
        mean, lower = vector[:2], jnp.array([[jnp.exp(vector[2]), 0.0], [vector[3], 0.0]])
        lower = lower.at[1, 1].set(jnp.exp(vector[4]))
        centers = INPUTS @ mean
        deviations = jnp.linalg.norm(INPUTS @ lower, axis=1)
        f = centers[None] + deviations[None] * nodes[:, None]
        expected = weights @ bb.log_ndtr((2 * LABELS - 1)[None] * f)
        divergence = 0.5 * (jnp.sum(lower**2) + mean @ mean - 2) - vector[2] - vector[4]
        return divergence - jnp.sum(expected)

    value_and_grad = jax.jit(jax.value_and_grad(free_energy))
    best = scipy.optimize.minimize(value_and_grad, np.zeros(5), jac=True, tol=1e-10)
    posterior = bb.vmp(bb.Probit(), INPUTS, LABELS)
    np.testing.assert_allclose(posterior.energy, best.fun, atol=1e-8)
    np.testing.assert_allclose(posterior.mean, best.x[:2], atol=1e-4)
    variances = [np.exp(2 * best.x[2]), best.x[3] ** 2 + np.exp(2 * best.x[4])]
    np.testing.assert_allclose(posterior.variance, variances, atol=1e-4)


def test_fit_at_alpha_zero_finds_the_same_posterior():
    posterior = bb.vmp(bb.Probit(), INPUTS, LABELS)

    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.log_ndtr((2 * labels - 1) * (inputs @ weights))

    fitted = bb.fit(
        log_likelihood,
        jnp.zeros(2),
        (INPUTS.astype(np.float32), LABELS.astype(np.float32)),
        alpha=0.0,
        family=bb.FullGaussian,
        key=jax.random.key(0),
        progress=False,
    )
    deviations = np.sqrt(posterior.variance)
    # `fit` knows means to its tolerance, 0.02 deviations, within four standard errors.
    np.testing.assert_array_less(np.abs(fitted.mean - posterior.mean) / deviations, 0.08)
    np.testing.assert_allclose(np.sqrt(fitted.variance), deviations, rtol=0.08)


@pytest.mark.parametrize("family", [bb.FullGaussian, bb.DiagonalGaussian])
def test_it_is_the_limit_of_power_ep(family):
    posterior = bb.vmp(bb.Bernoulli(), INPUTS, LABELS, family=family)
    limit = bb.power_ep(bb.Bernoulli(), INPUTS, LABELS, alpha=1e-4, family=family)
    np.testing.assert_allclose(limit.info.energies[-1], posterior.info.energies[-1], atol=1e-3)
    np.testing.assert_allclose(limit.mean, posterior.mean, atol=1e-4)
    np.testing.assert_allclose(limit.variance, posterior.variance, rtol=1e-3)
    assert max(np.diff(posterior.info.energies)) <= 1e-9
