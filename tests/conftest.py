"""Cases that several files of tests share."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from scipy.special import expit, softmax

import bbalpha as bb

REALS = np.sinh(np.linspace(-22, 22, 4001))  # out to ±1e9, for the heavy tails
REAL_WEIGHTS = np.cosh(np.linspace(-22, 22, 4001)) * 44 / 4000
CLASSES = np.arange(3.0)


@dataclass(frozen=True, eq=False)
class LikelihoodCase:
    """A likelihood next to the same distribution in scipy."""

    name: str
    make: Callable[[], Any]
    values: np.ndarray  # of a target
    weights: np.ndarray  # that make a sum over the values an integral
    distribution: Callable[[np.ndarray], Any]  # in scipy, given the outputs
    columns: int = 1  # of the outputs, per column of the targets

    @property
    def is_ordered(self):
        return self.name in ORDERED

    @property
    def is_discrete(self):
        return self.values is not REALS

    def outputs(self, *axes, num_targets=1):
        """Outputs of shape (*axes, columns), of both signs."""
        shape = (*axes, self.columns * num_targets)
        return jnp.asarray(1.3 * np.random.default_rng(1).normal(size=shape) + 0.2, float)

    def targets(self, num_data, num_targets=1):
        """Targets of shape (num_data, num_targets) that the likelihood allows."""
        chosen = self.values[:5] if self.is_discrete else np.linspace(-3, 3, 7)
        return np.random.default_rng(0).choice(chosen, (num_data, num_targets)).astype(np.float32)

    def log_density(self, outputs, targets):
        """What scipy says of every datum; the columns of the targets are summed."""
        distribution = self.distribution(np.asarray(outputs, np.float64))
        log_density = distribution.logpmf if self.is_discrete else distribution.logpdf
        return log_density(np.asarray(targets, np.float64)).sum(-1)

    def indicators(self, targets):
        """What mean and variance describe: the target, or for Categorical the class indicators."""
        targets = np.asarray(targets, np.float64)
        if self.name != "Categorical":
            return targets
        return (targets[..., None] == CLASSES).astype(float)


class ScipyCategorical:
    """The categorical distribution, which scipy lacks, with the methods of its distributions."""

    def __init__(self, outputs):
        self.log_probabilities = np.log(softmax(outputs, axis=-1))

    def logpmf(self, labels):
        shape = (*self.log_probabilities.shape[:-1], 1)
        labels = np.broadcast_to(labels.astype(int), shape)
        return np.take_along_axis(self.log_probabilities, labels, axis=-1)


def two_columns(outputs):
    mean, log_variance = np.split(outputs, 2, axis=-1)
    return st.norm(mean, np.exp(log_variance / 2))


BITS, COUNTS = np.arange(2.0), np.arange(150.0)
LIKELIHOODS = [
    LikelihoodCase(
        "Gaussian",
        lambda: bb.Gaussian(log_variance=-0.7),
        REALS,
        REAL_WEIGHTS,
        lambda f: st.norm(f, np.exp(-0.35)),
    ),
    LikelihoodCase(
        "HeteroscedasticGaussian",
        bb.HeteroscedasticGaussian,
        REALS,
        REAL_WEIGHTS,
        two_columns,
        columns=2,
    ),
    LikelihoodCase(
        "StudentT",
        lambda: bb.StudentT(log_scale=-0.3, log_degrees_of_freedom=np.log(12.0)),
        REALS,
        REAL_WEIGHTS,
        lambda f: st.t(12.0, f, np.exp(-0.3)),
    ),
    LikelihoodCase("Probit", bb.Probit, BITS, np.ones(2), lambda f: st.bernoulli(st.norm.cdf(f))),
    LikelihoodCase("Bernoulli", bb.Bernoulli, BITS, np.ones(2), lambda f: st.bernoulli(expit(f))),
    LikelihoodCase("Categorical", bb.Categorical, CLASSES, np.ones(3), ScipyCategorical, columns=3),
    LikelihoodCase("Poisson", bb.Poisson, COUNTS, np.ones(150), lambda f: st.poisson(np.exp(f))),
    LikelihoodCase(
        "NegativeBinomial",
        lambda: bb.NegativeBinomial(log_size=np.log(8.0)),
        COUNTS,
        np.ones(150),
        lambda f: st.nbinom(8.0, 1 / (1 + np.exp(f) / 8.0)),
    ),
]
ORDERED = ("Gaussian", "HeteroscedasticGaussian", "StudentT", "Poisson", "NegativeBinomial")


def fixture_of(cases):
    """A fixture that runs a test for every case, named after it."""
    return pytest.fixture(params=cases, ids=[case.name for case in cases])(
        lambda request: request.param
    )


likelihood_case = fixture_of(LIKELIHOODS)
single_column_case = fixture_of([case for case in LIKELIHOODS if case.name != "Categorical"])
ordered_case = fixture_of([case for case in LIKELIHOODS if case.is_ordered])
continuous_case = fixture_of([case for case in LIKELIHOODS if not case.is_discrete])
