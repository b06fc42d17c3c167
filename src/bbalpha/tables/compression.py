"""Compressed files: gzip, bzip2, xz, zip and Zstandard, by the suffix of the name.

A file is decompressed in pieces up to a limit, so that a small one cannot fill the memory.
"""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow

from bbalpha.files.wording import one_line
from bbalpha.tables.messages import TableError

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zip", ".zst")
ALWAYS_ALLOWED = 10**8  # bytes to which any file may be decompressed, and beyond them
MOST_TIMES = 50  # its own size; tables rarely shrink to less than a twentieth
PIECE = 2**22  # bytes decompressed at a time

ERRORS = (
    *(OSError, EOFError, ValueError, RuntimeError, MemoryError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)


def decompressed(data: bytes, path: Path) -> bytes:
    """The content of a file, decompressed if its name says so.

    Raises:
        TableError: If it is damaged, or far larger than a table of this size would be.
    """
    suffix = path.suffix.lower()
    if suffix not in COMPRESSED_SUFFIXES:
        return data
    limit = decoded_limit(len(data))
    try:
        with _stream(data, suffix) as stream:
            found = _read(stream, limit)
    except ERRORS as error:
        raise TableError(f"{path} cannot be decompressed: {reason_of(error)}.") from None
    if found is None:
        raise too_large(path, "once decompressed", "decompress it first if it is a table")
    return found


def compressed(data: bytes, suffix: str, name: str) -> bytes:
    """The data as a file of that suffix holds them; `name` is that of the file in a zip archive."""
    match suffix:
        case ".gz":
            return gzip.compress(data, mtime=0)  # without the time, equal tables give equal files
        case ".bz2":
            return bz2.compress(data)
        case ".xz":
            return lzma.compress(data)
        case ".zip":
            return _zip(data, name)
        case ".zst":
            return pyarrow.compress(data, codec="zstd", asbytes=True)
    return data


def decoded_limit(num_bytes: int) -> int:
    """How many bytes a compressed file of this size may hold."""
    return max(ALWAYS_ALLOWED, MOST_TIMES * num_bytes)


def too_large(path: Path, when: str, remedy: str) -> TableError:
    """The error about a file that holds far more than its size lets expect."""
    return TableError(
        f"{path} must hold at most {ALWAYS_ALLOWED // 10**6} MB, or {MOST_TIMES} times its size, "
        f"{when}, so that a small file cannot fill the memory ({remedy})."
    )


def reason_of(error: Exception) -> str:
    """The message of another library for the end of a sentence."""
    return one_line(" ".join(str(error).split()) or type(error).__name__).rstrip(".")


def _stream(data: bytes, suffix: str) -> Any:
    """The decompressed content as a file to read."""
    match suffix:
        case ".gz":
            return gzip.GzipFile(fileobj=io.BytesIO(data))
        case ".bz2":
            return bz2.BZ2File(io.BytesIO(data))
        case ".xz":
            return lzma.LZMAFile(io.BytesIO(data))
        case ".zip":
            return _member(data)
    return pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd")


def _member(data: bytes) -> Any:
    """The one file in an archive."""
    archive = zipfile.ZipFile(io.BytesIO(data))
    names = [name for name in archive.namelist() if not name.startswith("__MACOSX")]
    if len(names) != 1:
        raise ValueError(f"it holds {len(names)} files instead of one")
    return archive.open(names[0])


def _read(stream: Any, limit: int) -> bytes | None:
    """The content of a stream, or None if it is larger than the limit."""
    pieces, num_bytes = [], 0
    while piece := stream.read(PIECE):
        pieces.append(piece)
        num_bytes += len(piece)
        if num_bytes > limit:
            return None
    return b"".join(pieces)


def _zip(data: bytes, name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()
