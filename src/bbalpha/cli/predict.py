"""`bbalpha predict`: from a model and a table to predictions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bbalpha.cli.doors import Refusal, plain_warnings, refusing
from bbalpha.cli.options import ModelFile, Quiet, Unknown, quantile_levels
from bbalpha.cli.paths import check_model, check_output
from bbalpha.cli.printing import count, note, print_bytes

if TYPE_CHECKING:
    import numpy
    import pandas

    from bbalpha.cli.saved import Model

DEFAULT_QUANTILES = "0.05,0.5,0.95"
STANDARD_OUTPUT = Path("-")


def predict_table(
    model_file: ModelFile,
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="CSV or Parquet file with the columns of the training table."
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="CSV or Parquet file to write, over what was there; - is standard output.",
        ),
    ] = STANDARD_OUTPUT,
    quantiles: Annotated[
        str | None,
        typer.Option(
            metavar="LEVELS",
            help=f"Quantiles of a number to be predicted, or none; by default {DEFAULT_QUANTILES}.",
        ),
    ] = None,
    unknown: Unknown = "error",
    quiet: Quiet = False,
) -> None:
    """Predict the target of every row of a table, in its order.

    For a number: its mean, its standard deviation and its quantiles, noise included. For a class:
    the most probable label and the probability of each. The table may have the target and the
    columns that were dropped; they are not looked at.

    \b
    bbalpha predict houses.safetensors new.csv --output predictions.csv
    bbalpha predict houses.safetensors new.csv --quantiles 0.1,0.9 | head
    """  # noqa: D301
    levels = quantile_levels(DEFAULT_QUANTILES if quantiles is None else quantiles)
    check_model(model_file)
    if output != STANDARD_OUTPUT:
        check_output(output, "--output", [model_file, data], may_be_device=True)

    from bbalpha.tables import TableError, read_table, write_table

    with refusing(TableError):
        frame = read_table(data)

    from bbalpha.cli.saved import read_model

    model = read_model(model_file)
    if quantiles is not None and model.target.task == "classification":
        raise Refusal(
            f"--quantiles must be left out for classes, which have none; got {quantiles!r}."
        )
    with plain_warnings(quiet):
        predictions = _predictions(model, model.features(frame, unknown), levels)
    if output == STANDARD_OUTPUT:
        print_bytes(predictions.to_csv(index=False, lineterminator="\n").encode())
        return
    with refusing(TableError):
        write_table(predictions, output)
    note(f"Predictions of {count(len(frame), 'row')} are in {output}.", quiet)


def _predictions(
    model: "Model", features: "numpy.ndarray", levels: tuple[float, ...]
) -> "pandas.DataFrame":
    """A row of predictions for every row of features."""
    import pandas

    if model.target.task == "classification":
        probabilities = model.probabilities(features)
        labels = [model.target.classes[column] for column in probabilities.argmax(axis=1)]
        names = [f"p_{label}" for label in model.target.classes]
        table = pandas.DataFrame(probabilities, columns=pandas.Index(names))
        table.insert(0, "prediction", labels)
        return table
    mean, std = model.estimator.predict(features, return_std=True)
    columns = {"mean": mean, "std": std}
    if levels:
        values = model.estimator.predict_quantiles(features, levels)
        columns |= {f"q{level!r}": values[:, number] for number, level in enumerate(levels)}
    return pandas.DataFrame(columns)
