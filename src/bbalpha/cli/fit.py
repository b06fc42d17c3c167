"""`bbalpha fit`: from a table to a model file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bbalpha.cli.doors import INTERRUPTED
from bbalpha.cli.options import (
    DayFirst,
    Drop,
    Id,
    Missing,
    Quiet,
    SkipMissingTarget,
    Text,
    choice,
    finite_number,
    hidden_sizes,
    whole_number,
)
from bbalpha.cli.paths import check_input, check_output, check_picture
from bbalpha.cli.printing import count, note, print_facts
from bbalpha.cli.programs import keeping_programs

LIKELIHOODS = {
    "regression": ("gaussian", "heteroscedastic", "student_t", "poisson"),
    "classification": ("softmax", "probit"),
}
MAX_SEED = 2**32 - 1  # the largest seed that scikit-learn takes


# A test asserts that these defaults equal the estimators' except for the seed: the same command
# gives the same model again, whereas an estimator without `random_state` draws a new seed.
def fit_table(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV or Parquet file, compressed or not.")
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to predict.")],
    alpha: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            parser=finite_number("--alpha"),
            help="The power α: 0 is variational Bayes, 1 is close to expectation propagation.",
        ),
    ] = 0.5,
    hidden: Annotated[
        str,
        typer.Option(
            metavar="SIZES",
            help="Units of each hidden layer, such as 100,50; none for a linear model.",
        ),
    ] = "50",
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--epochs", 1),
            help="Passes over the data; by default, enough for 10,000 minibatches.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--seed", 0, MAX_SEED),
            help="The same seed gives the same model.",
        ),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The model file, which is replaced if it exists; by default the name of DATA with "
            "the suffix .safetensors, in the current folder.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the fit to the training data (PNG, PDF or SVG)."),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(LIKELIHOODS),
            parser=choice("--task", tuple(LIKELIHOODS)),
            help="What the target is; by default, text and columns of two distinct numbers are "
            "classes.",
        ),
    ] = None,
    likelihood: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            parser=choice("--likelihood", sum(LIKELIHOODS.values(), ())),
            help="For numbers: gaussian (default), heteroscedastic, student_t or poisson. For "
            "classes: softmax (default) or probit.",
        ),
    ] = None,
    text: Text = None,
    drop: Drop = None,
    id: Id = None,
    missing: Missing = None,
    dayfirst: DayFirst = None,
    skip_missing_target: SkipMissingTarget = False,
    samples: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--samples", 1),
            help="Draws of the weights per minibatch.",
        ),
    ] = 50,
    batch_size: Annotated[
        int,
        typer.Option(
            metavar="NUMBER", parser=whole_number("--batch-size", 1), help="Rows per minibatch."
        ),
    ] = 32,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            parser=finite_number("--learning-rate", positive=True),
            help="A constant learning rate for Adam; by default it falls from 0.01 to 0.",
        ),
    ] = None,
    learn_prior: Annotated[
        bool, typer.Option("--learn-prior", help="Learn the width of each layer's prior.")
    ] = False,
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Hold out a tenth of the rows and stop when their log-likelihood no longer grows.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a Bayesian neural network to a table and write it to a file.

    Every column except the target is an input. Its cells decide whether it holds numbers, dates,
    yes and no, or text; columns that cannot help are ignored. Ctrl-C ends the fit early and keeps
    the posterior reached so far.

    \b
    bbalpha fit houses.csv --target price
    bbalpha fit houses.csv --target price --hidden 100,50 --alpha 1 --plot fit.png
    bbalpha fit patients.parquet --target outcome --id patient --text ward --missing -999
    bbalpha fit visits.csv.gz --target count --likelihood poisson --output visits.safetensors
    """  # noqa: D301
    settings = {
        "hidden_layer_sizes": hidden_sizes(hidden),
        "alpha": alpha,
        "likelihood": likelihood or "auto",
        "max_epochs": epochs,
        "num_samples": samples,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "learn_prior": learn_prior,
        "early_stopping": early_stopping,
        "random_state": seed,
        "verbose": not quiet,
    }
    check_input(data)

    from bbalpha.cli.training_table import check_likelihood, intake, model_name, read_training_table

    path = output or model_name(data)
    _check_outputs(data, path, plot)
    columns = intake(target, task, text, drop, id, missing, dayfirst, skip_missing_target)
    table = read_training_table(data, columns, quiet)
    check_likelihood(likelihood, LIKELIHOODS[table.target.task], table)

    from bbalpha.cli.training import facts_before, new_model, train

    model = new_model(table, settings)
    if not quiet:
        print_facts(facts_before(data, model, len(table.inputs)))
    with keeping_programs(quiet):
        info = train(model, table, path)
        if plot or not quiet:
            _report(model, table, path, plot, quiet)
    if info.stopped == "interrupted":
        steps = count(info.num_steps, "step")
        note(f"Interrupted after {steps}; the model holds the posterior reached so far.", quiet)
        raise typer.Exit(INTERRUPTED)


def _check_outputs(data: Path, path: Path, plot: Path | None) -> None:
    check_output(path, "--output", [data])
    if plot:
        check_picture(plot, "--plot")
        check_output(plot, "--plot", [data, path])


def _report(model: Any, table: Any, path: Path, plot: Path | None, quiet: bool) -> None:
    """Print the facts about a fitted model, and draw its picture, from the same outcomes."""
    from bbalpha.cli.scores import outcomes_of
    from bbalpha.cli.training import facts_after

    inputs, targets = table.some_rows()
    outcomes = outcomes_of(model, inputs, targets)
    if plot:
        from bbalpha.cli.picture import draw

        draw(plot, model, inputs, targets, outcomes, "training")
    if not quiet:
        print_facts(facts_after(model, len(table.inputs), outcomes, path, plot))
