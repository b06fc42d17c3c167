"""`bbalpha explore`: from a table to a page that shows how the predictions change with α."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bbalpha.cli.doors import INTERRUPTED, Refusal, refusing
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
    hidden_sizes,
)
from bbalpha.cli.paths import check_data, check_output, replacing
from bbalpha.cli.printing import note, print_facts, print_json
from bbalpha.cli.programs import keeping_programs
from bbalpha.engine.leaving import say_when_leaving


def explore_table(
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
            help="The page to write; by default the name of DATA with the suffix .html, in the "
            "current folder. An earlier page of bbalpha is replaced.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file, whatever it holds.")
    ] = False,
    task: Task = None,
    likelihood: LikelihoodName = None,
    text: Text = None,
    drop: Drop = None,
    id: Id = None,
    missing: Missing = None,
    dayfirst: DayFirst = None,
    skip_missing_target: SkipMissingTarget = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Write a page that shows how the predictions change with α.

    The model of `bbalpha fit` is fitted at α = −1, 0, ¼, ½ and 1, and at the α that you choose. The
    page is a single HTML file that needs no network: as you move a slider over α, predictions,
    calibration and scores follow. The page holds up to 500 rows of the table, so do not share it
    with people who must not see them. Ctrl-C ends the command without a page.

    \b
    bbalpha explore houses.csv --target price
    bbalpha explore patients.parquet --target outcome --id patient --output patients.html
    """  # noqa: D301
    given = {
        "hidden_layer_sizes": None if hidden is None else hidden_sizes(hidden),
        "alpha": alpha,
        "likelihood": likelihood,
        "max_epochs": epochs,
    }
    settings = {name: value for name, value in given.items() if value is not None}
    settings |= {"random_state": seed, "verbose": not quiet and not json}
    say_when_leaving("; no page was written.")
    sources = check_data(data)

    from bbalpha.cli.training_table import (
        check_likelihood,
        intake,
        output_name,
        read_training_table_and_frame,
    )

    path = output or output_name(data, ".html")
    check_output(path, "--output", sources)
    columns = intake(target, task, text, drop, id, missing, dayfirst, skip_missing_target)
    table, frame = read_training_table_and_frame(data, columns, quiet or json)
    named = None if likelihood == "auto" else likelihood
    check_likelihood(named, LIKELIHOODS[table.target.task], table)
    _check_replaceable(path, force)
    facts = _explore(settings, table, frame, data, path, quiet=quiet or json)
    if json:
        print_json(facts)
    elif not quiet:
        print_facts({"reason": facts["reason"], "page": facts["page"]})


def _check_replaceable(path: Path, force: bool) -> None:
    from bbalpha.explorer.page import is_page

    if path.exists() and not force and not is_page(path):
        from bbalpha.cli.replacing import ask_or_refuse

        ask_or_refuse(path, "something that is not a page of bbalpha")


def _explore(
    settings: dict[str, Any], table: Any, frame: Any, data: Path | str, path: Path, quiet: bool
) -> dict[str, Any]:
    """Fit the models, write the page, and return the facts to print, for JSON."""
    from bbalpha.cli.training import facts_before, fit_or_refuse, new_model
    from bbalpha.explorer.exploring import Table, explored
    from bbalpha.explorer.page import bounded_page
    from bbalpha.interfaces.left_out import FEWEST_ROWS
    from bbalpha.tables import select_column

    num_rows = len(table.inputs)
    if num_rows < FEWEST_ROWS:
        raise Refusal(f"{data} must have at least {FEWEST_ROWS} rows to explore; got {num_rows}.")
    model = new_model(table, settings)
    if not quiet:
        print_facts(facts_before(data, model, num_rows))
    ids = () if table.id is None else select_column(frame, table.id).to_pylist()
    rows = Table(table.inputs, table.targets, None, table.target.name, table.encoder, frame, ids)
    with keeping_programs(quiet):
        try:
            if fit_or_refuse(model, table, product="page").stopped == "interrupted":
                raise KeyboardInterrupt
            with refusing(ValueError):
                found = explored(model.estimator, rows, show=not quiet)
        except KeyboardInterrupt:
            note("Interrupted; no page was written.")
            raise typer.Exit(INTERRUPTED) from None
    with replacing(path, "--output") as temporary:
        temporary.write_text(bounded_page(found), encoding="utf-8", newline="\n")
    say_when_leaving(f"; the page is in {path}.")
    return {
        "data": str(data),
        "page": str(path),
        "task": table.target.task,
        "target": table.target.name,
        "rows": num_rows,
        "reason": found["reason"],
        "notes": found["notes"],
        "chosen": found["alphas"][found["chosen"]],
        "alphas": [
            {"alpha": value} | fit["scores"]
            for value, fit in zip(found["alphas"], found["fits"], strict=True)
        ],
    }
