"""Approximate Bayesian inference by black-box α-divergence minimization (BB-α).

The public names stand in the order of the pipeline; each comes from the file of its step.
"""

from bbalpha import metrics
from bbalpha.data import Dataset, Splits, Standardizer, splits, standardize
from bbalpha.models import init_linear, init_mlp, linear, mlp
from bbalpha.likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    Poisson,
    Probit,
    StudentT,
    predictive_log_density,
    predictive_mean,
    predictive_variance,
)
from bbalpha.special import log_ndtr
from bbalpha.layout import Layout
from bbalpha.families import (
    CappedGaussian,
    DiagonalGaussian,
    Family,
    FullGaussian,
    LowRankGaussian,
)
from bbalpha.energy import alpha_energy, log_power_mean
from bbalpha.posterior import FitInfo, Posterior
from bbalpha.training import FitState, StepInfo, init, step
from bbalpha.loop import EarlyStopping
from bbalpha.fitting import NonFiniteEnergyError, fit, fit_many

__all__ = [
    "Dataset",
    "Splits",
    "Standardizer",
    "splits",
    "standardize",
    "init_linear",
    "init_mlp",
    "linear",
    "mlp",
    "Bernoulli",
    "Categorical",
    "Gaussian",
    "HeteroscedasticGaussian",
    "Likelihood",
    "Poisson",
    "Probit",
    "StudentT",
    "predictive_log_density",
    "predictive_mean",
    "predictive_variance",
    "log_ndtr",
    "Layout",
    "CappedGaussian",
    "DiagonalGaussian",
    "Family",
    "FullGaussian",
    "LowRankGaussian",
    "alpha_energy",
    "log_power_mean",
    "FitInfo",
    "Posterior",
    "FitState",
    "StepInfo",
    "init",
    "step",
    "EarlyStopping",
    "NonFiniteEnergyError",
    "fit",
    "fit_many",
    "metrics",
]
