"""`bbalpha fit`: from a table to a model file."""

import math
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from bbalpha.cli.doors import Refusal, plain_warnings, refusing
from bbalpha.cli.options import Quiet, hidden_sizes
from bbalpha.cli.paths import check_output
from bbalpha.cli.printing import count, print_facts

if TYPE_CHECKING:
    import numpy

    from bbalpha.cli.saved import Model
    from bbalpha.tables import Target

INTERRUPTED = 130  # what a shell says of a command that Ctrl-C ended
LIKELIHOODS = {
    "regression": ("gaussian", "heteroscedastic", "student_t", "poisson"),
    "classification": ("softmax", "probit"),
}
NUM_SCORED = 5000  # training rows whose log-likelihood is told; all of them could outlast the fit


def fit_table(
    data: Annotated[
        Path, typer.Argument(metavar="DATA", help="CSV or Parquet file, compressed or not.")
    ],
    target: Annotated[str, typer.Option(metavar="COLUMN", help="The column to be predicted.")],
    alpha: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="The power: 0 is variational Bayes, 1 is like expectation propagation.",
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
            min=1,
            help="Passes over the data; by default as many as make 10,000 minibatches.",
        ),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=0, max=2**32 - 1, help="The same seed, the same model."),
    ] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Where the model is written, over what was there; by default the name of DATA "
            "with the ending .safetensors, in the current folder.",
        ),
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the fit to the training data (PNG, PDF or SVG)."),
    ] = None,
    task: Annotated[
        Literal["regression", "classification"] | None,
        typer.Option(
            metavar="regression|classification",
            help="What the target is; by default texts and two different numbers are classes.",
        ),
    ] = None,
    likelihood: Annotated[
        Literal["gaussian", "heteroscedastic", "student_t", "poisson", "softmax", "probit"] | None,
        typer.Option(
            metavar="NAME",
            help="gaussian (default), heteroscedastic, student_t or poisson for numbers; softmax "
            "(default) or probit for classes.",
        ),
    ] = None,
    text: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN", help="Treat a column of numbers or dates as text; repeatable."
        ),
    ] = None,
    drop: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Leave out a column; repeatable.")
    ] = None,
    impute: Annotated[
        Literal["median"] | None,
        typer.Option(
            metavar="median",
            help="Fill missing numbers and dates with the median of their column; by default they "
            "are refused.",
        ),
    ] = None,
    samples: Annotated[
        int,
        typer.Option(metavar="NUMBER", min=1, help="Draws of the weights for each minibatch."),
    ] = 50,
    batch_size: Annotated[
        int, typer.Option(metavar="NUMBER", min=1, help="Rows per minibatch.")
    ] = 32,
    learning_rate: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            help="A constant rate of Adam; by default one that falls from 0.01 to 0.",
        ),
    ] = None,
    learn_prior: Annotated[
        bool, typer.Option("--learn-prior", help="Learn how wide each layer's prior is.")
    ] = False,
    early_stopping: Annotated[
        bool,
        typer.Option(
            "--early-stopping",
            help="Hold out a tenth of the rows and stop when their log-likelihood stops growing.",
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Fit a Bayesian network to a table and write it to a file.

    Every column but the target is an input: numbers, dates (2024-12-31) and texts are told apart
    by what they hold. Ctrl-C ends the fit early and keeps what was reached.

    \b
    bbalpha fit houses.csv --target price
    bbalpha fit houses.csv --target price --hidden 100,50 --alpha 1 --plot fit.png
    bbalpha fit patients.parquet --target outcome --drop id --text ward --impute median
    bbalpha fit visits.csv.gz --target count --likelihood poisson --output visits.safetensors
    """  # noqa: D301
    _check_numbers(alpha, learning_rate)
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
    path = _model_name(data) if output is None else output
    _check_outputs(data, path, plot)
    model, inputs, targets = _read(data, target, task, text or [], drop or [], impute, settings)
    if not quiet:
        print_facts(_facts_before(data, model, len(inputs)))
    with plain_warnings(quiet):
        stopped = _train(model, inputs, targets, path)
        some = _some_rows(inputs, targets)
        if plot:
            from bbalpha.cli.picture import draw_fit

            draw_fit(plot, model, *some)
        if not quiet:
            files = {"model": str(path)} | ({"picture": str(plot)} if plot else {})
            print_facts(_facts_after(model, *some, len(inputs)) | files)
    if stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _check_numbers(alpha: float, learning_rate: float | None) -> None:
    if not math.isfinite(alpha):
        raise Refusal(f"--alpha must be a finite number; got --alpha {alpha}.")
    if learning_rate is not None and not 0 < learning_rate < math.inf:
        raise Refusal(
            f"--learning-rate must be positive and finite; got --learning-rate {learning_rate}."
        )


def _check_likelihood(name: str, target: "Target", values: "numpy.ndarray") -> None:
    names = LIKELIHOODS[target.task]
    if name not in ("auto", *names):
        raise Refusal(
            f"--likelihood must be one of {', '.join(names)} for a {target.task}; "
            f"got --likelihood {name}."
        )
    if name == "poisson" and (wrong := values[(values < 0) | (values % 1 != 0)]).size:
        raise Refusal(
            f"the target {target.name!r} must hold counts for --likelihood poisson; "
            f"got {wrong[0]:g}."
        )


def _model_name(data: Path) -> Path:
    """The name of the data without what says that it is a table."""
    from bbalpha.tables.files import COMPRESSED_SUFFIXES

    if data.is_dir():  # it may have no name
        raise Refusal(f"{data} must be a file; got a folder.")
    name = Path(data.name)
    compressed = name.suffix.lower() in COMPRESSED_SUFFIXES
    return Path(name.stem if compressed else name).with_suffix(".safetensors")


def _check_outputs(data: Path, path: Path, plot: Path | None) -> None:
    check_output(path, "--output", [data])
    if plot:
        from bbalpha.cli.picture import check_format

        check_output(plot, "--plot", [data, path])
        check_format(plot)


def _read(
    data: Path,
    target_name: str,
    task: str | None,
    text: list[str],
    drop: list[str],
    impute: str | None,
    settings: dict[str, Any],
) -> tuple["Model", "numpy.ndarray", "numpy.ndarray"]:
    """The model before training, and what it is trained on."""
    from bbalpha.tables import Encoder, TableError, Target, drop_columns, read_table

    if target_name in drop:
        raise Refusal(f"--drop must not name the target; got {target_name!r}.")
    with refusing(TableError):
        frame = read_table(data)
        target = Target.learn(frame, target_name, task)
        inputs = drop_columns(frame, [*drop, target_name])
        encoder = Encoder.learn(inputs, text=text, impute=impute)
        features, encoded = encoder.encode(inputs), target.encode(frame)
    _check_likelihood(settings["likelihood"], target, encoded)

    from bbalpha.cli.saved import Model, as_labels, new_estimator

    model = Model(new_estimator(target.task, settings), encoder, target, tuple(drop))
    return model, features, as_labels(target, encoded)


def _facts_before(data: Path, model: "Model", num_rows: int) -> dict[str, str]:
    """What is about to be fitted to what."""
    from bbalpha.cli.describe import columns_in_words, network_in_words, target_in_words

    return {
        "data": f"{data}: {count(num_rows, 'row')}",
        "target": target_in_words(model.target),
        "inputs": columns_in_words(model.encoder),
        "network": network_in_words(model),
    }


def _train(model: "Model", inputs: "numpy.ndarray", targets: "numpy.ndarray", path: Path) -> str:
    """Fit the model and write it; how the fit ended."""
    from bbalpha.cli.saved import write_model
    from bbalpha.fitting import NonFiniteEnergyError

    try:
        with refusing(ValueError), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "fit was interrupted")  # told by _ending
            model.estimator.fit(inputs, targets)
    except NonFiniteEnergyError as error:
        raise Refusal(
            f"the energy must stay finite; got a value that is not at step {error.step} "
            "(a smaller --learning-rate or --alpha often helps)."
        ) from None
    except KeyboardInterrupt:  # while it was compiled
        raise _nothing_reached() from None
    info = model.estimator.posterior_.info
    if info.num_steps == 0:
        raise _nothing_reached()
    write_model(path, model)
    return info.stopped


def _nothing_reached() -> typer.Exit:
    typer.echo("Interrupted before the first step: no model was written.", err=True)
    return typer.Exit(INTERRUPTED)


def _facts_after(
    model: "Model", inputs: "numpy.ndarray", targets: "numpy.ndarray", num_rows: int
) -> dict[str, str]:
    """What came of the fit."""
    posterior = model.estimator.posterior_
    energy = float(posterior.energy)
    likelihood = model.estimator.score_samples(inputs, targets).mean()
    share = "" if len(inputs) == num_rows else f" (of {len(inputs):,} of them)"
    return {
        "epochs": f"{model.estimator.n_iter_:,}{_ending(posterior.info.stopped)}",
        "seconds": f"{posterior.info.seconds:.1f}",
        "energy": f"{energy:.6g}, lower is better" if math.isfinite(energy) else "not computed",
        "training table": f"log-likelihood {likelihood:.4g} per row{share}",
    }


def _ending(stopped: str) -> str:
    reasons = {
        "early": ", stopped early: the held-out rows were no longer predicted better",
        "interrupted": ", interrupted: the model is what was reached",
    }
    return reasons.get(stopped, "")


def _some_rows(
    inputs: "numpy.ndarray", targets: "numpy.ndarray"
) -> tuple["numpy.ndarray", "numpy.ndarray"]:
    """All rows, or as many as can be looked at quickly, evenly spread."""
    import numpy as np

    rows = np.linspace(0, len(inputs) - 1, min(len(inputs), NUM_SCORED)).astype(int)
    return inputs[rows], targets[rows]
