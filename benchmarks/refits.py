"""Leave-one-out without refitting, against exact refits: `python benchmarks/refits.py`.

Three tables of 200 rows, each fitted with all defaults at three values of α. Then every row is left
out, the estimator is fitted to the other 199 and scores that row: 1,800 fits, an hour of one core.
Rows come in random order. Each finished fit is a line of `benchmarks/refits/refits.csv` and is
skipped by the next run, so a run can be stopped at any time. `--report` compares the estimates with
what there is and prints the table for docs/tables.md: "cavity" is log E_q[p/f] − log E_q[1/f],
"PSIS" has importance weights 1/p with Pareto smoothing.
"""

import argparse
import csv
import itertools
import time
import warnings
from pathlib import Path

import jax
import numpy as np
from sklearn import datasets

import bbalpha as bb
from bbalpha.importance import highest_pareto_k, pareto_smoothed
from bbalpha.interfaces.network import log_likelihood_of
from bbalpha.metrics import standard_error

PATH = Path(__file__).parent / "refits" / "refits.csv"
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


def estimates(X, y, alpha):
    """What one fit to all rows says about each of them, and the share of rows with a bad k̂."""
    model = fitted(X, y, alpha)
    found = bb.leave_one_out(model, X, y)
    posterior, key, unit = model.posterior_, model._key(), float(model.target_units_.log_scale)
    inputs, targets = model._validated(X, y, reset=False)
    rows = bb.Dataset(model.input_units_.transform(inputs), model.target_units_.transform(targets))
    log_likelihood = log_likelihood_of(model.activation)
    log_p = posterior.predict(
        lambda params, rows: log_likelihood(params, rows, posterior.hyperparams), rows, key=key
    )
    log_p = np.asarray(log_p, np.float64)
    draws = jax.vmap(posterior.layout.flatten)(posterior.sample(len(log_p), key=key))
    log_site = jax.vmap(lambda x: posterior.q.log_prob(x) - posterior.prior.log_prob(x))(draws)
    log_site = np.asarray(log_site, np.float64)[:, None] / float(posterior.num_data)
    cavity = log_mean_exp(log_p - log_site) - log_mean_exp(-log_site)
    weights = [pareto_smoothed(-of_row) for of_row in log_p.T]
    weighted = [np.logaddexp.reduce(w + p) for (w, _), p in zip(weights, log_p.T, strict=True)]
    bad = np.mean([k > highest_pareto_k(len(log_p)) for _, k in weights])
    scores = {
        "training": found.training,
        "cavity": cavity - unit,
        "PSIS": np.array(weighted) - unit,
        "left out": found.scores,
    }
    return scores, bad


def log_mean_exp(values):
    return np.logaddexp.reduce(values, axis=0) - np.log(len(values))


def report():
    """Print a line per table and α: means over the rows that were refitted, biases and so on."""
    done = finished()
    print(
        "| table | α | rows | refits | training | cavity | PSIS | bad k̂ | left out | correlation |"
    )
    print("|---" * 10 + "|")
    for (name, (X, y)), alpha in itertools.product(tables().items(), ALPHAS):
        rows = [row for row in range(NUM_ROWS) if (name, alpha, row) in done]
        if len(rows) < 2:
            continue
        exact = np.array([done[name, alpha, row] for row in rows])
        scores, bad = estimates(X, y, alpha)
        biases = {key: score[rows] - exact for key, score in scores.items()}
        cells = [f"{exact.mean():.3f}"]
        cells += [f"{biases[key].mean():+.3f}" for key in ("training", "cavity", "PSIS")]
        error = standard_error(biases["left out"])
        cells += [f"{bad:.0%}", f"{biases['left out'].mean():+.3f} ± {error:.3f}"]
        cells += [f"{np.corrcoef(scores['left out'][rows], exact)[0, 1]:.3f}"]
        print(f"| {name} | {alpha:g} | {len(rows)} | {' | '.join(cells)} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if not options.report:
        refit_all()
    report()


if __name__ == "__main__":
    main()
