"""Simulation-based calibration: over data from the model itself, true values are typical draws.

If parameters are drawn from the prior and data given them, the rank of a true value among draws of
the posterior is uniform. It is for q as well where q can be exact: a linear model with Gaussian
noise, α = 0 and a full Gaussian q.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import bbalpha as bb

NUM_DATA_SETS, NUM_ROWS, NUM_DRAWS = 200, 8, 99
NUM_BINS = 10  # of the ranks 0 to 99
FALSE_ALARM = 1e-4  # probability that an exact q fails one test
PRIOR = 2.0  # deviation


def log_likelihood(params, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ params)


@pytest.fixture(scope="module")
def simulated():
    """True parameters of each data set, and the posteriors from one program."""
    stream = np.random.RandomState(0)
    params = PRIOR * stream.normal(size=(NUM_DATA_SETS, 2))
    inputs = stream.normal(size=(NUM_DATA_SETS, NUM_ROWS, 2)) + 0.7
    targets = np.einsum("dni,di->dn", inputs, params) + stream.normal(size=inputs.shape[:2])
    posteriors = bb.fit_many(
        log_likelihood,
        jnp.zeros((NUM_DATA_SETS, 2)),
        (jnp.asarray(inputs, jnp.float32), jnp.asarray(targets, jnp.float32)),
        keys=jax.random.split(jax.random.key(0), NUM_DATA_SETS),
        alpha=0.0,
        prior=PRIOR,
        family=bb.FullGaussian.init,
        data_axis=0,
        progress=False,
    )
    return params, posteriors


def draws_of(posteriors):
    """Draws from every posterior, of shape (data sets, draws, parameters)."""
    return np.stack(
        [
            np.asarray(posterior.sample(NUM_DRAWS, key=jax.random.key(number)))
            for number, posterior in enumerate(posteriors)
        ]
    )


def uniformity(true, draws):
    """The p-value of Pearson's chi-square for the ranks of true values among draws."""
    ranks = (draws < true[:, None]).sum(axis=1)
    counts = np.bincount(ranks * NUM_BINS // (NUM_DRAWS + 1), minlength=NUM_BINS)
    return scipy.stats.chisquare(counts).pvalue


def test_true_parameters_have_uniform_ranks_among_draws(simulated):
    params, posteriors = simulated
    draws = draws_of(posteriors)
    for weights in ([1, 0], [0, 1], [1, -1]):
        assert uniformity(params @ weights, draws @ weights) > FALSE_ALARM


def test_a_posterior_too_narrow_or_shifted_would_be_noticed(simulated):
    params, posteriors = simulated
    draws = draws_of(posteriors)
    middle, width = draws.mean(axis=1, keepdims=True), draws.std(axis=1, keepdims=True)
    for wrong in (middle + 0.6 * (draws - middle), draws + 0.5 * width):
        assert uniformity(params[:, 0], wrong[:, :, 0]) < FALSE_ALARM
