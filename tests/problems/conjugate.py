"""Linear regression with unit noise, whose posterior and left-out predictions are known exactly."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import scipy.stats

import bbalpha as bb

PRIOR_VARIANCE = 4.0
NUM_DATA = 30
LAYOUT = bb.Layout.of({"bias": jnp.zeros(()), "weights": jnp.zeros(2)})  # in this order

random = np.random.default_rng(0)
INPUTS = random.normal(size=(NUM_DATA, 2))
TARGETS = INPUTS @ [1.0, -0.5] + 0.3 + random.normal(size=NUM_DATA)
DATA = (INPUTS, TARGETS)
DESIGN = np.column_stack([np.ones(NUM_DATA), INPUTS])  # the columns of the flat vector

COVARIANCE = np.linalg.inv(DESIGN.T @ DESIGN + np.eye(3) / PRIOR_VARIANCE)
MEAN = COVARIANCE @ DESIGN.T @ TARGETS
LOG_EVIDENCE = scipy.stats.multivariate_normal.logpdf(
    TARGETS, np.zeros(NUM_DATA), PRIOR_VARIANCE * DESIGN @ DESIGN.T + np.eye(NUM_DATA)
)


def log_likelihood(params, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ params["weights"] + params["bias"])


def posterior(width=1.0, alpha=0.0, num_data=NUM_DATA, hyperparams=None):
    """q with the exact mean and deviations `width` times the exact ones."""
    q = full_gaussian(MEAN, width**2 * COVARIANCE)
    prior = bb.DiagonalGaussian(jnp.zeros(3), jnp.full(3, np.log(PRIOR_VARIANCE)))
    alpha, num_data, energy = jnp.array(alpha), jnp.array(float(num_data)), jnp.array(jnp.nan)
    return bb.Posterior(q, prior, hyperparams, alpha, num_data, energy, LAYOUT)


def full_gaussian(mean, covariance):
    cholesky = np.linalg.cholesky(covariance)
    scale = np.diag(cholesky)
    lower = np.tril(cholesky / scale[:, None], -1)
    return bb.FullGaussian(*map(jnp.asarray, (mean, np.log(scale), lower)))


def flat(tree):
    """A tree of parameters, perhaps with leading axes of draws, as vectors in double precision."""
    bias = np.asarray(tree["bias"], np.float64)
    return np.concatenate([bias[..., None], np.asarray(tree["weights"], np.float64)], axis=-1)


def log_likelihoods(draws):
    """One row per draw, by scipy."""
    return scipy.stats.norm.logpdf(TARGETS, draws @ DESIGN.T)


def log_q(posterior, draws):
    covariance = np.asarray(posterior.q.covariance, np.float64)
    return scipy.stats.multivariate_normal.logpdf(draws, np.asarray(posterior.q.mean), covariance)


def log_prior(draws):
    return scipy.stats.norm.logpdf(draws, 0.0, np.sqrt(PRIOR_VARIANCE)).sum(axis=1)


def exact_leave_one_out():
    """log p(xₙ | all other data) of every datum."""
    scores = []
    for row, target in zip(DESIGN, TARGETS, strict=True):
        covariance = np.linalg.inv(np.linalg.inv(COVARIANCE) - np.outer(row, row))
        mean = covariance @ (DESIGN.T @ TARGETS - row * target)
        scores.append(
            scipy.stats.norm.logpdf(target, row @ mean, np.sqrt(1 + row @ covariance @ row))
        )
    return np.array(scores)


def with_alpha(posterior, alpha):
    return dataclasses.replace(posterior, alpha=jnp.array(alpha))
