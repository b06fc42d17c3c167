"""Tables and idx files in a folder are loaded as they are, or refused with a reason."""

import dataclasses
import gzip
import struct
from types import SimpleNamespace

import numpy as np
import pytest

from bbalpha_paper import datasets
from bbalpha_paper.datasets import loading

TABLES = [name for name in datasets.CATALOG if name not in ("mnist", "cep")]


@pytest.mark.parametrize("name", ["ionosphere", "boston", "power", "yacht"])
def test_a_table_in_a_folder_is_loaded_as_it_is(name, tmp_path, monkeypatch, made_up, write_table):
    entry = datasets.CATALOG[name]
    inputs, targets = made_up(name)
    path = write_table(name, rows=(inputs, targets))
    table = datasets.load(name, folder=tmp_path)
    np.testing.assert_array_equal(table.inputs, inputs)
    np.testing.assert_array_equal(table.targets, targets)
    assert table.inputs.dtype == np.float64
    assert table.targets.dtype == (np.float64 if entry.task == "regression" else np.int64)
    assert (table.name, table.task) == (name, entry.task)
    assert (table.feature_names, table.target_name) == (entry.feature_names, entry.target_name)
    assert table.num_train is None
    assert table.source == str(path)
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path))
    assert datasets.fetch(name) == str(path)


def test_a_table_is_a_frozen_record(tmp_path, write_table):
    write_table("yacht")
    table = datasets.load("yacht", str(tmp_path))
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.name = "boat"


def test_an_explicit_folder_comes_before_the_variable(tmp_path, monkeypatch, write_table):
    write_table("yacht", folder=tmp_path / "one")
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path / "two"))
    assert datasets.load("yacht", tmp_path / "one").inputs.shape == (308, 6)
    with pytest.raises(
        FileNotFoundError, match=r"BBALPHA_DATA, must name an existing folder; got '.*two'\."
    ):
        datasets.load("yacht")


@pytest.mark.parametrize("name", [*TABLES, "cep"])
def test_a_missing_file_is_named(name, tmp_path, made_up):
    message = rf"folder must hold {name}/{name}\.csv\.gz; got folder='.*' without it\. The canon"
    with pytest.raises(FileNotFoundError, match=message):
        datasets.load(name, tmp_path)


HEADER = [*datasets.CATALOG["yacht"].feature_names, "residuary_resistance"]
BAD_TABLES = {
    "columns": (
        lambda x, y: {"header": HEADER[1:], "rows": (x[:, 1:], y)},
        r"must have 7 columns, the target last; got 6\.",
    ),
    "header": (
        lambda x, y: {"header": ["position", *HEADER[1:]]},
        r"must have a header .*; got 'position' instead of 'longitudinal_position' for column 1\.",
    ),
    "no header": (
        lambda x, y: {"header": ["1"] * 7},
        r"got '1' instead of 'longitudinal_position' for column 1\.",
    ),
    "rows": (
        lambda x, y: {"rows": (x[:-1], y[:-1])},
        r"yacht must have 308 rows of 6 inputs and a target; got 307 rows of 6 in .*yacht\.csv\.gz",
    ),
    "no rows": (lambda x, y: {"rows": (x[:0], y[:0])}, r"got 0 rows of 6 in"),
    "nan": (
        lambda x, y: {"rows": (np.where(np.arange(308)[:, None] == 7, np.nan, x), y)},
        r"yacht must be finite; got NaN or infinity in 1 rows of .*\.gz, first in row 7\.",
    ),
}


@pytest.mark.parametrize(("change", "message"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_a_table_that_is_not_the_catalogs_is_refused(
    change, message, tmp_path, made_up, write_table
):
    write_table("yacht", **change(*made_up("yacht")))
    with pytest.raises(ValueError, match=message):
        datasets.load("yacht", tmp_path)


@pytest.mark.parametrize("line", ["1,2,3,4,5,6,?", "1,2,3"])
def test_a_table_with_anything_but_numbers_is_refused(line, tmp_path, write_text):
    write_text("yacht", "\n".join([",".join(HEADER), "1,2,3,4,5,6,7", line]))
    with pytest.raises(ValueError, match=r"yacht\.csv\.gz must hold a table of numbers; got: "):
        datasets.load("yacht", tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-40],
        lambda content: b"PK" + content,
        lambda content: gzip.compress(b"\xff"),
    ],
)
def test_a_damaged_file_is_refused(damage, tmp_path, write_table):
    path = write_table("yacht")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        ValueError, match=r"yacht\.csv\.gz must be a complete gzip file of its kind; g"
    ):
        datasets.load("yacht", tmp_path)


