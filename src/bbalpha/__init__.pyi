"""The public names, in the order in which to read the files of the method."""

from .engine.layout import Layout, Transform
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
    Probit,
    StudentT,
)
from .counts import NegativeBinomial, Poisson
from .predictive import (
    predictive_cdf,
    predictive_log_density,
    predictive_mean,
    predictive_quantiles,
    predictive_variance,
)
from .transforms import interval, ordered, positive, probability, simplex
from .distributions import (
    CappedGaussian,
    Density,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
)
from .low_rank import LowRankGaussian, NarrowedGaussian
from .mixtures import GaussianMixture
from .priors import DensityPrior
from .energy import alpha_energy, log_power_mean
from .divergences import alpha_divergence, log_alpha_divergence_on_grid
from .reweighting import Reweighted
from .diagnostics import Diagnosis
from .natural import natural_gradients
from .summaries import Summary, SummaryRow
from .posterior import FitInfo, Posterior
from .state import FitState, StepInfo
from .training import init, step
from .convergence import ConvergenceWarning
from .stopping import EarlyStopping
from .fitting import NonFiniteEnergyError, fit
from .replicas import fit_many
from .runtime.sources import Source
from .engine.chunks import SourceError
from .runtime.parquet import ParquetRows
from .runtime.moments import standardize_rows
from .runtime.checkpoints import Checkpoint
from .runtime.hosts import join_processes
from .runtime.failures import ProcessError
from .engine.cache import use_compilation_cache
from .message_passing.sweeps import power_ep
from .message_passing.double_loop import double_loop_ep
from .message_passing.variational import vmp
from .message_passing.tied import averaged_ep, stochastic_ep
from .message_passing.stationary import fixed_point
from .message_passing.server import snep
from .message_passing.comparison import Comparison, ComparisonRow
from .message_passing.comparing import compare
from . import metrics
from .tables.transformer import TableEncoder
from .interfaces.classifier import BBAlphaClassifier
from .interfaces.uncertainty import Uncertainty
from .interfaces.regressor import BBAlphaRegressor
from .interfaces.scoring import log_likelihood_score
from .interfaces.left_out import LeftOut, leave_one_out
from .interfaces.alpha_curve import AlphaCurve
from .interfaces.calibration import Calibration
from .interfaces.verdict import Verdict, judge

__version__: str

__all__ = [
    "Layout",
    "Transform",
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
    "Probit",
    "StudentT",
    "NegativeBinomial",
    "Poisson",
    "predictive_cdf",
    "predictive_log_density",
    "predictive_mean",
    "predictive_quantiles",
    "predictive_variance",
    "interval",
    "ordered",
    "positive",
    "probability",
    "simplex",
    "CappedGaussian",
    "Density",
    "DiagonalGaussian",
    "Distribution",
    "FullGaussian",
    "LowRankGaussian",
    "NarrowedGaussian",
    "GaussianMixture",
    "DensityPrior",
    "alpha_energy",
    "log_power_mean",
    "alpha_divergence",
    "log_alpha_divergence_on_grid",
    "Reweighted",
    "Diagnosis",
    "natural_gradients",
    "Summary",
    "SummaryRow",
    "FitInfo",
    "Posterior",
    "FitState",
    "StepInfo",
    "init",
    "step",
    "ConvergenceWarning",
    "EarlyStopping",
    "NonFiniteEnergyError",
    "fit",
    "fit_many",
    "Source",
    "SourceError",
    "ParquetRows",
    "standardize_rows",
    "Checkpoint",
    "join_processes",
    "ProcessError",
    "use_compilation_cache",
    "power_ep",
    "double_loop_ep",
    "vmp",
    "averaged_ep",
    "stochastic_ep",
    "fixed_point",
    "snep",
    "Comparison",
    "ComparisonRow",
    "compare",
    "metrics",
    "TableEncoder",
    "BBAlphaClassifier",
    "Uncertainty",
    "BBAlphaRegressor",
    "log_likelihood_score",
    "LeftOut",
    "leave_one_out",
    "AlphaCurve",
    "Calibration",
    "Verdict",
    "judge",
]
