"""`bbalpha evaluate`: scores of a model on rows whose target is known."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bbalpha.cli.doors import refusing
from bbalpha.cli.options import Json, ModelFile, NewData, SkipMissingTarget, Unknown
from bbalpha.cli.paths import check_data, check_input, check_output, check_picture
from bbalpha.cli.printing import count, note, print_facts, print_json
from bbalpha.cli.programs import keeping_programs

NAMES = {
    "rmse": "RMSE of the mean",
    "crps": "CRPS",
    "coverage_90": "coverage of the 90 % interval",
    "calibration_error": "calibration error",
    "error_rate": "error rate",
    "expected_calibration_error": "expected calibration error",
}


def evaluate_model(
    model_file: ModelFile,
    data: NewData,
    unknown: Unknown = "other",
    skip_missing_target: SkipMissingTarget = False,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw predictions and calibration on these rows (PNG, PDF or SVG).",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Score a model on a table that it was not fitted to.

    The log-likelihood is the mean log-density of the targets, in nats; higher is better. For the
    other scores, lower is better, except for coverage, which should be close to 0.9.

    \b
    bbalpha evaluate houses.safetensors test.csv
    bbalpha evaluate houses.safetensors test.csv --plot test.png
    bbalpha evaluate houses.safetensors test.csv --json > scores.json
    """  # noqa: D301
    check_input(model_file)
    sources = check_data(data)
    if plot:
        check_picture(plot, "--plot")
        check_output(plot, "--plot", [model_file, *sources])

    from bbalpha.tables import TableError, read_table

    with refusing(TableError):
        frame = read_table(data)

    from bbalpha.cli.saved import read_model
    from bbalpha.cli.scores import outcomes_of, scores_of

    with keeping_programs(json):
        model = read_model(model_file)
    if skip_missing_target:
        frame, num_skipped = model.rows_with_target(frame)
        note(f"{count(num_skipped, 'row')} without a target left out.", json)
    features, targets = model.features(frame, unknown, quiet=json), model.targets(frame)
    with keeping_programs(json), refusing(ValueError):
        outcomes = outcomes_of(model, features, targets, show=not json)
        scores = scores_of(model, outcomes, targets)
        if plot:
            from bbalpha.cli.picture import draw

            draw(plot, model, features, targets, outcomes, "test")
    if json:
        names = {"model": str(model_file), "data": str(data), "picture": plot and str(plot)}
        names |= {"task": model.target.task, "target": model.target.name}
        converged = model.estimator.posterior_.info.converged
        print_json(names | {"converged": converged} | scores)
    else:
        picture = {"picture": str(plot)} if plot else {}
        print_facts({"data": str(data)} | _facts(scores) | picture)


def _facts(scores: dict[str, Any]) -> dict[str, str]:
    """The scores in words."""
    likelihood = f"{scores['log_likelihood']:.4f}"
    if scores["rows"] > 1:  # one row says nothing about the spread
        likelihood += f" ± {scores['log_likelihood_standard_error']:.4f}"
    others = {NAMES[name]: f"{scores[name]:.4g}" for name in NAMES if name in scores}
    return {"rows": f"{scores['rows']:,}", "log-likelihood per row": likelihood} | others
