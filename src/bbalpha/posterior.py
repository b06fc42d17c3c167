"""Step six: the posterior, what a fit returns and what predictions are made from."""

import dataclasses
import math
import reprlib
from collections.abc import Callable
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.engine import threefry
from bbalpha.files import model_file
from bbalpha.engine.checks import (
    as_keys,
    check_counts,
    check_one_per_datum,
    check_targets,
    without_jit,
)
from bbalpha.data import as_array, check_data, padded_length
from bbalpha.distributions import (
    DiagonalGaussian,
    Family,
    FullGaussian,
    LowRankGaussian,
    chunk_of_draws,
    map_draws,
)
from bbalpha.engine.layout import Layout

FAMILIES = ("DiagonalGaussian", "FullGaussian", "LowRankGaussian")  # that a file may name

ROWS_TIMES_DRAWS = 2**22  # how many outputs per draw and row a chunk of rows may have in memory


@dataclasses.dataclass(frozen=True)
class FitInfo:
    """What a person wants to know of a run.

    `energies` holds the mean minibatch energy of each epoch and `held_out` pairs of epoch and
    held-out log-likelihood; `stopped` is "finished", "early", "callback", "interrupted" or
    "non-finite", and "running" while a callback looks at it.
    """

    energies: tuple[float, ...] = ()
    held_out: tuple[tuple[int, float], ...] = ()
    num_steps: int = 0
    seconds: float = 0.0
    stopped: str = "finished"


