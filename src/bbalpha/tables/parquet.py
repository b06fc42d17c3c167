"""Parquet files: read a few rows at a time, with page checksums verified, and written."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet

from bbalpha.tables.compression import decoded_limit, reason_of, too_large
from bbalpha.tables.content import Content
from bbalpha.tables.messages import TableError, check_names, check_num_columns

CELLS_PER_BATCH = 2**20  # cells of a Parquet file that are decoded at a time
MOST_ROWS_PER_BATCH = 2**16
ROWS_PER_GROUP = 2**17  # in files that we write
PANDAS_INDEX = re.compile(r"__index_level_\d+__")


def tables_of_parquet(content: Content) -> Iterator[pyarrow.Table]:
    """The content of a Parquet file as arrow tables, some rows at a time, and one without rows.

    Raises:
        TableError: If the file is damaged (names the row group), if its contents are far larger
            than its size suggests, or if its columns have no names.
    """
    path = content.path
    try:
        source = _source(content)
        file: Any = pyarrow.parquet.ParquetFile(source, page_checksum_verification=True)
        schema, limit = file.schema_arrow, decoded_limit(source.size())
    except (pyarrow.ArrowException, OSError) as error:
        raise _damaged(path, error) from None
    used = [n for n, name in enumerate(schema.names) if not PANDAS_INDEX.fullmatch(name)]
    names = [schema.names[number].strip() for number in used]
    check_num_columns(len(names), str(path))
    if not names:
        raise TableError(f"{path} has no columns.")
    check_names(names, str(path))
    # Without pandas' metadata, which would turn names back into numbers.
    found = pyarrow.schema([schema.field(n).with_name(x) for n, x in zip(used, names, strict=True)])
    yield found.empty_table()
    num_bytes = 0
    for batch in _batches(file, path):
        num_bytes += batch.nbytes
        if num_bytes > limit:
            raise too_large(path, "once decoded", "write it as CSV if it is a table")
        table = pyarrow.Table.from_batches([batch]).select(used).rename_columns(names)
        yield table.replace_schema_metadata(None)


@contextmanager
def writing_parquet(file: Any) -> Iterator[Callable[[pyarrow.Table], None]]:
    """A function that writes rows into an open Parquet file, with a checksum on every page.

    Rows are collected until they make a row group; all must have the columns of the first ones.
    """
    waiting: list[pyarrow.Table] = []
    with ExitStack() as stack:
        writers: list[Any] = []

        def write(table: pyarrow.Table) -> None:
            if not writers:
                writer = pyarrow.parquet.ParquetWriter(file, table.schema, write_page_checksum=True)
                writers.append(stack.enter_context(writer))
            waiting.append(table.cast(writers[0].schema))
            if sum(part.num_rows for part in waiting) >= ROWS_PER_GROUP:
                flush()

        def flush() -> None:
            if waiting:
                writers[0].write_table(pyarrow.concat_tables(waiting))
                waiting.clear()

        yield write
        flush()


def _source(content: Content) -> Any:
    """The file itself, or its contents if it is a pipe or compressed as a whole."""
    if content.data is None and not content.is_compressed:
        return pyarrow.OSFile(str(content.path))
    return pyarrow.BufferReader(b"".join(content.pieces()))


def _batches(file: Any, path: Path) -> Iterator[pyarrow.RecordBatch]:
    """The rows, some at a time, checked against what the file declares."""
    most_rows = max(1, CELLS_PER_BATCH // max(len(file.schema_arrow.names), 1))
    for group in range(file.num_row_groups):
        try:
            for batch in file.iter_batches(min(most_rows, MOST_ROWS_PER_BATCH), [group]):
                batch.validate(full=True)
                yield batch
        except (pyarrow.ArrowException, OSError) as error:
            raise _damaged(path, error, f"row group {group + 1} of {file.num_row_groups}") from None


def _damaged(path: Path, error: Exception, where: str = "") -> TableError:
    place = f"{where} cannot be read: " if where else ""
    return TableError(f"{path} is not a complete Parquet file: {place}{reason_of(error)}.")
