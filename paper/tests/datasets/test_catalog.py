"""The catalog knows the data sets of the paper, and loads nothing."""

import json
import subprocess
import sys

import pytest

from bbalpha_paper import datasets


def test_the_catalog_has_the_sets_of_the_paper():
    tasks = {task: set() for task in ("binary", "multiclass", "regression")}
    for name, entry in datasets.CATALOG.items():
        assert entry.name == name
        tasks[entry.task].add(name)
    assert tasks == {
        "binary": {"ionosphere", "madelon", "pima", "colon"},
        "multiclass": {"mnist"},
        "regression": {"boston", "concrete", "energy", "kin8nm", "naval", "power", "protein"}
        | {"wine_red", "yacht", "year", "cep"},
    }
    shapes = {name: (e.num_data, e.num_features) for name, e in datasets.CATALOG.items()}
    assert shapes["colon"] == (62, 2000)
    assert shapes["naval"] == (11934, 16)
    assert shapes["year"] == (515345, 90)
    assert shapes["cep"] == (29978, 512)


def test_the_catalog_agrees_with_the_manifest_of_the_data_folder(real_folder):
    for row in json.loads((real_folder / "manifest.json").read_text()):
        entry = datasets.CATALOG[row["name"]]
        assert (entry.num_data, entry.num_features) == (row["N"], row["D"])
        assert entry.task in row["task"] or entry.task == "multiclass"
        assert entry.openml_id is None or str(entry.openml_id) in row["canonical"]


def test_an_unknown_name_is_answered_with_all_names_and_the_nearest():
    message = (
        r"name must be one of ionosphere, madelon, .*, cep; got name='Bostn'\. "
        r"Did you mean 'boston'\?$"
    )
    for function in (datasets.load, datasets.fetch):
        with pytest.raises(ValueError, match=message):
            function("Bostn")
    with pytest.raises(ValueError, match=message):
        datasets.splits("Bostn", 3)
    with pytest.raises(ValueError, match=r"got name='xyzzy'\.$"):
        datasets.load("xyzzy")


def test_the_catalog_loads_neither_numpy_nor_jax_nor_scikit_learn():
    code = "import sys, bbalpha_paper.datasets as d; d.CATALOG['boston']; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"jax", "numpy", "pandas", "rdkit", "sklearn"} & set(loaded)
