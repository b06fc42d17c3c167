"""A progress bar on a terminal; no output elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(show: bool, unit: str, total: int) -> Iterator[Callable[[float, str], None]]:
    """Show a bar in this context; yield a function that updates its amount done and its status."""
    if not show or sys.stderr is None or not sys.stderr.isatty():
        yield lambda done, status: None
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
        TextColumn(unit),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(unit, total=total, status="compiling")

        def show_progress(done: float, status: str) -> None:
            bar.update(task, completed=done, status=status)

        yield show_progress
