"""`bbalpha compare`: approximate posteriors of a linear model, compared on one table."""

from pathlib import Path
from typing import Annotated, Any

import typer

from bbalpha.cli.doors import INTERRUPTED, Refusal, refusing
from bbalpha.cli.options import (
    MAX_SEED,
    DayFirst,
    Drop,
    Id,
    Json,
    Missing,
    SkipMissingTarget,
    Task,
    Text,
    TrainingData,
    choice,
    finite_number,
    numbers,
    whole_number,
)
from bbalpha.cli.paths import check_data, check_output, check_picture, replacing
from bbalpha.cli.printing import note, print_facts, print_json
from bbalpha.cli.programs import keeping_programs
from bbalpha.interfaces.limits import POSITIVE

LIKELIHOODS = {"regression": ("gaussian", "poisson"), "classification": ("probit", "logit")}
METHODS = (
    *("power_ep", "double_loop_ep", "vmp", "averaged_ep", "stochastic_ep", "fixed_point", "snep"),
    "fit",
)
REFERENCES = ("auto", "nuts", "importance", "none")


def compare_table(
    data: TrainingData,
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column to predict: a number or two classes.")
    ],
    methods: Annotated[
        str,
        typer.Option(
            metavar="NAMES",
            help=f"Methods, separated by commas: {', '.join(METHODS[:-1])} or {METHODS[-1]}. "
            "fit is BB-α; fixed_point solves the same problem without Monte Carlo error, but is "
            "often slower.",
        ),
    ] = "power_ep,vmp,averaged_ep,fit",
    alphas: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="Powers α, separated by commas. power_ep at 1 is EP; vmp is the limit α → 0.",
        ),
    ] = "0.5,1",
    likelihood: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            parser=choice("--likelihood", sum(LIKELIHOODS.values(), ())),
            help="For numbers: gaussian (default), or poisson for counts; for two classes: probit "
            "(default) or logit.",
        ),
    ] = None,
    prior_scale: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            parser=finite_number("--prior-scale", True, POSITIVE["prior_scale"]),
            help="Prior standard deviation of the weights, for standardized inputs; with gaussian "
            "noise, in units of the target's standard deviation.",
        ),
    ] = 1.0,
    held_out: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            parser=finite_number("--held-out"),
            help="Share of the rows to hold out as a test, from 0 to less than 1.",
        ),
    ] = 0.2,
    reference: Annotated[
        str,
        typer.Option(
            metavar="|".join(REFERENCES),
            parser=choice("--reference", REFERENCES),
            help="The posterior to compare with; auto is the exact posterior for gaussian noise, "
            "otherwise NUTS if NumPyro is installed, otherwise importance sampling.",
        ),
    ] = "auto",
    seed: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            parser=whole_number("--seed", 0, MAX_SEED),
            help="Seed for the choice of held-out rows and for all draws.",
        ),
    ] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the comparison (PNG, PDF or SVG)."),
    ] = None,
    task: Task = None,
    text: Text = None,
    drop: Drop = None,
    id: Id = None,
    missing: Missing = None,
    dayfirst: DayFirst = None,
    skip_missing_target: SkipMissingTarget = False,
    json: Json = False,
) -> None:
    """Compare approximations of the posterior of a linear model.

    The model is linear in the standardized inputs, with an intercept. The standard deviation of
    Gaussian noise is the one with the highest evidence. For each method and each power α, the table
    shows the largest error of a posterior mean, in standard deviations of the reference; the
    smallest and the largest posterior standard deviation relative to the reference; an estimate of
    the log-evidence; the log-likelihood per held-out row (higher is better); and the seconds that
    the method took, without compiling.

    \b
    bbalpha compare patients.csv --target outcome
    bbalpha compare houses.csv --target price --alphas 0.1,0.5,1 --plot compare.png
    bbalpha compare visits.csv --target count --likelihood poisson --methods power_ep,vmp
    """  # noqa: D301
    sources = check_data(data)
    names, powers = _names(methods), _powers(alphas)
    if not 0 <= held_out < 1:
        raise Refusal(f"--held-out must be from 0 to less than 1; got {held_out:g}.")
    if plot:
        check_picture(plot, "--plot")
        check_output(plot, "--plot", sources)

    from bbalpha.cli.training_table import check_likelihood, intake, read_split_table

    columns = intake(target, task, text, drop, id, missing, dayfirst, skip_missing_target)
    table, new = read_split_table(data, columns, held_out, seed, quiet=json)
    check_likelihood(likelihood, LIKELIHOODS[table.target.task], table)

    from bbalpha.cli.linear_model import LinearModel

    model = LinearModel.of(table, likelihood or LIKELIHOODS[table.target.task][0], prior_scale)
    if not json:
        print_facts(model.facts(data, new))
    settings = {"methods": names, "alphas": powers, "progress": not json}
    settings["reference"] = None if reference == "none" else reference
    found = _compared(model, new, seed, settings)
    if plot:
        _draw(found, plot)
    if json:
        files = {"data": str(data), "picture": plot and str(plot)}
        print_json(files | model.facts_for_json(new) | _results(found))
    else:
        typer.echo(f"\n{found}")
        print_facts({"picture": str(plot)} if plot else {})


def _names(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for name in names:
        if name not in METHODS:
            raise Refusal(f"--methods must be among {', '.join(METHODS)}; got {name!r}.")
    return names


def _powers(text: str) -> tuple[float, ...]:
    powers = numbers(text)
    if not all(abs(power) < float("inf") for power in powers):
        raise Refusal(f"--alphas must be finite numbers, separated by commas; got {text!r}.")
    return powers


def _compared(model: Any, new: Any, seed: int, settings: dict[str, Any]) -> Any:
    """The comparison; Ctrl-C ends the command without one."""
    with keeping_programs(quiet=not settings["progress"]), refusing(ValueError, ImportError):
        try:
            return model.compare(new, seed, **settings)
        except KeyboardInterrupt:
            note("Interrupted before the last method; nothing was compared.")
            raise typer.Exit(INTERRUPTED) from None


def _draw(found: Any, path: Path) -> None:
    from bbalpha.message_passing.comparison_picture import figure_of

    with replacing(path, "--plot") as temporary:
        figure_of(found).savefig(temporary, format=path.suffix.lower().removeprefix("."))


def _results(found: Any) -> dict[str, Any]:
    """The rows for JSON, with the mean and the deviation of every parameter."""

    def moments(row: Any) -> dict[str, Any]:
        return {"mean": row.mean.tolist(), "deviation": row.deviation.tolist()}

    reference = found.reference
    return {
        "reference": {
            "method": reference.method,
            "remark": reference.remark,
            "log_evidence": reference.log_evidence,
            "held_out": reference.held_out,
            "seconds": reference.seconds,
            "converged": reference.converged,
            **moments(reference),
        },
        "methods": [
            record | moments(row) for record, row in zip(found.records(), found.rows, strict=True)
        ],
    }
