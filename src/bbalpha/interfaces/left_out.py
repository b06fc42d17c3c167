"""Leave-one-out: how well each training row is predicted without it. Nothing is fitted again.

To first order, what a row does to q is to move its mean μ. Near its minimum the energy is, as a
function of μ alone and for N ≫ α,

    E(μ) = ½ Σⱼ (μⱼ − m₀ⱼ)²/v₀ⱼ − Σₙ Mₙ(μ) + constant,    Mₙ = M_α(log p(yₙ|fₙ)),

with curvature H = V₀⁻¹ + Σₙ Jₙᵀ Bₙ Jₙ, where Jₙ = E_q[∂fₙ/∂θ] and Bₙ = −∂²Mₙ/∂fₙ² for a common
shift of all draws of the outputs fₙ. Without row n and its slope gₙ = ∂Mₙ/∂fₙ the minimum moves,
and the outputs with it, by −Δₙ:

    Δₙ = Jₙ (H − Jₙᵀ Bₙ Jₙ)⁻¹ Jₙᵀ gₙ.

Row n is scored by log E_q[p(yₙ|fₙ − Δₙ)]. Where Σ Jᵀ B J would take too long, each Jₙᵀ Bₙ Jₙ is
replaced by one of lower rank with the same expectation, in H and in the difference.

The cavity q/f is no substitute: it lacks one N-th of all data, not this row. Nor are importance
weights 1/p(yₙ|θ), because q is not the exact posterior: at α > 0 it is so wide that a few draws
take all the weight (docs/tables.md has the numbers).
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial, wraps
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, Int, Key
from sklearn.utils.validation import check_is_fitted

from bbalpha.data import Dataset
from bbalpha.engine import threefry
from bbalpha.engine.arrays import on_device
from bbalpha.engine.options import compiler_options
from bbalpha.interfaces.leverage import moves_and_leverages
from bbalpha.interfaces.network import model_of
from bbalpha.interfaces.spread import as_fitted
from bbalpha.interfaces.stacking import (
    members_of,
    mixed_densities,
    outputs_of_members,
    weights_of,
)
from bbalpha.likelihoods import Likelihood
from bbalpha.metrics import standard_error
from bbalpha.posterior import Posterior, log_mean_exp

FEWEST_ROWS = 3  # without one of them, two are left for a variance
MOST_ROWS = 1000  # that are scored
MANY_COLUMNS, FEWER_ROWS = 500, 500  # with so many columns a linear model of more rows is slow
MOST_DRAWS = 1000  # of the weights
CURVATURE_DRAWS = 250  # of these, for B, which takes most of the time
NUM_PAIRS = 32  # of draws over which J is averaged
WORK = 2**32  # products for H
NUMBERS = 2**24  # of slopes in double precision: 128 MiB
OUTCOMES = 2**29  # draws times rows times squared outputs


@dataclass(frozen=True)
class LeftOut:
    """What `leave_one_out` found: log-densities in nats, higher is better.

    Attributes:
        scores: For each row, the log predictive density of its target if it is left out.
        training: The same if it is not.
        leverages: How much each row decides where it matters most, from 0 to 1.
        rows: The numbers of the rows; all, or 1,000 evenly spread.
    """

    scores: Float64[np.ndarray, " rows"]
    training: Float64[np.ndarray, " rows"]
    leverages: Float64[np.ndarray, " rows"]
    rows: Int[np.ndarray, " rows"]

    @property
    def mean(self) -> float:
        """The mean score."""
        return float(self.scores.mean())

    @property
    def standard_error(self) -> float:
        """The standard error of the mean score, as an estimate for all rows like these."""
        return standard_error(self.scores)


class RowsToScore(NamedTuple):
    """Rows in the units of the network, and how many data points each is when it is left out."""

    inputs: np.ndarray
    targets: np.ndarray
    weights: Float64[np.ndarray, " rows"]


class _Effects(NamedTuple):
    """What each row does: its score, the slope g and a root of the curvature B, of its outputs."""

    training: Float[Array, " rows"]
    slopes: Float[Array, "rows outputs"]
    roots: Float[Array, "rows outputs outputs"]


class Responses(NamedTuple):
    """The draws of the outputs and how far each row has moved its own, its target, and so on."""

    without: tuple[Float[Array, "draws rows outputs"], Float[Array, "rows outputs"], Array]
    training: Float[Array, " rows"]
    leverages: Float64[np.ndarray, " rows"]


def leave_one_out(model: Any, X: Any, y: Any) -> LeftOut:
    """The scores of training rows if each is left out, without fitting again.

    They are what `posterior.leave_one_out` is after power EP, for an estimator. The mean estimates
    the log-likelihood of new rows, so that fits to the same rows can be compared, for example at
    different values of α; take the standard error of the paired differences. It takes little time
    beside a fit once it is compiled.

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
    >>> found = bb.leave_one_out(model, x, y)
    >>> bool(found.training.mean() > found.mean), found.standard_error < 0.2
    (True, True)
    """
    numbers, X, y = chosen_rows(model, X, y)
    scores, training, leverages = scores_of_rows(model, model.posterior_, rows_of(model, X, y))
    return LeftOut(scores, training, leverages, numbers)


def chosen_rows(
    model: Any, X: Any, y: Any
) -> tuple[Int[np.ndarray, " rows"], np.ndarray, np.ndarray]:
    """The numbers of the rows to score, and these rows in the units of the user.

    Raises:
        ValueError: If the data do not suit the model, or if there are too few to leave one out.
    """
    check_is_fitted(model)
    X, y = model._validated(X, y, reset=False)
    check_enough(len(X))
    numbers = rows_to_score(model, len(X))
    return numbers, X[numbers], y[numbers]


def check_enough(num_rows: int) -> None:
    """Raise if there are too few rows to leave one out."""
    if num_rows < FEWEST_ROWS:
        rule = f"at least {FEWEST_ROWS} rows to leave one out"
        raise ValueError(f"X must have {rule}; got {num_rows}.")


def rows_of(model: Any, X: np.ndarray, y: np.ndarray) -> RowsToScore:
    """Rows as the network takes them, each one data point."""
    inputs, targets = model.input_units_.transform(X), model.target_units_.transform(y)
    return RowsToScore(inputs, targets, np.ones(len(X)))


def rows_to_score(model: Any, num_rows: int) -> Int[np.ndarray, " rows"]:
    """The numbers of the rows to score: all, or as many as the model allows, evenly spread."""
    network = model._network()
    outcomes = _num_draws(model) * network.num_outputs**2
    limits = (OUTCOMES // outcomes, NUMBERS // (2 * network.size), _most(network.size))
    most = max(FEWEST_ROWS, min(MOST_ROWS, *limits))
    if network.num_inputs > MANY_COLUMNS:
        most = min(most, FEWER_ROWS)
    return evenly_spread(num_rows, most)


def evenly_spread(num_rows: int, most: int) -> Int[np.ndarray, " rows"]:
    """The numbers of `most` evenly spread rows, or of all rows if there are no more."""
    return np.linspace(0, num_rows - 1, min(num_rows, most)).astype(int)


def scores_of_rows(
    model: Any, posterior: Posterior, rows: RowsToScore
) -> tuple[Float64[np.ndarray, " rows"], ...]:
    """Scores without the row, scores with it, and leverages, for a posterior of the estimator.

    It calls nothing of scikit-learn, whose checks change the filters of warnings for all threads.
    """
    members, weights = members_of(model, posterior), weights_of(posterior)
    found = [responses_of(model, member, rows) for member in members]
    pairs = zip(members, found, strict=True)
    scores = [_summarized(_log_density, one.hyperparams, *each.without) for one, each in pairs]
    both = (mixed_densities(weights, x) for x in (scores, [each.training for each in found]))
    both = (x - float(model.target_units_.log_scale) for x in both)
    return *both, weights @ np.stack([each.leverages for each in found])


def summary_without(
    model: Any, found: list[Responses], function: Callable[..., Any]
) -> tuple[Float64[np.ndarray, " rows"], Any]:
    """Scores with the row, and a summary of all draws for every row if it is left out.

    Args:
        model: A fitted estimator.
        found: What `responses_of` says about each member of its posterior.
        function: Takes the likelihood, the outputs without the row, and the targets, in the units
            of the network, and returns a tree of arrays.
    """
    posterior, without = model.posterior_, found[0].without
    if len(found) > 1:
        draws = [responses.without[0] - responses.without[1][None] for responses in found]
        outputs = outputs_of_members(draws, posterior)
        without = outputs, jnp.zeros_like(outputs[0]), without[2]
    summary = _summarized(function, posterior.hyperparams, *without)
    training = mixed_densities(weights_of(posterior), [each.training for each in found])
    training -= float(model.target_units_.log_scale)
    return training, jax.tree.map(lambda array: np.asarray(array, np.float64), summary)


def responses_of(model: Any, posterior: Posterior, rows: RowsToScore) -> Responses:
    """What the outputs of every row are without it, for a posterior that is no mixture."""
    network, likelihood = model_of(model.activation), as_fitted(posterior.hyperparams)
    prior: Any = posterior.prior
    inputs = on_device(rows.inputs, posterior.q.mean.dtype)
    data = Dataset(inputs, on_device(rows.targets, _dtype_of(rows.targets, inputs)))
    outputs = posterior.predict(
        network, data.inputs, key=model._key(), num_samples=_num_draws(model)
    )
    effects = _effects(likelihood, posterior.alpha, outputs, data.targets)
    key = threefry.fold_in(model._key(), 1)
    cotangents = _cotangents(effects, posterior.layout.size)
    slopes = np.asarray(_pulled_back(posterior, network, inputs, cotangents, key), np.float64)
    repeats = float(posterior.num_data) / float(rows.weights.sum())
    deviations = np.exp(0.5 * np.asarray(prior.log_variance, np.float64))
    scaled = slopes * deviations
    moves, leverages = moves_and_leverages(
        rows.weights[:, None] * scaled[0], scaled[1:] * np.sqrt(rows.weights)[:, None], repeats
    )
    moves = on_device(moves * deviations, inputs.dtype)
    shifts = _pushed_forward(posterior, network, inputs, moves, key)
    training = effects.training
    if likelihood is not posterior.hyperparams:
        still = jnp.zeros_like(shifts)
        training = _summarized(_log_density, posterior.hyperparams, outputs, still, data.targets)
    return Responses((outputs, shifts, data.targets), training, leverages)


def _num_draws(model: Any) -> int:
    return min(model.num_predictive_samples, MOST_DRAWS)


def _most(size: int) -> int:
    """How many slopes of so many weights H may be made of."""
    return max(WORK // size**2, min(size, int((WORK / size) ** 0.5)))


def _dtype_of(targets: np.ndarray, inputs: Array) -> Any:
    return targets.dtype if targets.dtype.kind in "iu" else inputs.dtype


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function as a program that is compiled quickly, because it runs once for a fit."""

    @cache
    def program() -> Callable[..., Any]:
        jit: Callable = eqx.filter_jit  # whose annotations do not mention the settings of `jax.jit`
        return jit(function, compiler_options=compiler_options(is_rare=True))

    return wraps(function)(lambda *args: program()(*args))


