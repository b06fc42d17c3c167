"""Tables: what the command line needs between a file and a matrix of numbers.

`read_table` reads a file, `Encoder` turns its columns into numbers, `Target` the one to be
predicted, and `write_table` writes what came of it. Whatever is wrong with a file or with what was
kept of one is told by a `TableError` of one sentence.
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
