"""The command line of the reproduction: `bbalpha-paper run`, `report` and `datasets`.

One file per command. A command imports jax, pandas or matplotlib only when it needs them, so that
help texts and most refusals come at once.
"""

import typer

from bbalpha.cli import Commands
from bbalpha_paper.cli.datasets import DatasetCommands, fetch_dataset, list_datasets
from bbalpha_paper.cli.report import report_results
from bbalpha_paper.cli.run import run_experiments

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    name="bbalpha-paper",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the same help on a terminal and in a pipe
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
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
    """  # noqa: D301  typer takes \b for a paragraph that is not to be filled
