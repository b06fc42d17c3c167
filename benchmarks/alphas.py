"""Powers chosen and mixed by leave-one-out, against fixed ones: `python benchmarks/alphas.py`.

On each split of each table an estimator is fitted at five fixed powers, with all defaults, and for
numbers with two other likelihoods at α = ½. From the same fits follow, as in the estimators, the
power with the best leave-one-out score ("tuned"), the mixture ("stacked", also with three
likelihoods), the likelihood with the best score, and a factor on the spread where the calibration
fails its tests ("repaired"). Scores are log-likelihoods of the other rows. Each finished split is
written to `benchmarks/alphas/splits.csv`, and the next run skips it. `--report` prints the tables
for docs/alpha.md. BBALPHA_DATA names the folder of the UCI and probit sets; without it they are
left out. `--keep FOLDER` also keeps all scores of single rows, and uses those that it finds.
"""

import argparse
import csv
import gzip
import os
import time
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from sklearn import datasets

import bbalpha as bb
from bbalpha.data import Dataset
from bbalpha.interfaces import left_out, tuning
from bbalpha.interfaces.alpha_curve import FEWEST_ROWS, AlphaCurve
from bbalpha.interfaces.leverage import are_reliable
from bbalpha.interfaces.limits import POWERS
from bbalpha.interfaces.network import model_of
from bbalpha.interfaces.repair import best_of
from bbalpha.interfaces.spread import with_factor
from bbalpha.interfaces.training import Training
from bbalpha.metrics import standard_error
from bbalpha.posterior import log_mean_exp
from bbalpha.predictive import predictive_cdf, predictive_mean

PATH = Path(__file__).parent / "alphas" / "splits.csv"
FIXED = (-1.0, -0.5, 0.0, 0.5, 1.0)
LIKELIHOODS = ("heteroscedastic", "gaussian", "student_t")
FACTORS = (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 2.0)
NUM_SPLITS = 5
TESTED = 0.2
MOST_ROWS = 2000  # to train on, and to test
UCI = ("boston", "concrete", "energy", "yacht", "wine_red", "kin8nm", "power", "naval", "protein")
PROBIT = ("ionosphere", "pima", "colon")
BUNDLED = ("diabetes", "linnerud", "wine", "iris", "breast_cancer", "digits")
# Rules were chosen on the first half and then applied to the other one.
CHOSEN_ON = (
    *("boston", "energy", "wine_red", "power", "naval"),
    *("pima", "diabetes", "wine", "digits"),
)
TABLES = (*CHOSEN_ON, *(name for name in (*UCI, *PROBIT, *BUNDLED) if name not in CHOSEN_ON))
COLUMNS = (
    *("table", "split", "method", "detail", "num_train", "num_test", "log_likelihood"),
    *("against_zero", "error", "seconds"),
)


def table(name):
    """Inputs and targets; whole numbers are classes."""
    if name in UCI or name in PROBIT:
        path = Path(os.environ["BBALPHA_DATA"]) / name / f"{name}.csv.gz"
        with gzip.open(path, "rt") as file:
            numbers = np.array(list(csv.reader(file))[1:], float)
        X, y = numbers[:, :-1], numbers[:, -1]
        return X, (y > 0).astype(int) if name in PROBIT else y
    X, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return (X, y[:, 0]) if name == "linnerud" else (X, y)


def halves(X, y, split):
    """Training and test rows."""
    order = np.random.default_rng(split).permutation(len(y))
    num_test = round(TESTED * len(y))
    train, test = order[num_test:][:MOST_ROWS], order[:num_test][:MOST_ROWS]
    return (X[train], y[train]), (X[test], y[test])


