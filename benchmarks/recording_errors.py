"""What recording errors cost: `BBALPHA_DATA=folder python benchmarks/recording_errors.py`.

One target in a hundred of Boston housing, of training and test rows alike, is multiplied by 100. So
is, in a second table, one value in a hundred of the number of rooms. Prints the mean, the median
and the worst of the test log-likelihoods under two likelihoods; "auto" takes Student's t for the
first table.
"""

import warnings

import alphas
import numpy as np

import bbalpha as bb

SHARE, FACTOR = 0.01, 100
ROOMS = 5  # the column


def main():
    warnings.simplefilter("ignore")
    X, y = alphas.table("boston")
    is_wrong = np.random.default_rng(5).random(len(y)) < SHARE
    rooms = X.copy()
    rooms[is_wrong, ROOMS] *= FACTOR
    tables = {"targets": (X, np.where(is_wrong, FACTOR * y, y)), "inputs": (rooms, y)}
    for kind, table in tables.items():
        train, test = alphas.halves(*table, 0)
        for likelihood in ("heteroscedastic", "student_t"):
            model = bb.BBAlphaRegressor(likelihood=likelihood, random_state=0, max_epochs=200)
            scores = model.fit(*train).score_samples(*test)
            said = f"mean {scores.mean():.3f}, median {np.median(scores):.3f}"
            print(f"errors in {kind}, {likelihood}: {said}, worst {scores.min():.1f}")


if __name__ == "__main__":
    main()
