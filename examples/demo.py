"""Bayesian networks on the diabetes data of scikit-learn, by command line and at three values of α.

442 patients; the target is how far the disease has progressed a year later. The networks have one
hidden layer of 50 rectifier units; their noise is learned with the weights and so is, for the
comparison, the scale of each layer's prior.

- `bbalpha fit` and `bbalpha evaluate`: a model file from one CSV, its scores on another;
- `bb.fit`: progression from the body-mass index alone, for a picture of what α does;
- `bb.fit_many`: progression from all ten features, for scores on held-out patients.

Run it with `make demo`. It prints a table and writes everything to the folder `demo`.
"""

import argparse
import shlex
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import numpy as np
import pictures
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes

import bbalpha as bb

ALPHAS = {0.0: "variational Bayes", 0.5: "in between", 1.0: "EP-like"}
NUM_HIDDEN = 50
SETTINGS = {"hyperparams": bb.Gaussian(), "learn_prior": True, "num_samples": 20}
DIGITS = {"log-likelihood ↑": 3, "RMSE ↓": 1, "CRPS ↓": 1, "90 % coverage": 3}  # of each score


FOLDER = Path("demo")


def main(num_epochs, num_splits):
    console = Console()
    FOLDER.mkdir(exist_ok=True)
    diabetes = load_diabetes(scaled=False)
    write_tables(diabetes)
    bbalpha(console, "fit", "train.csv", "--target", "progression", "--epochs", str(num_epochs))
    bbalpha(console, "evaluate", "train.safetensors", "test.csv")
    mass_index = diabetes.data[:, [diabetes.feature_names.index("bmi")]]
    targets = diabetes.target
    curves, scores, levels = [], {}, []
    for alpha, name in ALPHAS.items():
        console.print(f"[bold]α = {alpha:g}[/], {name}")
        console.print("  one network on the body-mass index, for the picture")
        curves.append(fit_curve(alpha, mass_index, targets, num_epochs))
        console.print(f"  {num_splits} networks on all features, one per split, for the table")
        scores[alpha], needed = fit_splits(alpha, diabetes.data, targets, num_epochs, num_splits)
        levels.append(needed)
    console.print(table(scores, num_splits))
    picture = FOLDER / "alpha.png"
    pictures.diabetes(mass_index, targets, ALPHAS, curves, levels).savefig(picture)
    console.print(f"The picture is in {picture.resolve()}", soft_wrap=True)


def write_tables(diabetes):
    """The patients as two CSV files, nine tenths to fit and the rest to evaluate."""
    table = np.column_stack([diabetes.data, diabetes.target])
    header = ",".join([*diabetes.feature_names, "progression"])
    (train,), (test,) = bb.splits(len(table), num_splits=1)
    for name, rows in {"train.csv": train, "test.csv": test}.items():
        np.savetxt(FOLDER / name, table[rows], "%.10g", ",", header=header, comments="")


def bbalpha(console, *arguments):
    """Show a command as one would type it in the folder, and run it there."""
    console.print(f"[bold]$ {shlex.join(['bbalpha', *arguments])}[/]")
    console.file.flush()
    subprocess.run([sys.executable, "-m", "bbalpha", *arguments], cwd=FOLDER, check=True)


def log_likelihood(params, batch, noise):
    """log p(yₙ|xₙ, θ), one number per patient; `noise` is a `bb.Gaussian`, learned as well."""
    inputs, targets = batch
    return noise.log_prob(bb.mlp(params, inputs), targets)


