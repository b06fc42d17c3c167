"""The command line of the reproduction: `bbalpha-paper run`, `report` and `datasets`.

One file per command. A command imports jax, pandas or matplotlib only when it needs them, so that
help texts and most refusals come at once.
"""

import typer

from bbalpha.cli import new_app
from bbalpha_paper.cli.datasets import DatasetCommands, fetch_dataset, list_datasets
from bbalpha_paper.cli.report import report_results
from bbalpha_paper.cli.run import run_experiments

__all__ = ["app"]

app = new_app("bbalpha-paper")
app.command("run", short_help="Run experiments of the paper.")(run_experiments)
app.command("report", short_help="Make a page of the results.")(report_results)

datasets = typer.Typer(cls=DatasetCommands, help=DatasetCommands.__doc__, rich_markup_mode=None)
datasets.command("list")(list_datasets)
datasets.command("fetch")(fetch_dataset)
app.add_typer(datasets, name="datasets")


@app.callback()
def _start() -> None:
    """The experiments of the BB-α paper, rerun with bbalpha.

    \b
    bbalpha-paper run all --scale smoke
    bbalpha-paper report
    bbalpha-paper datasets
    """  # noqa: D301  typer keeps the line breaks of a paragraph that starts with \b
