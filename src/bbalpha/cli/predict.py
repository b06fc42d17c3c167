"""`bbalpha predict`: from a model and a table to predictions."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.options import Id, Json, ModelFile, NewData, Quiet, Unknown, quantile_levels
from bbalpha.cli.paths import check_data, check_input, check_output
from bbalpha.cli.printing import count, note, print_bytes, print_json
from bbalpha.cli.programs import keeping_programs

DEFAULT_QUANTILES = "0.05,0.5,0.95"
STANDARD_OUTPUT = Path("-")
MOST_KEPT = 2**24  # bytes of predictions for standard output that are kept in memory
PRINTED_AT_ONCE = 2**20  # bytes, rounded up to whole lines


def predict_table(
    model_file: ModelFile,
    data: NewData,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="CSV or Parquet file for the predictions, replaced if it exists; - is "
            "standard output.",
        ),
    ] = STANDARD_OUTPUT,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS",
            help="Quantiles to predict for a number, separated by commas, or none; by default "
            f"{DEFAULT_QUANTILES}.",
        ),
    ] = None,
    id: Id = None,
    unknown: Unknown = "other",
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="Put ' before any text that a spreadsheet would run as a formula, such as a label "
            "that begins with =.",
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the target of every row of a table.

    Predictions are in the order of the rows. For a number they are its mean, standard deviation and
    quantiles, noise included; for a class, the most probable label and the probability of every
    label. The table may contain the target and the columns dropped in training; they are ignored.
    The column named by --id, here or in fit, comes first. Notes on standard error count missing
    cells, texts that did not occur in training, and inputs far outside the training range. A
    prediction that is not finite is an error.

    \b
    bbalpha predict houses.safetensors new.csv --output predictions.csv
    bbalpha predict houses.safetensors new.csv --quantiles 0.1,0.9 | head
    """  # noqa: D301
    levels = quantile_levels(DEFAULT_QUANTILES if quantiles is None else quantiles)
    check_input(model_file)
    sources = check_data(data)
    if output != STANDARD_OUTPUT:
        check_output(output, "--output", [model_file, *sources], may_be_device=True)

    from bbalpha.tables import TableError
    from bbalpha.tables.stream import TableStream

    with refusing(TableError):
        stream = TableStream(data)

    from bbalpha.cli.saved import read_model
    from bbalpha.cli.streaming import Wishes, predict_stream

    quiet = quiet or json
    with keeping_programs(quiet):
        model = read_model(model_file)
    if quantiles is not None and model.target.task == "classification":
        raise Refusal(
            f"--quantiles must be left out, because classes have none; got {quantiles!r}."
        )
    wishes, records = Wishes(levels, id, unknown, spreadsheet, quiet), []
    kept = records if json and output == STANDARD_OUTPUT else None
    with keeping_programs(quiet):
        predict_stream(model, stream, wishes, lambda: _written(output, kept))
    if json:
        files = {"model": str(model_file), "data": str(data)}
        print_json(files | _facts(output, model, stream.num_rows, records))
    elif output != STANDARD_OUTPUT:
        note(f"Predictions for {count(stream.num_rows, 'row')} are in {output}.", quiet)


@contextmanager
def _written(output: Path, records: list[Any] | None) -> Iterator[Callable[[Any], None]]:
    """A function that adds predictions to the file or the list, or prints them.

    The output appears only at the end, and not at all after an error.
    """
    from bbalpha.tables.files import csv_writer, writing_table

    if output != STANDARD_OUTPUT:
        with writing_table(output) as write:
            yield write
    elif records is not None:
        records.clear()
        yield lambda table: records.extend(table.to_dict("records"))
    else:
        with tempfile.SpooledTemporaryFile(MOST_KEPT) as file:
            yield csv_writer(file)
            file.seek(0)
            while lines := file.readlines(PRINTED_AT_ONCE):
                print_bytes(b"".join(lines))


def _facts(output: Path, model: Any, num_rows: int, records: list[Any]) -> dict[str, Any]:
    """The facts about the predictions, for JSON; with the predictions, unless a file has them."""
    is_written = output != STANDARD_OUTPUT
    return {
        "output": str(output) if is_written else None,
        "task": model.target.task,
        "target": model.target.name,
        "converged": model.estimator.posterior_.info.converged,
        "rows": num_rows,
        "predictions": None if is_written else records,
    }
