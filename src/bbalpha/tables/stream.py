"""Streams: a table of any length that is read some rows at a time, as often as needed."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow

from bbalpha.files.naming import files_of, is_query
from bbalpha.tables.files import without_rows
from bbalpha.tables.sources import joined, tables_of

MOST_KEPT = 2**26  # bytes; smaller tables are kept in memory rather than read twice


class TableStream:
    """The rows of a source; creating it counts, and thereby checks, all rows.

    A small table stays in memory. So does the result of a query or the contents of a pipe, which
    can be read only once. Anything else is read again for each use.

    Attributes:
        source: The source, as for `read_table`.
        names: The names of the columns.
        num_rows: The number of rows.
    """

    def __init__(self, source: str | Path):
        """Count the rows.

        Raises:
            TableError: If the source cannot be read, or has no rows.
        """
        self.source = source
        self.names: list[str] = []
        self.num_rows = num_bytes = 0
        kept: list[pyarrow.Table] | None = []
        for table in tables_of(source):
            self.names = table.column_names
            self.num_rows += table.num_rows
            num_bytes += table.nbytes
            if kept is not None:
                kept.append(table)
                if num_bytes > MOST_KEPT and _can_be_read_again(source):
                    kept = None
        if self.num_rows == 0:
            raise without_rows(source)
        self._kept = kept

    def tables(self) -> Iterator[pyarrow.Table]:
        """The rows, in tables of any length."""
        return tables_of(self.source) if self._kept is None else iter(self._kept)

    def whole(self) -> pyarrow.Table:
        """The whole table, as `read_table` returns it."""
        return joined(list(self.tables()))

    def parts(self, ends: Sequence[int]) -> Iterator[pyarrow.Table]:
        """The rows between these numbers; the first is 0 and the last the number of all rows."""
        tables, rest = self.tables(), None
        for start, end in pairwise(ends):
            while rest is None or rest.num_rows < end - start:
                table = next(tables)
                rest = table if rest is None else joined([rest, table])
            yield rest.slice(0, end - start)
            rest = rest.slice(end - start)


def _can_be_read_again(source: str | Path) -> bool:
    if isinstance(source, str) and is_query(source):
        return False
    return all(file.is_file() for file in files_of(Path(source)))
