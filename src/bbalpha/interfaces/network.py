"""The network of an estimator: its functions, and the start and prior of its weights.

Hidden layers feed one or two heads: the first predicts the targets, the second the noise. With the
scaled prior, each head also sees the inputs directly, so that a linear model is a special case.
Each function is created once per activation, because jax caches compiled programs by function.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from bbalpha.data import Dataset
from bbalpha.distributions import CappedGaussian, DiagonalGaussian, Distribution
from bbalpha.engine.arrays import on_device
from bbalpha.engine.layout import Layout
from bbalpha.likelihoods import Likelihood
from bbalpha.posterior import log_mean_exp

ACTIVATIONS = {
    "relu": jax.nn.relu,
    "tanh": jnp.tanh,
    "logistic": jax.nn.sigmoid,
    "softplus": jax.nn.softplus,
}
INITIAL_DEVIATION = 0.1  # of the initial means under the paper's prior, Section 4
HIDDEN_SCALE = 2.0  # prior deviation of the contribution of all inputs to a hidden unit
INITIAL_BIAS = 0.5  # deviation of the initial means of hidden biases under the scaled prior
SHARE_OF_HEADS = 0.1  # initial deviation of the means of the heads, relative to the prior's
OUTPUTS_AT_ONCE = 2**26  # over all draws, when rows are predicted: 256 MiB in float32
UNITS_AT_ONCE = 2**24  # activations of a hidden layer, for one draw
SAME = 1e-3  # largest relative difference of variances that counts as rounding
WIDEST = 0.9  # largest initial variance of q relative to the prior's; at 1 it could not change


@dataclass(frozen=True)
class Head:
    """The prior of one group of outputs.

    Attributes:
        num_outputs: The number of outputs.
        scale: Prior deviation of the contribution of all hidden units to an output.
        skip_scale: Prior deviation of the direct contribution of all inputs to an output.
        bias_scale: Prior deviation of the biases.
    """

    num_outputs: int
    scale: float = 2.0
    skip_scale: float = 1.0
    bias_scale: float = 1.0


@dataclass(frozen=True)
class Network:
    """The shapes of a network and the prior of its weights.

    Attributes:
        num_inputs: Columns of the inputs.
        hidden: Units of each hidden layer.
        heads: The groups of outputs.
        prior: "scaled" or "paper"; see the estimators.
    """

    num_inputs: int
    hidden: tuple[int, ...]
    heads: tuple[Head, ...]
    prior: str

    @property
    def num_outputs(self) -> int:
        """Outputs of all heads."""
        return sum(head.num_outputs for head in self.heads)

    @property
    def size(self) -> int:
        """Number of weights and biases, computed without creating them."""
        hidden = sum((inputs + 1) * units for inputs, units in pairwise(self._widths))
        return hidden + self.num_outputs * (self._widths[-1] + 1 + self._num_skipped)

    def rows_at_once(self, num_draws: int) -> int:
        """The number of rows to predict at once so that outputs and hidden units fit in memory."""
        of_outputs = OUTPUTS_AT_ONCE // (self.num_outputs * num_draws)
        return max(1, min(of_outputs, UNITS_AT_ONCE // max(self._widths)))

    def shapes(self) -> PyTree:
        """Shapes and types of weights and biases."""
        shape = partial(jax.ShapeDtypeStruct, dtype=jax.dtypes.canonicalize_dtype(float))
        return self._tree(lambda dims, *_: shape(dims))

    def start(self, level: np.ndarray, seed: int) -> PyTree:
        """The initial mean of q: random, and near `level` for the last biases."""
        stream = np.random.RandomState(seed)
        if self.prior == "paper":
            start = self._tree(lambda dims, *_: stream.normal(0, INITIAL_DEVIATION, dims))
        else:
            start = self._tree(lambda dims, _, initial: stream.normal(0, initial, dims))
        return jax.tree.map(on_device, self._raised(start, level))

    def prior_around(self, level: np.ndarray, scale: float) -> DiagonalGaussian:
        """Independent Gaussians around 0 or, for the last biases, around `level`."""
        mean = self._raised(self._tree(lambda dims, *_: np.zeros(dims)), level)
        if self.prior == "paper":
            deviations = self._tree(lambda dims, *_: np.full(dims, scale))
        else:
            deviations = self._tree(lambda dims, deviation, _: np.full(dims, scale * deviation))
        layout = Layout.of(self.shapes())
        log_variances = jax.tree.map(lambda deviation: 2 * np.log(deviation), deviations)
        return DiagonalGaussian(
            *(layout.flatten(jax.tree.map(on_device, tree)) for tree in (mean, log_variances))
        )

    def factors(self) -> PyTree:
        """Factors on the prior's variances, all 1, for `fit` to learn.

        Each hidden unit has one factor for its incoming weights and one for the heads' weights on
        it. With one factor for a whole layer, units that are not needed would narrow the prior of
        those that are.
        """
        hidden = [{"weights": np.ones((units, 1)), "biases": np.ones(())} for units in self.hidden]
        width = self.hidden[-1] if self.hidden else 1
        head = {"weights": np.ones((1, width)), "biases": np.ones(())}
        head |= {"skip": np.ones(())} if self._num_skipped else {}
        return {"hidden": hidden, "heads": [head] * len(self.heads)}

    def factors_of(self, last: Any, prior: DiagonalGaussian) -> PyTree:
        """The factors that turn `prior` into `last`, the prior of an earlier fit.

        If there are no such factors, all are 1; this happens when `last` is the posterior of rows
        that were forgotten.
        """
        ratios = Layout.of(self.shapes()).unflatten(last.variance / prior.variance)
        ones = self.factors()

        def of_leaf(one: np.ndarray, ratio: Array) -> np.ndarray:
            shared = [axis for axis in range(ratio.ndim) if not one.ndim or one.shape[axis] == 1]
            mean = np.mean(np.asarray(ratio), axis=tuple(shared), keepdims=one.ndim > 0)
            return np.asarray(mean)

        found = jax.tree.map(of_leaf, ones, ratios)
        is_learned = jax.tree.map(lambda x, ratio: np.allclose(x, ratio, rtol=SAME), found, ratios)
        return found if all(jax.tree.leaves(is_learned)) else ones

    @property
    def _widths(self) -> tuple[int, ...]:
        return (self.num_inputs, *self.hidden)

    @property
    def _num_skipped(self) -> int:
        """Inputs that each head sees directly."""
        return self.num_inputs if self.hidden and self.prior == "scaled" else 0

    def _tree(self, leaf: Callable[[tuple[int, ...], float, float], Any]) -> PyTree:
        """A tree like the weights, filled by `leaf(shape, prior deviation, initial deviation)`.

        The deviations are those of the scaled prior, under which a sum over many inputs or units is
        as wide as a sum over few.
        """
        hidden = [
            {
                "weights": leaf((units, inputs), HIDDEN_SCALE * inputs**-0.5, inputs**-0.5),
                "biases": leaf((units,), HIDDEN_SCALE, INITIAL_BIAS),
            }
            for inputs, units in pairwise(self._widths)
        ]
        return {"hidden": hidden, "heads": [self._head(head, leaf) for head in self.heads]}

    def _head(self, head: Head, leaf: Callable) -> dict[str, Any]:
        def weights(num_inputs: int, scale: float) -> Any:
            deviation = scale / math.sqrt(num_inputs)
            return leaf((head.num_outputs, num_inputs), deviation, SHARE_OF_HEADS * deviation)

        scale = head.scale if self.hidden else head.skip_scale
        tree = {"weights": weights(self._widths[-1], scale)}
        tree["biases"] = leaf((head.num_outputs,), head.bias_scale, 0.0)
        if self._num_skipped:
            tree["skip"] = weights(self.num_inputs, head.skip_scale)
        return tree

    def _raised(self, tree: PyTree, level: np.ndarray) -> PyTree:
        """The tree with `level`, one number per output, added to the biases of the heads."""
        ends = np.cumsum([head.num_outputs for head in self.heads])[:-1]
        for head, part in zip(tree["heads"], np.split(level, ends), strict=True):
            head["biases"] = head["biases"] + part
        return tree


def outputs_of(
    params: PyTree, inputs: Float[Any, "data inputs"], activation: Callable[[Array], Array]
) -> Float[Array, "data outputs"]:
    """Outputs of all heads, side by side.

    The hidden layers take the first columns of the inputs, the linear paths the last ones. These
    are the same columns, or the same inputs along their principal axes.
    """
    inputs = units = inputs.T  # one row per unit, so that nothing is transposed between layers
    if params["hidden"]:
        units = inputs[: params["hidden"][0]["weights"].shape[1]]
    else:
        units = inputs[-params["heads"][0]["weights"].shape[1] :]
    for layer in params["hidden"]:
        units = activation(jnp.matmul(layer["weights"], units) + layer["biases"][:, None])
    outputs = []
    for head in params["heads"]:
        output = jnp.matmul(head["weights"], units) + head["biases"][:, None]
        if "skip" in head:
            output = output + jnp.matmul(head["skip"], inputs[-head["skip"].shape[1] :])
        outputs.append(output)
    if "member" in params:  # a stacked posterior whose members differ in their noise
        outputs.append(jnp.broadcast_to(params["member"], outputs[0][:1].shape))
    return jnp.concatenate(outputs).T


@cache
def model_of(activation: str) -> Callable:
    """The function from weights and inputs to outputs."""
    return partial(outputs_of, activation=ACTIVATIONS[activation])


@cache
def log_likelihood_of(activation: str) -> Callable:
    """The log-likelihood of a batch, one number per row; the hyperparameter is the likelihood."""
    model = model_of(activation)

    def log_likelihood(params: PyTree, batch: Dataset, likelihood: Likelihood) -> Array:
        return likelihood.log_prob(model(params, batch.inputs), batch.targets)

    return log_likelihood


@cache
def scored_model_of(activation: str) -> Callable:
    """The function from likelihood, weights and rows to outputs and log-likelihoods."""
    model = model_of(activation)

    def scored_model(likelihood: Likelihood, params: PyTree, rows: Dataset) -> tuple[Array, Array]:
        outputs = model(params, rows.inputs)
        return outputs, likelihood.log_prob(outputs, rows.targets)

    return scored_model


def summarized(function: Callable, likelihood: Likelihood, args: tuple, outputs: Array) -> Any:
    """A summary over the outputs of all draws."""
    return function(likelihood, outputs, *args)


def scored(
    log_mean: Callable, function: Callable, likelihood: Likelihood, args: tuple, results: tuple
) -> Any:
    """The log-density of every row, and a summary, from the results of `scored_model_of`."""
    outputs, log_likelihoods = results
    return log_mean(log_likelihoods), function(likelihood, outputs, *args)


def corrected_log_mean_exp(log_densities: Float[Array, "draws ..."]) -> Float[Array, " rows"]:
    """`log_mean_exp` plus an estimate of its bias, (σ/μ)²/(2K), which matters if draws are few."""
    top = jnp.max(log_densities, axis=0, keepdims=True)
    ratios = jnp.exp(log_densities - jnp.where(jnp.isfinite(top), top, 0.0))
    means, variances = jnp.mean(ratios, axis=0), jnp.var(ratios, axis=0, ddof=1)
    squares = jnp.where(means > 0, jnp.square(means), 1.0)
    return log_mean_exp(log_densities) + variances / squares / (2 * len(log_densities))


def as_wide_as(
    last: Distribution, mean: Float[Array, " params"], prior: Distribution
) -> CappedGaussian:
    """An initial q with the variances of the last q, as far as the prior allows."""
    part = jnp.minimum(last.variance / prior.variance, WIDEST)
    return CappedGaussian(mean, jnp.log(part) - jnp.log1p(-part))
