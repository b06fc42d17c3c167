"""Predictions of an estimator for its training rows, each left out in turn."""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array

from bbalpha.interfaces import left_out
from bbalpha.interfaces.settings import COUNTS
from bbalpha.interfaces.stacking import members_of
from bbalpha.posterior import log_mean_exp
from bbalpha.predictive import predictive_cdf, predictive_mean


class RowsLeftOut(NamedTuple):
    """Predictions for training rows, each left out in turn, in the units of the targets.

    Attributes:
        training: Log-densities of the rows when they are not left out.
        held_out: Log-densities of the rows when each is left out.
        mean: The predictive mean, or the probabilities of all classes.
        below: The probability of a smaller target, by column; empty for classes.
        up_to: The probability of a target no larger: the same, except for counts.
    """

    training: np.ndarray
    held_out: np.ndarray
    mean: np.ndarray
    below: np.ndarray
    up_to: np.ndarray


def predicted_without(model: Any, rows: left_out.RowsToScore) -> RowsLeftOut:
    """The predictions for training rows, each left out in turn."""
    return said_without(model, responses_of(model, rows))


def responses_of(model: Any, rows: left_out.RowsToScore) -> list[left_out.Responses]:
    """What leaving out each row does to every member of the posterior."""
    members = members_of(model, model.posterior_)
    return [left_out.responses_of(model, member, rows) for member in members]


def said_without(model: Any, responses: list[left_out.Responses]) -> RowsLeftOut:
    """The same as `predicted_without`, if the responses are known."""
    is_classifier = hasattr(model, "classes_")
    function = _of_numbers
    if is_classifier:
        function = _of_classes
    elif model.likelihood_ in COUNTS:
        function = _of_counts
    training, found = left_out.summary_without(model, responses, function)
    held_out, mean, *chances = found
    units = model.target_units_
    scores = training, held_out - float(units.log_scale)
    if is_classifier:
        return RowsLeftOut(*scores, both_classes(mean), np.zeros(0), np.zeros(0))
    return RowsLeftOut(*scores, units.inverse(mean), chances[0], chances[-1])


def both_classes(probabilities: np.ndarray) -> np.ndarray:
    """The probabilities of all classes; probit gives only that of the second class."""
    if probabilities.shape[1] > 1:
        return probabilities
    return np.concatenate([1 - probabilities, probabilities], axis=1)


def _of_classes(likelihood: Any, outputs: Array, targets: Array) -> tuple[Array, ...]:
    densities = jax.vmap(likelihood.log_prob, (0, None))(outputs, targets)
    return log_mean_exp(densities), predictive_mean(likelihood, outputs)


def _of_numbers(likelihood: Any, outputs: Array, targets: Array) -> tuple[Array, ...]:
    scores = _of_classes(likelihood, outputs, targets)
    return *scores, predictive_cdf(likelihood, outputs, targets)


def _of_counts(likelihood: Any, outputs: Array, targets: Array) -> tuple[Array, ...]:
    *scores, up_to = _of_numbers(likelihood, outputs, targets)
    return *scores, predictive_cdf(likelihood, outputs, targets - 0.5), up_to
