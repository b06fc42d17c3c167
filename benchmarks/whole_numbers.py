"""Which likelihood for targets that are whole numbers? `python benchmarks/whole_numbers.py a`.

Generated tables of 15 to 2,000 rows whose targets are counts (the first five schemes) or other
whole numbers (the rest): rounded measurements, ratings, prices, numbers of successes. Half `a` is
for choosing a rule, half `b` for confirming it once; `dev` and `frozen` are the counts of
`tables.py`. Each table is fitted with the heteroscedastic default and as negative binomial counts.

All scores are log-probabilities of the whole number, so that both are measured alike: for
a density that is its integral from y − ½ to y + ½. Rows of results are kept in
`benchmarks/tables/whole_numbers.csv`; finished ones are skipped. `--report` prints what counts
gain and whether the rule of `likelihood="auto"` (`interfaces/counting.py`) takes them.
"""

import argparse
import csv
import sys
import time
import warnings
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
import table_sets
from scipy.special import logsumexp

import bbalpha as bb
from bbalpha.interfaces import simple_models
from bbalpha.interfaces.counting import are_counts

PATH = Path(__file__).parent / "tables" / "whole_numbers.csv"
LIKELIHOODS = ("heteroscedastic", "negative_binomial")
SIZES = (15, 30, 60, 120, 400, 2000)
PER_SCHEME = {"a": 3, "b": 1}  # half b is smaller for want of time
NUM_TESTS = 1000
NUM_COVERED = 100  # test rows whose intervals are computed
BUNDLED = {
    "dev": ("cpunish", "epil", "overdispersed"),
    "frozen": ("committee", "cancer"),
}
NODES, WEIGHTS = np.polynomial.legendre.leggauss(9)
COLUMNS = (
    *("table", "split", "num_train", "likelihood", "score", "rmse", "coverage", "seconds"),
    *("mean", "variance", "smallest", "largest", "zeros", "linear_gain", "constant_gain"),
)


class Rows(NamedTuple):
    inputs: pd.DataFrame
    target: np.ndarray


def poisson(random, x):
    return random.poisson(np.exp(random.uniform(-1, 2) + 0.5 * x[:, 0] - 0.3 * x[:, 1]))


def overdispersed(random, x):
    level, slope, size = random.uniform(0, 4), random.choice([0.0, 0.5]), random.uniform(1, 5)
    rate = np.exp(level + slope * x[:, 0])
    return random.poisson(rate * random.gamma(size, 1 / size, size=len(x)))


def zeros(random, x):
    """Half of the rows cannot have any."""
    rate = np.exp(random.uniform(0, 2.5) + 0.4 * x[:, 0])
    return np.where(random.random(len(x)) < 0.5, 0, random.poisson(rate))


def large(random, x):
    """Hundreds, with a long tail."""
    noise = random.uniform(0.3, 0.8) * random.normal(size=len(x))
    return np.round(np.exp(random.uniform(3.5, 6.5) + 0.4 * x[:, 0] + noise))


def curved(random, x):
    rate = np.exp(random.uniform(0.5, 2) + 0.6 * np.abs(x[:, 0]) - 0.5 * (x[:, 1] > 0))
    return random.poisson(rate * random.gamma(3.0, 1 / 3, size=len(x)))


def rounded(random, x):
    """Such as ages."""
    return np.round(np.clip(40 + 8 * x[:, 0] + 10 * random.normal(size=len(x)), 0, None))


def ratings(random, x):
    return np.clip(np.round(3.4 + 0.6 * x[:, 0] + random.normal(size=len(x))), 1, 5)


def scores(random, x):
    """Of a test, from 0 to 100."""
    logit = random.uniform(-1, 1) + 0.7 * x[:, 0] + 0.8 * random.normal(size=len(x))
    return np.round(100 / (1 + np.exp(-logit)))


def prices(random, x):
    """Nearly known from the columns, the noise being the same everywhere."""
    price = 200 + 70 * x[:, 0] + 40 * np.abs(x[:, 1]) + 20 * random.normal(size=len(x))
    return np.round(np.clip(price, 0, None))


def successes(random, x):
    return random.binomial(20, 1 / (1 + np.exp(-random.uniform(-1.5, 1) - 0.8 * x[:, 0])))


SCHEMES = (poisson, overdispersed, zeros, large, curved)
SCHEMES += (rounded, ratings, scores, prices, successes)
BY_NAME = {scheme.__name__: scheme for scheme in SCHEMES}


def names(half):
    if half in BUNDLED:
        return BUNDLED[half]
    return [f"{scheme}-{half}{number}" for scheme in BY_NAME for number in range(PER_SCHEME[half])]


