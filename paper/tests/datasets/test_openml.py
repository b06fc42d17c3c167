"""Facts about the data sets: what the catalog says, what is loaded, and what is refused.

No data are shipped. Folders and OpenML's answers are made up here in their true form: the right
columns, counts, means and means weighted by position, of random numbers. Facts about the real files
are checked where the files are.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import struct
import subprocess
import sys
import urllib.error
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.utils import Bunch

from bbalpha_paper import datasets
from bbalpha_paper.datasets import cep, loading, openml
from bbalpha_paper.datasets.catalog import find_entry

REAL = Path(os.environ.get("BBALPHA_DATA", Path(__file__).parents[2] / "shared" / "data"))
needs_real = pytest.mark.skipif(not (REAL / "manifest.json").is_file(), reason="no data folder")

TABLES = [name for name in datasets.CATALOG if name not in ("mnist", "cep")]
ON_OPENML = [name for name, entry in datasets.CATALOG.items() if entry.openml_id]


@pytest.fixture(autouse=True)
def no_folder_and_a_fresh_cache(monkeypatch, tmp_path):
    monkeypatch.delenv("BBALPHA_DATA", raising=False)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "sklearn"))


@pytest.fixture
def smaller(monkeypatch):
    """Makes the catalog count fewer rows of the sets that are too large to make up."""
    sizes = {"year": (500, 450), "mnist": (700, 600), "cep": (4, None)}
    for name, (num_data, num_train) in sizes.items():
        entry = datasets.CATALOG[name]
        entry = dataclasses.replace(entry, num_data=num_data, num_train=num_train)
        monkeypatch.setitem(datasets.CATALOG, name, entry)


def made_up(name):
    """Random inputs and targets that have the shape and the marks of the named set."""
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


def write_table(folder, name, header=None, rows=None):
    entry = find_entry(name)
    inputs, targets = made_up(name) if rows is None else rows
    header = [*entry.feature_names, entry.target_name] if header is None else header
    lines = [",".join(map(repr, row)) for row in np.column_stack([inputs, targets]).tolist()]
    return write_text(folder, name, "\n".join([",".join(header), *lines]) + "\n")


def write_text(folder, name, text):
    path = folder / name / f"{name}.csv.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode(), compresslevel=1))
    return path


# The catalog


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


@needs_real
def test_the_catalog_agrees_with_the_manifest_of_the_data_folder():
    for row in json.loads((REAL / "manifest.json").read_text()):
        entry = datasets.CATALOG[row["name"]]
        assert (entry.num_data, entry.num_features) == (row["N"], row["D"])
        assert entry.task in row["task"] or entry.task == "multiclass"
        assert entry.openml_id is None or str(entry.openml_id) in row["canonical"]


def test_an_unknown_name_is_told_the_nearest_and_all():
    message = r"name must be one of ionosphere, madelon, .*, cep; got name='Bostn'\. Is it 'boston'"
    for function in (datasets.load, datasets.fetch):
        with pytest.raises(ValueError, match=message):
            function("Bostn")
    with pytest.raises(ValueError, match=message):
        datasets.splits("Bostn", 3)
    with pytest.raises(ValueError, match=r"got name='xyzzy'\.$"):
        datasets.load("xyzzy")


def test_looking_into_the_catalog_loads_neither_numpy_nor_jax_nor_scikit_learn():
    code = "import sys, bbalpha_paper.datasets as d; d.CATALOG['boston']; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"jax", "numpy", "pandas", "rdkit", "sklearn"} & set(loaded)


# Splits


@needs_real
@pytest.mark.parametrize(
    "name",
    ["boston", "concrete", "energy", "kin8nm", "naval", "power", "protein", "wine_red", "yacht"],
)
def test_splits_are_the_published_ones(name):
    published = np.load(REAL / name / "splits.npz", allow_pickle=False)
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


# Folders


@pytest.mark.parametrize("name", ["ionosphere", "boston", "power", "yacht"])
def test_a_table_in_a_folder_is_loaded_as_it_is(name, tmp_path, monkeypatch):
    entry = datasets.CATALOG[name]
    inputs, targets = made_up(name)
    path = write_table(tmp_path, name, rows=(inputs, targets))
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


def test_a_table_is_a_frozen_record(tmp_path):
    write_table(tmp_path, "yacht")
    table = datasets.load("yacht", str(tmp_path))
    with pytest.raises(dataclasses.FrozenInstanceError):
        table.name = "boat"


def test_an_explicit_folder_comes_before_the_variable(tmp_path, monkeypatch):
    write_table(tmp_path / "one", "yacht")
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path / "two"))
    assert datasets.load("yacht", tmp_path / "one").inputs.shape == (308, 6)
    with pytest.raises(FileNotFoundError, match=r"must be there; got '.*two', .*BBALPHA_DATA\."):
        datasets.load("yacht")


@pytest.mark.parametrize("name", [*TABLES, "cep"])
def test_a_folder_without_the_file_is_told_which(name, tmp_path):
    message = rf"folder must hold {name}/{name}\.csv\.gz; got folder='.*' without it\. The canon"
    with pytest.raises(FileNotFoundError, match=message):
        datasets.load(name, tmp_path)


HEADER = [*datasets.CATALOG["yacht"].feature_names, "residuary_resistance"]
BODY = made_up("yacht")
BAD_TABLES = {
    "columns": (
        {"header": HEADER[1:], "rows": (BODY[0][:, 1:], BODY[1])},
        r"must have 7 columns, the target last; got 6\.",
    ),
    "header": (
        {"header": ["position", *HEADER[1:]]},
        r"must have a header .*; got 'position' for column 1, which is 'longitudinal_position'\.",
    ),
    "no header": (
        {"header": ["1"] * 7},
        r"got '1' for column 1, which is 'longitudinal_position'",
    ),
    "rows": (
        {"rows": (BODY[0][:-1], BODY[1][:-1])},
        r"yacht must have 308 rows of 6 inputs and a target; got 307 rows of 6 in .*yacht\.csv\.gz",
    ),
    "no rows": ({"rows": (BODY[0][:0], BODY[1][:0])}, r"got 0 rows of 6 in"),
    "nan": (
        {"rows": (np.where(np.arange(308)[:, None] == 7, np.nan, BODY[0]), BODY[1])},
        r"yacht must be finite; got NaN or infinite values in 1 rows, the first being row 7, in",
    ),
}


@pytest.mark.parametrize(("content", "message"), BAD_TABLES.values(), ids=BAD_TABLES.keys())
def test_a_table_that_is_not_the_catalogs_is_refused(content, message, tmp_path):
    write_table(tmp_path, "yacht", **content)
    with pytest.raises(ValueError, match=message):
        datasets.load("yacht", tmp_path)


@pytest.mark.parametrize("line", ["1,2,3,4,5,6,?", "1,2,3"])
def test_a_table_with_other_things_than_numbers_is_refused(line, tmp_path):
    write_text(tmp_path, "yacht", "\n".join([",".join(HEADER), "1,2,3,4,5,6,7", line]))
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
def test_a_damaged_file_is_refused(damage, tmp_path):
    path = write_table(tmp_path, "yacht")
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        ValueError, match=r"yacht\.csv\.gz must be a whole gzip file of its kind; g"
    ):
        datasets.load("yacht", tmp_path)


def test_an_empty_table_is_refused(tmp_path):
    write_text(tmp_path, "yacht", "")
    with pytest.raises(ValueError, match=r"must have 7 columns, the target last; got 0\."):
        datasets.load("yacht", tmp_path)


@pytest.mark.parametrize(("labels", "found"), [((-1, 1), "-1, 1"), ((1, 2), "1, 2"), ((1, 1), "1")])
def test_labels_other_than_0_and_1_are_refused(labels, found, tmp_path):
    inputs, targets = made_up("pima")
    write_table(tmp_path, "pima", rows=(inputs, np.array(labels)[targets.astype(int)]))
    message = rf"diabetes must be 0 or 1 and take both values; got {found} in .*pima\.csv\.gz\."
    with pytest.raises(ValueError, match=message):
        datasets.load("pima", tmp_path)


def test_a_set_without_a_copy_on_openml_says_where_to_get_it_and_where_to_put_it():
    with pytest.raises(
        FileNotFoundError,
        match=r"folder must be given for power, of which no copy on OpenML is confirmed; got "
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
        ValueError, match=r"must be a whole gzip .*; got: the magic number 0x801 in"
    ):
        datasets.load("mnist", mnist.folder)
    path.write_bytes(gzip.compress(struct.pack(">4I", 0x803, 100, 28, 28) + b"short"))
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte\.gz must be a whole gzip file"):
        datasets.load("mnist", mnist.folder)
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"must hold mnist/t10k-images-idx3-ubyte\.gz; got"):
        datasets.load("mnist", mnist.folder)


# OpenML


def cached_answer(name, columns, sparse=False):
    """Puts a stand-in for OpenML's answer into scikit-learn's cache, for its own reader to read.

    Columns are pairs of a name and values; strings are a nominal attribute. In a sparse answer
    zeros and the first word of an attribute go unsaid.
    """
    data_id = find_entry(name).openml_id
    home = Path(os.environ["SCIKIT_LEARN_DATA"]) / "openml" / "openml.org"
    nominal = {column: sorted(set(v)) for column, v in columns if isinstance(v[0], str)}
    kinds = {c: "{" + ",".join(nominal[c]) + "}" if c in nominal else "NUMERIC" for c, _ in columns}
    head = [f"@ATTRIBUTE '{column}' {kind}" for column, kind in kinds.items()]
    rows = zip(*[map(str, v) for _, v in columns], strict=True)
    if sparse:
        unsaid = [nominal.get(column, ["0.0"])[0] for column, _ in columns]
        rows = [[f"{i} {v}" for i, v in enumerate(row) if v != unsaid[i]] for row in rows]
    body = [("{%s}" if sparse else "%s") % ",".join(row) for row in rows]
    arff = "\n".join(["@RELATION stand-in", *head, "@DATA", *body, ""]).encode()
    features = [
        {
            "index": str(index),
            "name": column,
            "data_type": "nominal" if column in nominal else "numeric",
            "is_target": "false",
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for index, (column, _) in enumerate(columns)
    ]
    description = {
        "id": str(data_id),
        "name": "stand-in",
        "description": "",
        "version": "1",
        "format": "Sparse_ARFF" if sparse else "ARFF",
        "url": f"https://www.openml.org/data/v1/download/{data_id}/stand-in.arff",
        "status": "active",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    quality = [{"name": "NumberOfInstances", "value": str(len(body))}]
    answers = {
        f"api/v1/json/data/{data_id}": {"data_set_description": description},
        f"api/v1/json/data/features/{data_id}": {"data_features": {"feature": features}},
        f"api/v1/json/data/qualities/{data_id}": {"data_qualities": {"quality": quality}},
    }
    contents = {path: json.dumps(answer).encode() for path, answer in answers.items()}
    for path, content in {**contents, f"data/v1/download/{data_id}/stand-in.arff": arff}.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / f"{path}.gz").write_bytes(gzip.compress(content, compresslevel=1))


def openml_columns(name, inputs, targets):
    """The columns of a set as OpenML has them, as far as public listings tell."""
    entry = find_entry(name)
    columns = dict(zip(entry.feature_names, inputs.T.tolist(), strict=True))
    labels = {
        "ionosphere": ("b", "g"),
        "madelon": ("1", "2"),
        "pima": ("tested_negative", "tested_positive"),
        "colon": ("normal", "tumor"),
        "mnist": tuple("0123456789"),
    }
    words = [labels[name][int(t)] for t in targets] if name in labels else targets.tolist()
    match name:
        case "boston":  # numbers that are declared as categories, in the order of words
            columns["CHAS"] = [str(int(value > 0)) for value in columns["CHAS"]]
            columns["RAD"] = [("1", "24", "3")[int(value > 0)] for value in columns["RAD"]]
            return [*columns.items(), ("MEDV", words)]
        case "protein":  # the target comes first
            return [("RMSD", words), *columns.items()]
        case "energy":
            return [
                *columns.items(),
                ("cooling_load", [24.6] * len(words)),
                ("heating_load", words),
            ]
        case "naval":  # without the constant columns
            columns = {f"long_{c}": v for c, v in columns.items() if c not in ("T1", "P1")}
            return [
                *columns.items(),
                ("gt_compressor_decay_state_coefficient", words),
                ("gt_turbine_decay_state_coefficient", [0.9875] * len(words)),
            ]
        case "mnist":
            columns = {f"pixel{i}": (inputs[:, i] * 255).tolist() for i in range(784)}
            return [*columns.items(), ("class", words)]
        case "yacht" | "year":  # the name of the target is not known: it is the last column
            columns = {f"V{i}": column for i, column in enumerate(columns.values())}
            return [*columns.items(), ("something", words)]
        case "concrete":
            return [*columns.items(), ("strength", words)]
    return [*columns.items(), ("Class" if name in labels else entry.target_name, words)]


@pytest.mark.usefixtures("smaller")
@pytest.mark.parametrize("name", ON_OPENML)
def test_openml_gives_the_same_arrays_as_the_folder(name):
    inputs, targets = made_up(name)
    cached_answer(name, openml_columns(name, inputs, targets))
    if name == "boston":
        inputs[:, 3], inputs[:, 8] = inputs[:, 3] > 0, np.where(inputs[:, 8] > 0, 24, 1)
    elif name == "naval":
        inputs[:, 8], inputs[:, 11] = 288.0, 0.998
    table = datasets.load(name)
    tolerance = 2e-5 if name == "mnist" else 1e-10
    np.testing.assert_allclose(table.inputs, inputs, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(table.targets, targets, rtol=1e-10)
    assert table.feature_names == datasets.CATALOG[name].feature_names
    assert table.inputs.dtype == (np.float32 if name == "mnist" else np.float64)
    assert table.source == f"OpenML data set {datasets.CATALOG[name].openml_id}"


def test_openml_naval_may_have_its_constant_columns():
    inputs, targets = made_up("naval")
    names = datasets.CATALOG["naval"].feature_names
    cached_answer("naval", [*zip(names, inputs.T.tolist(), strict=True), ("kMc", targets.tolist())])
    np.testing.assert_allclose(datasets.load("naval").inputs, inputs, rtol=1e-10)


def test_openml_may_answer_in_sparse_form():
    inputs, targets = made_up("pima")
    inputs[:, 3:] *= inputs[:, 3:] > 1
    inputs += 0.0  # no negative zeros
    cached_answer("pima", openml_columns("pima", inputs, targets), sparse=True)
    table = datasets.load("pima")
    np.testing.assert_allclose(table.inputs, inputs, rtol=1e-10)
    np.testing.assert_array_equal(table.targets, targets)


ORDERS = {
    "shuffled": lambda num_data: np.random.default_rng(2).permutation(num_data),
    "halves swapped": lambda num_data: np.roll(np.arange(num_data), num_data // 2),
    "reversed": lambda num_data: np.arange(num_data)[::-1],
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS.keys())
def test_openml_with_the_rows_in_another_order_is_warned_of(order):
    inputs, targets = made_up("yacht")
    order = order(308)
    cached_answer("yacht", openml_columns("yacht", inputs[order], targets[order]))
    with pytest.warns(
        openml.UnpublishedOrderWarning,
        match=r"OpenML data set 42370 has the rows of yacht in another order than published, so "
        r"its splits are not the published ones\.",
    ):
        table = datasets.load("yacht")
    np.testing.assert_allclose(table.inputs, inputs[order], rtol=1e-10)


def test_openml_with_other_decimals_is_not_warned_of():
    inputs, targets = (np.round(values, 2) for values in made_up("concrete"))
    cached_answer("concrete", openml_columns("concrete", inputs, targets))
    np.testing.assert_allclose(datasets.load("concrete").inputs, inputs, rtol=1e-10)


def test_openml_with_another_target_is_refused():
    inputs, targets = made_up("energy")
    columns = openml_columns("energy", inputs, targets)[:-1]
    columns[-1] = ("Y", columns[-1][1])  # the cooling load under a name that nobody knows
    cached_answer("energy", columns)
    with pytest.raises(
        ValueError,
        match=r"heating_load of energy must have mean 22\.3072, as published; got 24\.6 in OpenML "
        r"data set 44960\. Name a folder that holds energy/energy\.csv\.gz\.",
    ):
        datasets.load("energy")


def test_openml_with_scaled_inputs_is_refused():
    inputs, targets = made_up("colon")
    cached_answer("colon", openml_columns("colon", inputs / 1000, targets))
    with pytest.raises(
        ValueError, match=r"g0001 of colon must have mean 7015\.79, as published; g"
    ):
        datasets.load("colon")


def test_openml_with_other_columns_rows_labels_or_words_is_refused():
    inputs, targets = made_up("yacht")
    cached_answer("yacht", openml_columns("yacht", inputs, targets)[1:])
    with pytest.raises(
        ValueError,
        match=r"yacht must have 308 rows of 6 inputs; got 308 rows of 5 in .* 42370: v1, v2",
    ):
        datasets.load("yacht")

    keep = np.r_[0:100, 101:768]
    inputs, targets = made_up("pima")
    cached_answer("pima", openml_columns("pima", inputs[keep], targets[keep]))
    with pytest.raises(
        ValueError, match=r"pima must have 768 rows of 8 inputs; got 767 rows of 8 in"
    ):
        datasets.load("pima")

    columns = openml_columns("ionosphere", *made_up("ionosphere"))
    cached_answer("ionosphere", [*columns[:-1], ("class", ["good", "bad"] * 175 + ["good"])])
    with pytest.raises(
        ValueError, match=r"good must take the values b and g; got bad, good in Open"
    ):
        datasets.load("ionosphere")

    columns = openml_columns("boston", *made_up("boston"))
    columns[3] = ("CHAS", ["yes", "no"] * 253)
    cached_answer("boston", columns)
    with pytest.raises(
        ValueError, match=r"chas must be numbers; got 'no' in OpenML data set 531\."
    ):
        datasets.load("boston")


def test_openml_out_of_reach_is_one_sentence(monkeypatch):
    def unreachable(**_):
        raise urllib.error.URLError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", unreachable)
    with pytest.raises(
        ConnectionError,
        match=r"OpenML data set 531 must be reachable to download boston; got: .*no route to host.*"
        r"Or name a folder that holds boston/boston\.csv\.gz by BBALPHA_DATA\.",
    ):
        datasets.load("boston")


# Clean Energy Project

SMILES = ["c1ccccc1", "CCO", "C1C=CC=C1c1ccco1", "c1ccsc1"]
EFFICIENCY = np.array([3.5, -1.25, 0.0, 7.0])
MOLECULES = "smiles,PCE\n" + "".join(
    f"{text},{number}\n" for text, number in zip(SMILES, EFFICIENCY, strict=True)
)


def made_up_bits(seed=3):
    return np.random.default_rng(seed).integers(2, size=(4, 512), dtype=np.uint8)


def write_fingerprints(path, bits, efficiency=EFFICIENCY):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, fp_packed=np.packbits(bits, axis=1), pce=efficiency)


@pytest.fixture
def server(smaller, monkeypatch, tmp_path):
    """The molecules at an address of their own, for the checksum that they have."""
    path = tmp_path / "server" / "cep-processed.csv"
    path.parent.mkdir()
    path.write_text(MOLECULES)
    entry = dataclasses.replace(datasets.CATALOG["cep"], url=path.as_uri())
    monkeypatch.setitem(datasets.CATALOG, "cep", entry)
    monkeypatch.setattr(cep, "MD5", hashlib.md5(MOLECULES.encode()).hexdigest())
    return path


@pytest.fixture
def counted_fingerprints(monkeypatch):
    """Replaces RDKit by made-up bits, and counts how often it is asked."""
    calls = []

    def fingerprints(smiles):
        calls.append(smiles)
        return np.packbits(made_up_bits(), axis=1)

    monkeypatch.setattr(cep, "fingerprints", fingerprints)
    return calls


@pytest.mark.usefixtures("smaller")
def test_cep_in_a_folder_takes_the_fingerprints_beside_it(tmp_path):
    path = write_text(tmp_path, "cep", MOLECULES)
    write_fingerprints(path.with_name(cep.FINGERPRINTS), made_up_bits())
    table = datasets.load("cep", tmp_path)
    np.testing.assert_array_equal(table.inputs, made_up_bits())
    np.testing.assert_array_equal(table.targets, EFFICIENCY)
    assert table.inputs.dtype == np.float32
    assert table.target_name == "PCE"
    assert table.source == str(path)


@pytest.mark.usefixtures("smaller")
def test_fingerprints_of_other_molecules_are_refused(tmp_path):
    path = write_text(tmp_path, "cep", MOLECULES)
    stored = path.with_name(cep.FINGERPRINTS)
    write_fingerprints(stored, made_up_bits(), EFFICIENCY[::-1])
    with pytest.raises(
        ValueError, match=r"r2\.npz must hold the fingerprints of the molecules bes"
    ):
        datasets.load("cep", tmp_path)
    np.savez_compressed(stored, bits=made_up_bits())
    with pytest.raises(ValueError, match=r"r2\.npz must hold fp_packed and pce; got: .*fp_packed"):
        datasets.load("cep", tmp_path)
    np.savez_compressed(stored, fp_packed=np.array([None]), pce=EFFICIENCY)
    with pytest.raises(ValueError, match=r"must hold fp_packed and pce; got: .*allow_pickle=False"):
        datasets.load("cep", tmp_path)
    stored.write_bytes(b"PK\x03\x04 but nothing else")
    with pytest.raises(ValueError, match=r"r2\.npz must hold fp_packed and pce; got: "):
        datasets.load("cep", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("smiles,HOMO\nCCO,1\n", r"got 'HOMO' for column 2, which is 'PCE'"),
        ("smiles,PCE\nCCO,1\nCC\n", r"must hold a molecule and a number per row; got: "),
        ("smiles,PCE\nCCO,high\n", r"must hold a molecule and a number per row; got: .*'high'"),
        ("smiles,PCE\n", r"must hold a molecule and a number per row; got: "),
        ("", r"must have 2 columns, the target last; got 0"),
    ],
)
def test_a_table_that_is_not_of_molecules_is_refused(text, message, tmp_path):
    write_text(tmp_path, "cep", text)
    with pytest.raises(ValueError, match=message):
        datasets.load("cep", tmp_path)


def test_cep_is_downloaded_and_its_fingerprints_computed_once(server, counted_fingerprints):
    first = datasets.load("cep")
    assert counted_fingerprints == [SMILES]
    np.testing.assert_array_equal(first.inputs, made_up_bits())
    np.testing.assert_array_equal(first.targets, EFFICIENCY)
    assert Path(first.source).read_text() == MOLECULES
    server.unlink()
    again = datasets.load("cep")
    assert len(counted_fingerprints) == 1
    np.testing.assert_array_equal(again.inputs, first.inputs)
    assert sorted(path.name for path in Path(first.source).parent.iterdir()) == [
        "cep-processed.csv",
        cep.FINGERPRINTS,
    ]


@pytest.mark.usefixtures("counted_fingerprints")
def test_a_damaged_download_is_neither_used_nor_kept(server):
    kept = Path(datasets.load("cep").source)
    kept.write_text(MOLECULES[:-5])
    assert datasets.load("cep").targets.shape == (4,)
    assert kept.read_text() == MOLECULES
    kept.unlink()
    server.write_text(MOLECULES.upper())
    with pytest.raises(
        ValueError, match=rf"cep-processed\.csv must have the md5 checksum {cep.MD5}"
    ):
        datasets.load("cep")
    assert not kept.exists()
    server.unlink()
    with pytest.raises(
        ConnectionError, match=r"must be reachable to download cep; got: .*No such fi"
    ):
        datasets.load("cep")


def test_cep_without_rdkit_says_what_to_install(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    message = (
        r"rdkit must be installed to compute .*Install bbalpha\[chemistry\], or put cep_morgan"
    )
    with pytest.raises(ModuleNotFoundError, match=message):
        datasets.load("cep")
    assert not list(Path(os.environ["SCIKIT_LEARN_DATA"]).rglob("*.npz*"))


def test_fingerprints_are_of_the_molecule_and_not_of_its_spelling():
    pytest.importorskip("rdkit")
    packed = cep.fingerprints(["c1ccoc1", "C1=COC=C1", "c1ccsc1"])
    assert packed.shape == (3, 64)
    assert (packed[0] == packed[1]).all()
    assert (packed[0] != packed[2]).any()
    with pytest.raises(ValueError, match=r"smiles must be molecules; got 'not one' in row 1\."):
        cep.fingerprints(["CCO", "not one"])


# The real files


@needs_real
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
def test_real_regression_targets_have_the_published_moments(name, mean, deviation, low, high):
    table = datasets.load(name, REAL)
    found = table.targets.mean(), table.targets.std(), table.targets.min(), table.targets.max()
    for value, expected in zip(found, (mean, deviation, low, high), strict=True):
        if expected is not None:
            assert value == pytest.approx(expected, rel=1e-4, abs=1e-3)


@needs_real
@pytest.mark.parametrize(
    ("name", "positives"), [("ionosphere", 225), ("madelon", 1300), ("pima", 268), ("colon", 40)]
)
def test_real_classes_have_the_published_counts(name, positives):
    table = datasets.load(name, REAL)
    assert table.targets.sum() == positives
    assert set(table.targets.tolist()) == {0, 1}
    assert table.num_train == (2000 if name == "madelon" else None)


@needs_real
def test_real_mnist_has_the_published_pixels():
    table = datasets.load("mnist", REAL)
    train = table.inputs[: table.num_train]
    assert train.shape == (60_000, 784)
    assert train.mean(dtype=np.float64) == pytest.approx(0.13066, abs=1e-5)
    assert train.std(dtype=np.float64) == pytest.approx(0.30811, abs=1e-5)
    train, test = map(np.bincount, np.split(table.targets, [60_000]))
    assert train.tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert test.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]


@needs_real
def test_real_cep_has_the_published_bits():
    table = datasets.load("cep", REAL)
    assert table.inputs.sum(axis=1).mean() == pytest.approx(47.3, abs=0.05)
    assert (np.ptp(table.inputs, axis=0) == 0).sum() == 4
    assert (table.targets < 0).sum() == 612
    assert (table.targets == 0).sum() == 821


@needs_real
def test_real_fingerprints_are_those_of_rdkit():
    pytest.importorskip("rdkit")
    lines = gzip.decompress((REAL / "cep" / "cep.csv.gz").read_bytes()).decode().split()
    packed = np.load(REAL / "cep" / cep.FINGERPRINTS, allow_pickle=False)["fp_packed"]
    rows = [0, 1, 2, 1000, 29_977]
    smiles = [lines[1 + row].partition(",")[0] for row in rows]
    np.testing.assert_array_equal(cep.fingerprints(smiles), packed[rows])


@needs_real
@pytest.mark.parametrize("name", openml.MARKS)
def test_the_marks_of_openml_copies_are_those_of_the_real_files(name):
    table = datasets.load(name, REAL)
    marked = np.column_stack([table.inputs[:, :3], table.targets])
    means, weighted_means = openml.MARKS[name]
    np.testing.assert_allclose(marked.mean(axis=0), means, rtol=1e-6, atol=1e-12)
    weights = np.arange(1, len(marked) + 1)
    found = np.average(marked, axis=0, weights=weights)
    np.testing.assert_allclose(found, weighted_means, rtol=1e-6, atol=1e-12)


@needs_real
@pytest.mark.parametrize(
    "name", [name for name in openml.MARKS if datasets.CATALOG[name].task == "regression"]
)
def test_copies_of_the_real_rows_are_warned_of_in_another_order_only(name, monkeypatch):
    table = datasets.load(name, REAL)
    rows = np.column_stack([table.inputs, table.targets])
    copy = Bunch(feature_names=[*table.feature_names, table.target_name], categories={})
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda **_: copy)
    copy.data = rows.astype(np.float32)  # seven digits
    datasets.load(name)
    for order in ORDERS.values():
        copy.data = rows[order(len(rows))]
        with pytest.warns(openml.UnpublishedOrderWarning, match="in another order"):
            datasets.load(name)


def test_every_copy_on_openml_has_columns_and_marks_but_for_the_file_that_was_not_at_hand():
    assert set(openml.COLUMNS) == set(ON_OPENML)
    assert set(openml.MARKS) == set(ON_OPENML) - {"year"}


def test_the_variable_is_the_documented_one():
    assert loading.FOLDER_VARIABLE in datasets.load.__doc__
