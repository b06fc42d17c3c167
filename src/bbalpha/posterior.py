"""The posterior: what a fit returns and predictions are made from."""

import dataclasses
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.data import check_data
from bbalpha.distributions import Distribution
from bbalpha.engine import threefry
from bbalpha.engine.arrays import AnyArray, library_of, on_device, on_host
from bbalpha.engine.batches import padded_length
from bbalpha.engine.checks import (
    as_keys,
    check_counts,
    check_log_likelihood,
    check_one_per_datum,
    without_jit,
)
from bbalpha.engine.draws import chunk_of_draws, map_draws
from bbalpha.engine.layout import Layout
from bbalpha.engine.options import compiler_options, inside_program

ROWS_TIMES_DRAWS = 2**22  # the most rows times draws that a chunk of predictions holds in memory


@dataclasses.dataclass(frozen=True)
class FitInfo:
    """The record of a run, for people to read.

    `energies` holds the mean minibatch energy of each epoch, `held_out` pairs of an epoch and its
    held-out log-likelihood. `stopped` says why the run ended: "finished", "early", "callback",
    "interrupted" or "non-finite"; it is "running" while a callback looks at it.
    """

    energies: tuple[float, ...] = ()
    held_out: tuple[tuple[int, float], ...] = ()
    num_steps: int = 0
    seconds: float = 0.0
    stopped: str = "finished"


@dataclasses.dataclass(frozen=True, eq=False)
class _Aside:
    """Compares equal to every other, so that all posteriors share one tree structure."""

    info: FitInfo

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Aside)

    def __hash__(self) -> int:
        return 0


jax.tree_util.register_pytree_node(
    FitInfo, lambda info: ((), _Aside(info)), lambda aside, _: aside.info
)


