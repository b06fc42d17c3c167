"""The public names, in the order a reader needs them."""

from .catalog import CATALOG, Entry
from .loading import Table, fetch, load
from .splitting import splits

__all__ = ["CATALOG", "Entry", "Table", "fetch", "load", "splits"]
