"""A verdict on a fitted estimator: does it predict better than a constant, or than a line?

The scores are log-likelihoods of rows that are left out in turn. Nothing is fitted again: for the
estimator, the pull of each row on q is undone. To first order, the site of row n moved the mean of
the outputs fₙ by Σ ∂M_α/∂mean, which for a Gaussian fₙ equals

    Δₙ = (1/α) (E_q[p(yₙ|fₙ)^α fₙ] / E_q[p(yₙ|fₙ)^α] − E_q[fₙ]),   Cov_q(fₙ, log p(yₙ|fₙ)) at α = 0,

so row n is scored by log E_q[p(yₙ|fₙ − Δₙ)]. For classes Δₙ would be too large and is multiplied by
a factor from `freedom.py`. Importance weights 1/p(yₙ|θ) would often fail: q is wide in so many
directions of the weights that a few draws would take all the weight.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64
from sklearn.utils.validation import check_is_fitted

from bbalpha.data import Dataset
from bbalpha.interfaces import simple_models
from bbalpha.interfaces.freedom import real_pull
from bbalpha.interfaces.network import scored_model_of
from bbalpha.interfaces.settings import COUNTS
from bbalpha.metrics import standard_error
from bbalpha.posterior import log_mean_exp

FEWEST_ROWS = 3  # without one of them, two are left for a variance
MOST_ROWS = 2000  # that are scored
MANY_COLUMNS, FEWER_ROWS = 500, 500  # with so many columns a linear model of more rows is slow
MARGIN = 0.05  # nats; typical error of `held_out` for numbers, see the table in docs/tables.md
ZERO = 1e-3  # α below which the covariance takes the place of the difference


@dataclass(frozen=True)
class Verdict:
    """What `judge` found; `print` shows it in two lines.

    Scores are log-likelihoods in nats per row; higher is better.

    Attributes:
        training: The estimator on rows that it was fitted to.
        held_out: The estimator on the same rows, each left out.
        constant: A constant prediction, likewise.
        linear: A linear model, likewise.
        constant_error: Standard error of `held_out − constant`, which are paired.
        linear_error: Standard error of `held_out − linear`.
        num_rows: How many rows were scored.
    """

    training: float
    held_out: float
    constant: float
    linear: float
    constant_error: float
    linear_error: float
    num_rows: int

    @property
    def warning(self) -> str | None:
        """A sentence if a simpler model wins clearly, otherwise None.

        It wins clearly if it is better by more than the standard error of the difference and by
        more than 0.05 nats, because `held_out` is an approximation.
        """
        rivals = {
            "a constant": (self.constant, self.constant_error),
            "a linear model": (self.linear, self.linear_error),
        }
        name, (score, error) = max(rivals.items(), key=lambda rival: rival[1][0])
        if not score - self.held_out > max(error, MARGIN):  # NaN is not a win
            return None
        return (
            f"{name} predicts rows that are left out better than this model: log-likelihood "
            f"{score:.3f} against {self.held_out:.3f} per row (difference "
            f"{score - self.held_out:.3f} ± {error:.3f})."
        )

    def __str__(self) -> str:
        return (
            f"log-likelihood per row: training {self.training:.3f}, left out {self.held_out:.3f}\n"
            f"left out, simpler models: constant {self.constant:.3f}, linear {self.linear:.3f}"
        )


def judge(model: Any, X: Any, y: Any) -> Verdict:
    """Compare a fitted estimator with a constant and a linear model on rows that are left out.

    It takes a few percent of the time of a fit: at most 2,000 rows are used, evenly spread.

    Args:
        model: A fitted `BBAlphaRegressor` or `BBAlphaClassifier`.
        X: The inputs that it was fitted to.
        y: Their targets.

    Raises:
        ValueError: If the data do not suit the model, or if there are fewer than three rows.

    >>> import numpy as np
    >>> x = np.linspace(-2, 2, 60)[:, None]
    >>> y = 3 * x[:, 0] + np.random.RandomState(0).normal(size=60)
    >>> model = bb.BBAlphaRegressor((), likelihood="gaussian", random_state=0).fit(x, y)
    >>> verdict = bb.judge(model, x, y)
    >>> verdict.held_out > verdict.constant, abs(verdict.held_out - verdict.linear) < 0.05
    (True, True)
    """
    inputs, targets = judged_rows(model, X, y)
    training, held_out = scores_of_rows(model, inputs, targets)
    plain = inputs[:, : model.input_units_.mean.size]
    constant, linear = _simple_scores(model, plain, targets)
    return Verdict(
        training=float(training.mean()),
        held_out=float(held_out.mean()),
        constant=float(constant.mean()),
        linear=float(linear.mean()),
        constant_error=standard_error(held_out - constant),
        linear_error=standard_error(held_out - linear),
        num_rows=len(inputs),
    )


def judged_rows(model: Any, X: Any, y: Any) -> tuple[np.ndarray, np.ndarray]:
    """Inputs in the units of the network and targets in those of the user, of the rows to score."""
    check_is_fitted(model)
    X, y = model._validated(X, y, reset=False)
    rows = rows_to_judge(*X.shape)
    return model.input_units_.transform(X[rows]), y[rows]


def rows_to_judge(num_rows: int, num_features: int) -> np.ndarray:
    """The numbers of the rows that are scored: all or, of many, some that are evenly spread."""
    if num_rows < FEWEST_ROWS:
        rule = f"at least {FEWEST_ROWS} rows to leave one out"
        raise ValueError(f"X must have {rule}; got {num_rows}.")
    most = MOST_ROWS if num_features <= MANY_COLUMNS else FEWER_ROWS
    return evenly_spread(num_rows, most)


def evenly_spread(num_rows: int, most: int) -> np.ndarray:
    """The numbers of `most` evenly spread rows, or of all rows if there are no more."""
    return np.linspace(0, num_rows - 1, min(num_rows, most)).astype(int)


def scores_of_rows(
    model: Any, inputs: np.ndarray, targets: np.ndarray
) -> tuple[Float64[np.ndarray, " rows"], Float64[np.ndarray, " rows"]]:
    """The scores of the rows that `judged_rows` returns, and those if each is left out.

    It calls nothing of scikit-learn, whose checks change the filters of warnings for all threads.
    """
    found = summary_without(model, inputs, targets, _scores)
    training, held_out = (scores - float(model.target_units_.log_scale) for scores in found)
    return training, held_out


def summary_without(
    model: Any, inputs: np.ndarray, targets: np.ndarray, function: Callable[..., Any]
) -> Any:
    """A summary of all draws for every row, if the row is left out.

    Args:
        model: A fitted estimator.
        inputs: As `judged_rows` returns them.
        targets: Likewise.
        function: Takes the likelihood, the log-likelihoods with the row, the outputs without it,
            and the targets, in the units of the network.
    """
    likelihood = model.posterior_.hyperparams
    factor = real_pull(model, inputs) if hasattr(model, "classes_") else 1.0
    args = (function, likelihood, model.posterior_.alpha, jnp.asarray(factor))
    summary = eqx.Partial(_without, *args)
    scored_model = eqx.Partial(scored_model_of(model.activation), likelihood)
    rows = Dataset(inputs, model.target_units_.transform(targets))
    return model._over_draws(eqx.Partial(_with_targets, scored_model), rows, summary)


def _simple_scores(
    model: Any, inputs: Float64[np.ndarray, "rows columns"], targets: np.ndarray
) -> tuple[Float64[np.ndarray, " rows"], Float64[np.ndarray, " rows"]]:
    """The scores of the constant and of the linear model; several outputs are independent."""
    if hasattr(model, "classes_"):
        labels, num_classes = targets[:, 0], len(model.classes_)
        constant = simple_models.constant_class(labels, num_classes)
        return constant, simple_models.linear_class(inputs, labels, num_classes)
    has_counts = model.likelihood_ in COUNTS
    constant, linear = (
        (simple_models.constant_count, simple_models.linear_count)
        if has_counts
        else (simple_models.constant_number, simple_models.linear_number)
    )
    columns = np.asarray(targets, np.float64).T
    scores = [(constant(column), linear(inputs, column)) for column in columns]
    constants, lines = zip(*scores, strict=True)
    return np.sum(constants, axis=0), np.sum(lines, axis=0)


def _with_targets(scored_model: Any, params: Any, rows: Dataset) -> tuple[Array, ...]:
    return (*scored_model(params, rows), rows.targets)


def _without(
    function: Callable[..., Any],
    likelihood: Any,
    alpha: Float[Array, ""],
    factor: Float[Array, ""],
    results: tuple[Array, ...],
) -> Any:
    """The function of the outputs of every row, with the pull of the row undone."""
    outputs, log_likelihoods, targets = results
    centered = outputs - outputs.mean(axis=0, keepdims=True)
    weights = jax.nn.softmax(alpha * log_likelihoods, axis=0)
    slopes = log_likelihoods - log_likelihoods.mean(axis=0, keepdims=True)
    is_zero = jnp.abs(alpha) < ZERO
    pulls = jnp.where(is_zero, slopes / len(outputs), weights / jnp.where(is_zero, 1.0, alpha))
    shift = jnp.sum(pulls[..., None] * centered, axis=0, keepdims=True)  # Δₙ
    return function(likelihood, log_likelihoods, outputs - factor * shift, targets[0])


def _scores(
    likelihood: Any, log_likelihoods: Array, outputs: Array, targets: Array
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """The log-density of every row, and the same without the row."""
    return log_mean_exp(log_likelihoods), log_mean_exp(likelihood.log_prob(outputs, targets))
