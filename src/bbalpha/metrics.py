"""Metrics: predictions and targets → scores, as `bbalpha.metrics`.

Every function takes numpy or jax arrays, computes in float64 on the host, and returns a float (or a
small record). Predictive draws have shape (draws, *targets.shape). Scores are in the units of the
arguments: convert predictions to original units (`Standardizer.inverse`, `Standardizer.log_scale`)
before you compare scores with published numbers. Mismatched shapes and empty inputs raise a
`ValueError`.
"""

from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

LEVELS = np.arange(1, 100) / 100  # nominal coverages that `calibration_error` averages over
ROUNDING = 1e-4  # how far a float32 probability may stray outside [0, 1]


def predictive_log_likelihood(log_densities: ArrayLike, log_scale: ArrayLike = 0.0) -> float:
    """Return the test log-likelihood per data point, in nats; higher is better.

    (1/N) Σₙ log (1/K) Σₖ p(yₙ|xₙ, θₖ) − log_scale

    With few draws it is biased low, badly so where the spread comes from q (α near 1): use 1,000 or
    more.

    Args:
        log_densities: log p(yₙ|xₙ, θₖ), of shape (draws, data).
        log_scale: `Standardizer.log_scale` of the targets, if these were standardized.

    >>> import numpy as np, bbalpha as bb
    >>> densities = np.array([[0.1, 0.5], [0.3, 0.5]])  # two draws, two data points
    >>> round(bb.metrics.predictive_log_likelihood(np.log(densities)), 4)
    -1.1513
    """
    log_densities = _filled("log_densities", log_densities)
    if log_densities.ndim != 2:
        raise ValueError(
            f"log_densities must have shape (draws, data); got shape {log_densities.shape}."
        )
    log_sum = np.logaddexp.reduce(log_densities, axis=0)
    return float(np.mean(log_sum) - np.log(len(log_densities)) - np.asarray(log_scale))


def rmse(mean: ArrayLike, targets: ArrayLike) -> float:
    """Return the root mean squared error of the predictive mean; lower is better.

    Args:
        mean: Predictive means, in the shape of the targets.
        targets: Observed values; several outputs are averaged together.

    >>> import bbalpha as bb, numpy as np
    >>> bb.metrics.rmse(np.array([1.0, 7.0]), np.array([0.0, 0.0]))
    5.0
    """
    mean, targets = _filled("mean", mean), _filled("targets", targets)
    if mean.shape != targets.shape:
        raise ValueError(
            f"mean must have the shape of targets; got {mean.shape} with targets {targets.shape}."
        )
    return float(np.sqrt(np.mean((mean - targets) ** 2)))


