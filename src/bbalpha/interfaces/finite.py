"""Checks that predictions are finite: when they are made, and when a model is loaded.

A loaded model is not trusted. Its inputs are clipped to limits, and a draw of its weights lies
within a few standard deviations of the mean; this bounds the outputs of the network. If the bound
is too large to exclude an overflow, as it may be for deep networks, a few rows are predicted as a
test.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from bbalpha.engine.arrays import AnyArray
from bbalpha.engine.layout import Layout
from bbalpha.interfaces.bounded import Bounded
from bbalpha.interfaces.inputs import InputUnits
from bbalpha.interfaces.network import model_of, summarized
from bbalpha.interfaces.spread import as_fitted, log_factor_of
from bbalpha.interfaces.stacking import members_of, members_of_likelihood
from bbalpha.likelihoods import HeteroscedasticGaussian, Likelihood, StudentT
from bbalpha.predictive import quantiles_at_tails, tails

FARTHEST = 10.0  # standard deviations; jax's Gaussian draws reach 8.3 in 64 bits
LARGEST = 1e15  # output whose square, summed over a million draws, is finite in float32
LARGEST_LOG = 60.0  # of a variance, for the same reason
NUM_CORNERS = 32  # corners of the input range at which a model that may overflow is tried
FEWEST_DEGREES = 0.1  # degrees of freedom of Student's t; with fewer, its tails overflow
LARGEST_LOG_COUNT = 14.0  # about a million; quantiles of far larger counts overflow in float32
LEVELS = tails((0.05, 0.5, 0.95))
LARGEST_LOG_FACTOR = 2.0  # on the spread
NO_VARIANCE = 2.0  # up to so many degrees of freedom, Student's t has an infinite variance


class NonFinitePredictionError(ValueError):
    """Predictions of some rows are not finite.

    Attributes:
        rows: The numbers of these rows, from 0.
    """

    def __init__(self, rows: np.ndarray, num_rows: int):
        """Store the rows, out of `num_rows`."""
        self.rows = rows
        super().__init__(
            f"the predictions of {len(rows):,} of {num_rows:,} rows are not finite; "
            f"the first is row {rows[0]}."
        )


def check_finite_rows(result: Any, allowed: float | None = None) -> None:
    """Raise if a row of an array is not finite.

    Args:
        result: A tree of arrays whose first axis is the rows.
        allowed: The infinity that may occur, if any.
    """
    bad = np.zeros(len(jax.tree.leaves(result)[0]), bool)
    for leaf in jax.tree.leaves(result):
        is_wrong = ~(np.isfinite(leaf) | (leaf == allowed))
        bad |= is_wrong.reshape(len(leaf), -1).any(axis=1)
    if bad.any():
        raise NonFinitePredictionError(np.flatnonzero(bad), len(bad))


def checked_summary(result: Any, likelihood: Likelihood) -> Any:
    """The result, after checking that it is finite; with very heavy tails, ∞ is allowed."""
    check_finite_rows(result, allowed=np.inf if has_infinite_variance(likelihood) else None)
    return result


def checked_densities(densities: np.ndarray) -> np.ndarray:
    """The log-densities, after checking for NaN; −∞ is allowed, for very unlikely targets."""
    check_finite_rows(densities, allowed=-np.inf)
    return densities


def has_variance(scale: AnyArray) -> bool:
    """Whether the square of the targets' unit neither overflows nor loses precision."""
    with np.errstate(over="ignore", under="ignore"):
        variance = np.square(scale)
    return bool(np.all((variance >= np.finfo(float).tiny) & (variance < np.inf)))


def has_infinite_variance(likelihood: Likelihood) -> bool:
    """Whether the noise has tails so heavy that standard deviations are infinite."""
    degrees = _degrees_of_freedom(likelihood)
    return bool(np.any(degrees <= NO_VARIANCE))


def check_predicts(estimator: Any) -> None:
    """Raise if the predictions of a loaded estimator overflow for some inputs.

    Inputs are tried only if the bounds on outputs and noise do not exclude an overflow.
    """
    units, likelihood = estimator.input_units_, as_fitted(estimator.posterior_.hyperparams)
    if abs(log_factor_of(estimator.posterior_.hyperparams)) > LARGEST_LOG_FACTOR:
        raise ValueError(".hyperparams.log_factor is too large.")
    if isinstance(likelihood, Bounded) and np.any(likelihood.lower > likelihood.upper):
        raise ValueError(".hyperparams.lower exceeds .hyperparams.upper.")
    if np.any(_degrees_of_freedom(likelihood) < FEWEST_DEGREES):
        raise ValueError(f"its noise has fewer than {FEWEST_DEGREES} degrees of freedom.")
    members = members_of(estimator, estimator.posterior_)
    largest = max(_largest_output(estimator, member.q) for member in members)
    if largest < LARGEST and all(
        _is_calm(as_fitted(member.hyperparams), largest) for member in members
    ):
        return
    function = _means if has_infinite_variance(likelihood) else _moments
    summary = eqx.Partial(summarized, function, estimator.posterior_.hyperparams, ())
    try:
        with np.errstate(all="ignore"):
            rows = units.transform(_corners(units))
            check_finite_rows(estimator._over_draws(model_of(estimator.activation), rows, summary))
    except ValueError:
        raise ValueError(
            "its weights, noise or units are so extreme that predictions are not finite."
        ) from None


