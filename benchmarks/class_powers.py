"""α = 0 against ½ for classes, on generated tables: `python benchmarks/class_powers.py`.

Each finished table is written to `benchmarks/alphas/classes.csv`, and the next run skips it.
`--report` prints the table for docs/alpha.md.
"""

import csv
import sys
import warnings
from pathlib import Path

import numpy as np

import bbalpha as bb

PATH = Path(__file__).parent / "alphas" / "classes.csv"
SIZES, SEEDS, NUM_TEST = (100, 400, 1000, 2000), 3, 2000
KINDS = ("linear", "curved", "weak", "blobs", "rings", "softmax")
COLUMNS = ("kind", "rows", "seed", "log_0", "over_0", "wrong_0", "log_½", "over_½", "wrong_½")


def sigmoid_labels(random, logits):
    return (random.uniform(size=len(logits)) < 1 / (1 + np.exp(-logits))).astype(int)


def table(kind, seed, num_train):
    """Inputs and labels: two classes for the first three kinds, then four, three and five."""
    random = np.random.default_rng([seed, sum(map(ord, kind))])
    num_rows = num_train + NUM_TEST
    match kind:
        case "linear":
            x = random.normal(size=(num_rows, 6))
            return x, sigmoid_labels(random, x @ random.normal(size=6) * 0.8)
        case "curved":
            x = random.normal(size=(num_rows, 5))
            logits = 2 * np.sin(2 * x[:, 0]) + 1.5 * x[:, 1] * x[:, 2] - x[:, 3]
            return x, sigmoid_labels(random, 2 * logits)
        case "weak":
            x = random.normal(size=(num_rows, 10))
            return x, sigmoid_labels(random, 0.5 * x[:, 0] - 0.4 * x[:, 1] - 1.2)
        case "blobs":
            centers, y = random.normal(size=(4, 5)) * 1.6, random.integers(0, 4, num_rows)
            return centers[y] + random.normal(size=(num_rows, 5)), y
        case "rings":
            x = random.normal(size=(num_rows, 4))
            y = np.digitize((x[:, :3] ** 2).sum(1), [1.5, 3.5])
            is_noise = random.uniform(size=num_rows) < 0.1
            return x, np.where(is_noise, random.integers(0, 3, num_rows), y)
        case _:
            x = random.normal(size=(num_rows, 8))
            logits = x @ random.normal(size=(8, 5)) + 0.7 * np.abs(x) @ random.normal(size=(8, 5))
            return x, (logits + random.gumbel(size=logits.shape)).argmax(1)


def scores(alpha, seed, train, test):
    """Log-likelihood, confidence minus accuracy, and the share of wrong labels."""
    found = bb.BBAlphaClassifier(alpha=alpha, random_state=seed).fit(*train).predict_proba(test[0])
    wrong = np.mean(found.argmax(1) != test[1])
    logs = np.log(found[np.arange(len(test[1])), test[1]])
    return [round(float(x), 5) for x in (logs.mean(), found.max(1).mean() - 1 + wrong, wrong)]


def run():
    with PATH.open(newline="") as file:
        done = {tuple(row[:3]) for row in csv.reader(file)}
    for size in SIZES:
        for seed in range(SEEDS):
            for kind in KINDS:
                x, y = table(kind, seed, size)
                if (kind, str(size), str(seed)) in done or len(set(y[:size])) < len(set(y)):
                    continue
                parts = (x[:size], y[:size]), (x[size:], y[size:])
                row = [kind, size, seed, *scores(0.0, seed, *parts), *scores(0.5, seed, *parts)]
                with PATH.open("a", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow(row)


def report():
    with PATH.open(newline="") as file:
        rows = list(csv.DictReader(file))
    print("| kind | rows | tables | α = ½ | gain of α = 0 | worst and best | miscalibration |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    groups = [(k, n) for k in KINDS for n in SIZES] + [("all", None)]
    for kind, size in groups:
        some = [r for r in rows if kind == "all" or (r["kind"], r["rows"]) == (kind, str(size))]
        if not some:
            continue
        half, zero = (np.array([float(r[f"log_{a}"]) for r in some]) for a in "½0")
        over = [np.mean([abs(float(r[f"over_{a}"])) for r in some]) for a in "0½"]
        gain = zero - half
        print(
            f"| {kind} | {size or ''} | {len(some)} | {half.mean():.3f} | {gain.mean():+.3f} "
            f"| {gain.min():+.3f}, {gain.max():+.3f} | {over[0]:.3f} and {over[1]:.3f} |"
        )
    gains = np.array([float(r["log_0"]) - float(r["log_½"]) for r in rows])
    error = gains.std(ddof=1) / np.sqrt(len(gains))
    print(
        f"{gains.mean():+.4f} ± {error:.4f}; α = 0 is better on {np.sum(gains > 0)} of {len(gains)}"
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report() if "--report" in sys.argv else run()
