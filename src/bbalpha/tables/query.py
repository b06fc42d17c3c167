"""Queries: the result of a SELECT over files, computed by DuckDB, as arrow tables.

A query may only read local files: it must be a single SELECT statement, it cannot change settings,
and it cannot install or load extensions, so that nothing reaches the network. It runs in one
thread, so that it gives the same rows in the same order every time: the same command must give the
same model, and processes that fit together must have the same table.
"""

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow

from bbalpha.files.wording import one_line
from bbalpha.tables.messages import TableError, check_names, check_num_columns, quote

ROWS_AT_ONCE = 2**16
LONGEST_REASON, MOST_LINES = 300, 4  # of a message of DuckDB, in characters
SETTINGS: dict[str, Any] = {
    "threads": 1,  # with more, the order of joins and groups and the rounding of sums vary
    "preserve_insertion_order": True,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # names of tables are not variables of this process
}
# DuckDB adds advice for its own users to an error, and the line with a mark below the place.
ADVICE = re.compile(r"\n\s*(Please try|Possible|LINE \d+:|Candidate|Did you mean).*", re.DOTALL)
PLACE = re.compile(r"LINE (\d+): (.*)\n( *)\^")


def tables_of_query(query: str) -> Iterator[pyarrow.Table]:
    """The result of a query as arrow tables, some rows at a time, and one without rows.

    Raises:
        TableError: If it is not one SELECT statement, or if DuckDB refuses it, with the place.
    """
    try:
        import duckdb
    except ImportError:
        raise TableError(
            f"a query needs DuckDB (pip install duckdb); got {quote(query)}."
        ) from None
    with (
        tempfile.TemporaryDirectory(prefix="bbalpha-") as folder,
        _told(duckdb.Error),
        duckdb.connect(":memory:", config=SETTINGS | {"temp_directory": folder}) as database,
    ):
        database.execute("SET lock_configuration = true")
        reader = _checked(database, query, duckdb)
        names = [name.strip() for name in reader.schema.names]
        check_num_columns(len(names), "the query")
        check_names(names, "the query")
        yield reader.schema.empty_table().rename_columns(names)
        for batch in reader:
            yield pyarrow.Table.from_batches([batch]).rename_columns(names)


def _checked(database: Any, query: str, duckdb: Any) -> Any:
    """The result of the query, if it is one SELECT statement."""
    kinds = [statement.type for statement in database.extract_statements(query)]
    if kinds != [duckdb.StatementType.SELECT]:
        found = " and ".join(kind.name for kind in kinds) or "nothing"
        raise TableError(f"a query must be one SELECT statement; got {found}.")
    database.execute(f"EXPLAIN {query}")  # its errors name the place
    return database.sql(query).to_arrow_reader(ROWS_AT_ONCE)


@contextmanager
def _told(kind: type[Exception]) -> Iterator[None]:
    """Turn errors of DuckDB, and of arrow while it fetches rows, into one sentence."""
    try:
        yield
    except (kind, pyarrow.ArrowException, OSError) as error:
        text, place = str(error), PLACE.search(str(error))
        where = ""
        if place:
            found = place[2][max(0, len(place[3]) - len(f"LINE {place[1]}: ")) :]
            where = f", in line {place[1]} of the query at {quote(found)}"
        lines = [line.strip().rstrip(".!:") for line in ADVICE.sub("", text).splitlines()]
        said = one_line("; ".join(line for line in lines[:MOST_LINES] if line))
        reason = said[:LONGEST_REASON].replace(". ", "; ").rstrip(" .…")
        raise TableError(f"the query cannot be run: {reason}{where}.") from None