class Posterior(eqx.Module):
    """The approximate posterior q(θ) over a tree of parameters.

    `q` and `prior` are distributions over the flat vector, `energy` is the BB-α energy on the full
    data (lower is better), and `hyperparams` holds the learned hyper-parameters.
    """

    q: Distribution
    prior: Distribution
    hyperparams: PyTree
    alpha: Float[Array, ""]
    num_data: Float[Array, ""]
    energy: Float[Array, ""]
    layout: Layout = eqx.field(static=True)
    info: FitInfo = FitInfo()

    @property
    def mean(self) -> PyTree:
        """The mean of every parameter, in the tree of the model."""
        return self.layout.unflatten(self.q.mean)

    @property
    def variance(self) -> PyTree:
        """The variance of every parameter, in the tree of the model."""
        return self.layout.unflatten(self.q.variance)

    def sample(self, num_samples: int, *, key: Key[Array, ""]) -> PyTree:
        """Draws of the parameters: a tree whose leaves have a leading axis of draws."""
        check_counts(num_samples=num_samples)
        return _sample(self.q, self.layout, as_keys(key, 0, "key"), num_samples)

    def log_prob(self, params: PyTree) -> Float[Array, ""]:
        """The log-density log q(θ) of one tree of parameters."""
        return self.q.log_prob(self.layout.flatten(params))

    def predict(
        self,
        model: Callable[[PyTree, PyTree], PyTree],
        inputs: PyTree,
        *,
        key: Key[Array, ""],
        num_samples: int = 1000,
        summary: Callable[[PyTree], PyTree] | None = None,
    ) -> PyTree:
        """The outputs of `model` for every draw of the parameters and every row of `inputs`.

        All rows see the same draws. Without `summary` the result has axes (draws, rows, …). A
        `summary` maps the outputs (draws, rows, …) of a chunk of rows to a tree of arrays with
        leading axis rows; then memory does not grow with rows times draws.

        Args:
            model: a function of one tree of parameters and a pytree of rows.
            inputs: a pytree of arrays whose first axis is the rows.
            key: randomness of the draws.
            num_samples: how many draws; at α = 1, 50 are too few for log-densities.
            summary: for example `lambda outputs: outputs.mean(axis=0)`.
        """
        check_counts(num_samples=num_samples)
        key = as_keys(key, 0, "key")
        num_rows = check_data(inputs, "inputs")
        is_short = num_rows * num_samples <= ROWS_TIMES_DRAWS  # many rows repay the slower compiler
        program = _prediction(is_short and not inside_program(self, inputs, key))
        predict_rows = partial(
            program, self.q, self.layout, model, summary, key=key, num_samples=num_samples
        )
        rows_axis = 1 if summary is None else 0
        return map_rows(predict_rows, inputs, ROWS_TIMES_DRAWS // num_samples, rows_axis)

    def log_density(
        self,
        log_likelihood: Callable[..., Float[Array, " rows"]],
        data: PyTree,
        *,
        key: Key[Array, ""],
        num_samples: int = 1000,
    ) -> Float[Array, " rows"]:
        """The predictive log-density of each datum, log (1/K) Σₖ p(xₙ|θₖ); higher is better.

        Args:
            log_likelihood: the function that was given to `fit`.
            data: new data in the form that was given to `fit`.
            key: randomness of the draws.
            num_samples: K; at α = 1, 50 are too few.
        """
        log_likelihood = without_jit(log_likelihood)
        extra = () if self.hyperparams is None else (self.hyperparams,)
        check_data(data)
        check_log_likelihood(
            lambda params, rows: log_likelihood(params, rows, *extra), self.mean, data
        )
        model = eqx.Partial(_with_hyperparams, log_likelihood, extra)
        return self.predict(model, data, key=key, num_samples=num_samples, summary=log_mean_exp)

    def save(self, path: str | Path) -> None:
        """Write the posterior to a safetensors file, which holds arrays and JSON but no code."""
        from bbalpha.files.posterior_file import write_posterior

        write_posterior(path, self)

    @classmethod
    def load(
        cls,
        path: str | Path,
        params: PyTree,
        hyperparams: PyTree = None,
        *,
        q: Distribution | None = None,
        prior: Distribution | None = None,
    ) -> "Posterior":
        """Read a posterior that `save` wrote.

        Args:
            path: the file.
            params: a tree with the names and shapes that were fitted, such as the start of `fit`.
            hyperparams: likewise, if hyper-parameters were learned.
            q: an example of q, needed only if its class is your own.
            prior: likewise for the prior.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is not a bbalpha model, is damaged, or holds another tree.
        """
        from bbalpha.files.posterior_file import read_posterior

        return read_posterior(path, params, hyperparams, q, prior)


def map_rows(
    function: Callable[[PyTree], PyTree], rows: PyTree, chunk: int, rows_axis: int
) -> PyTree:
    """`function` of all rows, a chunk at a time, each padded so that shapes repeat."""
    num_rows = len(jax.tree.leaves(rows)[0])
    rows = jax.tree.map(on_host, rows)
    chunk = max(1, min(chunk, padded_length(num_rows)))
    results = []
    for start in range(0, num_rows, chunk):
        taken = np.minimum(np.arange(start, start + chunk), num_rows - 1)
        results.append(function(jax.tree.map(lambda leaf, taken=taken: leaf[taken], rows)))
    for leaf in jax.tree.leaves(results[0]):
        if np.shape(leaf)[rows_axis : rows_axis + 1] != (chunk,):
            raise ValueError(
                f"{('summary', 'model')[rows_axis]} must return arrays whose first axis is the "
                f"rows; got shape {np.shape(leaf)[rows_axis:]} for {chunk} rows."
            )

    def joined(*pieces: AnyArray) -> Array:
        numpy = library_of(pieces)
        whole = numpy.concatenate(pieces, rows_axis) if pieces[1:] else pieces[0]
        return on_device(whole[(slice(None),) * rows_axis + (slice(num_rows),)])

    return jax.tree.map(joined, *jax.tree.map(on_host, results))


def _with_hyperparams(
    log_likelihood: Callable[..., Array],
    hyperparams: tuple[PyTree, ...],
    params: PyTree,
    data: PyTree,
) -> Array:
    return log_likelihood(params, data, *hyperparams)


def log_mean_exp(log_densities: Float[Array, "draws ..."]) -> Float[Array, " rows"]:
    """The logarithm of the average density, of shape (rows,), given (draws, rows)."""
    check_one_per_datum(log_densities.shape[1:])
    # Weights 1/K rather than − log K afterwards, which in float32 costs 5e-7 at K = 1,000.
    return jax.nn.logsumexp(log_densities, axis=0, b=1 / len(log_densities))


@eqx.filter_jit
def _sample(q: Distribution, layout: Layout, key: Key[Array, ""], num_samples: int) -> PyTree:
    chunk = chunk_of_draws(layout.size, 0, num_samples)
    keys = threefry.consecutive(key, num_samples)
    return map_draws(lambda params, _: layout.unflatten(params), q, keys, chunk)


@cache
def _prediction(is_quick: bool) -> Callable:
    """`_predict_rows` as a program, compiled quickly or to run fast."""
    jit: Callable = eqx.filter_jit  # whose annotations do not mention the settings of `jax.jit`
    return jit(_predict_rows, compiler_options=compiler_options(is_rare=True) if is_quick else None)


def _predict_rows(
    q: Distribution,
    layout: Layout,
    model: Callable[[PyTree, PyTree], PyTree],
    summary: Callable[[PyTree], PyTree] | None,
    rows: PyTree,
    key: Key[Array, ""],
    num_samples: int,
) -> PyTree:
    chunk = chunk_of_draws(layout.size, len(jax.tree.leaves(rows)[0]), num_samples)
    keys = threefry.consecutive(key, num_samples)
    outputs = map_draws(lambda params, _: model(layout.unflatten(params), rows), q, keys, chunk)
    return outputs if summary is None else summary(outputs)
