"""Facts and tables for a terminal, styled by rich; `printing` is the plain counterpart."""

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bbalpha.files.wording import printable


def show_facts(facts: Mapping[str, str]) -> None:
    """Show names in bold and their values in a second column."""
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(Text(printable(name), "bold"), Text(printable(value)))
    Console().print(grid)


def show_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Show a table with lines; long cells are folded, not cut."""
    table = Table()
    for name in header:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    Console().print(table)
