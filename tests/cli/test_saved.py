"""Facts about model files that are damaged, forged or made elsewhere: none of them is used."""

import re

import pytest

import bbalpha as bb
from bbalpha.cli.saved import CLASSES
from bbalpha.files import model_file
from bbalpha.interfaces import estimator_file


def test_a_damaged_model_is_refused(folder, prices, tmp_path, refused, written):
    data = prices.read_bytes()
    bad = {
        "cut": (data[: len(data) // 2], "complete safetensors file"),
        "flipped": (data[:-1] + bytes([data[-1] ^ 1]), "does not match its checksum"),
        "text": (b"hello", "complete safetensors file"),
    }
    for name, (content, message) in bad.items():
        path = written(tmp_path, content, name)
        with pytest.raises(ValueError, match=message) as caught:
            model_file.read(path)
        for command in (["inspect", path], ["predict", path, folder / "prices.csv"]):
            assert refused(tmp_path, *command) == str(caught.value)


def test_a_model_of_another_version_is_refused(folder, prices, tmp_path, refused, monkeypatch):
    path = tmp_path / "m.safetensors"
    estimator, table = estimator_file.read(prices, CLASSES)
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "FORMAT_VERSION", 1)
        estimator_file.write(path, estimator, table)
    with pytest.raises(ValueError, match=r"\bversion 1\b.*m\.saf|m\.saf.*\bversion 1\b") as caught:
        model_file.read(path)
    message = refused(tmp_path, "predict", path, folder / "prices.csv")
    assert message == str(caught.value)
    assert f"version {model_file.FORMAT_VERSION}" in message


def test_a_model_from_python_is_refused(folder, prices, tmp_path, refused):
    bb.BBAlphaRegressor.load(prices).save(tmp_path / "m.safetensors")
    message = refused(tmp_path, "predict", tmp_path / "m.safetensors", folder / "prices.csv")
    assert "m.safetensors was saved from Python" in message


CLASSIFICATION = {"name": "y", "task": "classification", "classes": ["a", "b"]}


def change(**changes):
    return lambda table: table | changes


def without_a_column(table):
    return table | {"encoder": table["encoder"] | {"columns": table["encoder"]["columns"][1:]}}


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda table: {"encoder": {}}, "its table is not described by an encoder"),
        (change(encoder=[]), r"the encoder must be an object; got \[\]"),
        (without_a_column, r"the estimator has 8 features, but its table 6\."),
        (change(dropped="id"), "the dropped columns are not a list of names"),
        (change(dropped=[1]), "the dropped columns are not a list of names"),
        (change(id="size"), "the column that names the rows is not one of the dropped"),
        (change(id=3), "the column that names the rows is not one of the dropped"),
        (change(dropped=["size"]), "the target or a dropped column is also an input"),
        (
            lambda table: table | {"target": table["target"] | {"name": "size"}},
            "the target or a dropped column is also an input",
        ),
        (
            lambda table: table | {"target": table["target"] | CLASSIFICATION},
            "a BBAlphaRegressor has the target of a classification",
        ),
    ],
)
def test_a_forged_table_is_refused(folder, prices, tmp_path, refused, forge, message):
    estimator, table = estimator_file.read(prices, CLASSES)
    path = tmp_path / "m.safetensors"
    estimator_file.write(path, estimator, forge(table))
    told = refused(tmp_path, "predict", path, folder / "prices.csv")
    assert re.search(f"m.safetensors is not a valid bbalpha model: {message}", told)


def test_forged_classes_are_refused(folder, states, tmp_path, refused):
    estimator, table = estimator_file.read(states, CLASSES)
    path = tmp_path / "m.safetensors"
    target = table["target"] | {"classes": ["kept", "lost"]}
    estimator_file.write(path, estimator, table | {"target": target})
    message = refused(tmp_path, "predict", path, folder / "states.csv.gz")
    assert "the classes of the estimator and of its target differ" in message
