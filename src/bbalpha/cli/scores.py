"""Scores of a model on rows with known targets, from one pass over the draws of the weights."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bbalpha import metrics
from bbalpha.cli.doors import Refusal
from bbalpha.cli.parts import ends_of_parts, in_parts
from bbalpha.cli.saved import Model
from bbalpha.data import Dataset
from bbalpha.interfaces.finite import check_finite_rows
from bbalpha.interfaces.network import model_of
from bbalpha.predictive import predictive_cdf, predictive_mean
from bbalpha.tables.messages import quote

LEVEL = 0.9  # of the intervals whose coverage is measured
SEED = 0  # of the draws of new targets
NUM_DRAWS = 2**23  # new targets over all rows, for the CRPS, which has no closed form
FEWEST_DRAWS, MOST_DRAWS = 100, 1000  # new targets per row
# A part of a long table has its own draws of the weights, at least √rows times this share. The bias
# of scores then stays far below their standard error, which falls with √rows (docs/benchmarks.md).
SHARES = {"regression": 1.0, "classification": 0.5}
NUM_SHIFTS = 4  # later draws that each draw is paired with; more hardly lower the variance


class NumberOutcomes(NamedTuple):
    """Predictions and scores of numeric targets, one number per row.

    Attributes:
        mean: The predictive mean.
        log_densities: The predictive log-density of the target.
        below: The predictive probability of a smaller target.
        up_to: The predictive probability of a target no larger: the same, except for counts.
        crps: The continuous ranked probability score.
    """

    mean: np.ndarray
    log_densities: np.ndarray
    below: np.ndarray
    up_to: np.ndarray
    crps: np.ndarray

    @property
    def pit(self) -> np.ndarray:
        """The probability integral transform; for counts, the middle of the step."""
        return (self.below + self.up_to) / 2

    def coverage(self, level: float) -> float:
        """The fraction of targets between the quantiles (1 ∓ level)/2, ends included."""
        low, high = (1 - level) / 2, (1 + level) / 2
        return float(np.mean((self.up_to >= low) & (self.below <= high)))


class ClassOutcomes(NamedTuple):
    """Predictions and scores of labels.

    Attributes:
        probabilities: The probability of every class, for every row.
        log_densities: The log-probability of every true label.
    """

    probabilities: np.ndarray
    log_densities: np.ndarray


Outcomes = NumberOutcomes | ClassOutcomes


def outcomes_of(
    model: Model, features: np.ndarray, targets: np.ndarray, show: bool = False
) -> Outcomes:
    """Predictions and scores of these rows, from one pass over the draws of the weights."""
    num_rows = len(targets)
    if model.target.task == "classification":
        ask = partial(_class_outcomes, model, num_rows)
    else:
        _check_near(model, targets)
        num_draws = int(np.clip(NUM_DRAWS // num_rows, FEWEST_DRAWS, MOST_DRAWS))
        ask = partial(_number_outcomes, model, num_rows, num_draws)
    return in_parts(ask, features, targets, np.arange(num_rows), show=show)


def _check_near(model: Model, targets: np.ndarray) -> None:
    """Refuse a target that overflows in the units and the precision of the network."""
    posterior, units = model.estimator.posterior_, model.estimator.target_units_
    with np.errstate(over="ignore"):
        sizes = np.abs(units.transform(targets[:, None])[:, 0])
    is_far = ~(sizes < np.finfo(posterior.q.mean.dtype).max)
    if is_far.any():
        row = int(is_far.argmax())
        raise Refusal(
            f"target {quote(model.target.name)} is too far from the training targets to be scored "
            f"in row {row + 1}; got {targets[row]:g}."
        )


def scores_of(model: Model, outcomes: Outcomes, targets: np.ndarray) -> dict[str, Any]:
    """All scores under their names in JSON; the standard error of a single row is NaN."""
    if isinstance(outcomes, ClassOutcomes):
        scores = _scores_of_classes(outcomes.probabilities, class_numbers(model, targets))
    else:
        scores = _scores_of_numbers(outcomes, targets)
    log_densities = outcomes.log_densities
    several = len(log_densities) > 1
    return {
        "rows": len(log_densities),
        "log_likelihood": float(log_densities.mean()),
        "log_likelihood_standard_error": (
            metrics.standard_error(log_densities) if several else np.nan
        ),
    } | scores


def levels_needed(pit: np.ndarray) -> np.ndarray:
    """The level of the narrowest central interval that contains each target."""
    return np.abs(2 * pit - 1)


def interval(level: float) -> tuple[float, float]:
    """The levels of the two quantiles that bound a central interval."""
    return (1 - level) / 2, (1 + level) / 2


def class_numbers(model: Model, targets: np.ndarray) -> np.ndarray:
    """The number of each label among the classes."""
    numbers = {label: number for number, label in enumerate(model.target.classes)}
    return np.array([numbers[label] for label in targets])


def _for_part(model: Model, num_rows: int, numbers: np.ndarray) -> Any:
    """The estimator for the part of a table with these row numbers.

    All parts together have at least as many draws as the model takes for a short table.
    """
    estimator, num_parts = model.estimator, len(ends_of_parts(num_rows)) - 1
    usual = estimator.num_predictive_samples
    fewest = SHARES[model.target.task] * math.sqrt(num_rows)
    num_samples = math.ceil(max(usual / num_parts, fewest))
    if num_samples >= usual:
        return estimator
    return estimator._with_other_draws(num_samples, int(numbers[0]))


def _class_outcomes(
    model: Model, num_rows: int, features: np.ndarray, targets: np.ndarray, numbers: np.ndarray
) -> ClassOutcomes:
    """The outcomes of some rows, which have these numbers in the table."""
    part = replace(model, estimator=_for_part(model, num_rows, numbers))
    return ClassOutcomes(*part.probabilities_and_scores(features, targets))


def _number_outcomes(
    model: Model,
    num_rows: int,
    num_draws: int,
    features: np.ndarray,
    targets: np.ndarray,
    numbers: np.ndarray,
) -> NumberOutcomes:
    """The outcomes of some rows, which have these numbers, in the units of the targets."""
    estimator = _for_part(model, num_rows, numbers)
    X, y = estimator._validated(features, targets, reset=False)
    units = estimator.target_units_
    rows = Dataset(estimator.input_units_.transform(X), units.transform(y))
    function = eqx.Partial(_with_targets, model_of(estimator.activation))
    likelihood = estimator.posterior_.hyperparams
    summary = eqx.Partial(_summary, estimator._log_mean, likelihood, num_draws)
    found = estimator._over_draws(function, rows, summary)
    check_finite_rows(found)
    mean, log_densities, below, up_to, crps = found
    return NumberOutcomes(
        mean=units.inverse(mean)[:, 0],
        log_densities=log_densities - float(units.log_scale),
        below=below[:, 0],
        up_to=up_to[:, 0],
        crps=crps[:, 0] * units.scale[0],
    )


def _with_targets(model: Any, params: Any, rows: Dataset) -> tuple[Array, Array]:
    return model(params, rows.inputs), rows.targets


def _summary(
    log_mean: Callable, likelihood: Any, num_draws: int, results: tuple[Array, Array]
) -> tuple:
    """The fields of `NumberOutcomes`, in the units of the network."""
    outputs, targets = results[0], results[1][0]  # every draw has the same targets
    new = likelihood.sample(outputs[:num_draws], key=jax.random.key(SEED))
    is_count = jnp.issubdtype(new.dtype, jnp.integer)
    up_to = predictive_cdf(likelihood, outputs, targets)
    return (
        predictive_mean(likelihood, outputs),
        log_mean(likelihood.log_prob(outputs, targets)),
        predictive_cdf(likelihood, outputs, targets - 0.5) if is_count else up_to,
        up_to,
        _crps(new.astype(outputs.dtype), targets),
    )


def _crps(draws: Array, targets: Array) -> Array:
    """E|X − y| − ½ E|X − X′|, where X′ are the next draws after X, up to `NUM_SHIFTS` later.

    Like `metrics.crps`, this is unbiased for every number of draws, but it needs no sorting.
    """
    errors = jnp.mean(jnp.abs(draws - targets[None]), axis=0)
    shifts = range(1, min(NUM_SHIFTS + 1, len(draws)))
    gaps = [jnp.mean(jnp.abs(draws[shift:] - draws[:-shift]), axis=0) for shift in shifts]
    return errors - sum(gaps) / (2 * len(gaps)) if gaps else errors


def _scores_of_classes(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    return {
        "error_rate": metrics.error_rate(probabilities, labels),
        "expected_calibration_error": metrics.expected_calibration_error(probabilities, labels),
    }


def _scores_of_numbers(outcomes: NumberOutcomes, targets: np.ndarray) -> dict[str, float]:
    needed = np.sort(levels_needed(outcomes.pit))
    covered = np.searchsorted(needed, metrics.LEVELS, side="right") / len(needed)
    return {
        "rmse": metrics.rmse(outcomes.mean, targets),
        "crps": float(outcomes.crps.mean()),
        "coverage_90": outcomes.coverage(LEVEL),
        "calibration_error": float(np.abs(covered - metrics.LEVELS).mean()),
    }
