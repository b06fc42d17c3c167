"""The public names, in the order in which to read the files of the method."""

from .engine.layout import Layout
from .engine.special import log_ndtr
from .data import Dataset, Splits, Standardizer, splits, standardize
from .models import init_linear, init_mlp, linear, mlp
from .likelihoods import (
    Bernoulli,
    Categorical,
    Gaussian,
    HeteroscedasticGaussian,
    Likelihood,
    OrderedLikelihood,
    Poisson,
    Probit,
    StudentT,
)
from .predictive import (
    predictive_cdf,
    predictive_log_density,
    predictive_mean,
    predictive_quantiles,
    predictive_variance,
)
from .distributions import (
    CappedGaussian,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
    LowRankGaussian,
)
from .energy import alpha_energy, log_power_mean
from .divergences import alpha_divergence, log_alpha_divergence_on_grid
from .posterior import FitInfo, Posterior
from .state import FitState, StepInfo
from .training import init, step
from .stopping import EarlyStopping
from .fitting import NonFiniteEnergyError, fit, fit_many
from .engine.cache import use_compilation_cache
from . import metrics
from .interfaces.classifier import BBAlphaClassifier
from .interfaces.estimator import Uncertainty
from .interfaces.regressor import BBAlphaRegressor

__version__: str

__all__ = [
    "Layout",
    "log_ndtr",
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
    "OrderedLikelihood",
    "Poisson",
    "Probit",
    "StudentT",
    "predictive_cdf",
    "predictive_log_density",
    "predictive_mean",
    "predictive_quantiles",
    "predictive_variance",
    "CappedGaussian",
    "DiagonalGaussian",
    "Distribution",
    "FullGaussian",
    "LowRankGaussian",
    "alpha_energy",
    "log_power_mean",
    "alpha_divergence",
    "log_alpha_divergence_on_grid",
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
    "use_compilation_cache",
    "metrics",
    "BBAlphaClassifier",
    "Uncertainty",
    "BBAlphaRegressor",
]
