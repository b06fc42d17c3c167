"""Leave-one-out without refitting, against exact refits: `python benchmarks/refits.py`.

Three tables of 200 rows, each fitted with all defaults at three values of α. Then every row is left
out, the estimator is fitted to the other 199 and scores that row: 1,800 fits, an hour of one core.
Each finished fit is a line of `benchmarks/left_out/refits.csv` and is skipped by the next run, so
that a run can be stopped at any time. `--report` compares what there is with the estimates.
"""

import argparse
import csv
import itertools
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn import datasets

import bbalpha as bb

PATH = Path(__file__).parent / "left_out" / "refits.csv"
NUM_ROWS = 200
ALPHAS = (0.0, 0.5, 1.0)
COLUMNS = ("table", "alpha", "row", "refit", "seconds")


def tables():
    """Inputs and targets by name; whole numbers are classes."""
    random = np.random.default_rng(0)
    X, y = datasets.load_diabetes(return_X_y=True)
    rows = random.permutation(len(y))[:NUM_ROWS]
    friedman = datasets.make_friedman1(NUM_ROWS, noise=1.0, random_state=0)
    return {"diabetes": (X[rows], y[rows]), "friedman1": friedman, "logistic3": logistic(3)}


def logistic(num_classes):
    """Classes whose logits are linear in five columns."""
    random = np.random.default_rng(num_classes)
    X = random.normal(size=(NUM_ROWS, 5))
    logits = X @ random.normal(size=(5, num_classes))
    return X, (logits + random.gumbel(size=logits.shape)).argmax(axis=1)


def fitted(X, y, alpha):
    kind = bb.BBAlphaRegressor if y.dtype.kind == "f" else bb.BBAlphaClassifier
    return kind(alpha=alpha, random_state=0).fit(X, y)


def finished():
    if not PATH.exists():
        return {}
    with PATH.open(newline="") as file:
        rows = csv.DictReader(file)
        return {
            (row["table"], float(row["alpha"]), int(row["row"])): float(row["refit"])
            for row in rows
        }


def add(row):
    is_new = not PATH.exists()
    with PATH.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def refit_all():
    """Run the missing fits, a row of every table and α at a time, rows in random order."""
    done, found = finished(), tables()
    order = np.random.default_rng(1).permutation(NUM_ROWS).tolist()
    for row, (name, (X, y)), alpha in itertools.product(order, found.items(), ALPHAS):
        if (name, alpha, row) in done:
            continue
        kept, started = np.arange(NUM_ROWS) != row, time.process_time()
        score = fitted(X[kept], y[kept], alpha).score_samples(X[[row]], y[[row]])[0]
        seconds = f"{time.process_time() - started:.2f}"
        line = (name, alpha, row, f"{score:.6g}", seconds)
        add(dict(zip(COLUMNS, line, strict=True)))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.report:
        refit_all()


if __name__ == "__main__":
    main()