def measured(name, split):
    """Scores of single rows for every likelihood, power and factor, and the times of the fits."""
    train, test = halves(*table(name), split)
    is_number = train[1].dtype.kind == "f"
    found = {}
    for likelihood in LIKELIHOODS if is_number else ("softmax",):
        kind = bb.BBAlphaRegressor if is_number else bb.BBAlphaClassifier
        model = kind(likelihood=likelihood, random_state=0, alpha=0.5, max_epochs=1).fit(*train)
        model.set_params(max_epochs=None)
        rows = model._rows(*model._validated(*train, reset=False), None, new_units=False)
        training = Training.of(model, rows, None)
        numbers = left_out.rows_to_score(model, len(rows.inputs))
        scored = left_out.RowsToScore(*(column[numbers] for column in rows))
        new = left_out.rows_of(model, *model._validated(*test, reset=False))
        for alpha in FIXED if likelihood in (LIKELIHOODS[0], "softmax") else (0.5,):
            started = time.process_time()
            try:
                model.posterior_ = training.posterior(alpha)
            except bb.NonFiniteEnergyError:
                continue
            seconds = time.process_time() - started
            numbers = of_fit(model, scored, new)
            key = f"{likelihood}|w{alpha:g}|"
            found |= {key + name: value for name, value in numbers.items()}
            found |= {key + "seconds": seconds}
        if likelihood in (LIKELIHOODS[0], "softmax"):
            found |= in_folds(found, likelihood, training)
    return found


def in_folds(found, likelihood, training):
    """Scores of fits to the other folds, where the estimators need them to compare powers."""
    tried = {alpha: f"{likelihood}|w{alpha:g}|" for alpha in POWERS}
    tried = {alpha: key for alpha, key in tried.items() if key + "loo" in found}
    rows = compared(found, tried)[1]
    if rows.sum() >= max(FEWEST_ROWS, len(rows) / 2):
        return {}
    sweep, scores = tuning._Sweep(training, None, None), {}
    for alpha, key in tried.items():
        started = time.process_time()
        scores[key + "folds"] = sweep._cross_validated(alpha)
        scores[key + "fold_seconds"] = time.process_time() - started
    return scores


def of_fit(model, scored, new):
    """What the rules need to know about one fit."""
    responses = left_out.responses_of(model, model.posterior_, scored)
    _, (scores, said, _) = left_out.summary_without(model, [responses], summary)
    network, dtype = model_of(model.activation), model.posterior_.q.mean.dtype
    inputs = jnp.asarray(new.inputs, dtype)
    outputs = model.posterior_.predict(network, inputs, key=model._key(), num_samples=1000)
    targets = Dataset(inputs, jnp.asarray(new.targets)).targets
    tested = jax.jit(summary)(model.posterior_.hyperparams, outputs, targets)
    log_scale = float(model.target_units_.log_scale)
    return {
        "loo": scores - log_scale,
        "loo_extra": said.reshape(len(said), -1),
        "loo_y": scored.targets,
        "lev": responses.leverages,
        "test": np.asarray(tested[0], float) - log_scale,
        "test_extra": np.asarray(tested[1], float).reshape(len(new.targets), -1),
        "y": new.targets,
    }


def summary(likelihood, outputs, targets):
    """Log-densities for every factor, and Uₙ or the probabilities of the classes."""
    scores = [
        log_mean_exp(
            jax.vmap(with_factor(likelihood, np.log(factor)).log_prob, (0, None))(outputs, targets)
        )
        for factor in FACTORS
    ]
    mean = predictive_mean(likelihood, outputs)
    said = predictive_cdf(likelihood, outputs, targets) if hasattr(likelihood, "cdf") else mean
    return jnp.stack(scores, axis=-1), said, mean


def derived(found):
    """The test scores of every method: (method, detail, scores of rows, seconds)."""
    plain = FACTORS.index(1.0)
    base = "softmax" if any(key.startswith("softmax") for key in found) else LIKELIHOODS[0]
    fits = {float(key.split("|")[1][1:]): key[: -len("loo")] for key in found if wanted(key, base)}
    fits = {alpha: fits[alpha] for alpha in sorted(fits)}
    tests = {alpha: found[key + "test"][:, plain].astype(float) for alpha, key in fits.items()}
    for alpha, scores in tests.items():
        yield f"α = {alpha:g}", "", scores, float(found[fits[alpha] + "seconds"])
    tried = {alpha: fits[alpha] for alpha in sorted(POWERS) if alpha in fits}
    names = [key + name for key in tried.values() for name in ("seconds", "fold_seconds")]
    seconds = sum(float(found.get(name, 0)) for name in names)
    scores, is_compared = compared(found, tried)
    weights = np.ones(is_compared.sum())
    curve = AlphaCurve.of(scores, weights).stacked(scores, weights)
    yield "tuned", f"{curve.chosen:g}", tests[curve.chosen], seconds
    shares = " ".join(f"{a:g}:{w:.2f}" for a, w in zip(curve.alphas, curve.weights, strict=True))
    yield "stacked", shares, mixed([tests[a] for a in curve.alphas], curve.weights), seconds
    yield repaired(found, fits[0.5])
    if base == LIKELIHOODS[0]:
        yield from of_likelihoods(found)


