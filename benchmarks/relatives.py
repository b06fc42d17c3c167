"""EP and its relatives on four data sets of the paper, by held-out log-likelihood and time.

    BBALPHA_DATA=folder python benchmarks/relatives.py
    BBALPHA_DATA=folder python benchmarks/relatives.py --sets pima --methods "EP" --splits 3
    python benchmarks/relatives.py --report

The model is probit regression with standardized inputs, an intercept and standard normal weights.
Rows are added to `benchmarks/relatives/probit.csv`, one per set, split and method. Finished rows
are skipped, so that a run can be stopped and started again. `--report` writes the tables of
docs/approximations.md. Predictive probabilities are exact given q: Φ(m / √(1 + v)), with m and v
the mean and variance of xᵀw. Seconds are CPU time, so that a busy machine changes them less.
"""

import argparse
import csv
import time
import warnings
from functools import partial
from pathlib import Path
from statistics import median

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

import bbalpha as bb
from bbalpha_paper import datasets

ROWS = Path(__file__).parent / "relatives" / "probit.csv"
PAGE = Path(__file__).parents[1] / "docs" / "approximations.md"
COLUMNS = (
    *("set", "split", "method", "num_train", "num_columns", "log_likelihood", "error"),
    *("seconds", "steps", "ended"),
)
SETS = ("pima", "ionosphere", "colon", "madelon")  # the quick ones first
NUM_SPLITS = 10
LARGEST_FULL = 100  # columns up to which `fit` has a full Gaussian
MOST_STEPS = 1000  # of a full Gaussian; fits that converge take 150
LOGISTIC = "logistic regression"
PUBLISHED = {  # Li, Hernández-Lobato & Turner 2015
    ("pima", "EP"): "−.513 ± .012",
    ("pima", "stochastic EP"): "−.514 ± .012",
    ("ionosphere", "EP"): "−.324 ± .028",
    ("ionosphere", "stochastic EP"): "−.336 ± .029",
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--splits", type=int, default=NUM_SPLITS)
    parser.add_argument("--report", action="store_true")
    arguments = parser.parse_args()
    if arguments.report:
        report()
        return
    done = {(row["set"], int(row["split"]), row["method"]) for row in read()}
    for name in arguments.sets:
        for method in arguments.methods:
            for split in range(arguments.splits):
                if (name, split, method) not in done:
                    add(measured(name, split, method))


def measured(name, split, method):
    """One row."""
    train, labels, test, test_labels = problem(name, split)
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bb.ConvergenceWarning)  # `ended` has it
        signed, how = METHODS[method](train, labels, test)
    seconds = time.process_time() - started
    log_likelihood = np.where(test_labels > 0.5, *signed).mean()
    wrong = np.mean((signed[0] > signed[1]) != (test_labels > 0.5))
    row = (name, split, method, *train.shape, f"{log_likelihood:.6f}", f"{wrong:.6f}")
    row = (*row, f"{seconds:.4f}", *how)
    print(*row, flush=True)
    return dict(zip(COLUMNS, row, strict=True))


def problem(name, split):
    """Inputs standardized by the training part, with an intercept, and labels 0 and 1."""
    table = datasets.load(name)
    rows = datasets.splits(name, split + 1)
    train, test = rows.train[split], rows.test[split]
    _, units = bb.standardize(table.inputs[train])
    inputs = [np.insert(units.transform(table.inputs[part]), 0, 1.0, 1) for part in (train, test)]
    labels = table.targets.astype(float)
    return inputs[0], labels[train], inputs[1], labels[test]


def passing(method, train, labels, test):
    """Log-probabilities of 1 and 0 by a method of message passing, and how it ended."""
    return of_posterior(method(bb.Probit(), train, labels), test)


