"""Files: tables read from CSV or Parquet, compressed or not, and written likewise.

The suffix says which. The cells of a CSV file stay text: what they mean is for `Encoder` to find.
"""

import bz2
import contextlib
import gzip
import io
import lzma
import os
import re
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bbalpha.tables.cells import typed_cells
from bbalpha.tables.delimited import table_of_text
from bbalpha.tables.messages import TableError, check_names

if TYPE_CHECKING:
    import pandas

PARQUET_SUFFIXES = (".parquet", ".pq")
COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zip", ".zst")
TAB_SUFFIXES = (".tsv", ".tab")
OTHER_SUFFIXES = (".xlsx", ".xls", ".xlsm", ".ods", ".json", ".jsonl")

PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def read_table(path: str | Path) -> "pandas.DataFrame":
    """Return the table of a CSV or Parquet file.

    A file is Parquet if its name ends in .parquet or .pq; any other is taken as CSV, decompressed
    if its name ends in .gz, .bz2, .xz, .zip or .zst. The delimiter (comma, semicolon, tab, bar or
    white space) is found from the first lines. Space around names and cells is trimmed; empty
    cells, NA, N/A, NaN, null, None, ? and - are missing. Where the delimiter is not a comma,
    numbers may have a decimal comma.

    Args:
        path: The file.

    Returns:
        One column per name of the header: all text if the file is CSV, typed if it is Parquet.

    Raises:
        TableError: If the file cannot be read or is not a table with named columns and rows.
    """
    import pyarrow

    path = Path(path)
    data = _decompressed(_bytes_of_file(path), path)
    is_parquet = path.suffix.lower() in PARQUET_SUFFIXES or data[:4] == b"PAR1"
    table: Any = _parquet_table(data, path) if is_parquet else table_of_text(data, path)
    if table.num_rows == 0:
        raise TableError(f"{path} must have rows below its header; got none.")
    columns = [typed_cells(column) for column in table.columns]
    return pyarrow.table(columns, names=table.column_names).to_pandas(date_as_object=False)


def write_table(frame: "pandas.DataFrame", path: str | Path) -> None:
    """Write a table as CSV or Parquet, compressed or not, as the suffix says.

    The file appears whole or not at all: it is written under a temporary name, then renamed.

    Args:
        frame: The table; its index is not written.
        path: The file. One that ends in .tsv or .tab is delimited by tabs.

    Raises:
        TableError: If the file cannot be written; what was there before stays as it was.
    """
    path = Path(path)
    _check_suffix(path)
    data = _bytes_of_table(frame, path)
    try:
        _replace(path, data)
    except OSError as error:
        raise TableError(
            f"{path} must be a file that can be written; got {_reason(error)}."
        ) from None


def _bytes_of_file(path: Path) -> bytes:
    _check_suffix(path)
    if path.is_dir():
        raise TableError(f"{path} must be a file; got a folder.")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"{path} must be a file; got nothing of that name.") from None
    except (OSError, ValueError) as error:  # the latter for a name with a zero byte
        raise TableError(f"{path} must be a file that can be read; got {_reason(error)}.") from None
    if not data:
        raise TableError(f"{path} must be a table; got an empty file.")
    return data


def _check_suffix(path: Path) -> None:
    if path.suffix.lower() in OTHER_SUFFIXES:
        raise TableError(
            f"{path} must be CSV or Parquet; got a name that ends in {path.suffix} "
            "(a spreadsheet can be saved as CSV)."
        )


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower().rstrip(".")


def _decompressed(data: bytes, path: Path) -> bytes:
    if path.suffix.lower() not in COMPRESSED_SUFFIXES:
        return data
    functions = (gzip.decompress, bz2.decompress, lzma.decompress, _unzip, _unzstd)
    try:
        return functions[COMPRESSED_SUFFIXES.index(path.suffix.lower())](data)
    except (
        *(OSError, EOFError, ValueError, RuntimeError),
        *(zlib.error, lzma.LZMAError, zipfile.BadZipFile),
    ) as error:
        raise TableError(
            f"{path} must be a complete {path.suffix} file; got {_one_line(error)}."
        ) from None


def _unzip(data: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX")]
        if len(names) != 1:
            raise ValueError(f"{len(names)} files in it where one is expected")
        return archive.read(names[0])


def _unzstd(data: bytes) -> bytes:
    import pyarrow

    with pyarrow.CompressedInputStream(pyarrow.BufferReader(data), "zstd") as stream:
        return stream.read()


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _parquet_table(data: bytes, path: Path):
    import pyarrow
    import pyarrow.parquet

    try:
        table = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data)).read()
        table.validate(full=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(
            f"{path} must be a complete Parquet file; got {_one_line(error)}."
        ) from None
    table = table.select([name for name in table.column_names if not PANDAS_INDEX.fullmatch(name)])
    names = [name.strip() for name in table.column_names]
    if not names:
        raise TableError(f"{path} must have columns; got none.")
    check_names(names, str(path))
    # The notes that pandas leaves in the file would turn names back into numbers.
    return table.rename_columns(names).replace_schema_metadata(None)


def _bytes_of_table(frame, path: Path) -> bytes:
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path
    if inner.suffix.lower() in PARQUET_SUFFIXES:
        data = frame.to_parquet(index=False)
    else:
        separator = "\t" if inner.suffix.lower() in TAB_SUFFIXES else ","
        data = frame.to_csv(index=False, sep=separator, lineterminator="\n").encode()
    return _compressed(data, path.suffix.lower(), inner.name)


def _compressed(data: bytes, suffix: str, name: str) -> bytes:
    match suffix:
        case ".gz":
            return gzip.compress(data, mtime=0)  # no time, so that equal tables are equal files
        case ".bz2":
            return bz2.compress(data)
        case ".xz":
            return lzma.compress(data)
        case ".zip":
            return _zip(data, name)
        case ".zst":
            import pyarrow

            return pyarrow.compress(data, codec="zstd", asbytes=True)
    return data


def _zip(data: bytes, name: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _replace(path: Path, data: bytes) -> None:
    """Put the data in place of the file; a device or a pipe is written to, not replaced."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        path.write_bytes(data)
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()
