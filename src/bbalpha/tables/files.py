"""Files: tables read from and written to CSV or Parquet, compressed or not.

The suffix of the name says which. The cells of a CSV file stay text; `Encoder` finds their meaning.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.parquet

from bbalpha.files import replacing
from bbalpha.tables.compression import (
    COMPRESSED_SUFFIXES,
    compressed,
    decoded_limit,
    decompressed,
    reason_of,
    too_large,
)
from bbalpha.tables.delimited import DECIMAL_COMMAS, table_of_text
from bbalpha.tables.messages import TableError, check_names, check_num_columns

PARQUET_SUFFIXES = (".parquet", ".pq")
TAB_SUFFIXES = (".tsv", ".tab")
SPREADSHEET_SUFFIXES = (".xlsx", ".xls", ".xlsm", ".ods")
OTHER_SUFFIXES = (*SPREADSHEET_SUFFIXES, ".json", ".jsonl")

CELLS_PER_BATCH = 2**20  # cells of a Parquet file that are decoded at a time
MOST_ROWS_PER_BATCH = 2**16
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def read_table(path: str | Path) -> pyarrow.Table:
    """Return the table of a CSV or Parquet file.

    A file is Parquet if its name ends in .parquet or .pq; any other file is read as CSV, after
    decompression if its name ends in .gz, .bz2, .xz, .zip or .zst. The first lines tell the
    delimiter: comma, semicolon, tab, vertical bar or white space. Cells stay as they are written;
    `Encoder` and `Target` read them.

    Args:
        path: The file.

    Returns:
        One column per name in the header: text if the file is CSV, typed if it is Parquet.

    Raises:
        TableError: If the file cannot be read or is not a table with named columns and rows.
    """
    path = Path(path)
    data = decompressed(_bytes_of_file(path), path)
    is_parquet = path.suffix.lower() in PARQUET_SUFFIXES or data[:4] == b"PAR1"
    table: Any = _parquet_table(data, path) if is_parquet else table_of_text(data, path)
    if table.num_rows == 0:
        raise TableError(f"{path} has no rows below its header.")
    return table


def names_of(frame: Any) -> list[Any]:
    """The names of the columns of an arrow table or a pandas DataFrame."""
    return list(frame.column_names if isinstance(frame, pyarrow.Table) else frame.columns)


def select_column(frame: Any, name: str) -> Any:
    """A column of an arrow table or a pandas DataFrame."""
    return frame.column(name) if isinstance(frame, pyarrow.Table) else frame[name]


def select_rows(frame: Any, mask: np.ndarray) -> Any:
    """The rows of an arrow table or a pandas DataFrame where the mask is true."""
    is_arrow = isinstance(frame, pyarrow.Table)
    return frame.filter(pyarrow.array(mask)) if is_arrow else frame[mask]


def decimal_commas(frame: Any) -> bool:
    """Whether a table comes from a file in which commas may mark decimals."""
    metadata = frame.schema.metadata if isinstance(frame, pyarrow.Table) else None
    return DECIMAL_COMMAS in (metadata or {})


def write_table(frame: Any, path: str | Path) -> None:
    """Write a table as CSV or Parquet, compressed or not, depending on the suffix.

    The file appears whole or not at all (`bbalpha.files.replacing`).

    Args:
        frame: A pandas DataFrame, whose index is not written, or an arrow table.
        path: The file. If its name ends in .tsv or .tab, tabs separate the cells.

    Raises:
        TableError: If the file cannot be written; an existing file then stays unchanged.
    """
    path = Path(path)
    _check_suffix(path)
    data = _bytes_of_table(frame, path)
    try:
        with replacing(path) as temporary:
            temporary.write_bytes(data)
    except OSError as error:
        raise TableError(f"{path} cannot be written: {_reason(error)}.") from None


def _bytes_of_file(path: Path) -> bytes:
    _check_suffix(path)
    if path.is_dir():
        raise TableError(f"{path} is a folder, not a file.")
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise TableError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:  # a ValueError if the name has a zero byte
        raise TableError(f"{path} cannot be read: {_reason(error)}.") from None
    if not data:
        raise TableError(f"{path} is empty.")
    return data


def _check_suffix(path: Path) -> None:
    suffix = path.suffix.lower()
    if suffix in OTHER_SUFFIXES:
        remedy = " (save the spreadsheet as CSV)" if suffix in SPREADSHEET_SUFFIXES else ""
        raise TableError(f"{path} must be CSV or Parquet; got a name in {suffix}{remedy}.")


def _reason(error: Exception) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower().rstrip(".")


def _parquet_table(data: bytes, path: Path) -> pyarrow.Table:
    try:
        file = pyarrow.parquet.ParquetFile(pyarrow.BufferReader(data))
        found = file.schema_arrow.names
        used = [number for number, name in enumerate(found) if not PANDAS_INDEX.fullmatch(name)]
        names = [found[number].strip() for number in used]
        check_num_columns(len(names), str(path))
        table = _decoded(file, decoded_limit(len(data)))
        if table is not None:
            table.validate(full=True)
    except (pyarrow.ArrowException, OSError) as error:
        raise TableError(f"{path} is not a complete Parquet file: {reason_of(error)}.") from None
    if table is None:
        raise too_large(path, "once decoded", "write it as CSV if it is a table")
    if not names:
        raise TableError(f"{path} has no columns.")
    check_names(names, str(path))
    # The metadata that pandas leaves in the file would turn names back into numbers.
    return table.select(used).rename_columns(names).replace_schema_metadata(None)


def _decoded(file: pyarrow.parquet.ParquetFile, limit: int) -> pyarrow.Table | None:
    """The table, read a batch at a time, or None if it is larger than the limit."""
    rows_per_batch = max(1, CELLS_PER_BATCH // max(len(file.schema_arrow.names), 1))
    batches, num_bytes = [], 0
    for batch in file.iter_batches(min(rows_per_batch, MOST_ROWS_PER_BATCH)):
        batches.append(batch)
        num_bytes += batch.nbytes
        if num_bytes > limit:
            return None
    return pyarrow.Table.from_batches(batches, file.schema_arrow)


def _bytes_of_table(frame: Any, path: Path) -> bytes:
    frame = frame.to_pandas() if isinstance(frame, pyarrow.Table) else frame
    inner = path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path
    if inner.suffix.lower() in PARQUET_SUFFIXES:
        data = frame.to_parquet(index=False)
    else:
        separator = "\t" if inner.suffix.lower() in TAB_SUFFIXES else ","
        data = frame.to_csv(index=False, sep=separator, lineterminator="\n").encode()
    return compressed(data, path.suffix.lower(), inner.name)