def stochastic(log_likelihood, train, labels):
    """Stochastic EP in batches of an eighth of the rows, or of the usual 32 if that is less."""
    key, batch_size = jax.random.key(0), max(32, len(train) // 8)
    return bb.stochastic_ep(log_likelihood, train, labels, key=key, batch_size=batch_size)


def log_likelihood(weights, batch):
    return bb.log_ndtr((2 * batch.targets - 1) * (batch.inputs @ weights))


def fitted(alpha, train, labels, test):
    """The same by `bb.fit`: a full Gaussian or, for many columns, the default family."""
    size = train.shape[1]
    is_full = size <= LARGEST_FULL
    settings = {"family": bb.FullGaussian, "num_epochs": MOST_STEPS} if is_full else {}
    data = bb.Dataset(train.astype(np.float32), labels.astype(np.float32))
    key = jax.random.key(0)
    posterior = bb.fit(log_likelihood, jnp.zeros(size), data, alpha=alpha, key=key, **settings)
    return of_posterior(posterior, test)


def of_posterior(posterior, test):
    mean = test @ np.asarray(posterior.mean, float)
    scaled = mean / np.sqrt(1 + variance_of_projections(posterior, test))
    return (norm.logcdf(scaled), norm.logcdf(-scaled)), (
        posterior.info.num_steps,
        posterior.info.stopped,
    )


def variance_of_projections(posterior, test):
    if isinstance(posterior.q, bb.FullGaussian | bb.NarrowedGaussian):
        return np.sum(test @ np.asarray(posterior.q.covariance, float) * test, axis=1)
    return test**2 @ np.asarray(posterior.variance, float)


def logistic(train, labels, test):
    """Scikit-learn's, whose default penalty is a standard normal prior on all but the intercept."""
    model = LogisticRegression(max_iter=10_000).fit(train[:, 1:], labels)
    both = model.predict_log_proba(test[:, 1:])
    return (both[:, 1], both[:, 0]), (model.n_iter_[0], "")


METHODS = {
    "EP": partial(passing, bb.power_ep),
    "power EP ½": partial(passing, partial(bb.power_ep, alpha=0.5)),
    "VMP": partial(passing, bb.vmp),
    "averaged EP": partial(passing, bb.averaged_ep),
    "stochastic EP": partial(passing, stochastic),
    "BB-α 0": partial(fitted, 0.0),
    "BB-α ½": partial(fitted, 0.5),
    "BB-α 1": partial(fitted, 1.0),
    LOGISTIC: logistic,
}


def read():
    if not ROWS.exists():
        return []
    with ROWS.open(newline="") as file:
        return list(csv.DictReader(file))


def add(row):
    ROWS.parent.mkdir(exist_ok=True)
    is_new = not ROWS.exists()
    with ROWS.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def report():
    """Write the three tables between their marks."""
    found = {}
    for row in read():
        found.setdefault((row["set"], row["method"]), []).append(row)
    head = f"| | {' | '.join(name.capitalize() for name in SETS)} |\n|---|{'---|' * len(SETS)}"
    scores, gains, times = [head], [head], [head]
    for method in METHODS:
        rows = [found.get((name, method), []) for name in SETS]
        scores.append(f"| {method} | {' | '.join(map(score, rows))} |")
        if method != "EP":
            pairs = [gain(found.get((name, method), []), found[name, "EP"]) for name in SETS]
            gains.append(f"| {method} | {' | '.join(pairs)} |")
        times.append(f"| {method} | {' | '.join(map(duration, rows))} |")
        published = [PUBLISHED.get((name, method), "") for name in SETS]
        if any(published):
            scores.append(f"| {method}, Li et al. (2015) | {' | '.join(published)} |")
    for name, lines in (("scores", scores), ("gains", gains), ("times", times)):
        write(name, "\n".join(lines))


def score(rows):
    """The mean over splits ± its standard error."""
    return mean_and_error([float(row["log_likelihood"]) for row in rows], "{:.3f}")


def gain(rows, others):
    """The mean over common splits of the paired difference from others ± its standard error."""
    by_split = {row["split"]: float(row["log_likelihood"]) for row in others}
    pairs = [float(row["log_likelihood"]) - by_split[row["split"]] for row in rows]
    return mean_and_error(pairs, "{:+.4f}")


def mean_and_error(values, form):
    """As published tables have it, without zeros before the point."""
    if not values:
        return "not run"
    text = form.format(np.mean(values)).replace("-", "−").replace("0.", ".", 1)
    if len(values) > 1:
        error = np.std(values, ddof=1) / np.sqrt(len(values))
        text += f" ± {form.format(error).lstrip('+')}".replace(" 0.", " .")
    return text + few(values)


def duration(rows):
    """The median CPU seconds over splits, so that compiling does not count."""
    if not rows:
        return "not run"
    return f"{median(float(row['seconds']) for row in rows):.2g} s{few(rows)}"


def few(rows):
    if len(rows) == NUM_SPLITS:
        return ""
    return f" ({len(rows)} split{'s' * (len(rows) > 1)})"


def write(name, text):
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = PAGE.read_text().split(start)
    PAGE.write_text(f"{before}{start}\n{text}\n\n{end}{rest.split(end)[1]}")


if __name__ == "__main__":
    main()
