"""The command line of the reproduction: `bbalpha-paper run`, `report` and `datasets`."""

import typer

from bbalpha.cli.doors import Commands
from bbalpha_paper.cli.datasets import DatasetCommands, fetch_dataset, list_datasets
from bbalpha_paper.cli.report import report_results
from bbalpha_paper.cli.reproduce import reproduce_paper

__all__ = ["app"]

app = typer.Typer(
    cls=Commands,
    name="bbalpha-paper",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
app.command("run", short_help="Run experiments of the paper.")(reproduce_paper)
app.command("report", short_help="Make a page of their results.")(report_results)

datasets = typer.Typer(cls=DatasetCommands, help=DatasetCommands.__doc__, rich_markup_mode=None)
datasets.command("list")(list_datasets)
datasets.command("fetch", short_help="Get a data set, and write it as a table.")(fetch_dataset)
app.add_typer(datasets, name="datasets")
