"""`bbalpha datasets`: the data sets of the paper, listed and fetched."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bbalpha.cli.doors import Group, refusing, refusing_missing_library
from bbalpha.cli.options import Quiet
from bbalpha.cli.paths import check_output
from bbalpha.cli.printing import count, note, print_table

if TYPE_CHECKING:
    from bbalpha_paper.datasets import Entry, Table

HEADER = ("name", "task", "rows", "features", "license", "source")


class DatasetCommands(Group):
    """List the data sets of the paper, or fetch one of them.

    None is shipped with bbalpha: they are read from the folder named by the environment variable
    BBALPHA_DATA, if it is set, and otherwise downloaded once, except power.

    \b
    bbalpha datasets
    bbalpha datasets fetch boston --csv boston.csv
    """  # noqa: D301

    default = "list"


def list_datasets() -> None:
    """List the data sets of the paper.

    \b
    bbalpha datasets list
    bbalpha datasets
    """  # noqa: D301
    from bbalpha_paper.datasets.catalog import CATALOG

    rows = [
        (e.name, e.task, f"{e.num_data:,}", f"{e.num_features:,}", e.license, _source(e))
        for e in CATALOG.values()
    ]
    print_table(HEADER, rows)


def fetch_dataset(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A name that bbalpha datasets lists.")
    ],
    csv: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the data as a table for bbalpha fit, CSV or Parquet by the ending.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Make sure that a data set is here and whole, and write it as a table if wanted.

    \b
    bbalpha datasets fetch boston --csv boston.csv
    bbalpha fit boston.csv --target MEDV
    """  # noqa: D301
    from bbalpha_paper.datasets.catalog import find_entry

    with refusing(ValueError):
        find_entry(name)
    if csv is not None:
        check_output(csv, "--csv", [], may_be_device=True)

    from bbalpha_paper.datasets.loading import load

    note(f"Fetching {name} ...", quiet)
    with refusing(ValueError, OSError), refusing_missing_library():
        table = load(name)
    rows = f"{count(len(table.targets), 'row')} of {count(len(table.feature_names), 'feature')}"
    note(f"{name}: {rows}, from {table.source}.", quiet)
    if csv is not None:
        _write(table, csv)
        task = " --task classification" if table.task == "multiclass" else ""
        command = f"bbalpha fit {shlex.quote(str(csv))} --target {shlex.quote(table.target_name)}"
        note(f"Written to {csv}; {command}{task} fits a model to it.", quiet)


def _source(entry: "Entry") -> str:
    """Where a data set is downloaded from."""
    return entry.url if entry.openml_id is None else f"OpenML {entry.openml_id}"


def _write(table: "Table", path: Path) -> None:
    import pandas

    from bbalpha.tables import TableError, write_table

    frame = pandas.DataFrame(table.inputs, columns=pandas.Index(table.feature_names))
    frame[table.target_name] = table.targets
    with refusing(TableError):
        write_table(frame, path)
