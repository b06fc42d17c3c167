"""Sources of rows: what each reads, and one sentence for what it must not hold."""

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.runtime.sources import ArrayRows, Blocks, as_source, is_source

ROWS = np.random.default_rng(0).normal(size=(1000, 3))


class Rows:
    """A source of the user's, which may lie."""

    num_rows, block_rows = 1000, 100

    def __init__(self, **changes):
        vars(self).update(changes)

    def read(self, block):
        return {"x": ROWS[100 * block : 100 * (block + 1)]}


def test_arrays_and_mapped_files_are_read_in_blocks(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    for source in (ArrayRows(ROWS, 300), as_source(tmp_path / "rows.npy"), as_source(mapped)):
        found = np.concatenate(list(Blocks(source, stay_numpy=True)))
        np.testing.assert_array_equal(found, ROWS)
    assert len(Blocks(ArrayRows(ROWS, 300)).ends) == 4


def test_blocks_of_wide_rows_are_short():
    wide = ArrayRows({"image": np.zeros((99, 100_000), np.uint8), "label": np.arange(99)})
    assert wide.block_rows == 2


def test_rows_from_elsewhere_are_told_from_arrays(tmp_path):
    np.save(tmp_path / "rows.npy", ROWS)
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    assert all(map(is_source, (tmp_path, "rows.npy", Rows(), (mapped, ROWS))))
    assert not any(map(is_source, (ROWS, jnp.ones(3), {"x": ROWS}, [1.0], mapped * 2)))


def test_values_are_read_in_the_types_of_jax():
    block = Blocks(ArrayRows((ROWS, np.arange(1000)))).read(0)
    assert [leaf.dtype for leaf in block] == [np.float32, np.int32]


def broken(block, rows):
    def read(number):
        return rows if number == block else {"x": ROWS[:100]}

    return Blocks(Rows(read=read))


def test_a_value_that_is_not_finite_is_named_with_its_place():
    rows = ROWS[:100].copy()
    rows[17, 1] = np.nan
    rule = r"data\['x'\] must be finite; got 1 NaN or infinite values, the first in block 8, row 17"
    with pytest.raises(bb.SourceError, match=rule):
        broken(8, {"x": rows}).read(8)


@pytest.mark.parametrize("length", [99, 101])
def test_a_block_must_have_the_rows_that_it_announces(length):
    rule = rf"num_rows=1,000 and block_rows announce, 100 in block 3; got {length}\."
    with pytest.raises(bb.SourceError, match=rule):
        broken(3, {"x": ROWS[:length]}).read(3)


def test_a_source_without_the_rows_that_it_announces_cannot_be_read():
    def read(block):
        return {"x": [ROWS[:100], ROWS[100:200]][block]}

    rule = "data cannot be read in block 2: IndexError: list index out of range"
    with pytest.raises(bb.SourceError, match=rule):
        list(Blocks(Rows(read=read)))


@pytest.mark.parametrize(
    ("rows", "got"),
    [
        ({"x": ROWS[:100, :2]}, r"data\['x'\] .*shape \(2,\) and type float32 in block 1 and rows"),
        ({"x": np.ones((100, 3), int)}, r"data\['x'\] .*type int32 in block 1 and .*float32"),
        ({"y": ROWS[:100]}, r"data\['x'\] .*got none in block 1 and"),
    ],
)
def test_blocks_must_be_of_one_kind(rows, got):
    with pytest.raises(bb.SourceError, match=got):
        broken(1, rows).read(1)


def test_a_value_out_of_range_is_named_with_its_place():
    with pytest.raises(bb.SourceError, match=r"the range of float32; .* in block 1\."):
        broken(1, {"x": np.full((100, 3), 1e300)}).read(1)


@pytest.mark.parametrize(
    ("changes", "kind", "rule"),
    [
        ({"num_rows": 0}, ValueError, "data.num_rows must be at least 1; got"),
        ({"num_rows": 10.0}, TypeError, "data.num_rows must be a whole number; got"),
        ({"block_rows": 0}, ValueError, "data.block_rows must be at least 1"),
        ({"block_rows": [500, 400]}, ValueError, "sum to data.num_rows; got a sum of 900 with"),
        ({"block_rows": [1000, 0]}, ValueError, "must be positive"),
    ],
)
def test_numbers_of_rows_are_checked(changes, kind, rule):
    with pytest.raises(kind, match=rule):
        Blocks(Rows(**changes))


def test_paths_must_lead_to_something_that_can_be_read(tmp_path):
    with pytest.raises(ValueError, match="data must be a file or folder that exists; got /nowhere"):
        as_source(Path("/nowhere"))
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    with pytest.raises(ValueError, match=r"bad\.npy cannot be read as a \.npy file: "):
        as_source(tmp_path / "bad.npy")
    np.save(tmp_path / "text.npy", np.array(["a", "b"]))
    with pytest.raises(bb.SourceError, match=r"data must be numeric; got .* in block 0"):
        Blocks(as_source(tmp_path / "text.npy"))


def test_arrays_must_be_equally_long():
    with pytest.raises(ValueError, match="data must have the same number of rows in every array"):
        ArrayRows((ROWS, ROWS[:5]))


def test_mapped_pages_do_not_stay_in_memory(tmp_path):
    psutil = pytest.importorskip("psutil")
    np.save(tmp_path / "rows.npy", np.ones((2**15, 250)))  # 64 MiB
    blocks = Blocks(as_source(tmp_path / "rows.npy"))
    before = psutil.Process().memory_info().rss
    for _ in blocks:
        pass
    assert psutil.Process().memory_info().rss - before < 2**25
