"""Model files: safetensors, with arrays under their tree paths and the rest as JSON metadata.

Reading a file never executes code, whoever wrote it. A checksum detects damage before anything in
the file is used. A forger can compute it too, so every name, shape and type is checked as well.

Messages are sentences about the file, because the command line prints them unchanged. jax is
imported only where it is used, so that `bbalpha inspect` need not wait for it.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bbalpha.files.atomic import replacing
from bbalpha.files.wording import one_line

FORMAT_VERSION = 5
CHECKSUM = "sha256"
NO_CHECKSUM = "0" * 64  # in place of the checksum while it is computed
LENGTH_BYTES = 8  # at the start of a safetensors file, for the length of the header
PIECE = 2**16  # bytes read at a time
DEEPEST = 20  # levels of nested lists; our metadata have six, and Python recurses into them


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        key: The key of its JSON in the metadata.
        version: The version of its format.
        words: Its name for users.
        remedy: What to do about a file of an older version.
    """

    key: str
    version: int
    words: str
    remedy: str


MODEL = Kind("bbalpha", FORMAT_VERSION, "bbalpha model", "Fit and save the model again")
PREDICTOR = Kind("bbalpha-predictor", 1, "bbalpha predictor", "Export the model again")


def write(path: str | Path, tree: Any, metadata: dict[str, Any], kind: Kind | None = None) -> None:
    """Write the arrays of `tree` and the metadata to a file, by default a model file.

    Raises:
        OSError: If the file cannot be written; an existing file is then left as it was.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    kind = kind or MODEL
    arrays = {name: np.asarray(leaf, order="C") for name, leaf in _named_leaves(tree)}
    text = json.dumps(metadata | {"version": kind.version})
    try:
        with replacing(path) as temporary:
            save_file(arrays, temporary, {kind.key: text, CHECKSUM: NO_CHECKSUM})
            _seal(temporary, kind)
    except (SafetensorError, OSError) as error:
        raise OSError(f"{path} cannot be written: {_reason(error)}.") from None


def read(path: str | Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays and the metadata of a model file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is not a bbalpha model, is damaged or has another format version.
    """
    from safetensors import SafetensorError, safe_open

    path = Path(path)
    check_exists(path)
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = checked(file.metadata() or {}, path, MODEL)
            check_seal(path, MODEL)
            arrays = {name: _array(file, name, path) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise _incomplete(path, error) from None
    return arrays, metadata


def fill(like: Any, arrays: dict[str, np.ndarray], path: str | Path, exact: bool = False) -> Any:
    """The tree `like` with the arrays of a file in place of its leaves.

    Args:
        like: The tree, whose leaves may be shapes.
        arrays: Arrays as returned by `read`.
        path: The file, for messages.
        exact: Whether each array must have the type of its leaf; otherwise any floating-point type
            is allowed.

    Raises:
        ValueError: If a name, shape or type differs; the message has the name of the leaf.

    Warns:
        UserWarning: If arrays of 64 bits are rounded to 32, because jax is set to 32 bits.
    """
    import jax
    import jax.numpy as jnp

    named = _named_leaves(like)
    unexpected = sorted(set(arrays) - {name for name, _ in named})
    if unexpected:
        raise _mismatch(path, f"it has {one_line(unexpected[0])}, which the model lacks")
    for name, leaf in named:
        if name not in arrays:
            raise _mismatch(path, f"it lacks {name}")
        expected, found = np.shape(leaf), arrays[name]
        if found.shape != expected:
            raise _mismatch(path, f"{name} has shape {found.shape} instead of {expected}")
        if exact:
            if found.dtype != leaf.dtype:
                raise _mismatch(path, f"{name} holds {found.dtype} instead of {leaf.dtype}")
        elif not jnp.issubdtype(found.dtype, jnp.floating):
            raise _mismatch(path, f"{name} holds {found.dtype} instead of floating-point numbers")
    if not exact:
        _warn_of_rounding([arrays[name] for name, _ in named], path)
    leaves = [jnp.asarray(arrays[name]) for name, _ in named]
    return jax.tree.unflatten(jax.tree.structure(like), leaves)


def check_exists(path: Path) -> None:
    """Raise if there is no file of that name.

    Raises:
        FileNotFoundError: If there is none.
    """
    if not path.is_file():
        problem = f"{path} is not a file" if path.exists() else f"there is no file {path}"
        raise FileNotFoundError(f"{problem}.")


def checked(texts: dict[str, str], path: Path, kind: Kind) -> dict[str, Any]:
    """The metadata of a file, which must be of that kind and of this version.

    Args:
        texts: The texts in the header of the file.
        path: The file, for messages.
        kind: The kind that the file should have.

    Raises:
        ValueError: If it has another kind or version.
    """
    text = texts.get(kind.key)
    if text is None:
        other = PREDICTOR if kind is MODEL else MODEL
        if other.key in texts:
            raise ValueError(f"{path.name} is a {other.words}, not a {kind.words}.")
        raise ValueError(f"{path.name} is not a {kind.words}: it has no metadata.")
    metadata = _parse(text)
    if not isinstance(metadata, dict):
        raise ValueError(f"{path.name} is not a {kind.words}: its metadata are not readable.")
    version = metadata.get("version")
    if version != kind.version:
        is_newer = isinstance(version, int) and version > kind.version
        remedy = "Update bbalpha" if is_newer else kind.remedy
        raise ValueError(
            f"{path.name} has format version {one_line(version)}; this bbalpha reads version "
            f"{kind.version}. {remedy}."
        )
    return metadata


def check_seal(path: Path, kind: Kind) -> None:
    """Raise if a file has changed since it was written.

    Raises:
        ValueError: If its checksum is missing or wrong.
    """
    _, found, digest = _checksum(path, kind)
    if found != digest:
        raise ValueError(f"{path.name} is damaged: its content does not match its checksum.")


def invalid(path: str | Path, problem: str) -> ValueError:
    """The error for a file that was written as a model but has invalid contents."""
    return ValueError(f"{Path(path).name} is not a valid bbalpha model: {problem.rstrip('.')}.")


def _array(file: Any, name: str, path: Path) -> np.ndarray:
    """An array of an open file; raises if numpy does not support its type or shape."""
    try:
        return file.get_tensor(name)
    except (AttributeError, TypeError, ValueError) as error:
        raise _incomplete(path, error) from None


def _reason(error: Exception) -> str:
    """Why a file cannot be written; safetensors mixes the system's message with its own."""
    text = one_line(getattr(error, "strerror", None) or error).rstrip(".")
    text = re.sub(r" \(os error \d+\)$", "", text).rpartition("I/O error: ")[2]
    return text[:1].lower() + text[1:]


def _incomplete(path: Path, error: Exception) -> ValueError:
    reason = one_line(error).rstrip(".")
    return ValueError(f"{path.name} is not a complete safetensors file: {reason}.")


def _mismatch(path: str | Path, problem: str) -> ValueError:
    return ValueError(f"{Path(path).name} does not match the model: {one_line(problem)}.")


def _warn_of_rounding(arrays: list[np.ndarray], path: str | Path) -> None:
    """Warn if arrays lose half of their bits, because the draws will then differ."""
    import jax

    from bbalpha.engine.checks import warn

    kept = jax.dtypes.canonicalize_dtype(np.float64)
    if kept != np.float64 and any(array.dtype == np.float64 for array in arrays):
        warn(
            f"{Path(path).name} was saved in 64 bits and is read in 32, so its predictions change: "
            "they average over other draws. Set JAX_ENABLE_X64=1, or jax.config.update("
            '"jax_enable_x64", True), to get the same predictions.'
        )


def _seal(path: Path, kind: Kind = MODEL) -> None:
    """Write the checksum of a file into its header."""
    start, _, digest = _checksum(path, kind)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(digest.encode())


def _checksum(path: Path, kind: Kind) -> tuple[int, str, str]:
    """The position of the checksum in a file, the checksum found there, and the correct one."""
    with path.open("rb") as file:
        prefix = file.read(LENGTH_BYTES)
        # safetensors has checked this length.
        header = memoryview(file.read(int.from_bytes(prefix, "little")))
        match = re.search(f'"{CHECKSUM}":"([0-9a-f]{{64}})"'.encode(), header)
        if match is None:
            raise ValueError(f"{path.name} is not a {kind.words}: it has no checksum.")
        digest = hashlib.sha256(prefix)
        for part in (header[: match.start(1)], NO_CHECKSUM.encode(), header[match.end(1) :]):
            digest.update(part)
        while piece := file.read(PIECE):
            digest.update(piece)
    return LENGTH_BYTES + match.start(1), bytes(match.group(1)).decode(), digest.hexdigest()


def _named_leaves(tree: Any) -> list[tuple[str, Any]]:
    import jax

    leaves = jax.tree_util.tree_flatten_with_path(tree)[0]
    return [(jax.tree_util.keystr(path), leaf) for path, leaf in leaves]


def _parse(text: str) -> Any:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if _is_shallow(value, DEEPEST) else None


def _is_shallow(value: Any, depth: int) -> bool:
    """Whether lists and dictionaries are nested no more than `depth` deep."""
    if not isinstance(value, list | dict):
        return True
    items = value.values() if isinstance(value, dict) else value
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in items)
