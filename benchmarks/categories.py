"""Columns with many categories: the RMSE of a linear model on new rows, by encoding.

Prints the error on generated tables in four cases: without the column, with the zeros and ones of
`bb.TableEncoder`, with the log-frequency of each category added, and with its effect added.
"""

import numpy as np
import pandas
from sklearn.linear_model import BayesianRidge
from sklearn.preprocessing import StandardScaler

import bbalpha as bb

NUM_NEW, NUM_SEEDS, NOISE = 3000, 3, 0.7
# Name, training rows, categories, exponent of Zipf's law, deviation of the effects.
TABLES = (
    ("2,000 categories, 3,000 rows", 3000, 2000, 0.5, 1.0),
    ("2,000 categories, 20,000 rows", 20_000, 2000, 0.5, 1.0),
    ("1,000 categories, 3,000 rows", 3000, 1000, 0.0, 1.0),
    ("300 categories, 20,000 rows", 20_000, 300, 0.0, 1.0),
    ("1,000 categories without effect, 3,000 rows", 3000, 1000, 0.0, 0.0),
)
ENCODINGS = ("none", "zeros and ones", "and frequencies", "and effects")


def main():
    print("| table |", " | ".join(ENCODINGS), "|")
    print("|---|" + "---|" * len(ENCODINGS))
    for name, *settings in TABLES:
        found = np.mean([errors(*settings, seed) for seed in range(NUM_SEEDS)], axis=0)
        print(f"| {name} |", " | ".join(f"{error:.3f}" for error in found), "|", flush=True)


def errors(num_rows, num_categories, exponent, deviation, seed):
    """The RMSE on new rows for each encoding."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1.0, num_categories + 1) ** -exponent
    codes = rng.choice(num_categories, num_rows + NUM_NEW, p=weights / weights.sum())
    inputs = rng.normal(size=(codes.size, 3))
    effects = deviation * rng.normal(size=num_categories)
    targets = inputs @ [1, 0.5, 0] + effects[codes] + NOISE * rng.normal(size=codes.size)
    frame = pandas.DataFrame({"category": [f"c{code}" for code in codes]})
    counts = np.bincount(codes[:num_rows], minlength=num_categories)
    frequencies = np.log1p(counts)[codes][:, None]
    plain = bb.TableEncoder().fit(frame[:num_rows])
    hot = plain.transform(frame)
    full = bb.TableEncoder()
    training = full.fit_transform(frame[:num_rows], targets[:num_rows])
    both = np.concatenate([training, full.transform(frame[num_rows:])])
    blocks = [np.zeros((codes.size, 0)), hot, np.hstack([hot, frequencies]), both]
    return [rmse(np.hstack([inputs, block]), targets, num_rows) for block in blocks]


def rmse(features, targets, num_rows):
    features = StandardScaler().fit(features[:num_rows]).transform(features)
    model = BayesianRidge().fit(features[:num_rows], targets[:num_rows])
    return np.sqrt(np.mean((model.predict(features[num_rows:]) - targets[num_rows:]) ** 2))


if __name__ == "__main__":
    main()
