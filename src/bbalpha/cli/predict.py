"""`bbalpha predict`: from a model and a table to predictions."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bbalpha.cli.doors import Refusal, refusing
from bbalpha.cli.options import Id, Json, ModelFile, NewData, Quiet, Unknown, quantile_levels
from bbalpha.cli.paths import check_input, check_output
from bbalpha.cli.printing import count, note, print_bytes, print_json
from bbalpha.cli.programs import keeping_programs

DEFAULT_QUANTILES = "0.05,0.5,0.95"
STANDARD_OUTPUT = Path("-")


def predict_table(
    model_file: ModelFile,
    data: NewData,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="CSV or Parquet file for the predictions, which is replaced if it exists; - is "
            "standard output.",
        ),
    ] = STANDARD_OUTPUT,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS",
            help=f"Quantiles of a predicted number, or none; by default {DEFAULT_QUANTILES}.",
        ),
    ] = None,
    id: Id = None,
    unknown: Unknown = "other",
    spreadsheet: Annotated[
        bool,
        typer.Option(
            "--spreadsheet",
            help="Put ' before texts that a spreadsheet would run as a formula, such as labels "
            "that begin with =.",
        ),
    ] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Predict the target of every row of a table.

    Predictions are in the order of the rows. For a number they are its mean, standard deviation and
    quantiles, noise included; for a class, the most probable label and the probability of every
    label. The table may contain the target and the columns dropped in training; they are ignored.
    The column that --id names, here or in fit, comes first. Missing cells, texts that training
    did not see and inputs far outside its range are counted on standard error. Predictions that are
    not finite are an error.

    \b
    bbalpha predict houses.safetensors new.csv --output predictions.csv
    bbalpha predict houses.safetensors new.csv --quantiles 0.1,0.9 | head
    """  # noqa: D301
    levels = quantile_levels(DEFAULT_QUANTILES if quantiles is None else quantiles)
    check_input(model_file)
    check_input(data)
    if output != STANDARD_OUTPUT:
        check_output(output, "--output", [model_file, data], may_be_device=True)

    from bbalpha.tables import TableError, read_table, write_table

    with refusing(TableError):
        frame = read_table(data)

    from bbalpha.cli.predictions import ids_of, predictions_of, with_ids, without_formulas
    from bbalpha.cli.saved import read_model

    quiet = quiet or json
    with keeping_programs(quiet):
        model = read_model(model_file)
    if quantiles is not None and model.target.task == "classification":
        raise Refusal(
            f"--quantiles must be left out, because classes have none; got {quantiles!r}."
        )
    with keeping_programs(quiet):
        features = model.features(frame, unknown, id, quiet)
        predictions = predictions_of(model, features, levels, show=not quiet)
        predictions = with_ids(predictions, ids_of(model, frame, id))
        predictions = without_formulas(predictions) if spreadsheet else predictions
    if output != STANDARD_OUTPUT:
        with refusing(TableError):
            write_table(predictions, output)
    if json:
        print_json(_facts(model_file, data, output, model, predictions))
    elif output == STANDARD_OUTPUT:
        print_bytes(predictions.to_csv(index=False, lineterminator="\n").encode())
    else:
        note(f"Predictions for {count(len(frame), 'row')} are in {output}.", quiet)


def _facts(
    model_file: Path, data: Path, output: Path, model: Any, predictions: Any
) -> dict[str, Any]:
    """What was predicted, for JSON; with the predictions, unless they are in a file."""
    is_written = output != STANDARD_OUTPUT
    return {
        "model": str(model_file),
        "data": str(data),
        "output": str(output) if is_written else None,
        "task": model.target.task,
        "target": model.target.name,
        "converged": model.estimator.posterior_.info.converged,
        "rows": len(predictions),
        "predictions": None if is_written else predictions.to_dict("records"),
    }
