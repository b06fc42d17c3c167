"""Facts about sources: several files are one table, if their columns agree."""

import gzip

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from bbalpha.tables import Encoder, read_table


def parquet(path, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), path)


@pytest.fixture
def folder(tmp_path):
    """A table in three files, and what other programs leave beside them."""
    (tmp_path / "b.csv").write_text("y,x\n3,c\n4,d\n")
    (tmp_path / "a.csv").write_text("x;y\na;1\nb;2\n")
    (tmp_path / "c.tsv.gz").write_bytes(gzip.compress(b"x\ty\ne\t5\n"))
    for name in ("_SUCCESS.csv", ".hidden.csv", "notes.txt", "model.safetensors"):
        (tmp_path / name).write_text("no table")
    (tmp_path / "more").mkdir()
    return tmp_path


def test_a_folder_is_the_table_of_its_files_in_the_order_of_their_names(folder):
    found = read_table(folder)
    assert found.to_pydict() == {"x": list("abcde"), "y": list("12345")}


def test_a_pattern_is_the_table_of_the_files_that_match(folder, refusal):
    assert read_table(str(folder / "?.csv")).column("x").to_pylist() == list("abcd")
    assert read_table(str(folder / "[b]*")).column("x").to_pylist() == list("cd")
    with refusal("*.parquet matches no file."):
        read_table(folder / "*.parquet")


def test_a_file_may_have_a_name_like_a_pattern(tmp_path):
    (tmp_path / "a[1].csv").write_text("x,y\n1,2\n")
    assert read_table(tmp_path / "a[1].csv").num_rows == 1


def test_files_must_have_the_same_columns(folder, refusal):
    (folder / "d.csv").write_text("x,z\n1,2\n")
    with refusal("d.csv lacks the columns 'y', which "):
        read_table(folder)
    (folder / "d.csv").write_text("x,y,z\n1,2,3\n")
    with refusal("d.csv has the columns 'z', which "):
        read_table(folder)


@pytest.mark.parametrize(
    ("value", "kind"), [("text", "string"), (True, "bool"), ([1], "list<element: int64>")]
)
def test_types_that_change_between_files_are_refused(tmp_path, refusal, value, kind):
    parquet(tmp_path / "a.parquet", id=[1, 2], x=[1.5, 2.5])
    parquet(tmp_path / "b.parquet", id=[3], x=[value])
    with refusal(
        f"b.parquet must have the types of {tmp_path / 'a.parquet'}; got {kind} in column 'x' "
        "instead of double."
    ):
        read_table(tmp_path)


def test_numbers_of_every_width_are_of_one_type_and_a_column_may_be_empty(tmp_path):
    parquet(tmp_path / "a.parquet", x=pyarrow.array([1, 2], pyarrow.int32()), t=["u", "v"])
    parquet(tmp_path / "b.parquet", x=[2.5], t=pyarrow.array(["w"]).dictionary_encode())
    parquet(tmp_path / "c.parquet", x=pyarrow.nulls(1), t=pyarrow.nulls(1))
    found = read_table(tmp_path)
    assert found.to_pydict() == {"x": [1.0, 2.0, 2.5, None], "t": ["u", "v", "w", None]}
    assert Encoder.learn(read_table(tmp_path)).columns[0].kind == "number"


def test_whole_numbers_of_every_width_stay_exact(tmp_path):
    large = 2**53 + 1
    parquet(tmp_path / "a.parquet", x=pyarrow.array([1], pyarrow.int8()))
    parquet(tmp_path / "b.parquet", x=[large])
    assert read_table(tmp_path).column("x").to_pylist() == [1, large]


def test_a_file_without_rows_is_nothing_among_others(tmp_path, refusal):
    parquet(tmp_path / "a.parquet", x=pyarrow.array([], pyarrow.int64()))
    with refusal("has no rows below its header."):
        read_table(tmp_path)
    parquet(tmp_path / "b.parquet", x=[7])
    assert read_table(tmp_path).column("x").to_pylist() == [7]


def test_a_nested_column_is_refused_with_the_file_unless_it_is_dropped(tmp_path, refusal):
    parquet(tmp_path / "n.parquet", x=[1, 2, 4], nested=[[1], [2], [3]])
    table = read_table(tmp_path / "n.parquet")
    with refusal(f"column 'nested' of {tmp_path / 'n.parquet'} must hold numbers, dates or texts"):
        Encoder.learn(table)
    features = Encoder.learn_and_encode(table.drop_columns(["nested"]))[1]
    np.testing.assert_array_equal(features[:, 0], [1, 2, 4])
