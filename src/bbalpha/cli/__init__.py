"""The command line: tables in, models and predictions out.

One file per command. Nothing heavy is imported before a command has looked at its options and
files, so that help and most refusals come at once. Results go to standard output and everything
that is said about them beside a result to standard error.
"""

from typing import Annotated

import typer

from bbalpha.cli.doors import Commands, Refusal
from bbalpha.cli.evaluate import evaluate_model
from bbalpha.cli.fit import fit_table
from bbalpha.cli.inspect import inspect_model
from bbalpha.cli.options import Quiet
from bbalpha.cli.paths import check_output
from bbalpha.cli.predict import predict_table
from bbalpha.cli.printing import count, note, print_table

__all__ = ["Commands", "Quiet", "Refusal", "app", "check_output", "count", "note", "print_table"]

app = typer.Typer(
    cls=Commands,
    name="bbalpha",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # the same help on a terminal and in a pipe
    context_settings={"help_option_names": ["--help", "-h"], "max_content_width": 100},
)
app.command("fit")(fit_table)
app.command("predict")(predict_table)
app.command("evaluate")(evaluate_model)
app.command("inspect")(inspect_model)


def _show_version(wanted: bool) -> bool:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"bbalpha {version('bbalpha')}")
        raise typer.Exit
    return wanted


@app.callback()
def _start(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version)
    ] = False,
) -> None:
    """Bayesian networks for tables, inferred by black-box α-divergence minimization.

    \b
    bbalpha fit houses.csv --target price
    bbalpha predict houses.safetensors new.csv --output predictions.csv
    bbalpha evaluate houses.safetensors test.csv
    """  # noqa: D301  typer takes \b for a paragraph that is not to be filled
