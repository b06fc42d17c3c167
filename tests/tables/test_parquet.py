"""Facts about Parquet files: a flipped bit is noticed, and the row group named."""

import re

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from bbalpha.tables import TableError, parquet, read_table, write_table
from bbalpha.tables.files import writing_table


def test_a_flipped_bit_in_any_page_of_a_file_that_we_wrote_is_noticed(tmp_path, written):
    values = np.random.default_rng(0).normal(size=2000)
    write_table(pandas.DataFrame({"x": values, "y": -values}), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    column = pyarrow.parquet.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    places = np.linspace(start + 40, start + column.total_compressed_size - 1, 20).astype(int)
    for place in places:
        changed = bytearray(whole)
        changed[place] ^= 1 << int(place % 8)
        path = written(tmp_path, bytes(changed), "bad.parquet")
        with pytest.raises(
            TableError,
            match=r"bad\.parquet is not a complete Parquet file: row "
            r"group 1 of 1 cannot be read: .*\.$",
        ):
            read_table(path)


def test_the_damaged_row_group_is_named(tmp_path, monkeypatch, written, refusal):
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", 100)
    frame = pandas.DataFrame({"x": np.random.default_rng(0).normal(size=100)})
    with writing_table(tmp_path / "t.parquet") as write:
        for _ in range(3):
            write(frame)
    file = pyarrow.parquet.ParquetFile(tmp_path / "t.parquet")
    assert file.num_row_groups == 3
    column = file.metadata.row_group(1).column(0)
    changed = bytearray((tmp_path / "t.parquet").read_bytes())
    start = column.dictionary_page_offset or column.data_page_offset
    changed[start + column.total_compressed_size // 2] ^= 1
    path = written(tmp_path, bytes(changed), "bad.parquet")
    with refusal("row group 2 of 3 cannot be read: could not verify page integrity, CRC checksum"):
        read_table(path)


def test_rows_that_are_written_in_turn_are_those_written_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", 7)
    frame = pandas.DataFrame({"x": np.arange(20.0), "t": [f"t{n}" for n in range(20)]})
    for name in ("t.parquet", "t.parquet.gz", "t.csv", "t.tsv.zst", "t.csv.zip", "t.csv.gz"):
        with writing_table(tmp_path / name) as write:
            for start in range(0, 20, 3):
                write(frame[start : start + 3])
        write_table(frame, tmp_path / f"once.{name}")
        assert read_table(tmp_path / name).equals(read_table(tmp_path / f"once.{name}"))


def test_an_error_in_between_leaves_the_old_file(tmp_path):
    path = tmp_path / "t.parquet"
    write_table(pyarrow.table({"x": [1]}), path)

    def write_and_fail():
        with writing_table(path) as write:
            write(pandas.DataFrame({"x": [2]}))
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        write_and_fail()
    assert read_table(path).to_pydict() == {"x": [1]}
    assert [file.name for file in tmp_path.iterdir()] == ["t.parquet"]


def test_the_first_message_of_a_broken_footer_names_the_file(tmp_path, written):
    path = written(tmp_path, b"PAR1" + bytes(20), "bad.parquet")
    message = re.escape(f"{path} is not a complete Parquet file: ")
    with pytest.raises(TableError, match=message):
        read_table(path)