def _degrees_of_freedom(likelihood: Any) -> np.ndarray:
    """Those of Student's t, of all members of a mixture; none for other noise."""
    found = map(as_fitted, members_of_likelihood(likelihood))
    members = [one for one in found if isinstance(one, StudentT)]
    degrees = [np.exp(np.asarray(one.log_degrees_of_freedom)).ravel() for one in members]
    return np.concatenate([*degrees, []])


def _corners(units: InputUnits) -> np.ndarray:
    """Rows at the limits of the inputs: all corners for up to five columns, else random ones."""
    num_columns = len(units.mean)
    if num_columns <= np.log2(NUM_CORNERS):
        is_high = np.indices((2,) * num_columns).reshape(num_columns, -1).T == 1
    else:
        is_high = np.random.default_rng(0).random((NUM_CORNERS, num_columns)) < 0.5
    rows = np.where(is_high, units.upper, units.lower)
    return np.concatenate([rows, np.stack([units.mean, units.lower, units.upper])])


def _largest_output(estimator: Any, q: Any) -> float:
    """A bound on the outputs for all inputs and draws, by the norms of inputs and weights."""
    units = estimator.input_units_
    shapes = estimator._network().shapes()
    with np.errstate(all="ignore"):
        reach = np.maximum(np.abs(units.lower - units.mean), np.abs(units.upper - units.mean))
        inputs = float(np.linalg.norm(reach / units.scale))
        largest = np.abs(np.asarray(q.mean, np.float64))
        largest += FARTHEST * np.sqrt(np.asarray(q.variance, np.float64))
        ends = np.cumsum(Layout.of(shapes).sizes)[:-1]
        found = [float(np.linalg.norm(piece)) for piece in np.split(largest, ends)]
        norms = jax.tree.unflatten(jax.tree.structure(shapes), found)
        size = inputs
        for norm, layer in zip(norms["hidden"], shapes["hidden"], strict=True):
            # No activation of x exceeds |x| by more than 1.
            size = norm["weights"] * size + norm["biases"] + layer["biases"].size ** 0.5
        return max(
            head["weights"] * size + head["biases"] + head.get("skip", 0.0) * inputs
            for head in norms["heads"]
        )


def _is_calm(likelihood: Any, largest: float) -> bool:
    """Whether means and variances cannot overflow for outputs up to the largest."""
    inner = likelihood.likelihood if isinstance(likelihood, Bounded) else likelihood
    logs = [np.abs(leaf).max(initial=0) for leaf in jax.tree.leaves(inner)]
    if isinstance(likelihood, Bounded):
        limits = np.asarray(likelihood.upper, np.float64)
        if max(np.abs(limits).max(), np.abs(likelihood.lower).max()) > LARGEST:
            return False
        if isinstance(inner, HeteroscedasticGaussian):  # its first outputs are not logarithms
            limits = limits[len(limits) // 2 :]
        # Beyond a limit, outputs grow like a logarithm.
        highest = np.maximum(limits, 0) + np.log1p(largest + np.abs(limits))
        logs.append(highest.max(initial=0))
        if not isinstance(inner, HeteroscedasticGaussian) and logs[-1] > LARGEST_LOG_COUNT:
            return False
    # A variance may be the square of a rate or of a scale.
    return bool(2 * sum(logs) <= LARGEST_LOG)


def _moments(likelihood: Likelihood, outputs: Array) -> tuple[Array, ...]:
    """Means and variances of the outputs and of the targets."""
    return *_means(likelihood, outputs), jnp.mean(likelihood.variance(outputs), axis=0)


def _means(likelihood: Likelihood, outputs: Array) -> tuple[Array, ...]:
    """The same without the variance of the targets, for noise whose variance is infinite."""
    moments = jnp.mean(outputs, axis=0), jnp.var(outputs, axis=0)
    if isinstance(likelihood, Bounded):
        moments = *moments, quantiles_at_tails(likelihood, outputs, *LEVELS)
    return *moments, jnp.mean(likelihood.mean(outputs), axis=0)
