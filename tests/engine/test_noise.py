"""Noise of pairs: signs, covariances, distributions, and the gradients they make less noisy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import bbalpha as bb
from bbalpha.engine.noise import (
    MATCHED_SHARE,
    check_draws,
    inverse_root,
    paired_noise,
    samples_to_match,
    shifted_noise,
    sobol_points,
)


def draw(keys, size=3):
    return jax.vmap(lambda key: jax.random.normal(key, (size,)))(keys)


def keys(num):
    return jax.random.split(jax.random.key(0), num)


@pytest.mark.parametrize("matched", [False, True])
def test_pairs_are_opposite(matched):
    noise = paired_noise(draw, keys(20), matched)
    np.testing.assert_array_equal(noise[:10], -noise[10:])


def test_an_odd_number_of_draws_leaves_one_without_its_partner():
    noise = paired_noise(draw, keys(5), matched=False)
    assert noise.shape == (5, 3)
    np.testing.assert_array_equal(noise[:2], -noise[3:])


def test_matched_draws_have_the_identity_as_covariance():
    noise = np.asarray(paired_noise(draw, keys(40), matched=True), float)
    np.testing.assert_allclose(noise.T @ noise / 40, np.eye(3), atol=2e-5)


def test_too_few_draws_are_paired_but_not_matched():
    noise = paired_noise(draw, keys(4), matched=True)
    np.testing.assert_array_equal(noise, paired_noise(draw, keys(4), matched=False))


def test_as_many_draws_as_needed_can_be_matched():
    num_draws = samples_to_match(30)
    assert MATCHED_SHARE * num_draws >= 30
    noise = paired_noise(lambda keys: draw(keys, 30), keys(num_draws), matched=True)
    noise = np.asarray(noise, float)
    np.testing.assert_allclose(noise.T @ noise / num_draws, np.eye(30), atol=1e-3)


def test_inverse_root_of_a_random_covariance():
    noise = np.random.default_rng(0).normal(size=(50, 30))
    covariance = noise.T @ noise / 50
    root = np.asarray(inverse_root(jnp.asarray(covariance)), float)
    np.testing.assert_allclose(root @ covariance @ root, np.eye(30), atol=2e-3)


def test_shifted_sobol_points_are_gaussian_and_unbiased():
    points = jnp.asarray(sobol_points(64, 2))
    noise = jax.vmap(lambda key: shifted_noise(points, key, 64))(keys(200))
    assert noise.shape == (200, 64, 2)
    first = np.asarray(noise[:, 7, 0], float)  # one point under many shifts
    assert st.kstest(first, "norm").pvalue > 1e-3
    second_moments = np.mean(np.square(noise), axis=1)
    error = second_moments.std(axis=0) / np.sqrt(200)
    assert np.all(np.abs(second_moments.mean(axis=0) - 1) < 4 * error)
    independent = np.sqrt(2 / 64)
    assert np.all(second_moments.std(axis=0) < 0.5 * independent)


def log_likelihood(params, batch):
    return bb.log_ndtr(batch @ params)


@pytest.mark.parametrize("kind", ["antithetic", "matched", "sobol"])
def test_gradients_of_pairs_vary_less(kind):
    data = jax.random.normal(jax.random.key(1), (30, 3))

    def gradients(draws):
        def gradient(key):
            state = bb.init(
                log_likelihood, jnp.ones(3), num_data=30, key=key, num_samples=32, draws=draws
            )
            q, prior, noise = state.variables.q, state.prior, state.noise_at(state.step)
            if jnp.issubdtype(noise.dtype, jax.dtypes.prng_key):
                noise = jax.vmap(q.noise)(noise)
            log_variance = jnp.full(3, -1.0)
            return jax.grad(
                lambda mean: bb.alpha_energy(
                    log_likelihood,
                    bb.DiagonalGaussian(mean, log_variance),
                    prior,
                    data,
                    noise,
                    alpha=0.0,
                    num_data=30,
                )
            )(q.mean)

        return np.asarray(jax.jit(jax.vmap(gradient))(keys(300)), float)

    plain, better = gradients("independent"), gradients(kind)
    assert np.all(better.var(axis=0) < 0.5 * plain.var(axis=0))
    error = np.sqrt((plain.var(axis=0) + better.var(axis=0)) / 300)
    assert np.all(np.abs(plain.mean(axis=0) - better.mean(axis=0)) < 4 * error)


def test_an_unknown_kind_of_draws_is_refused():
    assert check_draws(None, "matched") == "matched"
    message = "draws must be one of independent, antithetic, matched, sobol; got draws=.halton"
    with pytest.raises(ValueError, match=message):
        check_draws("halton", "matched")
