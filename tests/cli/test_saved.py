"""Facts about model files that are damaged, forged or made elsewhere: none of them is used."""

import re
import tempfile
from pathlib import Path

import pytest
import safetensors.numpy
from safetensors import SafetensorError
from safetensors.numpy import save_file

import bbalpha as bb
from bbalpha.cli.doors import Refusal
from bbalpha.cli.saved import CLASSES, read_model, write_model
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
        patch.setattr(model_file, "MODEL", model_file.MODEL._replace(version=1))
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


def assert_same(path, other):
    """The order of the metadata in a file is random, so files of the same model differ."""
    (arrays, metadata), (others, other_metadata) = model_file.read(path), model_file.read(other)
    assert {name: array.tobytes() for name, array in arrays.items()} == {
        name: array.tobytes() for name, array in others.items()
    }
    assert metadata == other_metadata


def test_a_name_as_long_as_the_system_allows_is_written(prices, tmp_path):
    path = tmp_path / ("x" * 243 + ".safetensors")
    write_model(path, read_model(prices))
    assert_same(path, prices)
    assert list(tmp_path.iterdir()) == [path]


FAILURES = {
    "a full disk": (
        SafetensorError(
            "Error while serializing: I/O error: No space left on device (os error 28)"
        ),
        "no space left on device",
    ),
    "a defect": (TypeError("of another kind"), r"TypeError\('of another kind'\)"),
    "no memory": (MemoryError(), r"MemoryError\(\)"),
}


@pytest.fixture
def unwritable(tmp_path, monkeypatch):
    """Makes a folder in which every write ends with an error, and other such folders."""

    def unwritable(error, *others):
        folders = [tmp_path / "unwritable", *others]
        folders[0].mkdir()

        def fail(arrays, path, metadata):
            if any(path.is_relative_to(folder) for folder in folders):
                raise error
            save_file(arrays, path, metadata)

        monkeypatch.setattr(safetensors.numpy, "save_file", fail)
        return folders[0] / "m.safetensors"

    return unwritable


@pytest.mark.parametrize(("error", "words"), FAILURES.values(), ids=FAILURES)
def test_a_model_that_cannot_be_written_is_kept_in_the_temporary_folder(
    prices, tmp_path, monkeypatch, unwritable, error, words
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    path = unwritable(error)
    message = rf"^{path} cannot be written: {words}\. The model was kept in (.+) instead\.$"
    with pytest.raises(Refusal) as caught:
        write_model(path, read_model(prices))
    kept = Path(re.fullmatch(message, caught.value.message)[1])
    assert kept.parent.parent == tmp_path
    assert_same(kept, prices)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("is_full", [False, True])
def test_the_home_folder_is_the_next_place(prices, tmp_path, monkeypatch, unwritable, is_full):
    temporary, home = tmp_path / "temporary", tmp_path / "home"
    for folder in (temporary, home):
        folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setattr(Path, "home", lambda: home)
    path = unwritable(FAILURES["a full disk"][0], temporary, *([home] if is_full else []))
    end = "could not be kept elsewhere either" if is_full else rf"was kept in {home}/.+ instead"
    with pytest.raises(Refusal, match=rf": no space left on device\. The model {end}\.$"):
        write_model(path, read_model(prices))
    assert list(temporary.iterdir()) == []
    assert len(list(home.rglob("m.safetensors"))) == (0 if is_full else 1)
