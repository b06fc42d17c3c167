"""The negative binomial beyond what all likelihoods are tested for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st

import bbalpha as bb


@pytest.mark.parametrize("size", [0.01, 1.0, 29.0, 31.0, 1e4, 1e6])
def test_the_log_probability_keeps_its_digits_at_every_size(size):
    counts = np.array([0.0, 1, 7, 100, 10_000])
    rates = np.array([0.5, 2.0, 9.0, 120.0, 9_000.0])
    found = bb.NegativeBinomial(np.log(size)).log_prob(jnp.log(rates)[:, None], counts)
    exact = st.nbinom(size, size / (size + rates)).logpmf(counts)
    np.testing.assert_allclose(found, exact, rtol=2e-5, atol=2e-4)


def test_many_sizes_are_one_poisson_in_the_limit():
    counts, outputs = np.arange(12.0), jnp.full((12, 1), 1.5)
    wide = bb.NegativeBinomial(50.0).log_prob(outputs, counts)
    np.testing.assert_allclose(wide, bb.Poisson().log_prob(outputs, counts), atol=2e-4)


def test_the_size_is_learned_from_the_spread_of_the_counts():
    counts = st.nbinom(3.0, 3 / (3 + 5)).rvs(4000, random_state=0).astype(np.float32)

    def energy(likelihood):
        return -jnp.mean(likelihood.log_prob(jnp.full((4000, 1), np.log(5.0)), counts))

    slopes = [
        jax.grad(energy)(bb.NegativeBinomial(np.log(size))).log_size for size in (2.0, 3.0, 4.5)
    ]
    assert slopes[0] < 0 < slopes[2]
    assert abs(slopes[1]) < min(-slopes[0], slopes[2])


def test_a_target_that_is_no_count_is_refused():
    with pytest.raises(ValueError, match=r"whole numbers for NegativeBinomial; got 1\.5\."):
        bb.NegativeBinomial().log_prob(jnp.zeros((2, 1)), np.array([0.0, 1.5]))
