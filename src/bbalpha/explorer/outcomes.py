"""Predictions of a fitted estimator for a page: for rows, for left-out rows, and along a column."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bbalpha.explorer.columns import ShownColumn
from bbalpha.interfaces import left_out as left_out_rows
from bbalpha.interfaces.classifier import entropies
from bbalpha.interfaces.network import model_of, summarized
from bbalpha.interfaces.regressor import variances
from bbalpha.interfaces.without import RowsLeftOut, both_classes, predicted_without
from bbalpha.predictive import predictive_mean, quantiles_at_tails, tails

INTERVAL = (0.05, 0.95)  # the levels at the ends of intervals and bands
NUM_BACKGROUND = 24  # rows in which every grid value is tried
NUM_DRAWS = 200  # draws of the weights for a curve
EVERY = 5  # only every fifth draw is used for the intervals along a curve, which take the longest


class Rows(NamedTuple):
    """Predictions for rows.

    Attributes:
        mean: The predictive mean, or the probabilities of all classes.
        interval: The ends of the 90 % interval; empty for classes.
        noise: The standard deviation of the noise; for classes, its part of the entropy in nats.
        doubt: The same for the uncertainty about the weights.
    """

    mean: np.ndarray
    interval: np.ndarray
    noise: np.ndarray
    doubt: np.ndarray


class Curve(NamedTuple):
    """The predictions along a column, averaged over rows.

    Attributes:
        mean: At each grid value, the mean, or the probabilities of the shown classes.
        doubt: The ends of the range that contains the mean for 90 % of the draws of the weights.
        interval: The average ends of the 90 % intervals for new targets; None for classes.
    """

    mean: np.ndarray
    doubt: np.ndarray
    interval: np.ndarray | None


def is_classifier(model: Any) -> bool:
    """Whether the targets are classes."""
    return hasattr(model, "classes_")


def left_out(model: Any, X: Any, y: Any) -> RowsLeftOut:
    """Predictions for some of the training rows, each left out in turn."""
    rows = left_out_rows.rows_of(model, *left_out_rows.chosen_rows(model, X, y)[1:])
    found = predicted_without(model, rows)
    if is_classifier(model):
        return found
    columns = (found.mean[:, 0], found.below[:, 0], found.up_to[:, 0])
    return RowsLeftOut(found.training, found.held_out, *columns)


def rows_of(model: Any, features: np.ndarray) -> Rows:
    """Predictions for rows with these features."""
    if is_classifier(model):
        mean, total, noise = _over_draws(model, features, _of_classes)
        return Rows(both_classes(mean), np.zeros((0, 2)), noise, np.maximum(total - noise, 0))
    found = _over_draws(model, features, _of_numbers, *tails(INTERVAL))
    mean, noise, doubt, low, high = (column[:, 0] for column in found)
    units = model.target_units_
    scale, center = units.scale[0], units.mean[0]
    ends = np.stack([low, high], axis=-1) * scale + center
    return Rows(mean * scale + center, ends, np.sqrt(noise) * scale, np.sqrt(doubt) * scale)


def curves_along(
    model: Any, columns: Sequence[ShownColumn], background: np.ndarray, classes: np.ndarray
) -> list[Curve]:
    """The predictions if all rows of the background had each value of a column's grid.

    All columns share one pass over the draws.

    Args:
        model: The fitted estimator.
        columns: The columns.
        background: Features of some rows.
        classes: The numbers of the classes to show.
    """
    model = copy.copy(model)
    model.num_predictive_samples = min(model.num_predictive_samples, NUM_DRAWS)
    rows = np.concatenate([_with_grid(column, background) for column in columns])
    if is_classifier(model):
        (draws,) = _over_draws(model, rows, _of_class_draws, classes)
        found, scale, center = [draws], 1.0, 0.0
    else:
        ends, draws = _over_draws(model, rows, _of_number_draws, *tails(INTERVAL))
        found = [draws, ends]
        scale, center = model.target_units_.scale[0], model.target_units_.mean[0]
    places = np.cumsum([len(column.grid) for column in columns])[:-1]
    averages = [
        np.split(array.reshape(-1, len(background), *array.shape[1:]).mean(axis=1), places)
        for array in found
    ]
    return [
        _curve(*(array * scale + center for array in pair)) for pair in zip(*averages, strict=True)
    ]


def _with_grid(column: ShownColumn, background: np.ndarray) -> np.ndarray:
    """A copy of the background for each value of the grid, with that value in all rows."""
    rows = np.tile(background, (len(column.grid), 1))
    end = column.first + column.features.shape[1]
    rows[:, column.first : end] = column.features.repeat(len(background), axis=0)
    return rows


def _curve(draws: np.ndarray, interval: np.ndarray | None = None) -> Curve:
    """The curve, given averages over the background of shape (grid, draws, …)."""
    doubt = np.moveaxis(np.quantile(draws, INTERVAL, axis=1), 0, -1)
    return Curve(draws.mean(axis=1), doubt, interval)


def _over_draws(model: Any, features: np.ndarray, function: Callable, *args: Any) -> Any:
    summary = eqx.Partial(summarized, function, model.posterior_.hyperparams, args)
    inputs = model.input_units_.transform(features)
    return model._over_draws(model_of(model.activation), inputs, summary)


def _of_classes(likelihood: Any, outputs: Array) -> tuple[Array, ...]:
    return predictive_mean(likelihood, outputs), *entropies(likelihood, outputs)


def _of_numbers(likelihood: Any, outputs: Array, *tails: Array) -> tuple[Array, ...]:
    ends = quantiles_at_tails(likelihood, outputs, *tails)
    moments = predictive_mean(likelihood, outputs), *variances(likelihood, outputs)
    return *moments, ends[..., 0], ends[..., 1]


def _of_class_draws(likelihood: Any, outputs: Array, classes: Array) -> tuple[Array]:
    probabilities = likelihood.mean(outputs)
    if probabilities.shape[-1] > 1:
        probabilities = jnp.take(probabilities, classes, axis=-1)
    return (jnp.swapaxes(probabilities, 0, 1),)


def _of_number_draws(likelihood: Any, outputs: Array, *tails: Array) -> tuple[Array, Array]:
    ends = quantiles_at_tails(likelihood, outputs[::EVERY], *tails)
    return ends[:, 0], likelihood.mean(outputs)[..., 0].T
