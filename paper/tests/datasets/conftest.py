"""Made-up data sets in their true form: the right columns, counts and marks, of random numbers."""

import dataclasses
import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from bbalpha_paper import datasets
from bbalpha_paper.datasets import openml
from bbalpha_paper.datasets.catalog import find_entry


@pytest.fixture(autouse=True)
def no_folder_and_a_fresh_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("BBALPHA_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "sklearn"))


@pytest.fixture(scope="session")
def real_folder():
    """The folder of the real files; tests that need it are skipped without it."""
    folder = os.environ.get("BBALPHA_DATA", Path(__file__).parents[4] / "shared" / "data")
    if not Path(folder, "manifest.json").is_file():
        pytest.skip("no data folder")
    return Path(folder)


@pytest.fixture
def smaller(monkeypatch):
    """Gives the sets that are too large to make up fewer rows in the catalog."""
    sizes = {"year": (500, 450), "mnist": (700, 600), "cep": (4, None)}
    for name, (num_data, num_train) in sizes.items():
        entry = datasets.CATALOG[name]
        entry = dataclasses.replace(entry, num_data=num_data, num_train=num_train)
        monkeypatch.setitem(datasets.CATALOG, name, entry)


@pytest.fixture(scope="session")
def made_up():
    """A function: random inputs and targets with the shape and the marks of the named set."""
    return make_up


def make_up(name):
    entry = find_entry(name)
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(entry.num_data, entry.num_features + 1))
    if name in openml.MARKS:
        marked = [0, 1, 2, -1]
        rows[:, marked] = with_marks(rows[:, marked], openml.MARKS[name])
        if entry.task != "regression":
            rows[:, -1] = labels_with_marks(entry.num_data, *np.array(openml.MARKS[name])[:, -1])
    return rows[:, :-1], rows[:, -1]


def with_marks(columns, marks):
    """The columns plus the affine functions of position that give them these two means."""
    positions = np.arange(1, len(columns) + 1)
    weights = np.stack([np.full(len(columns), 1 / len(columns)), positions / positions.sum()])
    return columns + np.linalg.pinv(weights) @ (np.array(marks) - weights @ columns)


def labels_with_marks(num_data, mean, weighted_mean):
    """Two neighboring labels, the larger one in a block of rows that gives these two means."""
    low = int(mean)
    count = round((mean - low) * num_data)
    sum_of_positions = round((weighted_mean - low) * num_data * (num_data + 1) / 2)
    start, shifted = divmod(sum_of_positions - count * (count - 1) // 2, count)
    positions = start + np.arange(count) + (np.arange(count) >= count - shifted)
    return low + np.isin(np.arange(1, num_data + 1), positions)


@pytest.fixture
def write_text(tmp_path):
    """A function that writes the compressed table of a set into a folder, by default tmp_path."""

    def write(name, text, folder=tmp_path):
        path = folder / name / f"{name}.csv.gz"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode(), compresslevel=1))
        return path

    return write


@pytest.fixture
def write_table(write_text):
    """The same for made-up or given rows, under the catalog's or another header."""

    def write(name, header=None, rows=None, **where):
        entry = find_entry(name)
        inputs, targets = make_up(name) if rows is None else rows
        header = [*entry.feature_names, entry.target_name] if header is None else header
        lines = [",".join(map(repr, row)) for row in np.column_stack([inputs, targets]).tolist()]
        return write_text(name, "\n".join([",".join(header), *lines]) + "\n", **where)

    return write