def wanted(key, base):
    parts = key.split("|")
    return parts[0] == base and parts[1].startswith("w") and parts[2] == "loo"


def compared(found, tried):
    """Leave-one-out scores of the rows that every fit can leave out, and which they are.

    If the estimators would leave rows out in folds, they are the scores of these.
    """
    folds = {name: found[key + "folds"] for name, key in tried.items() if key + "folds" in found}
    if folds and len(folds) == len(tried):
        return folds, np.ones(len(next(iter(folds.values()))), bool)
    reliable = [are_reliable(found[key + "lev"]) for key in tried.values()]
    rows, plain = np.all(reliable, axis=0), FACTORS.index(1.0)
    scores = {name: found[key + "loo"][rows, plain].astype(float) for name, key in tried.items()}
    return scores, rows


def mixed(scores, weights):
    pairs = zip(scores, weights, strict=True)
    return np.logaddexp.reduce([np.log(weight) + score for score, weight in pairs if weight])


def repaired(found, key):
    """The fit with the factor that leave-one-out chooses, if its calibration fails a test."""
    said, labels = found[key + "loo_extra"], found[key + "loo_y"]
    if key.startswith("softmax"):
        calibration = bb.Calibration.of_classes(said, np.asarray(labels)[:, 0].astype(int))
    else:
        calibration = bb.Calibration.of_numbers(said)
    place = FACTORS.index(1.0)
    if not calibration.is_calibrated:
        rows = are_reliable(found[key + "lev"])
        place = best_of(found[key + "loo"][rows].T.astype(float), np.ones(rows.sum()), place)
    scores = found[key + "test"][:, place].astype(float)
    return "repaired", f"{FACTORS[place]:g}", scores, float(found[key + "seconds"])


def of_likelihoods(found):
    """The likelihoods at α = ½: each, the best, and their mixture."""
    tried = {name: f"{name}|w0.5|" for name in LIKELIHOODS if f"{name}|w0.5|loo" in found}
    scores, rows = compared(found, tried)
    if len(tried) < len(LIKELIHOODS) or rows.sum() < FEWEST_ROWS:
        return
    plain = FACTORS.index(1.0)
    tests = {name: found[key + "test"][:, plain].astype(float) for name, key in tried.items()}
    seconds = {name: float(found[key + "seconds"]) for name, key in tried.items()}
    for name in LIKELIHOODS[1:]:
        yield name, "", tests[name], seconds[name]
    best, total = max(scores, key=lambda name: scores[name].mean()), sum(seconds.values())
    yield "likelihood tuned", best, tests[best], total
    numbered = dict(enumerate(scores.values()))
    weights = np.ones(rows.sum())
    shares = AlphaCurve.of(numbered, weights).stacked(numbered, weights).weights
    detail = " ".join(f"{name}:{share:.2f}" for name, share in zip(tests, shares, strict=True))
    yield "likelihoods stacked", detail, mixed(list(tests.values()), shares), total


def lines(name, split, found):
    """The lines of the file for one split."""
    train, test = halves(*table(name), split)
    methods = list(derived(found))
    zero = next(scores for method, _, scores, _ in methods if method == "α = 0")
    for method, detail, scores, seconds in methods:
        differences = scores - zero
        values = {
            "table": name,
            "split": split,
            "method": method,
            "detail": detail,
            "num_train": len(train[1]),
            "num_test": len(test[1]),
            "log_likelihood": scores.mean(),
            "against_zero": differences.mean(),
            "error": standard_error(differences),
            "seconds": seconds,
        }
        yield {key: f"{x:.5g}" if isinstance(x, float) else x for key, x in values.items()}


