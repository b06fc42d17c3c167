"""Compare predictors on tables by held-out log-likelihood: `python benchmarks/tables.py --report`.

`table_sets.py` has the tables and the rule that splits them into a half for development and a
frozen half; `table_methods.py` has the methods. Results are rows of CSV files in
`benchmarks/tables/`, one file per tag, one row per table, split and method. Finished rows are
skipped, so that a run can be stopped and started again.

    python benchmarks/tables.py --methods peers --tables dev frozen
    python benchmarks/tables.py --methods ours --tables dev --tag mine --settings '{"alpha": 0}'
    python benchmarks/tables.py --report --tag mine
    python benchmarks/tables.py --methods ours --tables sizes --tag mine
    python benchmarks/tables.py --methods ours --tables small-a --tag mine
    BBALPHA_DATA=folder python benchmarks/tables.py --methods ours --tables uci --tag mine

The frozen half takes `--open` for our own methods: nobody looks at their scores there before the
settings are final.
"""

import argparse
import csv
import json
import sys
import time
from pathlib import Path

import numpy as np
import small_sets
import table_methods as methods
import table_report
import table_sets as sets

FOLDER = Path(__file__).parent / "tables"
PEERS_TAG, SMALL_PEERS_TAG = "peers", "small-peers"
LARGE = 20_000  # rows of tables that run after all others


def scores(prediction, problem):
    """What a row says: higher is better for the first, 0.9 is right for the coverage."""
    densities, target = prediction.log_densities, problem.test_target
    row = {
        "log_likelihood": densities.mean(),
        "standard_error": densities.std() / np.sqrt(len(densities)),
    }
    if prediction.probabilities is not None:
        accuracy = np.mean(prediction.probabilities.argmax(axis=1) == target)
        confidence = prediction.probabilities.max(axis=1).mean()
        return row | {"accuracy": accuracy, "overconfidence": confidence - accuracy}
    lower, upper = prediction.interval.T
    scale = problem.train_target.std()
    return row | {
        "rmse": np.sqrt(np.mean((prediction.mean - target) ** 2)),
        "coverage": np.mean((lower <= target) & (target <= upper)),
        "width": np.mean(upper - lower),
        "relative_deviation": np.mean(prediction.deviation) / scale,
    }


COLUMNS = (
    *("table", "split", "method", "num_train", "num_test", "log_likelihood", "standard_error"),
    *("rmse", "accuracy", "coverage", "width", "overconfidence", "relative_deviation"),
    *("seconds", "error"),
)


def run(name, split, method, settings):
    """One row. What a method raises is written down in place of its scores."""
    table, rows = sets.problem(name, split)
    problem = methods.Problem(
        table.kind,
        table.inputs.iloc[rows.train],
        table.target[rows.train],
        table.inputs.iloc[rows.test],
        table.target[rows.test],
        split,
    )
    row = {"table": name, "split": split, "method": method}
    row |= {"num_train": len(rows.train), "num_test": len(rows.test)}
    started = time.perf_counter()
    try:
        prediction = methods.predict(method, problem, settings)
        if prediction is None:
            return row | {"error": "not for this table"}
        row |= scores(prediction, problem)
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:200].replace("\n", " ")
    row["seconds"] = time.perf_counter() - started
    return {key: round_off(value) for key, value in row.items()}


def round_off(value):
    return f"{value:.6g}" if isinstance(value, float) else value


def path_of(tag):
    return FOLDER / f"{tag}.csv"


def add(row, path):
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def finished(path):
    if not path.exists():
        return set()
    with path.open(newline="") as file:
        return {(row["table"], int(row["split"]), row["method"]) for row in csv.DictReader(file)}


def names_of(chosen):
    """The tables behind words such as dev, frozen, sizes, uci, or names."""
    groups = sets.halves() | {
        "sizes": [f"{name}@{size}" for size in sets.SIZES for name in sets.SIZED_TABLES],
        "uci": [f"uci-{name}" for name in sets.UCI],
        "small-a": small_sets.names("a"),
        "small-b": small_sets.names("b"),
    }
    return [name for word in chosen for name in groups.get(word, [word])]


def run_all(names, chosen, tag, settings):
    """Run the missing combinations: small tables first, cheap methods first."""
    path = path_of(tag)
    path.parent.mkdir(exist_ok=True)
    done = finished(path)
    small = [name for name in names if sets.FACTS.get(name, ("", 0))[1] < LARGE]
    large = [name for name in names if name not in small]
    for group in (small, large):
        for method in chosen:
            for name in group:
                for split in range(sets.num_splits(name)):
                    if (name, split, method) in done:
                        continue
                    row = run(name, split, method, settings)
                    if row.get("error") != "not for this table":
                        add(row, path)
                        said = row.get("error") or row["log_likelihood"]
                        print(name, split, method, said, f"{row['seconds']} s", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", help=f"peers, {', '.join(methods.OURS)} or a peer")
    parser.add_argument(
        "--tables", nargs="+", default=["dev"], help="dev frozen sizes uci small-a small-b, names"
    )
    parser.add_argument("--tag", help="names the file of our rows")
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON for our estimator")
    parser.add_argument("--open", action="store_true", help="run our methods on frozen tables")
    parser.add_argument("--report", nargs="?", const="tables", choices=table_report.REPORTS)
    parser.add_argument("--against", help="another tag, to compare with")
    options = parser.parse_args()
    names = names_of(options.tables)
    if options.methods:
        chosen = [
            m for word in options.methods for m in (methods.PEERS if word == "peers" else [word])
        ]
        is_ours = set(chosen) & set(methods.OURS)
        if is_ours and options.tag in (None, PEERS_TAG):
            parser.error("our methods need a --tag of their own")
        bases = {name.partition("@")[0] for name in names}
        if is_ours and not options.open and bases & set(sets.halves()["frozen"]):
            parser.error("our methods run on the frozen half only with --open")
        run_all(names, chosen, options.tag or PEERS_TAG, options.settings)
    if options.report:
        peers = SMALL_PEERS_TAG if options.report == "small" else PEERS_TAG
        tags = [tag for tag in (peers, options.against, options.tag) if tag]
        table_report.REPORTS[options.report](table_report.read(FOLDER, tags), tags)


if __name__ == "__main__":
    main()
