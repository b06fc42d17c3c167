"""Training of the estimators, now and formerly: held-out log-likelihood against processor time.

    python benchmarks/schedules.py --data ../shared/data

Both train the default network on published splits of UCI sets and on sets of scikit-learn. Now:
Adam at a rate of 7e-3 that falls at the end, 5,000 to 10,000 steps of 16 draws in pairs. Formerly:
a rate that falls from 1e-2 along a cosine, 10,000 steps of 32 independent draws. Differences are
paired by split; times are medians, measured in turns. Results are kept in a temporary folder
(`--results`), so an interrupted run continues; the table is printed.
"""

import argparse
import json
import sys
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path
from statistics import median
from unittest import mock

import numpy as np
import optax
from sklearn import datasets

import bbalpha as bb
from bbalpha.interfaces import training
from bbalpha.interfaces.training import quiet_fit
from bbalpha.metrics import standard_error

NUM_SPLITS = 20
UCI = {"boston": 20, "concrete": 6, "energy": 20, "yacht": 20, "wine_red": 6, "pima": 6}  # splits
BUNDLED = {"breast_cancer": 6, "diabetes": 6}
CLASSES = ("pima", "breast_cancer")
FORMER_STEPS, FORMER_DRAWS, WAIT = 10_000, 32, 0.4


def rows_of(name, folder):
    if name in BUNDLED:
        return getattr(datasets, f"load_{name}")(return_X_y=True)
    table = np.genfromtxt(folder / name / f"{name}.csv.gz", delimiter=",", skip_header=1)
    return table[:, :-1], table[:, -1]


@cache  # every new optimizer would be compiled again
def former_optimizer(num_steps):
    rate = optax.cosine_decay_schedule(1e-2, num_steps)
    waiting = optax.scale_by_schedule(lambda count: count > WAIT * num_steps)
    return optax.chain(optax.adam(rate), optax.masked(waiting, _is_scale))


def former_fit(*args, **settings):
    """`fit` with the former settings; the prior's factors wait as they do now."""
    num_batches = -(-len(args[2].targets) // settings["batch_size"])
    num_epochs = -(-FORMER_STEPS // num_batches)
    optimizer = former_optimizer(num_epochs * num_batches)
    former = {"optimizer": optimizer, "num_epochs": num_epochs, "draws": None}
    return quiet_fit(*args, **settings | former)


def _is_scale(variables):
    """A tree like the variables that is true for the factors of the prior."""
    return variables._replace(q=False, log_prior_scale=True, hyperparams=False)


def result(path, name, split, is_former, folder):
    """Held-out log-likelihood and CPU seconds of one fit, from its file if there is one."""
    if not path.exists():
        inputs, targets = rows_of(name, folder)
        train, test = (rows[split] for rows in bb.splits(len(inputs), NUM_SPLITS))
        kind = bb.BBAlphaClassifier if name in CLASSES else bb.BBAlphaRegressor
        model = kind(random_state=split, **({"num_samples": FORMER_DRAWS} if is_former else {}))
        fit = former_fit if is_former else quiet_fit
        started = time.process_time()
        with mock.patch.object(training, "quiet_fit", fit), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(inputs[train], targets[train])
        used = time.process_time() - started
        score = float(np.mean(model.score_samples(inputs[test], targets[test])))
        path.write_text(json.dumps({"log_likelihood": score, "seconds": used}))
        print(name, split, "former" if is_former else "now", score, file=sys.stderr)
    return json.loads(path.read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of <name>/<name>.csv.gz")
    parser.add_argument("--results", type=Path, help="folder of finished fits")
    options = parser.parse_args()
    results = options.results or Path(tempfile.gettempdir()) / "bbalpha-schedules"
    results.mkdir(parents=True, exist_ok=True)
    print("| set | splits | formerly | difference | time |\n|---|---:|---:|---:|---:|")
    for name, num_splits in (UCI | BUNDLED).items():
        found = {False: [], True: []}
        for split in range(num_splits):
            for is_former in (False, True):
                path = results / f"{name}-{split}-{'former' if is_former else 'now'}.json"
                found[is_former].append(result(path, name, split, is_former, options.data))
        now, former = (np.array([row["log_likelihood"] for row in found[f]]) for f in (False, True))
        seconds = [median(row["seconds"] for row in found[f]) for f in (False, True)]
        difference = f"{np.mean(now - former):+.3f} ± {standard_error(now - former):.3f}"
        cells = (
            name,
            num_splits,
            f"{former.mean():.3f}",
            difference,
            f"{seconds[0] / seconds[1]:.2f}",
        )
        print("|", " | ".join(map(str, cells)), "|")


if __name__ == "__main__":
    main()
