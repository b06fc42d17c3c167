"""The estimators on nine UCI sets, for a comparison with published results.

`BBALPHA_DATA=folder python benchmarks/standard_splits.py` uses the standard splits: 20 of each set,
5 of protein, nine tenths of the rows to train on. "ours" has all defaults, "ours-automatic"
`alpha="stacked"` and `calibrate=True`. Each finished fit is a line of
`benchmarks/standard_splits/rows.csv` and is skipped by the next run. `--splits` limits the number
of splits; `--report` prints the tables for docs/benchmarks.md.
"""

import argparse
import csv
import sys
import time
import warnings
from pathlib import Path

import alphas
import numpy as np
import pandas as pd
from tables import round_off

import bbalpha as bb
from bbalpha.metrics import standard_error

PATH = Path(__file__).parent / "standard_splits" / "rows.csv"
TRAINED = 0.9
NUM_SPLITS, OF_PROTEIN = 20, 5
METHODS = {"ours": {}, "ours-automatic": {"alpha": "stacked", "calibrate": True}}
COVERAGE = 0.9
COLUMNS = (
    *("set", "split", "method", "detail", "num_train", "num_test", "log_likelihood", "rmse"),
    *("coverage", "worst", "seconds"),
)
# Test log-likelihoods of networks with one hidden layer. VI-G and VR½: Li and Turner (2016). DO
# (dropout with α = 0, ½, 1) and HMC: Li and Gal (2017). PBP and MCD: Gal and Ghahramani (2016). DE:
# Lakshminarayanan et al. (2017). MCVI and DVI: Wu et al. (2019).
PUBLISHED = {
    "constant": ("VI-G", "VR½", "DO-0", "DO-½", "DO-1", "HMC", "PBP", "MCD"),
    "varies": ("DE", "MCVI", "DVI"),
}
FIGURES = {
    "boston": (-2.52, -2.46, -2.42, -2.38, -2.50, -2.27, -2.57, -2.40, -2.41, -2.46, -2.41),
    "concrete": (-3.11, -3.09, -2.98, -2.88, -2.96, -2.72, -3.16, -2.93, -3.06, -3.07, -3.06),
    "energy": (-0.77, -1.40, -1.75, -0.74, -0.81, -0.93, -2.04, -1.21, -1.38, -1.03, -1.01),
    "yacht": (-1.77, -1.82, -1.38, -1.08, -1.15, -1.62, -1.63, -1.25, -1.18, -0.68, -0.47),
    "wine_red": (-0.96, -0.95, -0.92, -0.92, -0.95, -0.91, -0.97, -0.93, -0.94, -0.92, -0.90),
    "power": (-2.82, -2.82, -2.79, -2.78, -2.76, -2.70, -2.84, -2.80, -2.79, -2.80, -2.80),
    "kin8nm": (1.12, 1.14, 0.83, 1.03, 1.10, 1.35, 0.90, 1.14, 1.20, 1.14, 1.13),
    "naval": (6.49, 3.58, 2.80, 2.80, 2.80, 7.31, 3.73, 4.45, 5.63, 5.94, 6.29),
    "protein": (-2.91, -2.92, -2.87, -2.87, -2.86, -2.77, -2.97, -2.87, -2.83, -2.87, -2.85),
}


def num_splits(name):
    return OF_PROTEIN if name == "protein" else NUM_SPLITS


def split_rows(num_rows, split):
    """The numbers of the training and test rows of a standard split."""
    random = np.random.RandomState(1)
    order = [random.permutation(num_rows) for _ in range(split + 1)][-1]
    return np.split(order, [round(TRAINED * num_rows)])


def run(name, split, method):
    """One line of the file."""
    X, y = alphas.table(name)
    train, test = split_rows(len(y), split)
    started = time.process_time()
    model = bb.BBAlphaRegressor(random_state=split, **METHODS[method]).fit(X[train], y[train])
    seconds = time.process_time() - started
    scores = model.score_samples(X[test], y[test])
    lower, upper = model.predict_interval(X[test], COVERAGE).T
    row = {
        "set": name,
        "split": split,
        "method": method,
        "detail": detail_of(model),
        "num_train": len(train),
        "num_test": len(test),
        "log_likelihood": float(scores.mean()),
        "rmse": float(np.sqrt(np.mean((model.predict(X[test]) - y[test]) ** 2))),
        "coverage": float(np.mean((lower <= y[test]) & (y[test] <= upper))),
        "worst": float(scores.min()),
        "seconds": seconds,
    }
    return {key: round_off(value) for key, value in row.items()}