def test_an_empty_table_is_refused(tmp_path, write_text):
    write_text("yacht", "")
    with pytest.raises(ValueError, match=r"must have 7 columns, the target last; got 0\."):
        datasets.load("yacht", tmp_path)


@pytest.mark.parametrize(("labels", "found"), [((-1, 1), "-1, 1"), ((1, 2), "1, 2"), ((1, 1), "1")])
def test_labels_other_than_0_and_1_are_refused(labels, found, tmp_path, made_up, write_table):
    inputs, targets = made_up("pima")
    write_table("pima", rows=(inputs, np.array(labels)[targets.astype(int)]))
    message = rf"diabetes must be 0 or 1 and take both values; got {found} in .*pima\.csv\.gz\."
    with pytest.raises(ValueError, match=message):
        datasets.load("pima", tmp_path)


def test_a_set_without_a_download_says_where_to_get_it_and_where_to_put_it():
    with pytest.raises(
        FileNotFoundError,
        match=r"folder must be given for power, which has no confirmed copy on OpenML; got "
        r"folder=None with BBALPHA_DATA unset\. Download https://archive\.ics\.uci\.edu/.*294/"
        r"combined\+cycle\+power\+plant\.zip, save its table as power/power\.csv\.gz in a folder",
    ):
        datasets.load("power")


# MNIST


def write_idx(path, array):
    path.parent.mkdir(exist_ok=True)
    head = struct.pack(f">{1 + array.ndim}I", 0x800 + array.ndim, *array.shape)
    path.write_bytes(gzip.compress(head + array.tobytes(), compresslevel=1))


@pytest.fixture
def mnist(smaller, tmp_path):
    generator = np.random.default_rng(1)
    images = generator.integers(256, size=(700, 28, 28), dtype=np.uint8)
    digits = generator.integers(10, size=700, dtype=np.uint8)
    for part, rows in {"train": slice(600), "t10k": slice(600, None)}.items():
        write_idx(tmp_path / "mnist" / f"{part}-images-idx3-ubyte.gz", images[rows])
        write_idx(tmp_path / "mnist" / f"{part}-labels-idx1-ubyte.gz", digits[rows])
    return SimpleNamespace(images=images, digits=digits, folder=tmp_path)


def test_mnist_is_the_training_part_then_the_test_part_in_units_of_255(mnist):
    table = datasets.load("mnist", mnist.folder)
    assert table.inputs.dtype == np.float32
    np.testing.assert_array_equal(np.rint(table.inputs * 255), mnist.images.reshape(700, 784))
    np.testing.assert_array_equal(table.targets, mnist.digits)
    assert table.targets.dtype == np.int64
    assert table.num_train == 600
    assert table.source == str(mnist.folder / "mnist")


def test_mnist_names_the_file_that_is_missing_damaged_or_short(mnist):
    path = mnist.folder / "mnist" / "t10k-images-idx3-ubyte.gz"
    write_idx(path, mnist.images[:99])
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz must hold 100 items; got 99"):
        datasets.load("mnist", mnist.folder)
    write_idx(path, mnist.digits[:100])
    with pytest.raises(
        ValueError, match=r"must be a complete gzip .*; got: the magic number 0x801 in"
    ):
        datasets.load("mnist", mnist.folder)
    path.write_bytes(gzip.compress(struct.pack(">4I", 0x803, 100, 28, 28) + b"short"))
    with pytest.raises(ValueError, match=r"ubyte\.gz must be a complete gzip file"):
        datasets.load("mnist", mnist.folder)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold mnist/t10k-images-idx3-ubyte\.gz; got"):
        datasets.load("mnist", mnist.folder)


def test_the_variable_is_the_documented_one():
    assert loading.FOLDER_VARIABLE in datasets.load.__doc__
