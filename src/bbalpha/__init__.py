"""Approximate Bayesian inference by black-box α-divergence minimization (BB-α).

The names are listed in the order of the pipeline; each comes from the file of its step.
"""

from bbalpha import metrics
from bbalpha.data import Dataset, Splits, Standardizer, splits, standardize
from bbalpha.energy import alpha_energy, log_power_mean
from bbalpha.families import (
    CappedGaussian,
    DiagonalGaussian,
    Family,
    FullGaussian,
    LowRankGaussian,
)
from bbalpha.fitting import EarlyStopping, NonFiniteEnergyError, fit, fit_many
from bbalpha.layout import Layout
from bbalpha.models import init_linear, init_mlp, linear, mlp
from bbalpha.posterior import FitInfo, Posterior
from bbalpha.training import FitState, StepInfo, init, step
