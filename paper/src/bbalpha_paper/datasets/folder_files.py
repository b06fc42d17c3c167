"""Reading files of a data folder: compressed tables, and the idx files of mnist."""

import csv
import gzip
import struct
import warnings
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from .catalog import Entry

# Names and magic numbers: 0x08 for bytes, then the number of axes.
_IDX_FILES = {
    "train-images-idx3-ubyte.gz": 0x803,
    "t10k-images-idx3-ubyte.gz": 0x803,
    "train-labels-idx1-ubyte.gz": 0x801,
    "t10k-labels-idx1-ubyte.gz": 0x801,
}

_DAMAGES = (gzip.BadGzipFile, EOFError, zlib.error)  # errors that a broken gzip file causes


def table_path(entry: Entry) -> str:
    """The path of a set's table, relative to the folder."""
    return f"{entry.name}/{entry.name}.csv.gz"


def find_file(entry: Entry, folder: Path, relative: str) -> Path:
    """The path of a file in the folder.

    Raises:
        FileNotFoundError: If there is no such file; the message says where to get it.
    """
    path = folder / relative
    if not path.is_file():
        elsewhere = (
            f" To use OpenML's data set {entry.openml_id} instead, name no folder and unset "
            "BBALPHA_DATA."
            if entry.openml_id
            else ""
        )
        raise FileNotFoundError(
            f"folder must hold {relative}; got folder={str(folder)!r} without it. "
            f"The canonical download is {entry.url}.{elsewhere}"
        )
    return path


def read_gzip(path: Path) -> bytes:
    """The content of a compressed file.

    Raises:
        ValueError: If it is not a complete gzip file.
    """
    try:
        return gzip.decompress(path.read_bytes())
    except _DAMAGES as error:
        raise _damaged(path, error) from error


def check_header(header: list[str], expected: tuple[str, ...], path: Path) -> None:
    """Raise unless a table has the expected columns.

    Raises:
        ValueError: If it does not; the message names the first column that differs.
    """
    if len(header) != len(expected):
        raise ValueError(
            f"{path} must have {len(expected)} columns, the target last; got {len(header)}."
        )
    for number, (found, name) in enumerate(zip(header, expected, strict=True), start=1):
        if found != name:
            raise ValueError(
                f"{path} must have a header that names its columns in the catalog's order; "
                f"got {found!r} instead of {name!r} for column {number}."
            )


def read_table(entry: Entry, folder: Path) -> tuple[np.ndarray, np.ndarray, str]:
    """The inputs, the targets and the path of a compressed table.

    Raises:
        FileNotFoundError: If it is not in the folder.
        ValueError: If it is not a compressed table of numbers with the columns of the catalog.
    """
    path = find_file(entry, folder, table_path(entry))
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            header = next(csv.reader(file), [])
            check_header(header, (*entry.feature_names, entry.target_name), path)
            rows = _numbers(file, path)
    except (*_DAMAGES, UnicodeDecodeError) as error:
        raise _damaged(path, error) from error
    if not rows.size:
        rows = rows.reshape(0, len(header))
    return rows[:, :-1], rows[:, -1], str(path)


def read_mnist(entry: Entry, folder: Path) -> tuple[np.ndarray, np.ndarray, str]:
    """The pixels in [0, 1], the digits and the folder of mnist, training part first.

    Raises:
        FileNotFoundError: If one of the four files is not in the folder.
        ValueError: If one is damaged, or its number of images is not the catalog's.
    """
    paths = [find_file(entry, folder, f"{entry.name}/{file}") for file in _IDX_FILES]
    train, test, train_digits, test_digits = map(_read_idx, paths, _IDX_FILES.values())
    num_train = entry.num_train or 0
    for path, part in zip(paths, (train, test, train_digits, test_digits), strict=True):
        expected = num_train if "train" in path.name else entry.num_data - num_train
        if len(part) != expected:
            raise ValueError(f"{path} must hold {expected} items; got {len(part)}.")
    pixels = np.concatenate([train, test]).reshape(entry.num_data, -1)
    digits = np.concatenate([train_digits, test_digits])
    return pixels / np.float32(255), digits, str(folder / entry.name)


def _numbers(lines: Iterable[str], path: Path) -> np.ndarray:
    """The remaining lines of a table as a matrix."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
        try:
            return np.loadtxt(lines, delimiter=",", ndmin=2)
        except ValueError as error:
            raise ValueError(f"{path} must hold a table of numbers; got: {error}") from error


def _read_idx(path: Path, magic: int) -> np.ndarray:
    """The bytes of an idx file, in the shape that its first bytes state."""
    content = read_gzip(path)
    try:
        found, *shape = struct.unpack_from(f">{1 + magic % 256}I", content)
        if found != magic:
            raise ValueError(f"the magic number {found:#x} instead of {magic:#x}")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)
    except (struct.error, ValueError) as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> ValueError:
    """The error for a file that cannot be decoded."""
    return ValueError(f"{path} must be a complete gzip file of its kind; got: {error}.")
