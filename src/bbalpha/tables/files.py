"""Files: tables read from and written to CSV or Parquet, compressed or not.

The suffix of the name decides. The cells of a CSV file stay text; `Encoder` interprets them.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow

from bbalpha.files import replacing
from bbalpha.files.naming import (
    JSON_SUFFIXES,
    PARQUET_SUFFIXES,
    TAB_SUFFIXES,
    inner_name,
    is_query,
)
from bbalpha.tables.compression import compressing
from bbalpha.tables.content import check_suffix, reason_in_words
from bbalpha.tables.delimited import DECIMAL_COMMAS
from bbalpha.tables.messages import TableError
from bbalpha.tables.parquet import writing_parquet
from bbalpha.tables.sources import FILE, joined, tables_of


def read_table(source: str | Path) -> pyarrow.Table:
    """Return the table of a file, of several files, or of a query.

    A file is Parquet if its name ends in .parquet or .pq, JSON lines if it ends in .jsonl or
    .ndjson; any other file is read as CSV, after decompression if its name ends in .gz, .bz2, .xz,
    .zip or .zst. The first lines determine the delimiter: comma, semicolon, tab, vertical bar or
    white space. Cells stay as they are written; `Encoder` and `Target` interpret them.

    Args:
        source: The file, a folder of files, a pattern such as flights/*.parquet, or a SELECT over
            files, which needs DuckDB.

    Returns:
        One column per name in the header: text from a CSV file, typed from any other.

    Raises:
        TableError: If the source cannot be read or is not a table with named columns and rows, or
            if its files differ in their columns or types.
    """
    table = joined(list(tables_of(source)))
    if table.num_rows == 0:
        raise without_rows(source)
    return table


def without_rows(source: str | Path) -> TableError:
    """The error about a table without rows."""
    name = "the query" if isinstance(source, str) and is_query(source) else source
    return TableError(f"{name} has no rows below its header.")


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


def file_of(frame: Any) -> str:
    """The (first) file that an arrow table comes from; "" if it is not known."""
    metadata = frame.schema.metadata if isinstance(frame, pyarrow.Table) else None
    return (metadata or {}).get(FILE, b"").decode()


def write_table(frame: Any, path: str | Path) -> None:
    """Write a table as CSV or Parquet, compressed or not, depending on the suffix.

    The file appears whole or not at all (`bbalpha.files.replacing`). Pages of a Parquet file carry
    checksums, which `read_table` verifies.

    Args:
        frame: A pandas DataFrame, whose index is not written, or an arrow table.
        path: The file. If its name ends in .tsv or .tab, tabs separate the cells.

    Raises:
        TableError: If the file cannot be written; an existing file then stays unchanged.
    """
    with writing_table(path) as write:
        write(frame)


@contextmanager
def writing_table(path: str | Path) -> Iterator[Callable[[Any], None]]:
    """A function that appends rows with the same columns to a file; see `write_table`.

    The file appears at the end of the block, unless there is an error.

    Raises:
        TableError: If the file cannot be written; an existing file then stays unchanged.
    """
    path = Path(path)
    check_suffix(path)
    inner = inner_name(path)
    suffix = inner.suffix.lower()
    if suffix in JSON_SUFFIXES:
        raise TableError(f"{path} must be CSV or Parquet; got a name in {suffix}.")
    try:
        with (
            replacing(path) as temporary,
            temporary.open("wb") as file,
            compressing(file, path.suffix.lower(), inner.name) as stream,
        ):
            if suffix in PARQUET_SUFFIXES:
                with writing_parquet(stream) as write:
                    yield lambda frame: write(_as_arrow(frame))
            else:
                yield csv_writer(stream, "\t" if suffix in TAB_SUFFIXES else ",")
    except OSError as error:
        raise TableError(f"{path} cannot be written: {reason_in_words(error)}.") from None


def csv_writer(stream: Any, separator: str = ",") -> Callable[[Any], None]:
    """A function that writes rows as CSV into an open file, with a header before the first row."""
    names: list[str] = []

    def write(frame: Any) -> None:
        frame = frame.to_pandas() if isinstance(frame, pyarrow.Table) else frame
        settings = {"index": False, "sep": separator, "lineterminator": "\n"}
        stream.write(frame.to_csv(header=not names, **settings).encode())
        names.extend(frame.columns)

    return write


def _as_arrow(frame: Any) -> pyarrow.Table:
    if isinstance(frame, pyarrow.Table):
        return frame
    return pyarrow.Table.from_pandas(frame, preserve_index=False)
