"""`bbalpha-paper datasets`: list the data sets of the paper, or fetch one."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bbalpha.cli import Commands, Quiet, check_output, count, note, print_table, refusing
from bbalpha_paper.datasets.catalog import CATALOG, Entry, find_entry

if TYPE_CHECKING:
    from bbalpha_paper.datasets import Table

HEADER = ("name", "task", "rows", "features", "license", "source")


class DatasetCommands(Commands):
    """List the data sets of the paper, or fetch one.

    No data are shipped. Data sets are read from the folder named by the environment variable
    BBALPHA_DATA, if it is set, and otherwise downloaded once (except power, which has no confirmed
    download).

    \b
    bbalpha-paper datasets
    bbalpha-paper datasets fetch boston --csv boston.csv
    """  # noqa: D301

    default = "list"


def list_datasets() -> None:
    """List the data sets of the paper.

    \b
    bbalpha-paper datasets list
    bbalpha-paper datasets
    """  # noqa: D301
    rows = [
        (e.name, e.task, f"{e.num_data:,}", f"{e.num_features:,}", e.license, _source(e))
        for e in CATALOG.values()
    ]
    print_table(HEADER, rows)


def fetch_dataset(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name that bbalpha-paper datasets lists.")
    ],
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the data as a table for bbalpha fit: CSV or Parquet, by the file's ending.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fetch a data set, check it, and write it as a table if asked to.

    \b
    bbalpha-paper datasets fetch boston --csv boston.csv
    bbalpha fit boston.csv --target MEDV
    """  # noqa: D301
    with refusing(ValueError):
        find_entry(name)
    if csv is not None:
        check_output(csv, "--csv", [], may_be_device=True)

    from bbalpha_paper.datasets import load  # needs numpy and scikit-learn

    note(f"Fetching {name} ...", quiet)
    with refusing(ValueError, OSError, ModuleNotFoundError):
        table = load(name)
    rows = f"{count(len(table.targets), 'row')} with {count(len(table.feature_names), 'feature')}"
    note(f"{name}: {rows}, from {table.source}.", quiet)
    if csv is not None:
        _write(table, csv)
        task = " --task classification" if table.task == "multiclass" else ""
        command = f"bbalpha fit {shlex.quote(str(csv))} --target {shlex.quote(table.target_name)}"
        note(f"Written to {csv}. Fit a model to it with: {command}{task}", quiet)


def _source(entry: Entry) -> str:
    """Where a data set is downloaded from."""
    return entry.url if entry.openml_id is None else f"OpenML {entry.openml_id}"


def _write(table: "Table", path: Path) -> None:
    import pandas

    from bbalpha.tables import TableError, write_table

    frame = pandas.DataFrame(table.inputs, columns=pandas.Index(table.feature_names))
    frame[table.target_name] = table.targets
    with refusing(TableError):
        write_table(frame, path)