@_compiled
def _effects(
    likelihood: Likelihood,
    alpha: Float[Array, ""],
    outputs: Float[Array, "draws rows outputs"],
    targets: Array,
) -> _Effects:
    """Derivatives of the power mean of log p by a shift of the outputs, from those of log p itself.

    With the weights w of the draws, which are the softmax of α log p, and Σ w ∇ log p = g, the
    Hessian is Σ w ∇² log p + α (Σ w ∇ log p ∇ log pᵀ − g gᵀ).
    """

    def log_prob(output: Array, target: Array) -> Float[Array, ""]:
        return likelihood.log_prob(output[None], target[None])[0]

    def of_all(function: Callable, outputs: Array) -> Any:
        return jax.vmap(jax.vmap(function), (0, None))(outputs, targets)

    log_probs, gradients = of_all(jax.value_and_grad(log_prob), outputs)
    slopes = jnp.einsum("kn,kni->ni", jax.nn.softmax(alpha * log_probs, axis=0), gradients)
    training = log_mean_exp(log_probs)
    some, log_probs, gradients = (x[:CURVATURE_DRAWS] for x in (outputs, log_probs, gradients))
    weights = jax.nn.softmax(alpha * log_probs, axis=0)
    mean = jnp.einsum("kn,kni->ni", weights, gradients)
    spread = jnp.einsum("kn,kni,knj->nij", weights, gradients, gradients)
    hessians = jnp.einsum("kn,knij->nij", weights, of_all(jax.hessian(log_prob), some))
    hessians += alpha * (spread - mean[:, :, None] * mean[:, None])
    sizes, axes = jnp.linalg.eigh(-hessians)
    roots = axes * jnp.sqrt(jnp.maximum(sizes, 0))[:, None, :]  # B = R Rᵀ, positive where it is not
    return _Effects(training, slopes, roots)


