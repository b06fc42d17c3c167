"""Two models with constrained parameters and priors given by their densities.

`constrained.json` holds the means and deviations of their posteriors in the units of the
parameters, made by `benchmarks/constrained.py` with NUTS and transforms that are not bbalpha's.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy import stats

import bbalpha as bb

ANSWERS = Path(__file__).with_suffix(".json")

MEANS_DEVIATION = 3.0  # of the prior of the means of the mixture
SHARES_CONCENTRATION = 2.0  # of a Dirichlet distribution
SHAPE_DEVIATION = 2.0  # of a half-normal distribution


@dataclass(frozen=True)
class Problem:
    """A model, the start of the mean of q, what is known beforehand, and the data."""

    log_likelihood: Callable
    params: Any
    transforms: Any
    prior: Any
    data: tuple


def answers():
    """Means and deviations by problem and parameter."""
    return json.loads(ANSWERS.read_text())["problems"]


def weibull_log_likelihood(params, batch):
    """Log p(t|x) of log t = xᵀw + log E / shape, E exponential."""
    inputs, times = batch
    log_ratio = jnp.log(times) - inputs @ params["weights"]  # log t / scale
    shape = params["shape"]
    return jnp.log(shape) + shape * log_ratio - jnp.log(times) - jnp.exp(shape * log_ratio)


def mixture_log_likelihood(params, batch):
    (values,) = batch
    means, scales = params["means"][None], params["scales"][None]
    log_densities = stats.norm.logpdf(values[:, None], means, scales)
    return jax.nn.logsumexp(jnp.log(params["shares"])[None] + log_densities, axis=1)


def weibull(num_data=150):
    """Lifetimes: an intercept, two columns, and a positive shape."""
    random = np.random.default_rng(20)
    inputs = np.column_stack([np.ones(num_data), random.normal(size=(num_data, 2))])
    times = np.exp(inputs @ [0.5, 0.4, -0.3]) * random.weibull(1.6, size=num_data)
    return Problem(
        weibull_log_likelihood,
        {"shape": np.ones(()), "weights": np.zeros(3)},
        {"shape": bb.positive},
        {"shape": lambda shape: stats.norm.logpdf(shape, 0.0, SHAPE_DEVIATION), "weights": 1.0},
        (inputs.astype(np.float32), times.astype(np.float32)),
    )


def mixture(num_data=600):
    """Two Gaussians: ordered means, positive scales, shares on the simplex."""
    random = np.random.default_rng(21)
    is_first = random.random(num_data) < 0.4
    noise = random.normal(size=num_data)
    values = np.where(is_first, -1.5 + 0.6 * noise, 1.0 + 0.9 * noise)
    return Problem(
        mixture_log_likelihood,
        {"means": np.array([-1.0, 1.0]), "scales": np.ones(2), "shares": np.full(2, 0.5)},
        {"means": bb.ordered, "scales": bb.positive, "shares": bb.simplex},
        {
            "means": lambda means: stats.norm.logpdf(means, 0.0, MEANS_DEVIATION),
            "scales": stats.norm.logpdf,
            "shares": lambda shares: (SHARES_CONCENTRATION - 1) * jnp.log(shares),
        },
        (values.astype(np.float32),),
    )


CONSTRAINED = {"weibull": weibull(), "mixture": mixture()}
