"""Facts about files: compressed or not, CSV or Parquet, read and written whole."""

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import threading
import time
import zipfile
from datetime import date

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from bbalpha.tables import Encoder, TableError, read_table, write_table

COMPRESSED = [".gz", ".bz2", ".xz", ".zip", ".zst"]


def compressed(data, suffix):
    if suffix == ".zip":
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            archive.writestr("inside.csv", data)
        return buffer.getvalue()
    if suffix == ".zst":
        return pyarrow.compress(data, codec="zstd", asbytes=True)
    module = {".gz": gzip, ".bz2": bz2, ".xz": lzma}[suffix]
    return module.compress(data)


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_compressed_table_is_read_and_a_damaged_one_refused(tmp_path, written, refusal, suffix):
    data = compressed(b"a,b\n" + b"1,2\n" * 1000, suffix)
    frame = read_table(written(tmp_path, data, f"table.csv{suffix}"))
    assert frame.shape == (1000, 2)
    for damaged in (data[: len(data) // 2], b"a,b\n1,2\n"):
        path = written(tmp_path, damaged, f"bad.csv{suffix}")
        with refusal(f"bad.csv{suffix} cannot be decompressed: "):
            read_table(path)


def test_an_archive_must_hold_one_file(tmp_path, refusal):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with refusal("two.zip cannot be decompressed: it holds 2 files instead of one."):
        read_table(tmp_path / "two.zip")


def test_a_path_that_is_no_table_is_refused(tmp_path, written, refusal):
    with refusal("gone.csv does not exist."):
        read_table(tmp_path / "gone.csv")
    with refusal(f"{tmp_path} is a folder, not a file."):
        read_table(tmp_path)
    with refusal("must be CSV or Parquet; got a name in .xlsx (save the spreadsheet as CSV)."):
        read_table(tmp_path / "sheet.xlsx")
    with refusal("inside.csv cannot be read: not a directory."):
        read_table(written(tmp_path, "a\n1\n") / "inside.csv")


def test_a_pipe_can_be_read(tmp_path, cells):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"a,b\n1,2\n"])
    writer.start()
    assert cells(read_table(tmp_path / "pipe")) == [["1", "2"]]
    writer.join()


