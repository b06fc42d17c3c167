"""Posteriors on disk: arrays under their tree paths, everything else as JSON."""

import dataclasses
import math
import reprlib
from itertools import zip_longest
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bbalpha.distributions import (
    Density,
    DiagonalGaussian,
    Distribution,
    FullGaussian,
)
from bbalpha.engine.layout import Layout
from bbalpha.files import model_file
from bbalpha.files.wording import one_line
from bbalpha.low_rank import LowRankGaussian, NarrowedGaussian
from bbalpha.mixtures import GaussianMixture
from bbalpha.posterior import FitInfo, Posterior
from bbalpha.priors import DensityPrior, Prior, as_prior
from bbalpha.transforms import interval, ordered, positive, simplex

LARGEST_COUNT = 2**63  # of steps, epochs or sites
LONGEST_WORD = 40  # characters of the reason why a run stopped
# A file refers to these by name.
DISTRIBUTIONS = (
    "DiagonalGaussian",
    "FullGaussian",
    "GaussianMixture",
    "LowRankGaussian",
    "NarrowedGaussian",
)
TRANSFORMS = {  # the same, created from their settings in the file
    "Positive": lambda: positive,
    "Interval": interval,
    "Ordered": lambda: ordered,
    "Simplex": lambda: simplex,
}


def write_posterior(path: str | Path, posterior: Posterior) -> None:
    """Write a posterior to a model file."""
    model_file.write(path, posterior, metadata_of(posterior))


def read_posterior(
    path: str | Path,
    params: PyTree,
    hyperparams: PyTree = None,
    q: Distribution | None = None,
    prior: Prior = None,
    transforms: PyTree = None,
) -> Posterior:
    """The posterior in a model file; `Posterior.load` explains the arguments."""
    arrays, metadata = model_file.read(path)
    return posterior_of_file(arrays, metadata, path, params, hyperparams, q, prior, transforms)


def metadata_of(posterior: Posterior) -> dict[str, Any]:
    """What a file says about a posterior in addition to its arrays, for JSON."""
    return {
        "q": type(posterior.q).__name__,
        "prior": type(posterior.prior).__name__,
        "params": leaves_of(posterior.layout),
        "info": dataclasses.asdict(posterior.info),
    }


def posterior_of_file(
    arrays: dict[str, np.ndarray],
    metadata: dict[str, Any],
    path: str | Path,
    params: PyTree,
    hyperparams: PyTree = None,
    q: Distribution | None = None,
    prior: Prior = None,
    transforms: PyTree = None,
) -> Posterior:
    """The posterior in the contents of a file; `params` may be shapes without values."""
    layout = Layout.of(params, transforms=transforms)
    info = _info(metadata, path)
    if transforms is None:
        layout = _constrained(layout, metadata, Path(path).name)
    _check_leaves(layout, metadata, Path(path).name)
    if not (prior is None or isinstance(prior, Distribution)):
        prior = as_prior(prior, layout, jnp.result_type(*layout.dtypes))
    for field, given in {"q": q, "prior": prior}.items():
        _check_distribution(field, given, metadata, Path(path).name)

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
            leave_one_out=_per_datum(arrays),
        )

    # Only shapes, so that no memory is allocated for what a file merely claims to hold.
    posterior = model_file.fill(eqx.filter_eval_shape(example), arrays, path)
    _check_numbers(posterior, path)
    return posterior


def check_finite_leaves(tree: PyTree, name: str) -> None:
    """Raise if an array of the tree is not finite, or if the exponential of a logarithm is not."""
    for keys, leaf in jax.tree_util.tree_leaves_with_path(tree):
        label, values = name + jax.tree_util.keystr(keys), np.asarray(leaf)
        with np.errstate(over="ignore"):
            used = np.exp(values) if label.rpartition(".")[2].startswith("log_") else values
        if not (np.isfinite(values) & np.isfinite(used)).all():
            raise ValueError(f"{label} is not finite, or too large for {values.dtype}.")


def leaves_of(layout: Layout) -> list[list[Any]]:
    """Path and shape of every leaf, and its transform if it has one, in the types of JSON."""
    leaves = zip(layout.paths, layout.shapes, layout.transforms, strict=True)
    return [
        [path, [*shape]] if transform is None else [path, [*shape], _transform_in_json(transform)]
        for path, shape, transform in leaves
    ]


def _transform_in_json(transform: Any) -> dict[str, Any]:
    """The name of a transform, and its settings as far as they are numbers or texts."""
    fields = dataclasses.fields(transform) if dataclasses.is_dataclass(transform) else ()
    settings = {field.name: getattr(transform, field.name) for field in fields}
    plain = {name: x for name, x in settings.items() if isinstance(x, bool | int | float | str)}
    return {"name": type(transform).__name__} | plain


def _constrained(layout: Layout, metadata: dict[str, Any], file: str) -> Layout:
    """The layout with the transforms that a file names; `_check_leaves` checks the rest."""
    found = metadata.get("params")
    if not isinstance(found, list) or len(found) != len(layout.paths):
        return layout
    transforms = [
        _transform_of_json(leaf[2], file) if isinstance(leaf, list) and len(leaf) == 3 else None
        for leaf in found
    ]
    try:
        return layout.constrained(tuple(transforms))
    except ValueError:
        raise model_file.invalid(file, f"params is {reprlib.repr(found)}") from None


