"""Model files: safetensors, arrays under their tree paths and the rest as JSON in the metadata.

Reading one never executes code, whoever wrote it.
"""

import contextlib
import json
import os
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

FORMAT = "bbalpha"
FORMAT_VERSION = 1


def write(path: str | Path, tree: PyTree, metadata: dict[str, Any]) -> None:
    """Write the arrays of `tree` and `metadata`, under a temporary name that is then renamed.

    Raises:
        OSError: if the file cannot be written; what was there before stays as it was.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    path = Path(path)
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in _named_leaves(tree)}
    text = json.dumps(metadata | {"version": FORMAT_VERSION})
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.touch()  # with the permissions of an ordinary file, which safetensors narrows
        permissions = temporary.stat().st_mode
        save_file(arrays, temporary, {FORMAT: text})
        temporary.chmod(permissions)
        temporary.replace(path)
    except (SafetensorError, OSError) as error:
        raise OSError(f"path must name a file that can be written; got {path}: {error}.") from None
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the metadata of a model file.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if the file is not a bbalpha model, is cut short or is of another version.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path must name a model file; got {path}, where there is none.")
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get(FORMAT, "")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, AttributeError) as error:  # the latter for types that numpy lacks
        raise ValueError(
            f"path must name a complete safetensors file; got {path.name}: {error}."
        ) from None
    metadata = _parse(text)
    if not isinstance(metadata, dict):
        raise ValueError(f"path must name a bbalpha model; got {path.name} without its metadata.")
    if metadata.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"path must name a bbalpha model of version {FORMAT_VERSION}; "
            f"got version {metadata.get('version')} in {path.name}."
        )
    return arrays, metadata


def fill(like: PyTree, arrays: dict[str, np.ndarray], path: str | Path) -> PyTree:
    """The tree `like` with the arrays of a file in place of its leaves.

    Raises:
        ValueError: if the names, shapes or types differ, naming the leaf.
    """
    named = _named_leaves(like)
    name_of_file = Path(path).name
    unexpected = sorted(set(arrays) - {name for name, _ in named})
    if unexpected:
        raise ValueError(
            f"the model must have a leaf for every array of the file; got {unexpected[0]} "
            f"in {name_of_file}, which it lacks."
        )
    for name, leaf in named:
        if name not in arrays:
            raise ValueError(
                f"leaf {name} of the model must be in the file; got none in {name_of_file}."
            )
        expected, found = np.shape(leaf), arrays[name].shape
        if found != expected:
            raise ValueError(
                f"leaf {name} must have shape {expected}, as in the model; "
                f"got {found} in {name_of_file}."
            )
        if not jnp.issubdtype(arrays[name].dtype, jnp.floating):
            raise ValueError(
                f"leaf {name} must hold floating-point numbers; "
                f"got {arrays[name].dtype} in {name_of_file}."
            )
    leaves = [jnp.asarray(arrays[name]) for name, _ in named]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def _named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