def error_rate(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the fraction of data whose most probable class is wrong; lower is better.

    Args:
        probabilities: Of shape (data, classes), or (data,) for the probability of class 1 of two.
            Ties go to the lower class.
        labels: Class numbers from 0, of shape (data,).

    >>> import bbalpha as bb, numpy as np
    >>> bb.metrics.error_rate(np.array([0.9, 0.2, 0.6, 0.4]), np.array([1, 0, 0, 0]))
    0.25
    """
    probabilities, labels = _classes(probabilities, labels)
    return float(np.mean(probabilities.argmax(axis=1) != labels))


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, num_bins: int = 15
) -> float:
    """Return the mean gap between a classifier's confidence and accuracy; lower is better.

    Data are binned by the probability of their most probable class into (i/B, (i+1)/B]:
    ECE = Σ_b (|b|/N) |accuracy(b) − mean confidence(b)|.

    Args:
        probabilities: Of shape (data, classes), or (data,) for the probability of class 1 of two.
        labels: Class numbers from 0, of shape (data,).
        num_bins: Number of bins B, of equal width.

    >>> import bbalpha as bb, numpy as np
    >>> ece = bb.metrics.expected_calibration_error(np.array([0.8, 0.8, 0.8]), np.array([1, 1, 0]))
    >>> round(ece, 4)  # 80 % confident, right in two of three
    0.1333
    """
    if num_bins < 1:
        raise ValueError(f"num_bins must be at least 1; got num_bins={num_bins}.")
    probabilities, labels = _classes(probabilities, labels)
    confidence = probabilities.max(axis=1)
    correct = probabilities.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * num_bins) - 1, 0, num_bins - 1).astype(int)
    return float(np.abs(np.bincount(bins, weights=correct - confidence)).sum() / len(labels))


def coverage(draws: ArrayLike, targets: ArrayLike, level: float = 0.9) -> float:
    """Return the fraction of targets inside their central interval; closer to `level` is better.

    The ends are the p = (1 ∓ level)/2 quantiles of the draws, taken at position (K + 1)p (Hyndman
    and Fan's type 6): a correct model then covers `level` on average for every number of draws
    K ≥ (1 + level)/(1 − level).

    Args:
        draws: Predictive draws, of shape (draws, *targets.shape).
        targets: Observed values.
        level: Probability of the interval, between 0 and 1.

    >>> import bbalpha as bb, numpy as np
    >>> draws = np.linspace(-1.0, 1.0, 101)[:, None] * np.ones(4)
    >>> bb.metrics.coverage(draws, np.array([0.0, 0.4, -0.6, 3.0]), level=0.5)
    0.5
    """
    if not 0 < level < 1:
        raise ValueError(f"level must lie between 0 and 1; got level={level}.")
    draws, targets = _draws_and_targets(draws, targets)
    tails = [(1 - level) / 2, (1 + level) / 2]
    lower, upper = np.quantile(draws, tails, axis=0, method="weibull")
    return float(np.mean((lower <= targets) & (targets <= upper)))


def pit(draws: ArrayLike, targets: ArrayLike) -> np.ndarray:
    """Return the predictive distribution function at each target; uniform on [0, 1] is best.

    The probability integral transform uₙ = (#{draws < yₙ} + ½ #{draws = yₙ} + ½)/(K + 1).

    Args:
        draws: Predictive draws, of shape (draws, *targets.shape).
        targets: Observed values.

    >>> import bbalpha as bb, numpy as np
    >>> bb.metrics.pit(np.array([[1.0], [2.0], [3.0]]), np.array([2.5])).tolist()
    [0.625]
    """
    draws, targets = _draws_and_targets(draws, targets)
    below = np.sum(draws < targets, axis=0) + np.sum(draws == targets, axis=0) / 2
    return (below + 0.5) / (len(draws) + 1)


def calibration_error(draws: ArrayLike, targets: ArrayLike) -> float:
    """Return the mean gap between nominal and empirical coverage; lower is better.

    The central interval of level c contains the target if |2u − 1| ≤ c, with u from `pit`. The
    error is the mean over c = 0.01, …, 0.99 of |#{n: |2uₙ − 1| ≤ c}/N − c|: 0 for a calibrated
    model, ½ for one whose intervals contain nothing or everything. By chance, a calibrated model
    scores about 1/(3√N) on N data.

    Args:
        draws: Predictive draws, of shape (draws, *targets.shape).
        targets: Observed values.

    >>> import bbalpha as bb, numpy as np
    >>> draws = np.linspace(-1.0, 1.0, 101)[:, None] * np.ones(3)
    >>> round(bb.metrics.calibration_error(draws, np.array([5.0, 5.0, -5.0])), 3)
    0.5
    """
    needed = np.sort(np.abs(2 * pit(draws, targets) - 1), axis=None)  # level that just reaches yₙ
    empirical = np.searchsorted(needed, LEVELS, side="right") / needed.size
    return float(np.mean(np.abs(empirical - LEVELS)))


def crps(draws: ArrayLike, targets: ArrayLike) -> float:
    """Return the continuous ranked probability score, in units of the targets; lower is better.

    The fair estimator (1/K) Σₖ |xₖ − y| − 1/(2K(K − 1)) Σₖₗ |xₖ − xₗ|, averaged over the targets:
    unbiased for the score of the underlying distribution, so that results with 50 and with 1,000
    draws are comparable (dividing by K² instead would give 1/K of the spread too much). It may be
    slightly negative. A single draw is scored as a point, |x − y|.

    Args:
        draws: Predictive draws, of shape (draws, *targets.shape).
        targets: Observed values.

    >>> import bbalpha as bb, numpy as np
    >>> bb.metrics.crps(np.array([[0.0], [2.0]]), np.array([1.0]))
    0.0
    >>> bb.metrics.crps(np.array([[0.0], [2.0]]), np.array([3.0]))
    1.0
    """
    draws, targets = _draws_and_targets(draws, targets)
    num_draws = len(draws)
    errors = np.sort(draws - targets, axis=0)
    signs = 2 * np.arange(1, num_draws + 1) - num_draws - 1  # Σₖₗ |xₖ − xₗ| = 2 Σₖ signₖ x₍ₖ₎
    spread = np.tensordot(signs, errors, axes=1) / max(num_draws * (num_draws - 1), 1)
    return float(np.mean(np.abs(errors).mean(axis=0) - spread))


class AverageRank(NamedTuple):
    """Rank of each method, averaged over the cases; 1 is best.

    Attributes:
        mean: Of shape (methods,).
        standard_error: Of the mean, of shape (methods,).
    """

    mean: np.ndarray
    standard_error: np.ndarray


def average_rank(scores: ArrayLike, higher_is_better: bool = True) -> AverageRank:
    """Return the average rank of each method over the cases; lower is better, 1 is best.

    Args:
        scores: Of shape (cases, methods); a case is a data set, a split, or both. Methods that tie
            share the mean of their ranks.
        higher_is_better: True for log-likelihoods, false for errors.

    >>> import bbalpha as bb, numpy as np
    >>> scores = np.array([[-2.5, -2.4, -2.4], [-1.0, -0.8, -0.9]])
    >>> bb.metrics.average_rank(scores).mean.tolist()
    [3.0, 1.25, 1.75]
    """
    found = ranks(scores, higher_is_better)
    if len(found) < 2:
        raise ValueError(
            "scores must have shape (cases, methods) with at least two cases; "
            f"got shape {found.shape}."
        )
    return AverageRank(found.mean(axis=0), np.apply_along_axis(standard_error, 0, found))


def ranks(scores: ArrayLike, higher_is_better: bool = True) -> np.ndarray:
    """Return the rank of each method in each case; lower is better, 1 is best.

    Args:
        scores: Of shape (cases, methods). Methods that tie share the mean of their ranks.
        higher_is_better: True for log-likelihoods, false for errors.

    >>> import bbalpha as bb, numpy as np
    >>> bb.metrics.ranks(np.array([[-2.5, -2.4, -2.4], [-1.0, -0.8, -0.9]])).tolist()
    [[3.0, 1.5, 1.5], [3.0, 1.0, 2.0]]
    """
    scores = _filled("scores", scores)
    if scores.ndim != 2:
        raise ValueError(f"scores must have shape (cases, methods); got shape {scores.shape}.")
    if np.isnan(scores).any():
        case, method = np.argwhere(np.isnan(scores))[0]
        raise ValueError(f"scores must not be NaN; got NaN for case {case}, method {method}.")
    ours, theirs = scores[:, :, None], scores[:, None, :]
    beaten = theirs > ours if higher_is_better else theirs < ours
    return np.sum(beaten + (theirs == ours) / 2, axis=2) + 0.5


def standard_error(values: ArrayLike) -> float:
    """Return the standard error of the mean of independent values, √(s²/n) with ddof 1.

    Args:
        values: At least two values, of shape (n,); to compare two methods, paired differences.

    >>> import bbalpha as bb, numpy as np
    >>> bb.metrics.standard_error(np.array([1.0, 1.0, 1.0, 5.0]))
    1.0
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(
            f"values must have shape (n,) with n at least 2; got shape {values.shape}."
        )
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def _filled(name: str, values: ArrayLike) -> np.ndarray:
    """The values in float64; raises if there are none."""
    values = np.asarray(values, dtype=np.float64)
    if values.size == 0:
        raise ValueError(f"{name} must not be empty; got shape {values.shape}.")
    return values


def _draws_and_targets(draws: ArrayLike, targets: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Both in float64; raises unless each draw has the shape of the targets."""
    draws, targets = _filled("draws", draws), _filled("targets", targets)
    if draws.shape[1:] != targets.shape or draws.ndim == 0:
        raise ValueError(
            "draws must have shape (draws, *targets.shape); "
            f"got {draws.shape} with targets {targets.shape}."
        )
    return draws, targets


def _classes(probabilities: ArrayLike, labels: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities in float64, of shape (data, classes), and labels; raises if one is invalid."""
    probabilities, labels = _filled("probabilities", probabilities), np.asarray(labels)
    if probabilities.ndim not in (1, 2) or labels.shape != probabilities.shape[:1]:
        raise ValueError(
            "probabilities must have shape (data, classes) or (data,) and labels (data,); "
            f"got {probabilities.shape} with labels {labels.shape}."
        )
    inside = (probabilities >= -ROUNDING) & (probabilities <= 1 + ROUNDING)
    if not inside.all():
        raise ValueError(
            f"probabilities must lie between 0 and 1; got {probabilities[~inside][0]}."
        )
    if probabilities.ndim == 1:
        probabilities = np.stack([1 - probabilities, probabilities], axis=1)
    known = np.isin(labels, np.arange(probabilities.shape[1]))
    if not known.all():
        raise ValueError(
            f"labels must be class numbers from 0 to {probabilities.shape[1] - 1}; "
            f"got label {labels[~known][0]}."
        )
    return probabilities, labels
