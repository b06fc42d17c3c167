"""Files of predictors: one safetensors array of draws, and JSON; read with NumPy alone.

Nothing in a file is executed. Its checksum is verified before anything is used, and no memory is
allocated on the strength of a size that the file merely claims.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.files import model_file

DRAWS = "['draws']"  # the array, of shape (draws, weights)
TYPES = {"F32": np.dtype("<f4"), "F64": np.dtype("<f8")}


def read(path: str | Path) -> tuple[np.ndarray, dict[str, Any]]:
    """The draws and the facts of a predictor file.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is not a predictor, is damaged or has another format version.
    """
    path = Path(path)
    model_file.check_exists(path)
    content = path.read_bytes()
    try:
        header, start = _header(content)
        texts = header.pop("__metadata__")
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError(f"{path.name} is not a complete safetensors file.") from None
    facts = model_file.checked(texts, path, model_file.PREDICTOR)
    model_file.check_seal(path, model_file.PREDICTOR)
    try:
        return _array(header, content, start), facts
    except (ValueError, KeyError, TypeError):
        raise invalid(path, "its draws are not an array") from None


def invalid(path: str | Path, problem: str) -> ValueError:
    """The error for a file that was written as a predictor but has invalid contents."""
    return ValueError(f"{Path(path).name} is not a valid bbalpha predictor: {problem}.")


def _header(content: bytes) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and the position where the arrays begin."""
    start = model_file.LENGTH_BYTES + int.from_bytes(content[: model_file.LENGTH_BYTES], "little")
    if len(content) < start:
        raise ValueError
    return json.loads(content[model_file.LENGTH_BYTES : start]), start


def _array(header: dict[str, Any], content: bytes, start: int) -> np.ndarray:
    """The array of draws, which must fill the rest of the file."""
    ((name, entry),) = header.items()
    dtype, (num_draws, num_weights) = TYPES[entry["dtype"]], entry["shape"]
    num_bytes = len(content) - start
    if name != DRAWS or entry["data_offsets"] != [0, num_bytes]:
        raise ValueError
    if not all(type(n) is int and n > 0 for n in entry["shape"]):
        raise ValueError
    if num_draws * num_weights * dtype.itemsize != num_bytes:
        raise ValueError
    draws = np.frombuffer(content, dtype, offset=start).reshape(num_draws, num_weights)
    if not np.isfinite(draws).all():
        raise ValueError
    return draws
