"""How close `bb.judge` comes to a true held-out score: `python benchmarks/left_out.py [TABLE ...]`.

For each table and number of rows, an estimator with all defaults is fitted to random rows, judged
on them, and scored on the others. Prints a table for docs/tables.md: means over three splits.
"""

import sys
import warnings

import numpy as np
from sklearn import datasets

import bbalpha as bb
from bbalpha.data import Dataset
from bbalpha.importance import highest_pareto_k, pareto_smoothed
from bbalpha.interfaces.network import log_likelihood_of

SIZES = (30, 150, 500)
NUM_SPLITS = 3
NUM_TESTED = 1000  # other rows, at most


def tables():
    """Inputs and targets by name; whole numbers are classes."""
    yield "diabetes", *datasets.load_diabetes(return_X_y=True)
    yield "friedman1", *datasets.make_friedman1(3000, noise=1.0, random_state=0)
    yield "iris", *datasets.load_iris(return_X_y=True)
    yield "breast_cancer", *datasets.load_breast_cancer(return_X_y=True)
    yield "logistic2", *logistic(2)
    yield "logistic3", *logistic(3)


def logistic(num_classes):
    """Classes whose logits are linear in five columns."""
    random = np.random.default_rng(num_classes)
    X = random.normal(size=(3000, 5))
    logits = X @ random.normal(size=(5, num_classes)) + random.gumbel(size=(3000, num_classes))
    return X, logits.argmax(axis=1)


def scores(X, y, num_rows, split):
    """Scores of the model (training, left out, PSIS, other rows) and of the simpler models."""
    order = np.random.default_rng(split).permutation(len(y))
    kept, others = order[:num_rows], order[num_rows : num_rows + NUM_TESTED]
    kind = bb.BBAlphaRegressor if y.dtype.kind == "f" else bb.BBAlphaClassifier
    model = kind(random_state=split).fit(X[kept], y[kept])
    found = bb.judge(model, X[kept], y[kept])
    tested = model.score_samples(X[others], y[others]).mean()
    weighted, failed = by_importance_weights(model, X[kept], y[kept])
    simple = found.constant, found.linear
    return found.training, found.held_out, tested, weighted, 100 * failed, *simple


def by_importance_weights(model, X, y):
    """The leave-one-out score with Pareto-smoothed weights, and the share of rows with a bad k̂."""
    X, y = model._validated(X, y, reset=False)
    rows = Dataset(model.input_units_.transform(X), model.target_units_.transform(y))
    log_likelihood, posterior = log_likelihood_of(model.activation), model.posterior_
    found = posterior.predict(
        lambda params, rows: log_likelihood(params, rows, posterior.hyperparams),
        rows,
        key=model._key(),
        num_samples=model.num_predictive_samples,
    )
    log_likelihoods = np.asarray(found, np.float64).T
    weights = [pareto_smoothed(-of_row) for of_row in log_likelihoods]
    results = [
        np.logaddexp.reduce(w + p) for (w, _), p in zip(weights, log_likelihoods, strict=True)
    ]
    bad = [k > highest_pareto_k(model.num_predictive_samples) for _, k in weights]
    return np.mean(results) - float(model.target_units_.log_scale), np.mean(bad)


def main():
    """Print the table."""
    warnings.simplefilter("ignore")
    print(
        "| table | rows | training | left out | other rows | PSIS | bad k̂ (%) | constant | linear |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    chosen = sys.argv[1:]
    for name, X, y in tables():
        for num_rows in SIZES:
            if num_rows <= 0.9 * len(y) and name in (chosen or [name]):
                found = [scores(X, y, num_rows, split) for split in range(NUM_SPLITS)]
                cells = " | ".join(f"{value:.2f}" for value in np.mean(found, axis=0))
                print(f"| {name} | {num_rows} | {cells} |")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