@dataclasses.dataclass(frozen=True, eq=False)
class _Aside:
    """Equal to all of its kind: two posteriors have one structure whatever their runs were like."""

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
    data (lower is better), and `hyperparams` holds what was learned beside q.
    """

    q: Family
    prior: Family
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

    def sample(self, key: Key[Array, ""], num_samples: int) -> PyTree:
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

        All rows see the same draws. Without `summary` the result has axes (draws, rows, …). With
        it, `summary` maps the outputs (draws, rows, …) of a chunk of rows to a tree of arrays with
        leading axis rows, so that memory does not grow with the number of rows times draws.

        Args:
            model: a function of one tree of parameters and a pytree of rows.
            inputs: a pytree of arrays whose first axis is the rows.
            key: randomness of the draws.
            num_samples: how many draws; 50 are too few for log-densities at α = 1.
            summary: for example `lambda outputs: outputs.mean(axis=0)`.
        """
        check_counts(num_samples=num_samples)
        key = as_keys(key, 0, "key")
        predict_rows = partial(
            _predict_rows, self.q, self.layout, model, summary, key=key, num_samples=num_samples
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
            num_samples: K; 50 are too few for log-densities at α = 1.
        """
        hyperparams = () if self.hyperparams is None else (self.hyperparams,)
        model = eqx.Partial(_with_hyperparams, without_jit(log_likelihood), hyperparams)
        check_targets(lambda data: model(self.mean, data), data)
        return self.predict(
            model,
            data,
            key=key,
            num_samples=num_samples,
            summary=_log_mean_exp,
        )

    def save(self, path: str | Path) -> None:
        """Write the posterior to a safetensors file, which holds arrays and JSON but no code."""
        model_file.write(path, self, self.metadata())

    def metadata(self) -> dict[str, Any]:
        """What a file says of the posterior beside its arrays; for JSON."""
        return {
            "q": type(self.q).__name__,
            "prior": type(self.prior).__name__,
            "params": leaves_of(self.layout),
            "info": dataclasses.asdict(self.info),
        }

    @classmethod
    def load(
        cls,
        path: str | Path,
        params: PyTree,
        hyperparams: PyTree = None,
        *,
        q: Family | None = None,
        prior: Family | None = None,
    ) -> "Posterior":
        """Read a posterior that `save` wrote.

        Args:
            path: the file.
            params: a tree with the names and shapes that were fitted, such as the start of `fit`.
            hyperparams: likewise, when hyper-parameters were learned.
            q: an example of the family, needed only where it is one of your own.
            prior: likewise for the prior.

        Raises:
            FileNotFoundError: if there is no such file.
            ValueError: if the file is not a bbalpha model, is cut short, or is of another tree.
        """
        arrays, metadata = model_file.read(path)
        return posterior_of_file(arrays, metadata, path, params, hyperparams, q, prior)


def posterior_of_file(
    arrays: dict[str, np.ndarray],
    metadata: dict[str, Any],
    path: str | Path,
    params: PyTree,
    hyperparams: PyTree = None,
    q: Family | None = None,
    prior: Family | None = None,
) -> Posterior:
    """The posterior in what was read from a file; `params` may be shapes without values."""
    layout = Layout.of(params)
    info = _info(metadata, path)
    _check_leaves(layout, metadata, Path(path).name)
    for field, given in {"q": q, "prior": prior}.items():
        _check_family(field, given, metadata, Path(path).name)

    def example() -> Posterior:
        scalar = jnp.zeros(())
        return Posterior(
            q=q or _example("q", metadata["q"], layout, arrays),
            prior=prior or _example("prior", metadata["prior"], layout, arrays),
            hyperparams=hyperparams,
            alpha=scalar,
            num_data=scalar,
            energy=scalar,
            layout=layout,
            info=info,
        )

    # Only shapes: what a file claims to hold is not allocated before it is known to hold it.
    return model_file.fill(eqx.filter_eval_shape(example), arrays, path)


def map_rows(
    function: Callable[[PyTree], PyTree], rows: PyTree, chunk: int, rows_axis: int
) -> PyTree:
    """`function` of all rows, a chunk at a time, each padded so that shapes repeat."""
    num_rows = check_data(rows, "inputs")
    rows = jax.tree.map(as_array, rows)
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
    return jax.tree.map(
        lambda *pieces: jax.lax.slice_in_dim(
            jnp.concatenate(pieces, rows_axis), 0, num_rows, axis=rows_axis
        ),
        *results,
    )


def _with_hyperparams(
    log_likelihood: Callable[..., Array],
    hyperparams: tuple[PyTree, ...],
    params: PyTree,
    data: PyTree,
) -> Array:
    return log_likelihood(params, data, *hyperparams)


def _log_mean_exp(log_densities: Float[Array, "draws ..."]) -> Float[Array, " rows"]:
    check_one_per_datum(log_densities.shape[1:])
    return jax.nn.logsumexp(log_densities, axis=0) - math.log(len(log_densities))


@eqx.filter_jit
def _sample(q: Family, layout: Layout, key: Key[Array, ""], num_samples: int) -> PyTree:
    chunk = chunk_of_draws(layout.size, 0, num_samples)
    keys = threefry.consecutive(key, num_samples)
    return map_draws(lambda params, _: layout.unflatten(params), q, keys, chunk)


@eqx.filter_jit
def _predict_rows(
    q: Family,
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


def leaves_of(layout: Layout) -> list[list[Any]]:
    """Path and shape of every leaf, as JSON has them."""
    return [[path, [*shape]] for path, shape in zip(layout.paths, layout.shapes, strict=True)]


def _check_leaves(layout: Layout, metadata: dict[str, Any], file: str) -> None:
    """Refuse a tree whose vector means something else than that of the file."""
    found = metadata.get("params")
    if not isinstance(found, list):
        raise ValueError(
            f"path must name a bbalpha model; got {file} with params={reprlib.repr(found)}."
        )
    for ours, theirs in zip_longest(leaves_of(layout), found):
        if ours != theirs:
            raise ValueError(
                "params must have the leaves that were fitted, by path and shape; "
                f"got {_told(ours)} where {file} has {_told(theirs)}."
            )


def _told(leaf: Any) -> str:
    return "no more" if leaf is None else model_file.one_line(leaf)


def _check_family(field: str, example: Family | None, metadata: dict[str, Any], file: str) -> None:
    """Refuse a file whose family is not the one expected, or none that is known here."""
    name = metadata.get(field)
    if not isinstance(name, str):
        raise ValueError(f"path must name a bbalpha model; got {file} with {field}={name!r}.")
    if example is None and name not in FAMILIES:
        raise ValueError(
            f"{field} must be given for a family that is not bbalpha's own; "
            f"got {model_file.one_line(name)} in {file}."
        )
    if example is not None and type(example).__name__ != name:
        raise ValueError(f"{field} must be a {name}, as in {file}; got a {type(example).__name__}.")


def _example(field: str, name: str, layout: Layout, arrays: dict[str, np.ndarray]) -> Family:
    """A distribution with the shapes that the file's should have."""
    mean = jnp.zeros(layout.size, jnp.result_type(*layout.dtypes))
    match name:
        case "FullGaussian":
            return FullGaussian(mean, mean, jnp.zeros((layout.size, layout.size)))
        case "LowRankGaussian":
            shape = arrays.get(f".{field}.factor", np.zeros(())).shape
            rank = shape[1] if len(shape) == 2 and shape[0] == layout.size else 1
            return LowRankGaussian(mean, mean, jnp.zeros((layout.size, rank)))
        case _:
            return DiagonalGaussian(mean, mean)


def _info(metadata: dict[str, Any], path: str | Path) -> FitInfo:
    """The record of the run, with tuples where JSON has lists."""
    kinds = {
        "energies": lambda values: tuple(float(value) for value in values),
        "held_out": lambda pairs: tuple((int(epoch), float(score)) for epoch, score in pairs),
        "num_steps": int,
        "seconds": float,
        "stopped": str,
    }
    try:
        return FitInfo(**{name: kinds[name](value) for name, value in metadata["info"].items()})
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        raise ValueError(
            f"path must name a bbalpha model; got {Path(path).name} with "
            f"info={reprlib.repr(metadata.get('info'))}."
        ) from None
