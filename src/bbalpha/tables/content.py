"""The contents of a file: its decompressed bytes, which can be read repeatedly from the start."""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bbalpha.files.naming import COMPRESSED_SUFFIXES, PARQUET_SUFFIXES, inner_name
from bbalpha.tables.compression import opened
from bbalpha.tables.messages import TableError

SPREADSHEET_SUFFIXES = (".xlsx", ".xls", ".xlsm", ".ods")
OTHER_SUFFIXES = (*SPREADSHEET_SUFFIXES, ".json")
PARQUET_MARK = b"PAR1"


@dataclass(frozen=True)
class Content:
    """The bytes of a file.

    Attributes:
        path: The name of the file, which says whether it is compressed.
        data: The stored bytes, if the file is a pipe, which can be read only once.
        num_bytes: The stored size.
    """

    path: Path
    data: bytes | None
    num_bytes: int

    @classmethod
    def of(cls, path: Path) -> "Content":
        """Return the content of a file.

        Raises:
            TableError: If it cannot be read, or if its name shows that it is not a table.
        """
        check_suffix(path)
        if path.is_dir():
            raise TableError(f"{path} is a folder, not a file.")
        with _told(path):
            is_file = path.is_file() or not path.exists()
            data = None if is_file else path.read_bytes()
            num_bytes = path.stat().st_size if data is None else len(data)
            if num_bytes == 0:
                raise TableError(f"{path} is empty.")
            with path.open("rb") if data is None else io.BytesIO(data):
                return cls(path, data, num_bytes)

    def pieces(self) -> Iterator[bytes]:
        """The decompressed bytes, a few megabytes at a time."""
        with _told(self.path), self.file() as file:
            yield from opened(file, self.path, self.num_bytes)

    def file(self) -> Any:
        """The stored bytes, as an open file."""
        return self.path.open("rb") if self.data is None else io.BytesIO(self.data)

    @property
    def suffix(self) -> str:
        """The suffix of the name, without a suffix for compression."""
        return inner_name(self.path).suffix.lower()

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed as a whole, judging by its name."""
        return self.path.suffix.lower() in COMPRESSED_SUFFIXES

    @property
    def is_parquet(self) -> bool:
        """Whether it is a Parquet file, judging by its name or by its first bytes."""
        if self.path.suffix.lower() in PARQUET_SUFFIXES:
            return True
        return next(self.pieces(), b"").startswith(PARQUET_MARK)


def check_suffix(path: Path) -> None:
    """Raise if the name shows that a file is not a table."""
    suffix = path.suffix.lower()
    if suffix in OTHER_SUFFIXES:
        remedy = " (save the spreadsheet as CSV)" if suffix in SPREADSHEET_SUFFIXES else ""
        raise TableError(f"{path} must be CSV or Parquet; got a name in {suffix}{remedy}.")


def reason_in_words(error: Exception) -> str:
    """Why a file cannot be read or written."""
    return (getattr(error, "strerror", None) or str(error)).lower().rstrip(".")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn errors of the system into sentences about the file."""
    try:
        yield
    except TableError:
        raise
    except FileNotFoundError:
        raise TableError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:  # a ValueError if the name has a zero byte
        raise TableError(f"{path} cannot be read: {reason_in_words(error)}.") from None
