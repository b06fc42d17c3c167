"""Files that hold far more than their size lets expect."""

import tracemalloc

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bbalpha.tables import compression, parquet, read_table
from bbalpha.tables.compression import (
    ALWAYS_ALLOWED,
    COMPRESSED_SUFFIXES,
    compressed,
    decoded_limit,
)


@pytest.fixture
def small_limit(monkeypatch):
    """A limit of one megabyte, so that bombs are quickly made."""
    monkeypatch.setattr(compression, "ALWAYS_ALLOWED", 10**6)


@pytest.mark.parametrize("suffix", COMPRESSED_SUFFIXES)
def test_a_file_that_decompresses_to_far_more_than_its_size_is_refused(
    tmp_path, written, refusal, small_limit, suffix
):
    data = compressed(b"a,b\n" + b"1,2\n" * 10**6, suffix, "bomb.csv")
    assert len(data) < 10**6 / compression.MOST_TIMES
    path = written(tmp_path, data, f"bomb.csv{suffix}")
    with refusal("1 MB, or 50 times its size, once decompressed, so that a small file cannot fill"):
        read_table(path)


def test_what_is_large_and_compressed_as_tables_are_is_read(tmp_path, written, small_limit):
    rows = np.random.RandomState(0).randint(10**6, size=(150_000, 2))
    text = "a,b\n" + "".join(f"{a},{b}\n" for a, b in rows)
    assert len(text) > 10**6
    path = written(tmp_path, compressed(text.encode(), ".gz", ""), "large.csv.gz")
    assert read_table(path).shape == (150_000, 2)


def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path, written, refusal):
    member = compressed(b"1,2\n" * 10**6, ".gz", "")
    path = written(tmp_path, member * 100, "bomb.csv.gz")  # 400 MB
    tracemalloc.start()
    try:
        with refusal("must hold at most 100 MB, or 50 times its size, once decompressed"):
            read_table(path)
        assert tracemalloc.get_traced_memory()[1] < 1.1 * ALWAYS_ALLOWED
    finally:
        tracemalloc.stop()


def test_a_parquet_file_of_one_repeated_value_is_refused(
    tmp_path, refusal, small_limit, monkeypatch
):
    monkeypatch.setattr(parquet, "CELLS_PER_BATCH", 2**14)
    table = pyarrow.table({"a": np.zeros(500_000), "b": ["some text"] * 500_000})
    pyarrow.parquet.write_table(table, tmp_path / "bomb.parquet")
    assert (tmp_path / "bomb.parquet").stat().st_size < 10**5
    with refusal(
        "bomb.parquet must hold at most 1 MB, or 50 times its size, once decoded, so that a small "
        "file cannot fill the memory (write it as CSV if it is a table)."
    ):
        read_table(tmp_path / "bomb.parquet")


def test_the_limit_grows_with_the_file():
    assert decoded_limit(10**6) == 10**8
    assert decoded_limit(10**7) == 5 * 10**8
