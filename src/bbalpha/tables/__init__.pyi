"""The names of this folder that others use."""

from .encoder import Column, EncodedRows, Encoder, drop_columns
from .files import read_table, select_column, write_table
from .messages import TableError
from .target import Target, drop_unknown_targets
from .transformer import TableEncoder

__all__ = [
    "Column",
    "EncodedRows",
    "Encoder",
    "TableEncoder",
    "TableError",
    "Target",
    "drop_columns",
    "drop_unknown_targets",
    "read_table",
    "select_column",
    "write_table",
]
