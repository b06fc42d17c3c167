"""The estimators against the peers that give densities: `python benchmarks/quality.py`.

Eighteen tables, two splits each: four fifths of the rows to train on, at most 2,000, the rest to
test. "ours" has all defaults, "ours-automatic" `alpha="stacked"` and `calibrate=True`. Every
finished row is added to `benchmarks/quality/rows.csv`, and the next run goes on from there, small
tables first. NGBoost and CatBoost need an environment of their own (`make bench`); where one is
missing, its rows are left for later. A fit that takes more than four minutes of CPU time is stopped
and has no score, nor have other splits of the table; Gaussian processes for classes get at most
1,000 rows. `--report` prints the tables for docs/benchmarks.md. BBALPHA_DATA names the folder of
the UCI and probit sets; without it they are left out.
"""

import argparse
import contextlib
import csv
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import alphas
import numpy as np
import pandas as pd
import table_methods as methods
import table_networks as networks
from tables import round_off, scores

PATH = Path(__file__).parent / "quality" / "rows.csv"
NUM_SPLITS = 2
MOST_SECONDS = 240  # of CPU time
methods.OURS["ours-automatic"] = {"alpha": "stacked", "calibrate": True}
METHODS = (
    *("bayesian-ridge", "logistic", "ours", "boosting", "mlp", "ensemble", "gp"),
    *("ours-automatic", "ngboost", "catboost"),
)
COLUMNS = (
    *("table", "split", "method", "num_train", "num_test", "log_likelihood", "standard_error"),
    *("rmse", "accuracy", "coverage", "width", "overconfidence", "relative_deviation"),
    *("worst", "seconds", "error"),
)


def problem_of(name, split):
    X, y = alphas.table(name)
    (inputs, target), (new, truth) = alphas.halves(X, y, split)
    kind = "regression" if y.dtype.kind == "f" else "multiclass"
    names = [f"x{column}" for column in range(X.shape[1])]
    frames = (pd.DataFrame(part, columns=names) for part in (inputs, new))
    return methods.Problem(kind, next(frames), target, next(frames), truth, split)


@contextlib.contextmanager
def limited(seconds):
    """Raise TimeoutError after so much CPU time of the block."""

    def stop(*_):
        raise TimeoutError(f"more than {seconds} s of CPU time")

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def run(name, split, method):
    """One row. What a method raises is written down in place of its scores."""
    problem = problem_of(name, split)
    row = {"table": name, "split": split, "method": method}
    row |= {"num_train": len(problem.train_target), "num_test": len(problem.test_target)}
    started = time.process_time()
    try:
        with limited(MOST_SECONDS):
            if method in networks.PEERS:
                prediction = networks.predict(method, problem)
            else:
                prediction = methods.predict(method, problem, {})
        if prediction is None:
            return None
        row |= scores(prediction, problem) | {"worst": prediction.log_densities.min()}
    except ModuleNotFoundError as error:
        print(f"{method} left for later: {error}", file=sys.stderr)
        return None
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:200].replace("\n", " ")
    row["seconds"] = time.process_time() - started
    return {key: round_off(value) for key, value in row.items()}


def rows():
    if not PATH.exists():
        return []
    with PATH.open(newline="") as file:
        return list(csv.DictReader(file))


def is_slow(row):
    """Whether a method was stopped, so that it need not try other splits of the table."""
    return row.get("error", "").startswith("TimeoutError")


def run_all(names, chosen):
    PATH.parent.mkdir(exist_ok=True)
    done = {(row["table"], int(row["split"]), row["method"]) for row in rows()}
    slow = {(row["table"], row["method"]) for row in rows() if is_slow(row)}
    for split in range(NUM_SPLITS):
        for name in names:
            for method in chosen:
                if (name, split, method) in done or (name, method) in slow:
                    continue
                if not (row := run(name, split, method)):
                    continue
                slow |= {(name, method)} if is_slow(row) else set()
                is_new = not PATH.exists()
                with PATH.open("a", newline="") as file:
                    writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                    if is_new:
                        writer.writeheader()
                    writer.writerow(row)
                said = row.get("error") or row["log_likelihood"]
                print(name, split, method, said, f"{row['seconds']} s", file=sys.stderr, flush=True)


def report():
    """Print one table for numbers and one for classes, with and without the slowest method."""
    found = pd.DataFrame(rows())
    numeric = [name for name in COLUMNS if name not in ("table", "method", "error")]
    found[numeric] = found[numeric].apply(pd.to_numeric)
    for is_classes in (False, True):
        some = found[found["accuracy"].notna() == is_classes]
        some = some[some["log_likelihood"].notna()]
        if some.empty:
            continue
        report_ranks(some, "overconfidence" if is_classes else "coverage")
        report_ranks(some[some["method"] != "gp"], "overconfidence" if is_classes else "coverage")
        report_scores(some)
    for row in found[found["error"].fillna("") != ""].itertuples():
        print(f"\n{row.method}, {row.table}, split {row.split}: {row.error}")


def report_ranks(some, honesty):
    """Print mean ranks; their errors are over tables, because splits of one table are alike."""
    scored = some.pivot_table("log_likelihood", ["table", "split"], "method")
    shared = scored.dropna()
    ranks = shared.rank(axis=1, ascending=False).groupby(level="table").mean()
    errors = ranks.std(ddof=1) / np.sqrt(len(ranks))
    honest = some.pivot_table(honesty, "table", "method")
    print(f"\nRanks on the {len(shared)} splits of {len(ranks)} tables that all have, {honesty}\n")
    print(f"| method | mean rank | splits run | {honesty} | range over tables | worst row |")
    print("|---" * 6 + "|")
    for name in ranks.mean().sort_values().index:
        own = honest[name].dropna()
        worst = some[some["method"] == name]["worst"].min()
        print(
            f"| {name} | {ranks[name].mean():.1f} ± {errors[name]:.1f} "
            f"| {scored[name].notna().sum()} | {own.mean():.3f} "
            f"| {own.min():.3f} to {own.max():.3f} | {worst:.1f} |"
        )


def report_scores(some):
    """Print the mean log-likelihoods of every table."""
    table = some.pivot_table("log_likelihood", "table", "method")
    order = table.rank(axis=1, ascending=False).mean().sort_values().index
    print("\n| table |" + "|".join(f" {name} " for name in order) + "|")
    print("|---" * (len(order) + 1) + "|")
    for name, line in table[order].iterrows():
        cells = ("" if np.isnan(x) else f"{x:.3f}" for x in line)
        print(f"| {name} | " + " | ".join(cells) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help="names; by default all")
    parser.add_argument("--methods", nargs="*", default=METHODS)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.report:
        names = alphas.TABLES if "BBALPHA_DATA" in os.environ else alphas.BUNDLED
        run_all(options.tables or names, options.methods)
    report()


if __name__ == "__main__":
    main()
