"""Facts about the real files, checked only where a data folder is at hand."""

import gzip

import numpy as np
import pytest
from sklearn.utils import Bunch

from bbalpha_paper import datasets
from bbalpha_paper.datasets import cep, openml

ORDERS = {
    "shuffled": lambda num_data: np.random.default_rng(2).permutation(num_data),
    "halves swapped": lambda num_data: np.roll(np.arange(num_data), num_data // 2),
    "reversed": lambda num_data: np.arange(num_data)[::-1],
}


@pytest.mark.parametrize(
    ("name", "mean", "deviation", "low", "high"),
    [
        ("boston", 22.5328, 9.1880, 5, 50),
        ("concrete", 35.818, 16.698, 2.33, 82.6),
        ("energy", 22.3072, 10.0836, 6.01, 43.1),
        ("kin8nm", 0.7143, 0.2636, None, None),
        ("naval", 0.975, 0.01472, 0.95, 1),
        ("power", 454.365, 17.066, None, None),
        ("protein", 7.7485, 6.1182, 0, 20.999),
        ("wine_red", 5.636, None, 3, 8),
        ("yacht", 10.495, 15.136, None, None),
        ("cep", 3.9005, 2.5375, -6.945, 11.087),
    ],
)
def test_real_regression_targets_have_the_published_moments(
    name, mean, deviation, low, high, real_folder
):
    table = datasets.load(name, real_folder)
    found = table.targets.mean(), table.targets.std(), table.targets.min(), table.targets.max()
    for value, expected in zip(found, (mean, deviation, low, high), strict=True):
        if expected is not None:
            assert value == pytest.approx(expected, rel=1e-4, abs=1e-3)


@pytest.mark.parametrize(
    ("name", "positives"), [("ionosphere", 225), ("madelon", 1300), ("pima", 268), ("colon", 40)]
)
def test_real_classes_have_the_published_counts(name, positives, real_folder):
    table = datasets.load(name, real_folder)
    assert table.targets.sum() == positives
    assert set(table.targets.tolist()) == {0, 1}
    assert table.num_train == (2000 if name == "madelon" else None)


def test_real_mnist_has_the_published_pixels(real_folder):
    table = datasets.load("mnist", real_folder)
    train = table.inputs[: table.num_train]
    assert train.shape == (60_000, 784)
    assert train.mean(dtype=np.float64) == pytest.approx(0.13066, abs=1e-5)
    assert train.std(dtype=np.float64) == pytest.approx(0.30811, abs=1e-5)
    train, test = map(np.bincount, np.split(table.targets, [60_000]))
    assert train.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert test.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


def test_real_cep_has_the_published_bits(real_folder):
    table = datasets.load("cep", real_folder)
    assert table.inputs.sum(axis=1).mean() == pytest.approx(47.3, abs=0.05)
    assert (np.ptp(table.inputs, axis=0) == 0).sum() == 4
    assert (table.targets < 0).sum() == 612
    assert (table.targets == 0).sum() == 821


def test_real_fingerprints_are_those_of_rdkit(real_folder):
    pytest.importorskip("rdkit")
    lines = gzip.decompress((real_folder / "cep" / "cep.csv.gz").read_bytes()).decode().split()
    packed = np.load(real_folder / "cep" / cep.FINGERPRINTS, allow_pickle=False)["fp_packed"]
    rows = [0, 1, 2, 1000, 29_977]
    smiles = [lines[1 + row].partition(",")[0] for row in rows]
    np.testing.assert_array_equal(cep.fingerprints(smiles), packed[rows])


@pytest.mark.parametrize("name", openml.MARKS)
def test_the_marks_of_openml_copies_are_those_of_the_real_files(name, real_folder):
    table = datasets.load(name, real_folder)
    marked = np.column_stack([table.inputs[:, :3], table.targets])
    means, weighted_means = openml.MARKS[name]
    np.testing.assert_allclose(marked.mean(axis=0), means, rtol=1e-6, atol=1e-12)
    weights = np.arange(1, len(marked) + 1)
    found = np.average(marked, axis=0, weights=weights)
    np.testing.assert_allclose(found, weighted_means, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize(
    "name", [name for name in openml.MARKS if datasets.CATALOG[name].task == "regression"]
)
def test_copies_of_the_real_rows_are_warned_of_in_another_order_only(
    name, monkeypatch, real_folder
):
    table = datasets.load(name, real_folder)
    rows = np.column_stack([table.inputs, table.targets])
    copy = Bunch(feature_names=[*table.feature_names, table.target_name], categories={})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: copy)
    copy.data = rows.astype(np.float32)  # seven digits
    datasets.load(name)
    for order in ORDERS.values():
        copy.data = rows[order(len(rows))]
        with pytest.warns(openml.UnpublishedOrderWarning, match="in another order"):
            datasets.load(name)
