"""The names of this folder that others use."""

from .encoder import Column, Encoder, drop_columns
from .files import read_table, write_table
from .messages import TableError
from .target import Target

__all__ = [
    "Column",
    "Encoder",
    "TableError",
    "Target",
    "drop_columns",
    "read_table",
    "write_table",
]
