"""Small models of projections, f = xᵀθ, with answers from an independent method."""

import numpy as np
import scipy.stats

random = np.random.default_rng(3)
NUM_DATA = 100
INPUTS = random.normal(size=(NUM_DATA, 2))
LINEAR_TARGETS = INPUTS @ [1.0, -0.5] + 0.5 * random.normal(size=NUM_DATA)
LABELS = (INPUTS @ [1.0, -1.0] + random.normal(size=NUM_DATA) > 0).astype(float)
OUTLIERS = LINEAR_TARGETS + 5.0 * (np.arange(NUM_DATA) % 8 == 0)
NOISE_VARIANCE = 0.25


def exact_linear(inputs, targets, covariance, noise_variance=NOISE_VARIANCE):
    """Mean, covariance and log-evidence of a linear-Gaussian model."""
    precision = np.linalg.inv(covariance) + inputs.T @ inputs / noise_variance
    posterior = np.linalg.inv(precision)
    noise = noise_variance * np.eye(len(inputs))
    log_evidence = scipy.stats.multivariate_normal.logpdf(
        targets, np.zeros(len(inputs)), inputs @ covariance @ inputs.T + noise
    )
    return posterior @ inputs.T @ targets / noise_variance, posterior, log_evidence


def on_grid(log_likelihood, center, deviation, prior_deviation=1.0, num_points=161):
    """Mean, deviations and log-evidence of a model with two parameters, every 0.1 deviations."""
    axes = [
        np.linspace(m - 8 * s, m + 8 * s, num_points)
        for m, s in zip(center, deviation, strict=True)
    ]
    params = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 2)
    log_joint = log_likelihood(params) + scipy.stats.norm.logpdf(params, 0, prior_deviation).sum(1)
    largest = log_joint.max()
    weights = np.exp(log_joint - largest)
    total = weights.sum()
    mean = weights @ params / total
    deviations = np.sqrt(weights @ (params - mean) ** 2 / total)
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    return mean, deviations, largest + np.log(total * cell)


def probit_log_likelihood(params):
    """Of each row of parameters, summed over the data, by scipy."""
    return scipy.stats.norm.logcdf((2 * LABELS - 1) * (params @ INPUTS.T)).sum(axis=1)