def fit_curve(alpha, inputs, targets, num_epochs):
    """A grid, and on it the mean and the deviations of the network and of a new patient."""
    inputs, input_scale = bb.standardize(inputs)
    targets, target_scale = bb.standardize(targets)
    posterior = bb.fit(
        log_likelihood,
        bb.init_mlp([1, NUM_HIDDEN, 1], key=jax.random.key(0)),
        (inputs, targets),
        alpha=alpha,
        key=jax.random.key(1),
        num_epochs=num_epochs,
        **SETTINGS,
    )
    grid = np.linspace(inputs.min() - 0.5, inputs.max() + 0.5, 200)[:, None]
    outputs = posterior.predict(bb.mlp, grid, key=jax.random.key(2))  # (draws, grid, 1)
    mean = target_scale.inverse(outputs.mean(axis=0))
    network = target_scale.inverse_variance(outputs.var(axis=0))
    total = target_scale.inverse_variance(bb.predictive_variance(posterior.hyperparams, outputs))
    return np.hstack([input_scale.inverse(grid), mean, np.sqrt(network), np.sqrt(total)]).T


def fit_splits(alpha, inputs, targets, num_epochs, num_splits):
    """The scores of each split, and the level whose interval just reaches each held-out target."""
    train, test = bb.splits(len(targets), num_splits)
    parts = [split(inputs, targets, *rows) for rows in zip(train, test, strict=True)]
    train_parts, test_parts = zip(*parts, strict=True)
    keys = jax.random.split(jax.random.key(0), num_splits)
    posteriors = bb.fit_many(
        log_likelihood,
        jax.vmap(lambda key: bb.init_mlp([inputs.shape[1], NUM_HIDDEN, 1], key=key))(keys),
        jax.tree.map(lambda *leaves: np.stack(leaves), *train_parts),
        data_axis=0,  # every network has its own data
        alpha=alpha,
        keys=keys,
        num_epochs=num_epochs,
        **SETTINGS,
    )
    results = [score(*pair) for pair in zip(posteriors, test_parts, strict=True)]
    scores, levels = zip(*results, strict=True)
    return np.array(scores), np.concatenate(levels)


def split(inputs, targets, train, test):
    """Standardized training data; standardized test inputs with test targets in original units."""
    train_inputs, input_scale = bb.standardize(inputs[train])
    train_targets, target_scale = bb.standardize(targets[train])
    test_part = input_scale.transform(inputs[test]), targets[test], target_scale
    return (train_inputs, train_targets), test_part


def score(posterior, test_part):
    """The scores of one split in the units of the target, seconds, and the levels."""
    inputs, targets, target_scale = test_part
    noise = posterior.hyperparams
    outputs = posterior.predict(bb.mlp, inputs, key=jax.random.key(2))
    log_densities = noise.log_prob(outputs, target_scale.transform(targets))  # (draws, patients)
    draws = target_scale.inverse(noise.sample(outputs, key=jax.random.key(3))[..., 0])
    scores = (
        bb.metrics.predictive_log_likelihood(log_densities, target_scale.log_scale),
        bb.metrics.rmse(target_scale.inverse(outputs.mean(axis=0)[:, 0]), targets),
        bb.metrics.crps(draws, targets),
        bb.metrics.coverage(draws, targets, level=0.9),
        posterior.info.seconds,
    )
    return scores, np.abs(2 * bb.metrics.pit(draws, targets) - 1)


def table(scores, num_splits):
    """A row per α."""
    result = Table(
        title=f"Held-out patients, mean ± standard error over {num_splits} splits",
        caption="In units of the target. Seconds are for all splits; the first include compiling.",
    )
    for column in ("α", *DIGITS, "seconds"):
        result.add_column(column, justify="right")
    for alpha, (*columns, seconds) in ((alpha, values.T) for alpha, values in scores.items()):
        cells = [
            f"{column.mean():.{digits}f} ± {bb.metrics.standard_error(column):.{digits}f}"
            for column, digits in zip(columns, DIGITS.values(), strict=True)
        ]
        result.add_row(f"{alpha:g}", *cells, f"{seconds[0]:.1f}")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="a few epochs, to see that it runs")
    quick = parser.parse_args().quick
    if quick:
        warnings.simplefilter("ignore", bb.ConvergenceWarning)  # two epochs are for a test
    main(num_epochs=2 if quick else 300, num_splits=2 if quick else 10)
