"""Networks on twenty points of a cubic: bands of the right shape that widen with α."""

import json
from itertools import groupby, pairwise

import numpy as np
import pytest

from bbalpha_paper.experiments import toy


@pytest.fixture(scope="module")
def networks(smoke):
    """All runs with their metrics."""
    return [(row, row.metrics) for row in smoke.rows("toy")]


def test_bands_and_data_have_the_shapes_of_the_figure(networks):
    for run, found in networks:
        assert len(found["grid"]) == len(found["mean"]) == len(found["deviation"]) == 121
        assert len(found["train_inputs"]) == len(found["train_targets"]) == 20
        assert max(map(abs, found["train_inputs"])) <= 4
        assert np.std(np.array(found["train_targets"]) - np.power(found["train_inputs"], 3)) < 6
        assert found["energies"][-1] < found["energies"][0]
        assert len(found["energies"]) <= toy.MOST_ENERGIES
        assert len(json.dumps([dict(run.settings), found])) < 10_000


def test_bands_hold_the_noise_and_are_wider_outside_the_data(networks):
    for run, found in networks:
        deviation = np.array(found["deviation"])
        assert np.all(deviation >= 3)
        inside = deviation[np.abs(found["grid"]) <= 3]
        assert np.median(inside) < min(deviation[0], deviation[-1]), run


def test_bands_widen_with_alpha(networks):
    for _, group in groupby(networks, key=lambda pair: pair[0].configuration):
        found = {run.alpha: np.mean(metrics["deviation"]) for run, metrics in group}
        widths = [found[alpha] for alpha in sorted(found)]
        assert all(narrower < wider for narrower, wider in pairwise(widths)), widths


def test_networks_fitted_again_are_the_same(smoke, networks):
    again = smoke.repeated("toy")["metrics"]
    assert again == [found for _, found in networks[: len(again)]]