def splits(name):
    """Training and test rows: one split of a generated table, all of a bundled one."""
    if name in table_sets.FACTS:
        table = table_sets.load(name)
        for split in table_sets.splits_of(name, table.target, is_classes=False):
            yield tuple(Rows(table.inputs.iloc[part], table.target[part]) for part in split)
        return
    random = np.random.default_rng(crc32(name.encode()))
    size = random.choice(SIZES)
    inputs = random.normal(size=(size + NUM_TESTS, random.integers(2, 7)))
    target = BY_NAME[name.partition("-")[0]](random, inputs).astype(float)
    frame = table_sets.columns(inputs)
    yield Rows(frame[:size], target[:size]), Rows(frame[size:], target[size:])


def log_probabilities(model, rows):
    """Of the whole numbers."""
    if isinstance(model.posterior_.hyperparams.likelihood, bb.NegativeBinomial):
        return model.score_samples(*rows)
    at_nodes = [model.score_samples(rows.inputs, rows.target + node / 2) for node in NODES]
    return logsumexp(at_nodes, axis=0, b=WEIGHTS[:, None] / 2)


def facts(rows):
    """What a rule could look at: moments, and what counts gain with simple models."""
    y, x = rows.target, bb.TableEncoder().fit(rows.inputs, rows.target).transform(rows.inputs)
    x = bb.standardize(np.asarray(x, float))[0]
    gains = [
        np.mean(simple_models.linear_count(x, y) - simple_models.linear_number(x, y)),
        np.mean(simple_models.constant_count(y) - simple_models.constant_number(y)),
    ]
    return [y.mean(), y.var(ddof=1), y.min(), y.max(), np.mean(y == 0), *gains]


def run(name, split, likelihood, training, test):
    started = time.process_time()
    model = bb.BBAlphaRegressor(likelihood=likelihood, random_state=split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(*training)
        score = log_probabilities(model, test).mean()
    rmse = np.sqrt(np.mean((model.predict(test.inputs) - test.target) ** 2))
    lower, upper = model.predict_interval(test.inputs[:NUM_COVERED]).T
    covered = test.target[:NUM_COVERED]
    coverage = np.mean((lower <= covered) & (covered <= upper))
    numbers = [score, rmse, coverage, time.process_time() - started, *facts(training)]
    texts = [f"{number:.6g}" for number in numbers]
    return [name, split, len(training.target), likelihood, *texts]


def finished():
    if not PATH.exists():
        return set()
    frame = pd.read_csv(PATH)
    return set(zip(frame["table"], frame["split"], frame["likelihood"], strict=True))


def run_all(halves, chosen):
    done = finished()
    with PATH.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not file.tell():
            writer.writerow(COLUMNS)
        for name in [name for half in halves for name in names(half)]:
            for split, (training, test) in enumerate(splits(name)):
                if chosen and not are_counts(training.target[:, None]):
                    print(name, split, "not counts", file=sys.stderr, flush=True)
                    continue
                for likelihood in LIKELIHOODS:
                    if (name, split, likelihood) not in done:
                        row = run(name, split, likelihood, training, test)
                        writer.writerow(row)
                        file.flush()
                        print(*row[:5], file=sys.stderr, flush=True)


def report():
    """What the negative binomial gains, averaged over splits, and what the rule says."""
    scores = pd.read_csv(PATH).pivot_table(
        index=["table", "split"], columns="likelihood", values="score", sort=False
    )
    print(
        "| table | half | training rows | gain, nats | taken for counts |\n|---|---|---:|---:|---|"
    )
    for half in ("dev", "a", "frozen", "b"):
        for name in names(half):
            parts = [training for training, _ in splits(name)]
            taken = sum(are_counts(training.target[:, None]) for training in parts)
            gain = "not run"
            if name in scores.index.unique(0):
                rows = scores.loc[name].dropna()
                if len(rows):
                    gain = f"{np.mean(rows[LIKELIHOODS[1]] - rows[LIKELIHOODS[0]]):+.2f}"
            print(
                f"| {name} | {half} | {len(parts[0].target)} | {gain} | {taken} of {len(parts)} |"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("halves", nargs="*", default=["a"], help="a b dev frozen")
    parser.add_argument("--chosen", action="store_true", help="only what the rule calls counts")
    parser.add_argument("--report", action="store_true", help="only print what there is")
    options = parser.parse_args()
    if options.report:
        report()
        return
    run_all(options.halves, options.chosen)


if __name__ == "__main__":
    main()