def _log_likelihoods(
    likelihood: Likelihood, outputs: Float[Array, "draws rows outputs"], targets: Array
) -> Float[Array, "draws rows"]:
    return jax.vmap(likelihood.log_prob, (0, None))(outputs, targets)


@_compiled
def _summarized(
    function: Callable[..., Any],
    likelihood: Likelihood,
    outputs: Float[Array, "draws rows outputs"],
    shifts: Float[Array, "rows outputs"],
    targets: Array,
) -> Any:
    return function(likelihood, outputs - shifts[None], targets)


def _log_density(
    likelihood: Likelihood, outputs: Float[Array, "draws rows outputs"], targets: Array
) -> Float[Array, " rows"]:
    return log_mean_exp(_log_likelihoods(likelihood, outputs, targets))


def _cotangents(effects: _Effects, size: int) -> Float[Array, "slopes rows outputs"]:
    """The slope of each row, and the columns of its root or as many random sums of them as fit."""
    roots = np.asarray(effects.roots)
    num_rows, num_outputs, _ = roots.shape
    most = max(1, min(_most(size) // num_rows, NUMBERS // size // num_rows - 1))
    if most < num_outputs:
        signs = np.random.default_rng(0).choice([-1.0, 1.0], (num_rows, num_outputs, most))
        roots = roots @ (signs / np.sqrt(most)).astype(roots.dtype)
    return on_device(np.concatenate([np.asarray(effects.slopes)[None], np.moveaxis(roots, 2, 0)]))


@_compiled
def _pulled_back(
    posterior: Posterior,
    model: Callable,
    inputs: Float[Array, "rows columns"],
    cotangents: Float[Array, "slopes rows outputs"],
    key: Key[Array, ""],
) -> Float[Array, "slopes rows params"]:
    """Jᵀ times the cotangents of every row, with J averaged over q."""

    def of_row(vector: Array, row: Array, cotangents: Array) -> Array:
        _, pull_back = jax.vjp(partial(_outputs_of_row, posterior, model, row), vector)
        return jax.vmap(pull_back)(cotangents)[0]

    of_rows = jax.vmap(of_row, (None, 0, 1), 1)
    return _averaged(posterior, key, lambda vector: of_rows(vector, inputs, cotangents))


@_compiled
def _pushed_forward(
    posterior: Posterior,
    model: Callable,
    inputs: Float[Array, "rows columns"],
    moves: Float[Array, "rows params"],
    key: Key[Array, ""],
) -> Float[Array, "rows outputs"]:
    """J times the move of every row, with the same J."""

    def of_row(vector: Array, row: Array, move: Array) -> Array:
        outputs = partial(_outputs_of_row, posterior, model, row)
        return jax.jvp(outputs, (vector,), (move,))[1]

    of_rows = jax.vmap(of_row, (None, 0, 0))
    return _averaged(posterior, key, lambda vector: of_rows(vector, inputs, moves))


def _outputs_of_row(
    posterior: Posterior, model: Callable, row: Float[Array, " columns"], vector: Array
) -> Float[Array, " outputs"]:
    return model(posterior.layout.unflatten(vector), row[None])[0]


def _averaged(
    posterior: Posterior, key: Key[Array, ""], function: Callable[[Array], Array]
) -> Array:
    """The average of a function over pairs of opposite draws of the weights."""
    q = posterior.q
    noise = jax.vmap(q.noise)(threefry.consecutive(key, NUM_PAIRS))
    vectors = jax.vmap(q.transform)(noise)
    vectors = jnp.concatenate([vectors, 2 * q.mean[None] - vectors])
    zero = jax.tree.map(jnp.zeros_like, jax.eval_shape(function, vectors[0]))

    def add(total: Array, vector: Array) -> tuple[Array, None]:
        return total + function(vector), None

    return jax.lax.scan(add, zero, vectors)[0] / len(vectors)