def rows():
    if not PATH.exists():
        return []
    with PATH.open(newline="") as file:
        return list(csv.DictReader(file))


def run_all(names, num_splits, folder):
    """Run the missing splits, the first of every table first."""
    PATH.parent.mkdir(exist_ok=True)
    for split in range(num_splits):
        for name in names:
            if any((row["table"], row["split"]) == (name, str(split)) for row in rows()):
                continue
            kept = folder and folder / f"{name}-{split}.npz"
            found = dict(np.load(kept)) if kept and kept.exists() else measured(name, split)
            if kept and not kept.exists():
                np.savez_compressed(kept, **found)
            is_new = not PATH.exists()
            with PATH.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                if is_new:
                    writer.writeheader()
                writer.writerows(lines(name, split, found))


SHOWN = (*(f"α = {alpha:g}" for alpha in FIXED), "tuned", "stacked", "repaired")
OTHERS = (*LIKELIHOODS[1:], "likelihood tuned", "likelihoods stacked")


def report():
    """Print a line per table, with means over its splits, and the regrets of every method."""
    found, scores = rows(), {}
    for row in found:
        cell = scores.setdefault(row["table"], {}).setdefault(row["method"], [])
        cell.append(float(row["log_likelihood"]))
    print("| table | rows | splits | " + " | ".join(SHOWN) + " |")
    print("|---" * (len(SHOWN) + 3) + "|")
    for name, cells in scores.items():
        size = next(row["num_train"] for row in found if row["table"] == name)
        means = [f"{np.mean(cells[method]):.3f}" if method in cells else "" for method in SHOWN]
        print(f"| {name} | {size} | {len(cells['α = 0'])} | " + " | ".join(means) + " |")
    report_paired(found)
    halves = {"chosen on": CHOSEN_ON, "the other half": set(TABLES) - {*CHOSEN_ON}, "all": TABLES}
    for title, names in halves.items():
        print(f"\n| {title} | mean regret | worst | against α = 0: worst | at least the best |")
        print("|---" * 5 + "|")
        for method in (*SHOWN, *OTHERS):
            report_method(method, {name: scores[name] for name in scores if name in names})


def report_paired(found):
    """Print what is gained over α = 0, with standard errors of the paired differences of rows."""
    methods = ("α = 0.5", "tuned", "stacked", "repaired")
    print("\n| table | test rows | " + " | ".join(f"{name} − α = 0" for name in methods) + " |")
    print("|---" * (len(methods) + 2) + "|")
    for name in dict.fromkeys(row["table"] for row in found):
        own = [row for row in found if row["table"] == name]
        cells = []
        for method in methods:
            some = [row for row in own if row["method"] == method]
            gains, errors = (
                np.array([row[x] for row in some], float) for x in ("against_zero", "error")
            )
            error = np.sqrt(np.sum(errors**2)) / len(errors)
            cells.append(f"{gains.mean():+.3f} ± {error:.3f}")
        num_test = sum(int(row["num_test"]) for row in own if row["method"] == "α = 0")
        print(f"| {name} | {num_test} | " + " | ".join(cells) + " |")


def report_method(method, scores):
    regrets, gains = [], []
    for cells in scores.values():
        if method not in cells:
            continue
        best = max(np.mean(cells[f"α = {alpha:g}"]) for alpha in FIXED if f"α = {alpha:g}" in cells)
        regrets.append(best - np.mean(cells[method]))
        gains.append(np.mean(cells[method]) - np.mean(cells["α = 0"]))
    if regrets:
        wins = sum(regret <= 0 for regret in regrets)
        print(
            f"| {method} | {np.mean(regrets):+.4f} | {max(regrets):+.3f} | {min(gains):+.3f} "
            f"| {wins} of {len(regrets)} |"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", help="names; by default all")
    parser.add_argument("--splits", type=int, default=NUM_SPLITS, metavar="NUMBER")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = TABLES if "BBALPHA_DATA" in os.environ else BUNDLED
    if not options.report:
        run_all(options.tables or known, options.splits, options.keep)
    report()


if __name__ == "__main__":
    main()
