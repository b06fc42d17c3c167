"""Sources: the file, the folder, the pattern or the query that a table is read from.

Several files make one table, with their rows in the order of the file names. All files must have
the same columns, with values of the same kind.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow

from bbalpha.files.naming import JSON_SUFFIXES, files_of, is_query
from bbalpha.tables.content import Content
from bbalpha.tables.delimited import tables_of_text
from bbalpha.tables.json_lines import tables_of_json
from bbalpha.tables.messages import TableError, listing, quote
from bbalpha.tables.parquet import tables_of_parquet
from bbalpha.tables.query import tables_of_query

FILE = b"file"  # key in the metadata of a table: the (first) file that it comes from


def tables_of(source: str | Path) -> Iterator[pyarrow.Table]:
    """The rows of a source, some at a time, as arrow tables with the same columns.

    Raises:
        TableError: If a file cannot be read, or if files do not have the same columns.
    """
    if isinstance(source, str) and is_query(source):
        yield from tables_of_query(source)
        return
    path = Path(source)
    files = files_of(path)
    if not files:
        what = "is a folder, not a file" if path.is_dir() else "matches no file"
        raise TableError(f"{path} {what}.")
    first: Any = None
    for file in files:
        for table in tables_of_file(file):
            if first is None:
                first = table
            elif file != files[0]:
                table = _like(table, first, file, files[0])
            metadata = (first.schema.metadata or {}) | {FILE: str(files[0]).encode()}
            yield table.replace_schema_metadata(metadata)


def tables_of_file(path: Path) -> Iterator[pyarrow.Table]:
    """The rows of one file, some at a time; at least one table, even if there are no rows."""
    content = Content.of(path)
    if content.suffix in JSON_SUFFIXES:
        tables = tables_of_json(content)
    else:
        tables = tables_of_parquet(content) if content.is_parquet else tables_of_text(content)
    try:
        yield from tables
    except TableError:
        if content.is_compressed:  # so that damage or an excessive size is reported first
            for _ in content.pieces():
                pass
        raise


def kind_of(kind: Any) -> str:
    """The kind of an arrow type, in one word; files may differ in type, but not in kind."""
    types = pyarrow.types
    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return "text"
    return "time" if types.is_date(kind) or types.is_timestamp(kind) else str(kind)


def joined(tables: list[pyarrow.Table]) -> pyarrow.Table:
    """The rows of all tables, in types that can hold the values of each."""
    schema = tables[0].schema
    if all(table.schema.equals(schema) for table in tables):
        return pyarrow.concat_tables(tables)
    columns = [_one_type([table.column(name) for table in tables]) for name in schema.names]
    return pyarrow.table(columns, names=schema.names).replace_schema_metadata(schema.metadata)


def _one_type(columns: list[pyarrow.ChunkedArray]) -> pyarrow.ChunkedArray:
    """The cells of all columns, which are of one kind, in a type that can hold them."""
    kinds = {column.type for column in columns if not pyarrow.types.is_null(column.type)}
    if len(kinds) > 1:
        wide = {
            "number": pyarrow.float64(),
            "text": pyarrow.large_string(),
            "time": pyarrow.timestamp("us"),
        }
        whole = all(pyarrow.types.is_integer(kind) for kind in kinds)
        kind = pyarrow.int64() if whole else wide[kind_of(next(iter(kinds)))]
    else:
        kind = next(iter(kinds), pyarrow.null())
    cast = [column.cast(kind, safe=False) for column in columns]
    return pyarrow.chunked_array([chunk for column in cast for chunk in column.chunks], kind)


def _like(table: pyarrow.Table, first: pyarrow.Table, file: Path, earlier: Path) -> pyarrow.Table:
    """The columns of a later file in the order of the first one, if they are the same."""
    names, wanted = table.column_names, first.column_names
    if absent := [name for name in wanted if name not in set(names)]:
        raise TableError(f"{file} lacks the columns {listing(absent)}, which {earlier} has.")
    if extra := [name for name in names if name not in set(wanted)]:
        raise TableError(f"{file} has the columns {listing(extra)}, which {earlier} lacks.")
    table = table.select(wanted)
    for name, now, before in zip(wanted, table.schema.types, first.schema.types, strict=True):
        is_open = pyarrow.types.is_null(now) or pyarrow.types.is_null(before)
        if not is_open and kind_of(now) != kind_of(before):
            raise TableError(
                f"{file} must have the types of {earlier}; got {now} in column {quote(name)} "
                f"instead of {before}."
            )
    return table