def _transform_of_json(found: Any, file: str) -> Any:
    """The transform that a file names.

    Raises:
        ValueError: if it is not bbalpha's own, or its settings are wrong.
    """
    settings = dict(found) if isinstance(found, dict) else {}
    name = settings.pop("name", None)
    if isinstance(name, str) and name not in TRANSFORMS:
        raise ValueError(
            "transforms must be given for a transform that is not bbalpha's own; "
            f"got {one_line(name)} in {file}."
        )
    try:
        return TRANSFORMS[name](**settings)
    except (KeyError, OverflowError, TypeError, ValueError):
        raise model_file.invalid(file, f"a transform is {reprlib.repr(found)}") from None


def _check_leaves(layout: Layout, metadata: dict[str, Any], file: str) -> None:
    """Raise if the tree would interpret the vector differently from the file."""
    found = metadata.get("params")
    if not isinstance(found, list):
        raise model_file.invalid(file, f"params is {reprlib.repr(found)}")
    for ours, theirs in zip_longest(leaves_of(layout), found):
        if ours != theirs:
            raise ValueError(
                "params must have the leaves that were fitted, with the same paths, shapes and "
                f"transforms; got {_described(ours)} where {file} has {_described(theirs)}."
            )


def _described(leaf: Any) -> str:
    return "no leaf" if leaf is None else one_line(leaf)


def _check_distribution(
    field: str, example: Density | None, metadata: dict[str, Any], file: str
) -> None:
    """Raise unless the distribution in a file is one of bbalpha's or matches the example."""
    name = metadata.get(field)
    if not isinstance(name, str):
        raise model_file.invalid(file, f"{field} is {reprlib.repr(name)}")
    if example is None and name == DensityPrior.__name__:
        raise ValueError(
            f"{field} must be given as it was to fit, because a file holds no functions; "
            f"got {field}=None for {file}."
        )
    if example is None and name not in DISTRIBUTIONS:
        raise ValueError(
            f"{field} must be given for a distribution that is not bbalpha's own; "
            f"got {one_line(name)} in {file}."
        )
    if example is not None and type(example).__name__ != name:
        raise ValueError(f"{field} must be a {name}, as in {file}; got a {type(example).__name__}.")


def _example(field: str, name: str, layout: Layout, arrays: dict[str, np.ndarray]) -> Distribution:
    """A distribution with the shapes that the one in the file should have."""
    mean = jnp.zeros(layout.size, jnp.result_type(*layout.dtypes))
    match name:
        case "FullGaussian":
            return FullGaussian(mean, mean, jnp.zeros((layout.size, layout.size)))
        case "GaussianMixture":
            num_members = len(np.atleast_1d(arrays.get(f".{field}.log_weights", np.zeros(1))))
            means = jnp.zeros((num_members, layout.size), mean.dtype)
            return GaussianMixture(means, means, jnp.zeros(num_members, mean.dtype))
        case "LowRankGaussian":
            shape = arrays.get(f".{field}.factor", np.zeros(())).shape
            rank = shape[1] if len(shape) == 2 and shape[0] == layout.size else 1
            return LowRankGaussian(mean, mean, jnp.zeros((layout.size, rank)))
        case "NarrowedGaussian":
            shape = arrays.get(f".{field}.basis", np.zeros(())).shape
            rank = shape[1] if len(shape) == 2 and shape[0] == layout.size else 1
            factor = jnp.zeros((rank, rank))
            return NarrowedGaussian(mean, mean, jnp.zeros((layout.size, rank)), factor)
        case _:
            return DiagonalGaussian(mean, mean)


def _per_datum(arrays: dict[str, np.ndarray]) -> Any:
    """Shapes of the leave-one-out predictions, if the file holds any."""
    found = arrays.get(".leave_one_out")
    return None if found is None else jnp.zeros(found.shape[:1])


def _check_numbers(posterior: Posterior, path: str | Path) -> None:
    """Raise if draws of q would not be finite, or if α or N cannot come from a fit."""
    try:
        for name in ("q", "alpha", "num_data"):
            check_finite_leaves(getattr(posterior, name), f".{name}")
    except ValueError as error:
        raise model_file.invalid(path, str(error)) from None
    if not posterior.num_data > 0:
        raise model_file.invalid(path, f".num_data is {posterior.num_data}, which is not positive")


def _info(metadata: dict[str, Any], path: str | Path) -> FitInfo:
    """The record of the run, with tuples in place of JSON's lists."""
    kinds = {
        "energies": lambda values: tuple(float(value) for value in values),
        "held_out": lambda pairs: tuple((_count(epoch), float(score)) for epoch, score in pairs),
        "num_steps": _count,
        "seconds": _seconds,
        "stopped": _word,
        "converged": bool,
        "skipped": lambda counts: tuple(map(_count, counts)),
        "fall": _fall,
    }
    try:
        return FitInfo(**{name: kinds[name](value) for name, value in metadata["info"].items()})
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        problem = f"info is {reprlib.repr(metadata.get('info'))}"
        raise model_file.invalid(path, problem) from None


def _count(value: Any) -> int:
    if not 0 <= int(value) < LARGEST_COUNT:
        raise ValueError
    return int(value)


def _seconds(value: Any) -> float:
    if not 0 <= float(value) < math.inf:
        raise ValueError
    return float(value)


def _fall(value: Any) -> float:
    if not float(value) >= 0:
        raise ValueError
    return float(value)


def _word(value: Any) -> str:
    if not str(value).isprintable() or len(str(value)) > LONGEST_WORD:
        raise ValueError
    return str(value)
