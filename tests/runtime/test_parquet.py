"""Parquet: what a batch is, and one sentence for every file that cannot serve."""

import sys

import numpy as np
import pytest

import bbalpha as bb
from bbalpha.runtime.sources import Blocks

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

RANDOM = np.random.default_rng(0)
COLUMNS = {
    "a": RANDOM.normal(size=50),
    "b": RANDOM.integers(0, 9, 50),
    "c": RANDOM.integers(0, 2, 50).astype(bool),
    "y": RANDOM.normal(size=50).astype(np.float32),
}


def write(path, columns, **settings):
    settings = {"row_group_size": 20, "write_page_checksum": True} | settings
    pq.write_table(pa.table(columns), path, **settings)


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "1.parquet", COLUMNS)
    write(tmp_path / "2.parquet", COLUMNS)
    return tmp_path


def test_columns_make_inputs_and_targets(folder):
    rows = bb.ParquetRows(folder, targets="y")
    assert rows.block_rows == [20, 20, 10, 20, 20, 10]
    found = list(Blocks(rows))
    expected = np.stack([COLUMNS[name] for name in "abc"], axis=1).astype(np.float32)
    np.testing.assert_array_equal(np.concatenate([block.inputs for block in found])[:50], expected)
    np.testing.assert_array_equal(
        np.concatenate([block.targets for block in found])[50:], COLUMNS["y"]
    )
    chosen = bb.ParquetRows(folder / "1.parquet", inputs=["b"], targets=["y", "a"]).read(2)
    np.testing.assert_array_equal(chosen.inputs[:, 0], COLUMNS["b"][40:])
    np.testing.assert_array_equal(chosen.targets[:, 1], COLUMNS["a"][40:])


def test_without_targets_a_batch_is_a_dictionary(folder):
    rows = bb.ParquetRows(folder / "1.parquet").read(1)
    assert rows.keys() == COLUMNS.keys()
    for name, values in rows.items():
        np.testing.assert_array_equal(values, COLUMNS[name][20:40])


def test_a_dataset_of_pyarrow_is_the_same_rows(folder):
    dataset = pytest.importorskip("pyarrow.dataset").dataset(folder)
    rows = bb.ParquetRows(dataset, targets="y")
    assert rows.num_rows == 100
    np.testing.assert_array_equal(rows.read(3).targets, COLUMNS["y"][:20])
    filtered = dataset.filter(pa.compute.field("a") > 0)
    with pytest.raises(ValueError, match="data must be a dataset without a filter"):
        bb.ParquetRows(filtered)
    with pytest.raises(TypeError, match="data must be a dataset of Parquet files; got InMemory"):
        bb.ParquetRows(pytest.importorskip("pyarrow.dataset").dataset(pa.table(COLUMNS)))


def test_every_flipped_bit_of_a_page_is_found(folder):
    """The pages of one column, without its dictionary: every byte of data is under a checksum."""
    path = folder / "1.parquet"
    write(path, {"y": RANDOM.normal(size=500)}, use_dictionary=False, compression="none")
    column = pq.read_metadata(path).row_group(0).column(0)
    content = path.read_bytes()
    for number in range(20):
        damaged = bytearray(content)
        place = column.data_page_offset + column.total_compressed_size - 1 - 7 * number
        damaged[place] ^= 1 << number % 8
        path.write_bytes(damaged)
        rule = r"1\.parquet, row group 0: .*CRC"
        with pytest.raises(bb.SourceError, match=rule):
            Blocks(bb.ParquetRows(path))


def test_missing_values_and_nan_are_named_with_their_place(folder):
    path = folder / "2.parquet"
    write(path, {"x": pa.array([1.0] * 30 + [None] + [1.0] * 9)})
    rule = r'column "x" must have no missing values; got 1, .*2\.parquet, row group 1, row 10\.'
    with pytest.raises(bb.SourceError, match=rule):
        list(Blocks(bb.ParquetRows(path)))
    write(path, {"x": [1.0] * 25 + [np.nan] * 5})
    rule = (
        r"data\['x'\] must be finite; got 5 NaN .* the first in .*2\.parquet, row group 1, row 5\."
    )
    with pytest.raises(bb.SourceError, match=rule):
        list(Blocks(bb.ParquetRows(path)))


@pytest.mark.parametrize(
    "values", [[{"inner": 1}] * 5, [[1, 2]] * 5, ["text"] * 5], ids=["struct", "list", "text"]
)
def test_nested_columns_and_texts_are_refused(tmp_path, values):
    write(tmp_path / "1.parquet", {"x": values, "y": np.ones(5)})
    with pytest.raises(
        ValueError, match=r'column "x" must be numeric, neither nested nor text; got'
    ):
        bb.ParquetRows(tmp_path, targets="y")
    assert bb.ParquetRows(tmp_path, inputs=[], targets="y").num_rows == 5


def test_types_must_not_change_between_files(folder):
    write(folder / "2.parquet", COLUMNS | {"b": COLUMNS["a"]})
    rule = (
        r'column "b" must have the same type in all files; got double in .*2.* and int64 in .*1\.'
    )
    with pytest.raises(ValueError, match=rule):
        bb.ParquetRows(folder, targets="y")


def test_columns_must_be_in_every_file(folder):
    write(folder / "2.parquet", {"a": COLUMNS["a"], "y": COLUMNS["y"]})
    rule = r'data must have the column "b" once in every file; got .*2\.parquet with "a", "y"\.'
    with pytest.raises(ValueError, match=rule):
        bb.ParquetRows(folder, targets="y")
    with pytest.raises(ValueError, match=r'must have the column "z".* with "a", "b", "c", "y"\.'):
        bb.ParquetRows(folder / "1.parquet", targets="z")


def test_files_must_be_parquet_with_rows(tmp_path):
    with pytest.raises(ValueError, match=r"must be a folder of files that end in \.parquet; got"):
        bb.ParquetRows(tmp_path)
    (tmp_path / "1.parquet").write_text("a,b\n1,2\n")
    with pytest.raises(bb.SourceError, match=r"1\.parquet cannot be read as Parquet: "):
        bb.ParquetRows(tmp_path)
    write(tmp_path / "1.parquet", {"x": np.ones(0)})
    with pytest.raises(ValueError, match=r"data must have at least one row; got .* without rows\."):
        bb.ParquetRows(tmp_path)


def test_parquet_without_pyarrow_says_how_to_install_it(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow.dataset", None)
    with pytest.raises(ImportError, match=r"Parquet needs pyarrow: pip install 'bbalpha\[cli\]'\."):
        bb.ParquetRows(folder)


def test_a_hash_of_the_footers_knows_the_data(folder):
    before = bb.ParquetRows(folder).identity()
    assert bb.ParquetRows(folder).identity() == before
    assert bb.ParquetRows(folder, inputs=["a"]).identity() != before
    write(folder / "2.parquet", COLUMNS | {"a": COLUMNS["a"] + 1})
    assert bb.ParquetRows(folder).identity() != before
