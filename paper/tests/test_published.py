"""The regressor reaches published log-likelihoods, with its default settings, on standard splits.

Slow, and only with a data folder: `BBALPHA_DATA=/path/to/data make slow`.
"""

import os
from pathlib import Path

import numpy as np
import pytest

import bbalpha as bb
from bbalpha_paper import datasets

FOLDER = Path(os.environ.get("BBALPHA_DATA", Path(__file__).parents[3] / "shared" / "data"))
NUM_SPLITS = 5

# Test log-likelihood at α = ½ of networks with one hidden layer of 50 (VR½ of Li & Turner, 2016,
# 20 splits). No table of BB-α itself was published; dropout networks at α = ½ (Li & Gal, 2017) have
# −2.38, −2.88 and −1.08; the second of these is not reached.
PUBLISHED = {"boston": -2.46, "concrete": -3.09, "yacht": -1.82}


@pytest.mark.slow
@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs the data folder")
@pytest.mark.parametrize("name", PUBLISHED)
def test_the_default_network_reaches_the_published_log_likelihood(name, capsys):
    table = datasets.load(name, FOLDER)
    splits = zip(*datasets.splits(name, NUM_SPLITS), strict=True)
    scores = np.array([split_score(table, train, test) for train, test in splits])
    mean, error = scores.mean(), bb.metrics.standard_error(scores)
    with capsys.disabled():
        print(f"\n{name}: {mean:.3f} ± {error:.3f}, published {PUBLISHED[name]}")
    assert mean > PUBLISHED[name] - 2 * error


def split_score(table, train, test):
    model = bb.BBAlphaRegressor(alpha=0.5, random_state=0)
    model.fit(table.inputs[train], table.targets[train])
    return model.score_samples(table.inputs[test], table.targets[test]).mean()
