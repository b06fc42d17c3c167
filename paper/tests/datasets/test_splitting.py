"""Splits are the published ones."""

import numpy as np
import pytest

from bbalpha_paper import datasets


@pytest.mark.parametrize(
    "name",
    ["boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "yacht"],
)
def test_splits_are_the_published_ones(name, real_folder):
    published = np.load(real_folder / name / "splits.npz", allow_pickle=False)
    num_splits = 5 if name == "protein" else 20
    train, test = datasets.splits(name, num_splits)
    np.testing.assert_array_equal(train, published["train"])
    np.testing.assert_array_equal(test, published["test"])


@pytest.mark.parametrize(("name", "num_train"), [("mnist", 60_000), ("year", 463_715)])
def test_a_fixed_split_is_the_only_one(name, num_train):
    num_data = datasets.CATALOG[name].num_data
    train, test = datasets.splits(name, 1)
    np.testing.assert_array_equal(train, [range(num_train)])
    np.testing.assert_array_equal(test, [range(num_train, num_data)])
    with pytest.raises(
        ValueError,
        match=f"num_splits must be 1 for {name}, whose split is fixed; got num_splits=20",
    ):
        datasets.splits(name, 20)


def test_madelon_is_split_within_its_training_part():
    train, test = datasets.splits("madelon", 2)
    rows = np.sort(np.hstack([train, test]), axis=1)
    np.testing.assert_array_equal(rows, np.tile(np.arange(2000), (2, 1)))
    assert datasets.CATALOG["madelon"].num_train == 2000
