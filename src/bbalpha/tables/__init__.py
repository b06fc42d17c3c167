"""Tables: from a file of rows to arrays of numbers, and from predictions back to a file.

`read_table` reads a file, `Encoder` turns its columns into features, `Target` encodes the column to
predict, and `write_table` writes a table. All of them raise `TableError`, with a message of one
sentence, when a file or a stored encoding is invalid.

The modules need pandas and pyarrow, which the extra `cli` installs, but not jax.
"""

from bbalpha.tables.encoder import Column, Encoder, drop_columns
from bbalpha.tables.files import read_table, write_table
from bbalpha.tables.messages import TableError
from bbalpha.tables.target import Target

__all__ = [
    "Column",
    "Encoder",
    "TableError",
    "Target",
    "drop_columns",
    "read_table",
    "write_table",
]
