"""A power chosen by leave-one-out, against every fixed one: `python benchmarks/alphas.py`.

On each split of each table an estimator is fitted at five fixed powers, with all defaults, and with
the power chosen by leave-one-out on the training rows. Scores are log-likelihoods of the other
rows. Seconds are processor time without compiling. Each finished split is written to
`benchmarks/alphas/splits.csv`, and the next run skips it. `--report` prints the table for
docs/alpha.md. BBALPHA_DATA names the folder of the UCI sets; without it they are left out.
"""

import argparse
import csv
import gzip
import os
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn import datasets

import bbalpha as bb
from bbalpha.metrics import standard_error

PATH = Path(__file__).parent / "alphas" / "splits.csv"
FIXED = (-1.0, -0.5, 0.0, 0.5, 1.0)
CHOSEN = "tuned"
NUM_SPLITS = 2
TESTED = 0.2
MOST_ROWS = 2000  # to train on
UCI = ("boston", "concrete", "energy", "yacht", "wine_red")
BUNDLED = ("diabetes", "linnerud", "wine", "iris", "breast_cancer", "digits")
COLUMNS = (
    *("table", "split", "method", "alpha", "num_train", "num_test", "log_likelihood"),
    *("against_zero", "error", "calibration", "seconds", "curve"),
)


def table(name):
    """Inputs and targets; whole numbers are classes."""
    if name in UCI:
        path = Path(os.environ["BBALPHA_DATA"]) / name / f"{name}.csv.gz"
        with gzip.open(path, "rt") as file:
            numbers = np.array(list(csv.reader(file))[1:], float)
        return numbers[:, :-1], numbers[:, -1]
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (X, y[:, 0]) if name == "linnerud" else (X, y)


def halves(X, y, split):
    """Training and test rows."""
    order = np.random.default_rng(split).permutation(len(y))
    num_test = round(TESTED * len(y))
    train, test = order[num_test:][:MOST_ROWS], order[:num_test]
    return (X[train], y[train]), (X[test], y[test])


def estimator(y, alpha, **settings):
    kind = bb.BBAlphaRegressor if y.dtype.kind == "f" else bb.BBAlphaClassifier
    return kind(alpha=alpha, random_state=0, **settings)


def calibration(model, X, y):
    """Confidence minus accuracy of classes, coverage of 90 % intervals of numbers."""
    if hasattr(model, "classes_"):
        return model.predict_proba(X).max(axis=1).mean() - model.score(X, y)
    lower, upper = model.predict_interval(X).T
    return np.mean((lower <= y) & (y <= upper))


def run(name, split, missing):
    """The lines of one split; scores are compared with those at α = 0, which is fitted again."""
    train, test = halves(*table(name), split)
    for alpha in {0.0, *missing} & {0.0, CHOSEN}:
        estimator(train[1], alpha, max_epochs=1).fit(*train)  # compiles
    found = {}
    for alpha in (0.0, *(alpha for alpha in missing if alpha != 0)):
        model, started = estimator(train[1], alpha), time.process_time()
        model.fit(*train)
        found[alpha] = model, model.score_samples(*test), time.process_time() - started
    zero = (found if 0.0 in missing else {0.0: found.pop(0.0)})[0.0][1]
    for alpha, (model, scores, seconds) in found.items():
        differences, curve = scores - zero, model.alpha_curve_
        values = {
            "table": name,
            "split": split,
            "method": CHOSEN if alpha == CHOSEN else "fixed",
            "alpha": float(model.posterior_.alpha),
            "num_train": len(train[1]),
            "num_test": len(test[1]),
            "log_likelihood": scores.mean(),
            "against_zero": differences.mean(),
            "error": standard_error(differences),
            "calibration": calibration(model, *test),
            "seconds": seconds,
            "curve": "" if curve is None else in_one_line(curve),
        }
        yield {key: f"{x:.5g}" if isinstance(x, float) else x for key, x in values.items()}


def in_one_line(curve):
    numbers = zip(curve.alphas, curve.scores, curve.behind_errors, strict=True)
    return " ".join(f"{alpha:g}:{score:.4f}:{error:.4f}" for alpha, score, error in numbers)


def rows():
    if not PATH.exists():
        return []
    with PATH.open(newline="") as file:
        return list(csv.DictReader(file))


def run_all(names):
    """Run the missing splits, the first of every table first."""
    PATH.parent.mkdir(exist_ok=True)
    for split in range(NUM_SPLITS):
        for name in names:
            done = [row for row in rows() if (row["table"], row["split"]) == (name, str(split))]
            done = {CHOSEN if row["method"] == CHOSEN else float(row["alpha"]) for row in done}
            missing = [alpha for alpha in (*FIXED, CHOSEN) if alpha not in done]
            if not missing:
                continue
            lines, is_new = list(run(name, split, missing)), not PATH.exists()
            with PATH.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                if is_new:
                    writer.writeheader()
                writer.writerows(lines)


def report():
    """Print one line per table: means over finished splits, regret against the best fixed power."""
    found = rows()
    whole = {(row["table"], row["split"]) for row in found if row["method"] == CHOSEN}
    found = [row for row in found if (row["table"], row["split"]) in whole]
    powers = " | ".join(f"α = {alpha:g}" for alpha in FIXED)
    print(f"| table | rows | {powers} | chosen | α chosen | regret | against 0 | seconds |")
    print("|---" * (len(FIXED) + 7) + "|")
    regrets, gains = [], []
    for name in dict.fromkeys(row["table"] for row in found):
        lines = [row for row in found if row["table"] == name]
        fixed = [mean(lines, "log_likelihood", "fixed", alpha) for alpha in FIXED]
        score = mean(lines, "log_likelihood", CHOSEN)
        chosen = [row for row in lines if row["method"] == CHOSEN]
        regret, gain = max(fixed) - score, score - fixed[FIXED.index(0.0)]
        error = np.sqrt(sum(float(row["error"]) ** 2 for row in chosen)) / len(chosen)
        ratio = mean(lines, "seconds", CHOSEN) / mean(lines, "seconds", "fixed", 0.0)
        powers = ", ".join(f"{float(row['alpha']):g}" for row in chosen)
        cells = " | ".join(f"{x:.3f}" for x in (*fixed, score))
        print(
            f"| {name} | {chosen[0]['num_train']} | {cells} | {powers} | {regret:.3f} | "
            f"{gain:+.3f} ± {error:.3f} | ×{ratio:.1f} |"
        )
        regrets.append(regret)
        gains.append(gain)
    print(f"\nmean regret {np.mean(regrets):.4f}, worst gain over α = 0 {min(gains):+.4f}")


def mean(lines, column, method, alpha=None):
    kept = [row for row in lines if row["method"] == method]
    kept = [row for row in kept if alpha is None or float(row["alpha"]) == alpha]
    return np.mean([float(row[column]) for row in kept])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help="names; by default all")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = (*(UCI if "BBALPHA_DATA" in os.environ else ()), *BUNDLED)
    if not options.report:
        run_all(options.tables or known)
    report()


if __name__ == "__main__":
    main()
