"""`bbalpha export`: from a model to a file that predicts with NumPy alone."""

from pathlib import Path
from typing import Annotated

import typer

from bbalpha.cli.doors import refusing
from bbalpha.cli.options import Json, ModelFile, Quiet, whole_number
from bbalpha.cli.paths import check_input, check_output
from bbalpha.cli.printing import note, print_json
from bbalpha.cli.programs import keeping_programs
from bbalpha.engine.limits import MOST_SAMPLES

SUFFIX = ".predictor"
MEGABYTE = 1e6


def export_model(
    model_file: ModelFile,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help=f"The file to write, replaced if it exists; by default the name of MODEL with the "
            f"suffix {SUFFIX}, in the current folder.",
        ),
    ] = None,
    draws: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--draws", 1, MOST_SAMPLES),
            help="Draws of the weights to store; by default as many as predict averages over, so "
            "that predictions are the same. Fewer draws make a smaller file.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a file that predicts with NumPy alone, where jax is not installed.

    The file holds draws of the weights and the rules that turn columns into features, but no code.
    In Python, `bbalpha.predictor.Predictor.load` reads it and predicts rows such as {"rooms": 3,
    "town": "Ely"}. bbalpha predict needs the model itself.

    \b
    bbalpha export houses.safetensors
    bbalpha export houses.safetensors --output small.predictor --draws 100
    """  # noqa: D301
    path = output or Path(model_file.with_suffix(SUFFIX).name)
    check_input(model_file)
    check_output(path, "--output", [model_file])

    from bbalpha.cli.saved import read_model
    from bbalpha.interfaces.exporting import export

    with keeping_programs(quiet or json):
        model = read_model(model_file)
        with refusing(OSError, ValueError):
            named = model.encoder, model.target.name, model.dropped
            export(path, model.estimator, draws, *named)
    num_draws = draws or model.estimator.num_predictive_samples
    size = path.stat().st_size
    if json:
        facts = {"model": str(model_file), "output": str(path), "draws": num_draws, "bytes": size}
        print_json(facts)
    else:
        note(f"{path} holds {num_draws:,} draws in {size / MEGABYTE:.1f} MB.", quiet)
