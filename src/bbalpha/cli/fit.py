"""`bbalpha fit`: from a table to a model file."""

import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from bbalpha.cli.doors import INTERRUPTED, refusing
from bbalpha.cli.options import (
    LIKELIHOODS,
    Alpha,
    DayFirst,
    Drop,
    Epochs,
    Hidden,
    Id,
    Json,
    LikelihoodName,
    Missing,
    Quiet,
    Seed,
    SkipMissingTarget,
    TargetColumn,
    Task,
    Text,
    TrainingData,
    choice,
    finite_number,
    hidden_sizes,
    whole_number,
)
from bbalpha.cli.paths import check_data, check_folder, check_output, check_picture
from bbalpha.cli.printing import count, note, print_facts, print_json
from bbalpha.cli.programs import keeping_programs, without_pandas
from bbalpha.engine.leaving import say_when_leaving
from bbalpha.engine.limits import MOST, MOST_SAMPLES
from bbalpha.interfaces.limits import POSITIVE

PRIORS = ("scaled", "paper")


# An option that is not given is left to the estimator, except for the seed: the same command must
# give the same model again, whereas an estimator without `random_state` draws a new seed.
def fit_table(
    data: TrainingData,
    target: TargetColumn,
    alpha: Alpha = None,
    hidden: Hidden = None,
    epochs: Epochs = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The model file; by default the name of DATA with the suffix .safetensors, in the "
            "current folder. A model of the same target and columns is replaced.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file, whatever it holds.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the fit to the training data (PNG, PDF or SVG)."),
    ] = None,
    task: Task = None,
    likelihood: LikelihoodName = None,
    text: Text = None,
    drop: Drop = None,
    id: Id = None,
    missing: Missing = None,
    dayfirst: DayFirst = None,
    skip_missing_target: SkipMissingTarget = False,
    samples: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--samples", 1, MOST_SAMPLES),
            help="Draws of the weights per minibatch; by default 16.",
        ),
    ] = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--batch-size", 1, MOST),
            help="Rows per minibatch; by default 32.",
        ),
    ] = None,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            parser=finite_number("--learning-rate", True, POSITIVE["learning_rate"]),
            help="A constant learning rate for Adam; by default, the rate starts at 0.007 and "
            "falls to 0.",
        ),
    ] = None,
    prior: Annotated[
        str | None,
        typer.Option(
            metavar="|".join(PRIORS),
            parser=choice("--prior", PRIORS),
            help="The prior standard deviations of the weights: scaled to the size of each layer "
            "(default), or 1 everywhere as in the paper.",
        ),
    ] = None,
    prior_scale: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            parser=finite_number("--prior-scale", True, POSITIVE["prior_scale"]),
            help="A factor on all standard deviations of the prior; by default 1.",
        ),
    ] = None,
    learn_prior: Annotated[
        bool | None,
        typer.Option(
            "--learn-prior/--fixed-prior",
            help="Whether to learn the widths of the prior; by default, they are learned for the "
            "scaled prior and fixed for the paper's.",
        ),
    ] = None,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Test the calibration on left-out rows; if it fails, rescale the spread of the "
            "predictions by one factor.",
        ),
    ] = False,
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Hold out a tenth of the rows and stop when their log-likelihood no longer "
            "improves.",
        ),
    ] = False,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save the fit in this folder every ten seconds and on Ctrl-C or SIGTERM. If the "
            "fit is cut off, the same command continues it, with the same result.",
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Fit a Bayesian neural network to a table and write it to a file.

    Every column except the target is an input. Its cells decide whether it holds numbers, dates,
    yes and no, or text; columns that cannot help are ignored. Ctrl-C ends the fit early and keeps
    the posterior reached so far. At the end, the model is compared with a constant and with a
    linear model on training rows, each left out in turn.

    \b
    bbalpha fit houses.csv --target price
    bbalpha fit houses.csv --target price --hidden 100,50 --alpha 1 --plot fit.png
    bbalpha fit patients.parquet --target outcome --id patient --text ward --missing -999
    bbalpha fit 'flights/*.parquet' --target delay
    bbalpha fit "SELECT * FROM 'a.csv' JOIN 'b.parquet' USING (id)" --target y -o joined.safetensors
    bbalpha fit visits.csv.gz --target count --likelihood poisson --output visits.safetensors
    """  # noqa: D301
    given = {
        "hidden_layer_sizes": None if hidden is None else hidden_sizes(hidden),
        "alpha": alpha,
        "likelihood": likelihood,
        "max_epochs": epochs,
        "num_samples": samples,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "prior": prior,
        "prior_scale": prior_scale,
        "learn_prior": learn_prior,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    settings |= {"early_stopping": early_stopping, "random_state": seed}
    settings |= {"calibrate": True} if calibrate else {}
    settings["verbose"] = not quiet and not json
    say_when_leaving("; no model was written.")
    sources = check_data(data)
    started = time.perf_counter()

    tables = _reader_of_tables()
    path = output or tables.output_name(data, ".safetensors")
    _check_outputs(sources, path, plot, checkpoint)
    about = (target, task, text, drop, id, missing, dayfirst, skip_missing_target)
    table = tables.read_training_table(data, tables.intake(*about), quiet or json)
    named = None if likelihood == "auto" else likelihood
    tables.check_likelihood(named, LIKELIHOODS[table.target.task], table)
    reading = time.perf_counter() - started
    if path.exists() and not force:
        from bbalpha.cli.replacing import check_replaceable

        check_replaceable(path, table)
    _fit(settings, table, Files(data, path, plot, checkpoint), reading, "json" if json else quiet)


class Files(NamedTuple):
    """The files that a fit reads and writes; the data may also be a query."""

    data: Path | str
    model: Path
    plot: Path | None
    checkpoint: Path | None


def _reader_of_tables() -> Any:
    """The module that reads training tables, loaded without pandas."""
    with without_pandas():
        import pyarrow

        pyarrow.scalar(0)  # it looks for pandas only once
        from bbalpha.cli import training_table
    return training_table


def _check_outputs(
    sources: list[Path], path: Path, plot: Path | None, checkpoint: Path | None
) -> None:
    check_output(path, "--output", sources)
    if plot:
        check_picture(plot, "--plot")
        check_output(plot, "--plot", [*sources, path])
    if checkpoint:
        check_folder(checkpoint, "--checkpoint", [*sources, path, *([plot] if plot else [])])


def _fit(settings: dict, table: Any, files: Files, reading: float, how: Any) -> None:
    """Fit a model to the table, write the files, and print the result.

    Args:
        settings: The settings of the estimator.
        table: The training table.
        files: The files to write.
        reading: Seconds that it took to read the table.
        how: "json" to print one JSON object, True to print nothing, False to print facts in words.
    """
    with without_pandas():
        from bbalpha.cli.training import facts_before, facts_of_fit, in_words, new_model, train

    if _follows():
        how = True  # only the first process prints
    model, quiet = new_model(table, settings), how is not False
    if not quiet:
        print_facts(facts_before(files.data, model, len(table.inputs)))
    with keeping_programs(quiet):
        info, compiling = train(model, table, files, judged=how is not True)
        facts = facts_of_fit(model, table, files, judged=how is not True)
        if files.plot:
            _draw(files.plot, model, table)
    training = max(0.0, info.seconds - compiling)
    facts["seconds"] = {"reading": reading, "compiling": compiling, "training": training}
    if how == "json":
        print_json(facts)
    elif not quiet:
        print_facts(in_words(facts))
        if facts["warning"]:
            note(f"Warning: {facts['warning']}")
    if info.stopped == "interrupted":
        steps = count(info.num_steps, "step")
        note(f"Interrupted after {steps}; the model holds the posterior reached so far.", quiet)
        raise typer.Exit(INTERRUPTED)


def _follows() -> bool:
    """Join the other processes of this fit, if any; return whether this is not the first one."""
    from bbalpha.runtime.places import is_one_of_several

    if not is_one_of_several():
        return False
    import jax

    from bbalpha.runtime.hosts import join_processes

    with refusing(ValueError):
        join_processes()
    return jax.process_index() > 0


def _draw(path: Path, model: Any, table: Any) -> None:
    from bbalpha.cli.picture import draw
    from bbalpha.cli.scores import outcomes_of

    inputs, targets = table.some_rows()
    draw(path, model, inputs, targets, outcomes_of(model, inputs, targets), "training")
