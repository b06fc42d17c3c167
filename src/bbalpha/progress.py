"""A progress bar on a terminal, silence elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(show: bool, num_epochs: int) -> Iterator[Callable[[float, float], None]]:
    """A function that shows how many epochs are done and their energy, while the context lasts."""
    if not show or not sys.stderr.isatty():
        yield lambda epochs, energy: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("epoch"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("fit", total=num_epochs, status="compiling")

        def show_epochs(epochs: float, energy: float) -> None:
            bar.update(task, completed=epochs, status=f"energy {energy:.4g}")

        yield show_epochs
