"""Model files: safetensors, arrays under their tree paths and the rest as JSON in the metadata.

Reading one never executes code, whoever wrote it. A checksum tells a damaged file from an intact
one before anything of it is used; against forgers, who can compute it too, every name, shape and
type is checked.
"""

import contextlib
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

FORMAT = "bbalpha"
FORMAT_VERSION = 1
CHECKSUM = "sha256"
NO_CHECKSUM = "0" * 64  # stands where the checksum will, while it is computed
LENGTH_BYTES = 8  # the length of the header, at the start of a safetensors file
PIECE = 2**20  # bytes read at a time


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
        save_file(arrays, temporary, {FORMAT: text, CHECKSUM: NO_CHECKSUM})
        _seal(temporary)
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
        ValueError: if the file is not a bbalpha model, is damaged or is of another version.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"path must name a model file; got {path}, where there is none.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = _checked((file.metadata() or {}).get(FORMAT, ""), path)
            _check_seal(path)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, AttributeError) as error:  # the latter for types that numpy lacks
        raise ValueError(
            f"path must name a complete safetensors file; got {path.name}: {error}."
        ) from None
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


def _checked(text: str, path: Path) -> dict[str, Any]:
    """The metadata, if they are those of a model of this version."""
    metadata = _parse(text)
    if not isinstance(metadata, dict):
        raise ValueError(f"path must name a bbalpha model; got {path.name} without its metadata.")
    if metadata.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"path must name a bbalpha model of version {FORMAT_VERSION}; "
            f"got version {metadata.get('version')} in {path.name}."
        )
    return metadata


def _seal(path: Path) -> None:
    """Write the checksum of a file into its header."""
    start, _, digest = _checksum(path)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(digest.encode())


def _check_seal(path: Path) -> None:
    """Refuse a file that is not as it was written.

    Raises:
        ValueError: if it has no checksum or another one.
    """
    _, found, digest = _checksum(path)
    if found != digest:
        raise ValueError(
            f"path must name an intact model file; got {path.name}, whose content does not match "
            "its checksum."
        )


def _checksum(path: Path) -> tuple[int, str, str]:
    """Where the checksum of a file stands, what stands there, and what should."""
    with path.open("rb") as file:
        prefix = file.read(LENGTH_BYTES)
        header = file.read(
            int.from_bytes(prefix, "little")
        )  # a length that safetensors has checked
        match = re.search(f'"{CHECKSUM}":"([0-9a-f]{{64}})"'.encode(), header)
        if match is None:
            raise ValueError(
                f"path must name a bbalpha model; got {path.name} without its checksum."
            )
        blank = header[: match.start(1)] + NO_CHECKSUM.encode() + header[match.end(1) :]
        digest = hashlib.sha256(prefix + blank)
        while piece := file.read(PIECE):
            digest.update(piece)
    return LENGTH_BYTES + match.start(1), match.group(1).decode(), digest.hexdigest()


def _named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _parse(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
