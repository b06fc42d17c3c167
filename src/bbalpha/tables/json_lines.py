"""JSON lines: one object on every line, whose keys name the columns."""

import re
from collections.abc import Iterator

import pyarrow
import pyarrow.json

from bbalpha.tables.compression import reason_of
from bbalpha.tables.content import Content
from bbalpha.tables.messages import TableError, check_names, check_num_columns

MOST_AT_ONCE = 2**30  # bytes that arrow parses at a time, so that a message can name the line


def tables_of_json(content: Content) -> Iterator[pyarrow.Table]:
    """The contents of a file of JSON lines as one arrow table, with types inferred by arrow.

    A key that a line lacks is a missing cell.

    Raises:
        TableError: If a line is not an object (names its number), or if types differ between lines.
    """
    path, data = content.path, b"".join(content.pieces())
    if not data.strip():
        raise TableError(f"{path} is empty.")
    options = pyarrow.json.ReadOptions(
        use_threads=False, block_size=min(len(data) + 1, MOST_AT_ONCE)
    )
    try:
        table = pyarrow.json.read_json(pyarrow.BufferReader(data), read_options=options)
    except (pyarrow.ArrowException, OSError) as error:
        reason = re.sub(r"\.? in row (\d+)$", lambda row: f" in line {int(row[1]) + 1}", str(error))
        raise TableError(
            f"{path} is not a file of JSON lines: {reason_of(ValueError(reason))}."
        ) from None
    names = [name.strip() for name in table.column_names]
    check_num_columns(len(names), str(path))
    if not names:
        raise TableError(f"{path} has no columns.")
    check_names(names, str(path))
    yield table.rename_columns(names)
