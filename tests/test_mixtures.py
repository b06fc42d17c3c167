"""Facts about mixtures of Gaussians."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import bbalpha as bb

MEANS, DEVIATIONS = np.array([[-2.0, 0.0], [1.0, 3.0]]), np.array([[0.5, 1.0], [2.0, 0.1]])
WEIGHTS = np.array([0.25, 0.75])


@pytest.fixture
def mixture():
    return bb.GaussianMixture(
        jnp.asarray(MEANS), jnp.asarray(2 * np.log(DEVIATIONS)), jnp.log(jnp.asarray(WEIGHTS))
    )


def test_moments_and_density_are_those_of_the_mixture(mixture):
    mean = WEIGHTS @ MEANS
    np.testing.assert_allclose(mixture.mean, mean, rtol=1e-5)
    second = WEIGHTS @ (DEVIATIONS**2 + MEANS**2)
    np.testing.assert_allclose(mixture.variance, second - mean**2, rtol=1e-5)
    point = np.array([0.3, 2.9])
    density = WEIGHTS @ norm.pdf(point, MEANS, DEVIATIONS).prod(axis=1)
    assert mixture.log_prob(jnp.asarray(point)) == pytest.approx(np.log(density), rel=1e-5)


def test_draws_come_from_the_members_by_weight(mixture):
    keys = jax.random.split(jax.random.key(0), 4000)
    draws = np.asarray(jax.vmap(lambda key: mixture.transform(mixture.noise(key)))(keys))
    is_second = draws[:, 1] > 2.0  # 10 deviations below the second mean, 2 above the first
    share = norm.sf(2.0) * WEIGHTS[0] + WEIGHTS[1]
    assert abs(is_second.mean() - share) < 4 * np.sqrt(share * (1 - share) / 4000)
    error = np.sqrt(np.asarray(mixture.variance) / 4000)
    assert (np.abs(draws.mean(axis=0) - mixture.mean) < 4 * error).all()


def test_a_mixture_in_a_file_comes_back(mixture, tmp_path):
    layout, scalar = bb.Layout.of(jnp.zeros(2)), jnp.array(1.0)
    posterior = bb.Posterior(mixture, mixture, None, scalar, scalar, scalar, layout)
    posterior.save(tmp_path / "model.safetensors")
    loaded = bb.Posterior.load(tmp_path / "model.safetensors", jnp.zeros(2))
    np.testing.assert_array_equal(loaded.q.means, mixture.means)
    key = jax.random.key(1)
    np.testing.assert_array_equal(loaded.sample(5, key=key), posterior.sample(5, key=key))
