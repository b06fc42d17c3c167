"""Posteriors on disk: arrays under their tree paths, everything else as JSON."""

import dataclasses
import reprlib
from itertools import zip_longest
from pathlib import Path
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bbalpha.distributions import DiagonalGaussian, Distribution, FullGaussian, LowRankGaussian
from bbalpha.engine.layout import Layout
from bbalpha.files import model_file
from bbalpha.posterior import FitInfo, Posterior

DISTRIBUTIONS = ("DiagonalGaussian", "FullGaussian", "LowRankGaussian")  # known by name in a file


def write_posterior(path: str | Path, posterior: Posterior) -> None:
    """Write a posterior to a model file."""
    model_file.write(path, posterior, metadata_of(posterior))


def read_posterior(
    path: str | Path,
    params: PyTree,
    hyperparams: PyTree = None,
    q: Distribution | None = None,
    prior: Distribution | None = None,
) -> Posterior:
    """The posterior in a model file; `Posterior.load` explains the arguments."""
    arrays, metadata = model_file.read(path)
    return posterior_of_file(arrays, metadata, path, params, hyperparams, q, prior)


def metadata_of(posterior: Posterior) -> dict[str, Any]:
    """What a file says about a posterior besides its arrays, for JSON."""
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
    prior: Distribution | None = None,
) -> Posterior:
    """The posterior in the content of a file; `params` may be shapes without values."""
    layout = Layout.of(params)
    info = _info(metadata, path)
    _check_leaves(layout, metadata, Path(path).name)
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
        )

    # Only shapes: no memory is allocated for what a file merely claims to hold.
    return model_file.fill(eqx.filter_eval_shape(example), arrays, path)


def leaves_of(layout: Layout) -> list[list[Any]]:
    """Path and shape of every leaf, in the types of JSON."""
    return [[path, [*shape]] for path, shape in zip(layout.paths, layout.shapes, strict=True)]


def _check_leaves(layout: Layout, metadata: dict[str, Any], file: str) -> None:
    """Raise if the tree does not give the vector the same meaning as the file does."""
    found = metadata.get("params")
    if not isinstance(found, list):
        raise model_file.invalid(file, f"params is {reprlib.repr(found)}")
    for ours, theirs in zip_longest(leaves_of(layout), found):
        if ours != theirs:
            raise ValueError(
                "params must have the leaves that were fitted, with the same paths and shapes; "
                f"got {_described(ours)} where {file} has {_described(theirs)}."
            )


def _described(leaf: Any) -> str:
    return "no leaf" if leaf is None else model_file.one_line(leaf)


def _check_distribution(
    field: str, example: Distribution | None, metadata: dict[str, Any], file: str
) -> None:
    """Raise if the distribution in a file is neither known here nor like the example."""
    name = metadata.get(field)
    if not isinstance(name, str):
        raise model_file.invalid(file, f"{field} is {reprlib.repr(name)}")
    if example is None and name not in DISTRIBUTIONS:
        raise ValueError(
            f"{field} must be given for a distribution that is not bbalpha's own; "
            f"got {model_file.one_line(name)} in {file}."
        )
    if example is not None and type(example).__name__ != name:
        raise ValueError(f"{field} must be a {name}, as in {file}; got a {type(example).__name__}.")


def _example(field: str, name: str, layout: Layout, arrays: dict[str, np.ndarray]) -> Distribution:
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
    """The record of the run, with tuples in place of JSON's lists."""
    kinds = {
        "energies": lambda values: tuple(float(value) for value in values),
        "held_out": lambda pairs: tuple((int(epoch), float(score)) for epoch, score in pairs),
        "num_steps": int,
        "seconds": float,
        "stopped": str,
        "converged": bool,
    }
    try:
        return FitInfo(**{name: kinds[name](value) for name, value in metadata["info"].items()})
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
        problem = f"info is {reprlib.repr(metadata.get('info'))}"
        raise model_file.invalid(path, problem) from None
