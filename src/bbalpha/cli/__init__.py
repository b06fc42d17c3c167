"""The command line: a table in, a model and its predictions out.

There is one module per command. A command prints its result to standard output and everything else
to standard error. A user's mistake is answered with one sentence and exit code 2.

Imports are deferred so that help and most refusals appear at once:

- The modules of the commands (`fit`, `predict`, `evaluate`, `inspect`, `compare`, `explore`,
  `export`, `launch`) and the modules they share (`doors`, `header`, `options`, `paths`, `printing`,
  `programs`) import neither jax nor pandas.
- A command first makes every check that needs neither. `inspect` needs nothing else.
- The function of the command then imports `bbalpha.tables` or `training_table`, which load pandas
  and pyarrow, and reads the table.
- After that it imports `saved`, `streaming`, `training`, `linear_model`, `scores`, `describe` and
  `bbalpha.explorer`, which load jax, and `picture`, which loads matplotlib.
- `printing` imports `terminal`, which loads rich, only if standard output is a terminal.

Everything else is imported at the top of its module, as usual.

The names exported here are for other command lines, such as that of `bbalpha_paper`.
"""

from typing import Annotated

import typer

from bbalpha import __version__
from bbalpha.cli.compare import compare_table
from bbalpha.cli.doors import Commands, Refusal, new_app, refusing
from bbalpha.cli.evaluate import evaluate_model
from bbalpha.cli.explore import explore_table
from bbalpha.cli.export import export_model
from bbalpha.cli.fit import fit_table
from bbalpha.cli.inspect import inspect_model
from bbalpha.cli.launch import launch_processes
from bbalpha.cli.options import Quiet
from bbalpha.cli.paths import check_output
from bbalpha.cli.predict import predict_table
from bbalpha.cli.printing import count, note, print_table
from bbalpha.cli.programs import prepare_imports

__all__ = [
    "Commands",
    "Quiet",
    "Refusal",
    "app",
    "check_output",
    "count",
    "new_app",
    "note",
    "print_table",
    "refusing",
]

app = new_app("bbalpha")
app.command("fit")(fit_table)
app.command("predict")(predict_table)
app.command("evaluate")(evaluate_model)
app.command("inspect")(inspect_model)
app.command("compare")(compare_table)
app.command("explore")(explore_table)
app.command("export")(export_model)
app.command("launch")(launch_processes)


def _show_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"bbalpha {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _start(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version)
    ] = False,
) -> None:
    """Bayesian neural networks for tables, fitted by black-box α-divergence minimization.

    \b
    bbalpha fit houses.csv --target price
    bbalpha predict houses.safetensors new.csv --output predictions.csv
    bbalpha evaluate houses.safetensors test.csv
    bbalpha compare houses.csv --target price
    bbalpha explore houses.csv --target price
    bbalpha export houses.safetensors
    bbalpha launch --processes 4 -- fit houses.csv --target price

    Compiled programs are kept in your cache folder, so that later commands start faster. To use
    another folder, set the environment variable BBALPHA_CACHE_DIR; set it to an empty value to turn
    the cache off.
    """  # noqa: D301  typer keeps the line breaks of a paragraph that starts with \b
    prepare_imports()