def detail_of(model):
    """The likelihood and, if they were chosen, the shares of the powers and the factor."""
    parts, curve = [model.likelihood_], model.alpha_curve_
    if curve is not None:
        shares = zip(curve.alphas, curve.weights, strict=True)
        parts += [f"{alpha:g}:{share:.2f}" for alpha, share in shares if share]
    if model.calibration_ is not None:
        parts.append(f"×{model.calibration_.factor:.2f}")
    return " ".join(parts)


def rows():
    if not PATH.exists():
        return []
    with PATH.open(newline="") as file:
        return list(csv.DictReader(file))


def run_all(names, most):
    """Run the missing fits, one set after the other."""
    PATH.parent.mkdir(exist_ok=True)
    done = {(row["set"], int(row["split"]), row["method"]) for row in rows()}
    for name in names:
        for split in range(min(num_splits(name), most)):
            for method in METHODS:
                if (name, split, method) in done:
                    continue
                row = run(name, split, method)
                is_new = not PATH.exists()
                with PATH.open("a", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    if is_new:
                        writer.writeheader()
                    writer.writerow(row)
                print(*row.values(), file=sys.stderr, flush=True)


def report():
    """Print log-likelihoods next to the published ones, and what else the rows say."""
    found = pd.DataFrame(rows())
    names = [name for name in FIGURES if name in set(found["set"])]
    numeric = ["split", "log_likelihood", "rmse", "coverage", "worst", "seconds"]
    found[numeric] = found[numeric].apply(pd.to_numeric)
    found = found[found["method"].isin(METHODS)]
    scores = found.pivot_table("log_likelihood", ["set", "split"], "method").dropna()
    methods = [method for noise in PUBLISHED.values() for method in noise]
    print("| set | splits | " + " | ".join((*METHODS, *methods)) + " |")
    print("|---" * (2 + len(METHODS) + len(methods)) + "|")
    for name in names:
        own = scores.loc[name]
        cells = [f"{own[m].mean():.2f} ± {standard_error(own[m].to_numpy()):.2f}" for m in METHODS]
        published = [f"{figure:.2f}" for figure in FIGURES[name]]
        print(f"| {name} | {len(own)} | " + " | ".join((*cells, *published)) + " |")
    everyone = pd.DataFrame({name: figures for name, figures in FIGURES.items() if name in names})
    everyone = everyone.T.set_axis(methods, axis=1)
    means = scores.groupby(level="set").mean()[list(METHODS)].round(2)
    ranks = means.join(everyone).rank(axis=1, ascending=False).mean()
    print("| mean rank | | " + " | ".join(f"{ranks[m]:.1f}" for m in (*METHODS, *methods)) + " |")
    print("\n| set | method − ours | RMSE | coverage | range | worst row | seconds |")
    print("|---" * 7 + "|")
    for name in names:
        for method in METHODS:
            some = found[(found["set"] == name) & (found["method"] == method)]
            gap = (scores.loc[name][method] - scores.loc[name]["ours"]).to_numpy()
            coverage = some["coverage"]
            print(
                f"| {name}, {method} | {gap.mean():+.3f} ± {standard_error(gap):.3f} "
                f"| {some['rmse'].mean():.3g} | {coverage.mean():.3f} "
                f"| {coverage.min():.2f} to {coverage.max():.2f} | {some['worst'].min():.1f} "
                f"| {some['seconds'].median():.1f} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", help="names; by default all")
    parser.add_argument("--splits", type=int, default=NUM_SPLITS, metavar="NUMBER")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.report:
        run_all(options.sets or list(FIGURES), options.splits)
    report()


if __name__ == "__main__":
    main()