def test_a_parquet_table_keeps_its_types(tmp_path, cells):
    table = pyarrow.table(
        {
            " n ": pyarrow.array([1, None, 3]),
            "t": pyarrow.array(["x", " NA", None]).dictionary_encode(),
            "b": [True, False, None],
            "d": pyarrow.array([date(1970, 1, 3), None, date(1969, 12, 31)]),
            "m": pyarrow.array([1.25, 2.5, 3.5]).cast(pyarrow.decimal128(5, 2)),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "table.parquet")
    found = read_table(tmp_path / "table.parquet")
    assert found.column_names == ["n", "t", "b", "d", "m"]
    assert cells(found.select(["n", "t", "b", "m"])) == [
        [1.0, "x", True, 1.25],
        [None, None, False, 2.5],
        [3.0, None, None, 3.5],
    ]
    encoder = Encoder.learn(found.drop_columns(["t"]))
    assert encoder.feature_names == ["n", "b", "d", "m"]
    expected = [[1.0, 1.0, 2.0, 1.25], [2.0, 0.0, 0.5, 2.5], [3.0, 0.0, -1.0, 3.5]]
    np.testing.assert_array_equal(encoder.encode(found.drop_columns(["t"])), expected)


def test_a_parquet_table_is_known_by_its_content_and_its_index_left_out(tmp_path):
    frame = pandas.DataFrame({1: [1.5, 2.5]}, index=[7, 8]).rename(columns=str)
    frame.to_parquet(tmp_path / "table.data")
    found = read_table(tmp_path / "table.data")
    assert found.to_pydict() == {"1": [1.5, 2.5]}


def test_a_damaged_parquet_file_is_refused(tmp_path, written):
    pandas.DataFrame({"a": range(1000)}).to_parquet(tmp_path / "table.parquet")
    whole = (tmp_path / "table.parquet").read_bytes()
    for damaged in (whole[:500], b"a,b\n1,2\n", whole[:4] + whole[200:]):
        path = written(tmp_path, damaged, "bad.parquet")
        with pytest.raises(TableError, match=r"bad\.parquet is not a complete Parquet file: \S"):
            read_table(path)


def test_a_parquet_table_needs_rows_and_names(tmp_path, refusal):
    pandas.DataFrame({"a": []}).to_parquet(tmp_path / "empty.parquet")
    with refusal("empty.parquet has no rows below its header."):
        read_table(tmp_path / "empty.parquet")
    table = pyarrow.Table.from_arrays([pyarrow.array([1])] * 2, names=["a", "a "])
    pyarrow.parquet.write_table(table, tmp_path / "twice.parquet")
    with refusal("twice.parquet has more than one column named 'a'."):
        read_table(tmp_path / "twice.parquet")
    pandas.DataFrame(index=[3, 4]).to_parquet(tmp_path / "none.parquet")
    with refusal("none.parquet has no columns."):
        read_table(tmp_path / "none.parquet")


@pytest.mark.parametrize(
    "name", ["t.csv", "t.tsv", "t.txt", "t.parquet", *(f"t.csv{s}" for s in COMPRESSED)]
)
def test_a_table_that_was_written_is_read_back(tmp_path, cells, name):
    values = np.random.default_rng(0).normal(size=5)
    frame = pandas.DataFrame({"x, 1": values, "t": ["a", 'b "c"', None, "d\ne", "f;g"]})
    for table in (frame, pyarrow.Table.from_pandas(frame)):
        write_table(table, tmp_path / name)
        found = read_table(tmp_path / name)
        np.testing.assert_array_equal(found.column("x, 1").to_numpy().astype(float), values)
        assert cells(found.select(["t"])) == cells(frame[["t"]])
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_equal_tables_are_written_as_equal_files(tmp_path):
    frame = pandas.DataFrame({"x": [1.0, 2.0]})
    for suffix in COMPRESSED:
        write_table(frame, tmp_path / f"one{suffix}")
        first = (tmp_path / f"one{suffix}").read_bytes()
        write_table(frame, tmp_path / f"one{suffix}")
        assert (tmp_path / f"one{suffix}").read_bytes() == first


def test_a_written_file_has_the_permissions_of_an_ordinary_one(tmp_path):
    before = os.umask(0o027)
    try:
        write_table(pandas.DataFrame({"x": [1]}), tmp_path / "t.csv")
    finally:
        os.umask(before)
    assert (tmp_path / "t.csv").stat().st_mode & 0o777 == 0o640


def test_a_private_file_stays_private_and_a_link_stays_a_link(tmp_path):
    link, target = tmp_path / "link.csv", tmp_path / "t.csv"
    target.touch(0o600)
    link.symlink_to(target)
    write_table(pandas.DataFrame({"x": [1]}), link)
    assert link.is_symlink()
    assert target.read_text() == "x\n1\n"
    assert target.stat().st_mode & 0o777 == 0o600


def test_a_path_that_cannot_be_written_leaves_nothing_behind(tmp_path, refusal):
    frame = pandas.DataFrame({"x": [1]})
    (tmp_path / "folder").mkdir()
    with refusal("folder cannot be written: is a directory."):
        write_table(frame, tmp_path / "folder")
    with refusal("t.csv cannot be written: no such file or directory."):
        write_table(frame, tmp_path / "gone" / "t.csv")
    with refusal("t cannot be written: file name too long."):
        write_table(frame, tmp_path / ("t" * 300))
    with refusal("must be CSV or Parquet; got a name in .json."):
        write_table(frame, tmp_path / "t.json")
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_table(pandas.DataFrame({"x": [1]}), tmp_path / "pipe")
    reader.join()
    assert found == [b"x\n1\n"]
    assert (tmp_path / "pipe").is_fifo()


def test_a_large_table_is_read_and_encoded_within_seconds(tmp_path, written):
    values = np.random.default_rng(0).normal(size=(100_000, 1)).round(6)
    line = ",".join(["{0}"] * 19 + ["c"])
    rows = "\n".join(line.format(value) for value in values[:, 0])
    path = written(tmp_path, ",".join(f"x{n}" for n in range(20)) + "\n" + rows)
    start = time.process_time()
    pandas.read_csv(path)
    seconds = time.process_time() - start
    start = time.process_time()
    table = read_table(path)
    features = Encoder.learn_and_encode(table)[1]
    assert time.process_time() - start < 40 * seconds  # about 4 times what pandas takes
    inside = np.abs(values[:, 0]) < 3.5
    np.testing.assert_array_equal(features[inside], np.repeat(values[inside], 19, axis=1))


def test_importing_tables_loads_neither_jax_nor_the_method():
    code = "import sys, bbalpha.tables; bbalpha.tables.Encoder; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "pyarrow" in loaded
    assert not {"jax", "sklearn", "matplotlib", "typer", "bbalpha.fitting"} & set(loaded)


def test_a_parquet_table_with_too_many_columns_or_equal_names_is_refused(tmp_path, refusal):
    one = pyarrow.array([1, 2])
    same = pyarrow.Table.from_arrays([one, one, one], names=["a", "b", "a"])
    pyarrow.parquet.write_table(same, tmp_path / "same.parquet")
    with refusal("same.parquet has more than one column named 'a'."):
        read_table(tmp_path / "same.parquet")
    wide = pyarrow.Table.from_arrays([one] * 20_001, names=[f"c{n}" for n in range(20_001)])
    pyarrow.parquet.write_table(wide, tmp_path / "wide.parquet", write_statistics=False)
    with refusal("wide.parquet must have at most 20,000 columns; got 20,001."):
        read_table(tmp_path / "wide.parquet")
