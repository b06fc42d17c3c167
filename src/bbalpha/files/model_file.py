"""Model files: safetensors, arrays under their tree paths and the rest as JSON in the metadata.

Reading one never executes code, whoever wrote it. A checksum tells a damaged file from an intact
one before anything of it is used; against forgers, who can compute it too, every name, shape and
type is checked.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from bbalpha.files.atomic import replacing

FORMAT = "bbalpha"
FORMAT_VERSION = 3
CHECKSUM = "sha256"
NO_CHECKSUM = "0" * 64  # stands where the checksum will, while it is computed
LENGTH_BYTES = 8  # the length of the header, at the start of a safetensors file
PIECE = 2**16  # bytes read at a time
DEEPEST = 20  # lists within lists; metadata of ours have six, and Python recurses into them
LONGEST = 200  # characters of a file that a message repeats


def write(path: str | Path, tree: PyTree, metadata: dict[str, Any]) -> None:
    """Write the arrays of `tree` and `metadata`, whole or not at all.

    Raises:
        OSError: if the file cannot be written; what was there before stays as it was.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    arrays = {name: np.asarray(leaf, order="C") for name, leaf in _named_leaves(tree)}
    text = json.dumps(metadata | {"version": FORMAT_VERSION})
    try:
        with replacing(path) as temporary:
            save_file(arrays, temporary, {FORMAT: text, CHECKSUM: NO_CHECKSUM})
            _seal(temporary)
    except (SafetensorError, OSError) as error:
        raise OSError(f"path must name a file that can be written; got {path}: {error}.") from None


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
            arrays = {name: _array(file, name, path) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _incomplete(path, error) from None
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
            "the model must have a leaf for every array of the file; "
            f"got {one_line(unexpected[0])} in {name_of_file}, which it lacks."
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


def one_line(text: Any) -> str:
    """What a file or an error says, fit for a place within a sentence."""
    text = str(text)
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
    return "".join(letter if letter.isprintable() else " " for letter in text)


def _array(file: Any, name: str, path: Path) -> np.ndarray:
    """An array of an open file; the errors are those of types and shapes that numpy lacks."""
    try:
        return file.get_tensor(name)
    except (AttributeError, TypeError, ValueError) as error:
        raise _incomplete(path, error) from None


def _incomplete(path: Path, error: Exception) -> ValueError:
    reason = one_line(error).rstrip(".")
    return ValueError(f"path must name a complete safetensors file; got {path.name}: {reason}.")


def _checked(text: str, path: Path) -> dict[str, Any]:
    """The metadata, if they are those of a model of this version."""
    metadata = _parse(text)
    if not isinstance(metadata, dict):
        raise ValueError(f"path must name a bbalpha model; got {path.name} without its metadata.")
    if metadata.get("version") != FORMAT_VERSION:
        raise ValueError(
            f"path must name a bbalpha model of version {FORMAT_VERSION}; "
            f"got version {one_line(metadata.get('version'))} in {path.name}. Fit and save it anew."
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
        # A length that safetensors has checked.
        header = memoryview(file.read(int.from_bytes(prefix, "little")))
        match = re.search(f'"{CHECKSUM}":"([0-9a-f]{{64}})"'.encode(), header)
        if match is None:
            raise ValueError(
                f"path must name a bbalpha model; got {path.name} without its checksum."
            )
        digest = hashlib.sha256(prefix)
        for part in (header[: match.start(1)], NO_CHECKSUM.encode(), header[match.end(1) :]):
            digest.update(part)
        while piece := file.read(PIECE):
            digest.update(piece)
    return LENGTH_BYTES + match.start(1), bytes(match.group(1)).decode(), digest.hexdigest()


def _named_leaves(tree: PyTree) -> list[tuple[str, Any]]:
    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _parse(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if _is_shallow(value, DEEPEST) else None


def _is_shallow(value: Any, depth: int) -> bool:
    """Whether no more than so many lists and dictionaries lie within each other."""
    if not isinstance(value, list | dict):
        return True
    items = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in items)
