"""Ten posteriors with known answers: small models whose optimum every fit should reach.

`references.json` holds the answers, made by `benchmarks/references.py`. Every parameter has the
default prior, N(0, 1). Data come from NumPy with fixed seeds or are bundled with scikit-learn; they
are single precision, so that fits in single and double precision see the same numbers.
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
from sklearn.datasets import load_breast_cancer, load_diabetes

ANSWERS = Path(__file__).with_suffix(".json")

LINEAR_NOISE = 0.02  # deviation: the weakest direction of the design tells as much as the prior
RIDGE_NOISE = 1.0
DEGREES_OF_FREEDOM = 4.0
NUM_GROUPS = 10


@dataclass(frozen=True)
class Problem:
    """A model, the start of the mean of q, and the data."""

    log_likelihood: Callable
    params: Any
    data: tuple

    @property
    def num_data(self):
        return len(self.data[-1])


def answers():
    """The reference values by problem; parameters are in the order of `bb.Layout`."""
    return json.loads(ANSWERS.read_text())["problems"]


def linear_log_likelihood(weights, batch):
    inputs, targets = batch
    return stats.norm.logpdf(targets, inputs @ weights, LINEAR_NOISE)


def logistic_log_likelihood(weights, batch):
    inputs, signs = batch
    return jax.nn.log_sigmoid(signs * (inputs @ weights))


def probit_log_likelihood(weights, batch):
    inputs, signs = batch
    return stats.norm.logcdf(signs * (inputs @ weights))


def poisson_log_likelihood(params, batch):
    inputs, counts = batch
    return stats.poisson.logpmf(counts, jnp.exp(params["intercept"] + inputs @ params["weights"]))


def student_t_log_likelihood(params, batch):
    inputs, targets = batch
    scale = jnp.exp(params["log_scale"])
    return stats.t.logpdf(targets, DEGREES_OF_FREEDOM, inputs @ params["weights"], scale)


def heteroscedastic_log_likelihood(params, batch):
    inputs, targets = batch
    deviations = jnp.exp(inputs @ params["log_deviation"])
    return stats.norm.logpdf(targets, inputs @ params["mean"], deviations)


def mixture_log_likelihood(params, batch):
    (values,) = batch
    log_shares = jax.nn.log_sigmoid(params["logit_share"] * jnp.array([1.0, -1.0]))
    deviations = jnp.exp(params["log_deviations"])
    log_densities = stats.norm.logpdf(values[:, None], params["means"][None], deviations[None])
    return jax.nn.logsumexp(log_shares[None] + log_densities, axis=1)


def autoregression_log_likelihood(params, batch):
    past, present = batch
    deviation = jnp.exp(params["log_noise"])
    return stats.norm.logpdf(present, past @ params["coefficients"], deviation)


def ridge_log_likelihood(weights, batch):
    inputs, targets = batch
    return stats.norm.logpdf(targets, inputs @ weights, RIDGE_NOISE)


def hierarchical_log_likelihood(params, batch):
    groups, targets = batch
    effects = jnp.exp(params["log_group_deviation"]) * params["effects"]
    return stats.norm.logpdf(
        targets, params["mean"] + effects[groups], jnp.exp(params["log_noise"])
    )


def linear(num_data=100, num_weights=6):
    """Columns so correlated that XᵀX has condition number 10⁶, of entries around one."""
    random = np.random.default_rng(1)
    left = orthogonal(random.normal(size=(num_data, num_weights)))
    right = orthogonal(random.normal(size=(num_weights, num_weights)))
    singular_values = np.sqrt(num_data * num_weights) * np.logspace(0, -3, num_weights)
    inputs = left * singular_values @ right.T
    targets = inputs @ random.normal(size=num_weights) + LINEAR_NOISE * random.normal(size=num_data)
    return problem(linear_log_likelihood, np.zeros(num_weights), (inputs, targets))


def logistic():
    """Breast cancer: 569 rows, thirty columns that are strongly correlated, and an intercept."""
    inputs, labels = load_breast_cancer(return_X_y=True)
    inputs = with_intercept(standardized(inputs))
    return problem(logistic_log_likelihood, np.zeros(inputs.shape[1]), (inputs, 2.0 * labels - 1))


def probit(num_data=200, num_weights=5):
    random = np.random.default_rng(3)
    inputs = random.normal(size=(num_data, num_weights))
    utilities = inputs @ random.normal(size=num_weights) + random.normal(size=num_data)
    return problem(probit_log_likelihood, np.zeros(num_weights), (inputs, np.sign(utilities)))


def poisson(num_data=100):
    """Counts from 1 to 40."""
    random = np.random.default_rng(4)
    weights = np.array([0.5, -0.4, 0.3, 0.2])
    inputs = random.normal(size=(num_data, len(weights)))
    counts = random.poisson(np.exp(2.0 + inputs @ weights)).astype(float)
    start = {"intercept": np.zeros(()), "weights": np.zeros(len(weights))}
    return problem(poisson_log_likelihood, start, (inputs, counts))


def student_t():
    """Diabetes: 442 rows, ten columns of which several are strongly correlated."""
    inputs, targets = (standardized(array) for array in load_diabetes(return_X_y=True))
    start = {"log_scale": np.zeros(()), "weights": np.zeros(inputs.shape[1])}
    return problem(student_t_log_likelihood, start, (inputs, targets))


def heteroscedastic(num_data=200):
    random = np.random.default_rng(6)
    inputs = with_intercept(random.normal(size=(num_data, 2)))
    deviations = np.exp(inputs @ [0.6, -0.4, -0.5])
    targets = inputs @ [1.0, -0.5, 0.5] + deviations * random.normal(size=num_data)
    start = {"log_deviation": np.zeros(3), "mean": np.zeros(3)}
    return problem(heteroscedastic_log_likelihood, start, (inputs, targets))


def mixture(num_data=1000):
    """Two overlapping Gaussians; the start of the means says which is which."""
    random = np.random.default_rng(7)
    is_first = random.random(num_data) < 0.35
    noise = random.normal(size=num_data)
    values = np.where(is_first, -1.5 + 0.6 * noise, 1.0 + 1.0 * noise)
    start = {
        "log_deviations": np.zeros(2),
        "logit_share": np.zeros(()),
        "means": np.array([-1.0, 1.0]),
    }
    return problem(mixture_log_likelihood, start, (values,))


def autoregression(num_data=200, order=5):
    """A series whose next value depends on its last five."""
    random = np.random.default_rng(8)
    coefficients = np.array([0.6, 0.2, -0.3, 0.25, -0.2])  # of the last value first
    series = np.zeros(order + 100 + num_data)
    for time in range(order, len(series)):
        series[time] = coefficients @ series[time - order : time][::-1] + 0.5 * random.normal()
    series = series[-num_data - order :]
    past = np.stack([series[order - lag : len(series) - lag] for lag in range(1, order + 1)], 1)
    start = {"coefficients": np.zeros(order), "log_noise": np.zeros(())}
    return problem(autoregression_log_likelihood, start, (past, series[order:]))


def ridge(num_data=80, num_weights=100):
    """More weights than data: the prior decides in twenty directions."""
    random = np.random.default_rng(9)
    inputs = random.normal(size=(num_data, num_weights))
    targets = inputs @ random.normal(size=num_weights) + RIDGE_NOISE * random.normal(size=num_data)
    return problem(ridge_log_likelihood, np.zeros(num_weights), (inputs, targets))


def hierarchical(num_data=200):
    """Groups whose effects are non-centred: standard normal, times their deviation."""
    random = np.random.default_rng(10)
    groups = np.arange(num_data) % NUM_GROUPS
    effects = 0.7 * random.normal(size=NUM_GROUPS)
    targets = 1.0 + effects[groups] + 1.2 * random.normal(size=num_data)
    start = {
        "effects": np.zeros(NUM_GROUPS),
        "log_group_deviation": np.zeros(()),
        "log_noise": np.zeros(()),
        "mean": np.zeros(()),
    }
    return problem(hierarchical_log_likelihood, start, (groups, targets))


def problem(log_likelihood, params, data):
    """The problem with all numbers in single precision."""

    def single(leaf):
        return leaf.astype(np.int32 if leaf.dtype.kind == "i" else np.float32)

    return Problem(log_likelihood, jax.tree.map(single, params), tuple(map(single, data)))


def orthogonal(matrix):
    """Orthonormal columns, with signs that do not depend on the linear-algebra library."""
    columns, upper = np.linalg.qr(matrix)
    return columns * np.sign(np.diag(upper))


def standardized(array):
    return (array - array.mean(axis=0)) / array.std(axis=0)


def with_intercept(inputs):
    return np.column_stack([np.ones(len(inputs)), inputs])


REFERENCES = {
    "linear": linear(),
    "logistic": logistic(),
    "probit": probit(),
    "poisson": poisson(),
    "student_t": student_t(),
    "heteroscedastic": heteroscedastic(),
    "mixture": mixture(),
    "autoregression": autoregression(),
    "ridge": ridge(),
    "hierarchical": hierarchical(),
}
