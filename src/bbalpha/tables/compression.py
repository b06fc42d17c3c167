"""Compressed files: gzip, bzip2, xz, zip and Zstandard, by the suffix of the name.

A file is decompressed in pieces and up to a limit, so that a small file cannot fill the memory.
"""

import bz2
import gzip
import io
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow

from bbalpha.files.naming import COMPRESSED_SUFFIXES
from bbalpha.files.wording import one_line
from bbalpha.tables.messages import TableError

ALWAYS_ALLOWED = 10**8  # bytes to which any file may be decompressed; beyond that, at most
MOST_TIMES = 50  # times its own size; tables rarely shrink to less than a twentieth
PIECE = 2**22  # bytes decompressed at a time

ERRORS = (
    *(OSError, EOFError, ValueError, RuntimeError, MemoryError),
    *(zlib.error, lzma.LZMAError, zipfile.BadZipFile),
)


def opened(file: Any, path: Path, num_bytes: int) -> Iterator[bytes]:
    """The contents of an open file, decompressed if its name says so, a few megabytes at a time.

    Args:
        file: The file, at its start.
        path: Its name.
        num_bytes: Its size.

    Raises:
        TableError: If it is damaged, or far larger than a table of this size would be.
    """
    suffix = path.suffix.lower()
    if suffix not in COMPRESSED_SUFFIXES:
        yield from iter(partial(file.read, PIECE), b"")
        return
    limit, found = decoded_limit(num_bytes), 0
    try:
        with _stream(file, suffix) as stream:
            for piece in iter(partial(stream.read, PIECE), b""):
                found += len(piece)
                if found > limit:
                    raise too_large(
                        path, "once decompressed", "decompress it first if it is a table"
                    )
                yield piece
    except TableError:
        raise
    except ERRORS as error:
        raise TableError(f"{path} cannot be decompressed: {reason_of(error)}.") from None


@contextmanager
def compressing(file: Any, suffix: str, name: str) -> Iterator[Any]:
    """A file to write to; its contents are compressed into another file, according to the suffix.

    Equal contents give equal files, because no time is stored.

    Args:
        file: The compressed file.
        suffix: Its suffix.
        name: The name of the file in a zip archive.
    """
    match suffix:
        case ".gz":
            stream: Any = gzip.GzipFile("", "wb", fileobj=file, mtime=0)
        case ".bz2":
            stream = bz2.BZ2File(file, "wb")
        case ".xz":
            stream = lzma.LZMAFile(file, "wb")  # noqa: SIM115  the block below closes it
        case ".zip":
            with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
                entry = zipfile.ZipInfo(name)
                entry.compress_type = zipfile.ZIP_DEFLATED
                with archive.open(entry, "w", force_zip64=True) as member:
                    yield member
            return
        case ".zst":
            stream = pyarrow.CompressedOutputStream(pyarrow.PythonFile(file, "w"), "zstd")
        case _:
            stream = nullcontext(file)
    with stream as inner:
        yield inner


def compressed(data: bytes, suffix: str, name: str) -> bytes:
    """The data, compressed according to the suffix; `name` is used inside a zip archive."""
    buffer = _Kept()
    with compressing(buffer, suffix, name) as stream:
        stream.write(data)
    return buffer.getvalue()


def decoded_limit(num_bytes: int) -> int:
    """How many bytes a compressed file of this size may hold."""
    return max(ALWAYS_ALLOWED, MOST_TIMES * num_bytes)


def too_large(path: Path, when: str, remedy: str) -> TableError:
    """The error about a file whose contents are far larger than its size suggests."""
    return TableError(
        f"{path} must hold at most {ALWAYS_ALLOWED // 10**6} MB, or {MOST_TIMES} times its size, "
        f"{when}, so that a small file cannot fill the memory ({remedy})."
    )


def reason_of(error: Exception) -> str:
    """The message of another library, as the end of a sentence."""
    return one_line(" ".join(str(error).split()) or type(error).__name__).rstrip(".")


class _Kept(io.BytesIO):
    """A buffer that arrow does not close."""

    def close(self) -> None:
        """Keep the bytes."""


def _stream(file: Any, suffix: str) -> Any:
    """The decompressed contents, as a file to read."""
    match suffix:
        case ".gz":
            return gzip.GzipFile(fileobj=file)
        case ".bz2":
            return bz2.BZ2File(file)
        case ".xz":
            return lzma.LZMAFile(file)
        case ".zip":
            return _member(file)
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, "r"), "zstd")


def _member(file: Any) -> Any:
    """The only file in an archive."""
    archive = zipfile.ZipFile(file)
    names = [name for name in archive.namelist() if not name.startswith("__MACOSX")]
    if len(names) != 1:
        raise ValueError(f"it holds {len(names)} files instead of one")
    return archive.open(names[0])
