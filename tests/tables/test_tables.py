"""Facts about tables: what is read from a file, how columns become features, and every refusal."""

import bz2
import gzip
import io
import json
import lzma
import os
import re
import subprocess
import sys
import threading
import time
import zipfile
from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas
import pyarrow
import pyarrow.parquet
import pytest

from bbalpha.tables import (
    Column,
    Encoder,
    TableError,
    Target,
    drop_columns,
    read_table,
    write_table,
)

LETTERS = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]


def written(folder, content, name="table.csv"):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def cells(frame):
    """The rows of a frame as lists, None where a cell is missing."""
    return frame.astype(object).where(frame.notna(), None).to_numpy().tolist()


def refusal(*parts):
    """A pattern for a message of one sentence that is these parts, with anything between them."""
    return "^" + ".*".join(re.escape(part) for part in parts)


def one_sentence(message):
    body = re.sub(r"'[^']*'|\S+/\S+", "", str(message))
    return "\n" not in str(message) and body.endswith(".") and ". " not in body


# Reading


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "   ", " \t "])
def test_a_table_is_the_same_whatever_its_delimiter(tmp_path, delimiter):
    lines = [["size", "color", "y"], ["1.5", "red", "-2e3"], ["2", "NA", "7"]]
    text = "\n".join(delimiter.join(line) for line in lines)
    frame = read_table(written(tmp_path, text))
    assert list(frame.columns) == ["size", "color", "y"]
    assert cells(frame) == [["1.5", "red", "-2e3"], ["2", None, "7"]]


def test_names_and_cells_are_trimmed_and_a_byte_order_mark_is_stripped(tmp_path):
    content = b'\xef\xbb\xbf a , "b c"\r\n 1 ,"x, y "\r\n\r\n2,  z\r\n'
    frame = read_table(written(tmp_path, content))
    assert list(frame.columns) == ["a", "b c"]
    assert cells(frame) == [["1", "x, y"], ["2", "z"]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system(tmp_path, end):
    assert cells(read_table(written(tmp_path, end.join(["a,b", "1,2", "3,4"])))) == [
        ["1", "2"],
        ["3", "4"],
    ]


def test_tokens_of_a_missing_value_are_missing_and_nothing_else_is(tmp_path):
    missing = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "-", '""', " NA "]
    present = ["0", "no", "false", "none at all", "--", "-1"]
    rows = "".join(f"{token},x\n" for token in missing + present)
    frame = read_table(written(tmp_path, "a,b\n" + rows))
    assert frame["a"].isna().tolist() == [True] * len(missing) + [False] * len(present)
    assert frame["a"].dropna().tolist() == present


def test_digits_are_kept_as_they_are_written(tmp_path):
    frame = read_table(written(tmp_path, "zip,y\n01234,1.10\n00007,12345678901234567890\n"))
    assert cells(frame) == [["01234", "1.10"], ["00007", "12345678901234567890"]]


def test_a_single_column_may_have_spaces_and_commas_in_it(tmp_path):
    assert cells(read_table(written(tmp_path, "y\n1\n2\n"))) == [["1"], ["2"]]
    assert cells(read_table(written(tmp_path, "y\n1,5\n2,25\n"))) == [["1.5"], ["2.25"]]
    frame = read_table(written(tmp_path, "house price\n100\n200\n"))
    assert list(frame.columns) == ["house price"]
    assert cells(read_table(written(tmp_path, "when\n2020-01-01 10:00\n"))) == [
        ["2020-01-01 10:00"]
    ]


def test_a_blank_line_of_a_single_column_is_a_missing_cell_unless_it_is_last(tmp_path):
    assert cells(read_table(written(tmp_path, "y\n1\n\n3\n\n\n"))) == [["1"], [None], ["3"]]
    assert cells(read_table(written(tmp_path, "a,b\n1,2\n\n3,4\n"))) == [["1", "2"], ["3", "4"]]


def test_decimal_commas_are_points_unless_the_delimiter_is_a_comma(tmp_path):
    assert cells(read_table(written(tmp_path, "a;b\n1,5;x\n-2,25e3;1,2,3\n"))) == [
        ["1.5", "x"],
        ["-2.25e3", "1,2,3"],
    ]
    assert cells(read_table(written(tmp_path, 'a,b\n"1,5",x\n'))) == [["1,5", "x"]]


@pytest.mark.parametrize("column", [["1,234", "12.5"], ["1,234", "999"]])
def test_a_comma_that_may_mark_thousands_is_not_read_as_a_decimal_comma(tmp_path, column):
    frame = read_table(written(tmp_path, "a;b\n" + "".join(f"{cell};x\n" for cell in column)))
    assert frame["a"].tolist() == column
    with pytest.raises(TableError, match=refusal("column 'a' must hold", "'1,234' in row 1")):
        Encoder.learn(frame)


def test_the_delimiter_is_the_one_that_agrees_with_the_rows(tmp_path):
    frame = read_table(written(tmp_path, "a, in m;b, in s\n1,5;2\n3;4\n"))
    assert list(frame.columns) == ["a, in m", "b, in s"]


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


COMPRESSED = [".gz", ".bz2", ".xz", ".zip", ".zst"]


@pytest.mark.parametrize("suffix", COMPRESSED)
def test_a_compressed_table_is_read_and_a_damaged_one_refused(tmp_path, suffix):
    data = compressed(b"a,b\n" + b"1,2\n" * 1000, suffix)
    frame = read_table(written(tmp_path, data, f"table.csv{suffix}"))
    assert frame.shape == (1000, 2)
    for damaged in (data[: len(data) // 2], b"a,b\n1,2\n"):
        path = written(tmp_path, damaged, f"bad.csv{suffix}")
        with pytest.raises(TableError, match=rf"bad.csv{suffix} must be a complete {suffix} file"):
            read_table(path)


def test_an_archive_must_hold_one_file(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.csv", "a\n1\n")
        archive.writestr("b.csv", "a\n1\n")
    with pytest.raises(TableError, match="got 2 files in it where one is expected"):
        read_table(tmp_path / "two.zip")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must be a table; got an empty file"),
        (b"\n  \n\n", "must be a table; got an empty file"),
        (b"\xef\xbb\xbf", "must be a table; got an empty file"),
        (b"a,b\n", "must have rows below its header; got none"),
        (b"y\n\n\n", "must have rows below its header; got none"),
        (b"a,b\n1,2\ncaf\xe9,3\n", "must be UTF-8 text; got byte 0xe9 in line 3 (convert it"),
        ("a,b\n1,2\n".encode("utf-16"), "must be UTF-8 text; got UTF-16 (convert it"),
        (bytes(range(256)) * 4, "must be a table of text; got binary data, with byte 0x00"),
        (b"a,b\n1,\x07\n", "got binary data, with byte 0x07 in line 2"),
        (b"a,b\n1,2\n1,2,3\n", "cells in every line as in its header, 2; got 3 in line 3"),
        (b"a,b\n\n1,2\n\n1\n", "cells in every line as in its header, 2; got 1 in line 5"),
        (b"a b\n1 2\n3 4\n5 6\n1 2 3\n", "as in its header, 2; got 3 in line 5"),
        (b"a,b,a\n1,2,3\n", "must give each column another name; got 'a' twice"),
        (b"a, a \n1,2\n", "must give each column another name; got 'a' twice"),
        (b",a\n0,2\n", "must name every column; got '' as the name of column 1 (pandas"),
        (b"a,b,\n0,2,\n", "must name every column; got '' as the name of column 3"),
        (b'a,"b\nc"\n0,2\n', r"printable characters; got 'b\nc' as the name of column 2"),
        (b"5.1,3.5\n4.9,3.0\n", "must name its columns in the first line; got the numbers '5.1'"),
        (b'a,b\n1,2\n1,"2\n', "must have every quote closed; got line 3, where"),
        (b'a,b\n1,"2"x\n', "must have every quote closed; got line 2, where"),
        (b'a,b\n1,"' + b"x" * 200_000, "must have every quote closed; got line 2, where"),
    ],
)
def test_what_is_not_a_table_is_refused(tmp_path, content, message):
    with pytest.raises(TableError, match=refusal(str(tmp_path), message)) as caught:
        read_table(written(tmp_path, content))
    assert one_sentence(caught.value)


def test_a_path_that_is_no_table_is_refused(tmp_path):
    with pytest.raises(TableError, match=r"gone.csv must be a file; got nothing of that name\.$"):
        read_table(tmp_path / "gone.csv")
    with pytest.raises(TableError, match=r"must be a file; got a folder\.$"):
        read_table(tmp_path)
    with pytest.raises(TableError, match=r"must be CSV or Parquet; got a name that ends in .xlsx"):
        read_table(tmp_path / "sheet.xlsx")
    with pytest.raises(TableError, match=r"must be a file that can be read; got not a directory"):
        read_table(written(tmp_path, "a\n1\n") / "inside.csv")


def test_a_pipe_can_be_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"a,b\n1,2\n"])
    writer.start()
    assert cells(read_table(tmp_path / "pipe")) == [["1", "2"]]
    writer.join()


# Parquet


def test_a_parquet_table_keeps_its_types(tmp_path):
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
    frame = read_table(tmp_path / "table.parquet")
    assert list(frame.columns) == ["n", "t", "b", "d", "m"]
    np.testing.assert_array_equal(frame["n"], [1.0, np.nan, 3.0])
    assert cells(frame[["t", "b"]]) == [["x", "True"], [None, "False"], [None, None]]
    encoder = Encoder.learn(frame, impute="median")
    assert encoder.feature_names == ["n", "t=x", "t=", "b=False", "b=True", "b=", "d", "m"]
    expected = [
        [1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 2.0, 1.25],
        [2.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.5, 2.5],
        [3.0, 0.0, 1.0, 0.0, 0.0, 1.0, -1.0, 3.5],
    ]
    np.testing.assert_array_equal(encoder.encode(frame), expected)


def test_a_parquet_table_is_known_by_its_content_and_its_index_left_out(tmp_path):
    frame = pandas.DataFrame({1: [1.5, 2.5]}, index=[7, 8]).rename(columns=str)
    frame.to_parquet(tmp_path / "table.data")
    found = read_table(tmp_path / "table.data")
    assert list(found.columns) == ["1"]
    assert found.index.tolist() == [0, 1]


def test_a_damaged_parquet_file_is_refused(tmp_path):
    pandas.DataFrame({"a": range(1000)}).to_parquet(tmp_path / "table.parquet")
    whole = (tmp_path / "table.parquet").read_bytes()
    for damaged in (whole[:500], b"a,b\n1,2\n", whole[:4] + whole[200:]):
        path = written(tmp_path, damaged, "bad.parquet")
        with pytest.raises(TableError, match=r"bad.parquet must be a complete Parquet file; got"):
            read_table(path)


def test_a_parquet_table_needs_rows_and_names(tmp_path):
    pandas.DataFrame({"a": []}).to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(TableError, match="must have rows below its header; got none"):
        read_table(tmp_path / "empty.parquet")
    table = pyarrow.Table.from_arrays([pyarrow.array([1])] * 2, names=["a", "a "])
    pyarrow.parquet.write_table(table, tmp_path / "twice.parquet")
    with pytest.raises(TableError, match="must give each column another name; got 'a' twice"):
        read_table(tmp_path / "twice.parquet")
    pandas.DataFrame(index=[3, 4]).to_parquet(tmp_path / "none.parquet")
    with pytest.raises(TableError, match="must have columns; got none"):
        read_table(tmp_path / "none.parquet")


# Writing


@pytest.mark.parametrize(
    "name", ["t.csv", "t.tsv", "t.txt", "t.parquet", *(f"t.csv{s}" for s in COMPRESSED)]
)
def test_a_table_that_was_written_is_read_back(tmp_path, name):
    values = np.random.default_rng(0).normal(size=5)
    frame = pandas.DataFrame({"x, 1": values, "t": ["a", 'b "c"', None, "d\ne", "f;g"]})
    write_table(frame, tmp_path / name)
    found = read_table(tmp_path / name)
    np.testing.assert_array_equal(found["x, 1"].astype(float), values)
    assert cells(found[["t"]]) == cells(frame[["t"]])
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


def test_a_path_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    frame = pandas.DataFrame({"x": [1]})
    (tmp_path / "folder").mkdir()
    with pytest.raises(
        TableError, match=r"folder must be a file that can be written; got is a dir"
    ):
        write_table(frame, tmp_path / "folder")
    with pytest.raises(TableError, match=r"can be written; got no such file or directory\.$"):
        write_table(frame, tmp_path / "gone" / "t.csv")
    with pytest.raises(TableError, match=r"can be written; got file name too long\.$"):
        write_table(frame, tmp_path / ("t" * 300))
    with pytest.raises(TableError, match=r"must be CSV or Parquet; got a name that ends in .json"):
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


# Encoding


def texts(**columns):
    return pandas.DataFrame({name: pandas.Series(c, dtype=str) for name, c in columns.items()})


def mixed():
    return texts(
        size=["1.5", "-2e3", ".5", "+7"],
        color=["red", "blue", None, "red"],
        day=["1970-01-02", "1970-01-01T12:00", "1970-01-01T01:00+01:00", "1969-12-31 06:00:00Z"],
    )


MIXED_FEATURES = [
    [1.5, 0.0, 1.0, 0.0, 1.0],
    [-2000.0, 1.0, 0.0, 0.0, 0.5],
    [0.5, 0.0, 0.0, 1.0, 0.0],
    [7.0, 0.0, 1.0, 0.0, -0.75],
]


def test_numbers_texts_and_dates_become_features():
    encoder = Encoder.learn(mixed())
    assert encoder.columns == (
        Column("size", "number"),
        Column("color", "text", ("blue", "red", None)),
        Column("day", "date"),
    )
    assert encoder.feature_names == ["size", "color=blue", "color=red", "color=", "day"]
    features = encoder.encode(mixed())
    assert features.dtype == np.float64
    np.testing.assert_array_equal(features, MIXED_FEATURES)


@pytest.mark.parametrize("seed", range(5))
def test_features_of_a_row_depend_on_neither_other_rows_nor_the_order_of_columns(seed):
    encoder = Encoder.learn(mixed())
    rng = np.random.default_rng(seed)
    rows = rng.integers(4, size=rng.integers(1, 9))
    frame = mixed().iloc[rows][list(rng.permutation(list(mixed().columns)))]
    np.testing.assert_array_equal(encoder.encode(frame), np.array(MIXED_FEATURES)[rows])


def test_numbers_are_read_to_the_last_digit():
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-300, 300, 0.6)
    frame = texts(x=[repr(float(value)) for value in values])
    np.testing.assert_array_equal(Encoder.learn(frame).encode(frame)[:, 0], values)


def test_a_number_is_a_plain_decimal_number_and_nothing_else():
    for stray in ("0x10", "1_000", "1 000", "True", "١", "1,5", "5%", "−1", "1e", ".", "1\n"):
        frame = texts(x=["1", "2", "3", stray])
        with pytest.raises(TableError, match=refusal("column 'x' must hold finite numbers; got")):
            Encoder.learn(frame.replace("1\n", "1\n2"))


def test_typed_columns_need_no_text():
    moments = [datetime(1970, 1, 2, 12), datetime(1970, 1, 1)]
    aware = [moment.replace(tzinfo=timezone(timedelta(hours=6))) for moment in moments]
    frame = pandas.DataFrame(
        {
            "whole": [1, 2],
            "small": np.array([0.5, 1.5], np.float32),
            "true": [True, False],
            "category": pandas.Categorical(["b", "a"]),
            "object": np.array(["b", "a"], object),
            "moment": moments,
            "aware": aware,
            "date": [date(1970, 1, 2), date(1970, 1, 1)],
        }
    )
    encoder = Encoder.learn(frame)
    kinds = ["number", "number", "text", "text", "text", "date", "date", "date"]
    assert [column.kind for column in encoder.columns] == kinds
    expected = [
        [1.0, 0.5, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 1.5, 1.25, 1.0],
        [2.0, 1.5, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, -0.25, 0.0],
    ]
    np.testing.assert_array_equal(encoder.encode(frame), expected)
    as_read = texts(
        **{name: frame[name].astype(str) for name in ("whole", "small", "true", "moment", "aware")}
    )
    names = list(as_read.columns)
    np.testing.assert_array_equal(
        Encoder.learn(as_read).encode(as_read), Encoder.learn(frame[names]).encode(frame[names])
    )


def test_dates_far_from_today_are_read_beside_nanoseconds():
    frame = texts(d=["0001-01-01", "9999-12-31", "1970-01-01T00:00:00.864000123"])
    expected = [(date(1, 1, 1) - date(1970, 1, 1)).days, 2932896, 1e-5]
    np.testing.assert_allclose(Encoder.learn(frame).encode(frame)[:, 0], expected, rtol=1e-12)


def test_text_can_be_asked_for():
    frame = texts(code=["01", "1", "1"])
    encoder = Encoder.learn(frame, text=["code"])
    assert encoder.feature_names == ["code=01", "code=1"]
    np.testing.assert_array_equal(encoder.encode(frame), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    typed = pandas.DataFrame({"code": [1.0, 2.5, np.nan], "day": pandas.to_datetime(["2020"] * 3)})
    encoder = Encoder.learn(typed, text=["code", "day"])
    assert encoder.feature_names == ["code=1", "code=2.5", "code=", "day=2020-01-01"]
    np.testing.assert_array_equal(encoder.encode(typed)[:, :3], np.eye(3))


def test_missing_numbers_and_dates_are_filled_with_the_median_of_training():
    frame = texts(
        x=["1", None, "4", "5"],
        full=["1", "2", "3", "4"],
        d=["1970-01-03", None, "1970-01-05", None],
    )
    encoder = Encoder.learn(frame, impute="median")
    assert [column.fill for column in encoder.columns] == [4.0, 2.5, 3.0]
    new = texts(x=[None], full=[None], d=[None])
    np.testing.assert_array_equal(encoder.encode(new), [[4.0, 2.5, 3.0]])
    np.testing.assert_array_equal(encoder.encode(frame)[1], [4.0, 2.0, 3.0])


def test_the_median_of_the_largest_numbers_is_finite():
    encoder = Encoder.learn(texts(x=["1.7e308", "1.7e308"]), impute="median")
    assert encoder.columns[0].fill == 1.7e308


@pytest.mark.parametrize(
    ("frame", "options", "message"),
    [
        (
            texts(x=["1", "2", "abc"]),
            {},
            "column 'x' must hold finite numbers; got 'abc' in row 3 "
            "(--text x treats the column as text, --drop x leaves it out).",
        ),
        (
            texts(**{"living area": ["1", "b", "2", "c", "3"]}),
            {},
            "column 'living area' must hold finite numbers; got 'b' in row 2, the first of 2 "
            "(--text 'living area' treats the column as text, --drop 'living area' leaves it out).",
        ),
        (
            texts(x=["1", "-inf", "2"]),
            {},
            "column 'x' must hold finite numbers; got '-inf' in row 2",
        ),
        (texts(x=["1", "1e999"]), {}, "must hold finite numbers; got '1e999' in row 2"),
        (pandas.DataFrame({"x": [1.0, np.inf]}), {}, "finite numbers; got 'inf' in row 2"),
        (
            texts(d=["2020-01-01", "2020-02-30", "2020-01-03"]),
            {},
            "column 'd' must hold dates like 2024-12-31; got '2020-02-30' in row 2 (--text d",
        ),
        (
            texts(x=["1", None, None], t=["a", None, "a"], d=["2020-01-01", "2020-01-02", None]),
            {},
            "numbers and dates must not be missing; got missing cells: 2 in 'x' and 1 in 'd' "
            "(--impute median fills them with the median of their column).",
        ),
        (
            texts(x=["1", "2"], e=[None, None], f=[None, None]),
            {"impute": "median"},
            "every column must have values in some rows; got all cells missing in 'e' and 'f' "
            "(--drop e --drop f to leave out what is empty).",
        ),
        (texts(), {}, "the table must have a column besides the target; got none."),
        (
            texts(t=LETTERS[:21] + LETTERS[:20]),
            {},
            "column 't' must repeat its texts, because those of one row only tell nothing about "
            "new rows; got 21 different ones in 41 rows (--drop t leaves it out).",
        ),
        (
            texts(t=[f"t{number % 1001}" for number in range(5000)]),
            {},
            "column 't' must have at most 1000 different texts; got 1001 (--drop t leaves it out).",
        ),
        (
            texts(x=[str(n) for n in range(50)]),
            {"text": ["x"]},
            "column 'x' must repeat its texts",
        ),
        (
            texts(color=["a"]),
            {"text": ["colour"]},
            "--text must be a column of the table; got 'colour' (the nearest is 'color').",
        ),
        (texts(x=["1"]), {"impute": "mean"}, "impute must be None or 'median'; got 'mean'."),
        (
            pandas.DataFrame({"x": [[1], [2]]}),
            {},
            "column 'x' must hold numbers, dates or texts; got the type list<item: int64> "
            "(--drop x leaves it out).",
        ),
        (pandas.DataFrame({"x": [1, "a"]}), {}, "numbers, dates or texts; got the type object"),
        (pandas.DataFrame({"x": pandas.to_timedelta([1, 2])}), {}, "got the type duration[ns]"),
        (pandas.DataFrame({1: [1]}), {}, "the table must name every column; got 1 as the name"),
    ],
)
def test_a_training_table_that_cannot_be_encoded_is_refused(frame, options, message):
    with pytest.raises(TableError, match=re.escape(message)) as caught:
        Encoder.learn(frame, **options)
    assert one_sentence(caught.value)


def test_few_texts_may_all_be_different():
    assert len(Encoder.learn(texts(t=LETTERS[:20])).feature_names) == 20
    assert len(Encoder.learn(texts(t=LETTERS[:21] * 2)).feature_names) == 21


def refused(frame, message, **options):
    with pytest.raises(TableError, match=re.escape(message)) as caught:
        Encoder.learn(mixed()).encode(frame, **options)
    assert one_sentence(caught.value)


def test_a_new_table_must_have_the_columns_of_the_training_table():
    refused(
        mixed().rename(columns={"color": "colour", "day": "z"}),
        "the table must have every column that the model was fitted to; "
        "got none named 'color' (nearest: 'colour') and 'day'.",
    )
    refused(
        mixed().assign(y="1", extra="2"),
        "the table must have no columns that the model was not fitted to; "
        "got 'extra' (remove them from the file).",
        allowed=["y"],
    )
    features = Encoder.learn(mixed()).encode(mixed().assign(y="1"), allowed=["y", "z"])
    np.testing.assert_array_equal(features, MIXED_FEATURES)


def test_a_new_table_must_have_cells_of_the_same_kind():
    refused(mixed().assign(size="big"), "'size' must hold finite numbers; got 'big' in row 1")
    refused(mixed().assign(size=pandas.Timestamp("2020-01-01")), "got '2020-01-01' in row 1")
    refused(mixed().assign(day=3.0), "column 'day' must hold dates like 2024-12-31; got '3' in row")
    refused(
        mixed().assign(day=None, size=["1", None, "2", "3"]),
        "numbers and dates must not be missing; got missing cells: 1 in 'size' and 4 in 'day' "
        "(a model fitted with --impute median fills them with the median of their column).",
    )
    refused(mixed(), "unknown must be 'error' or 'ignore'; got 'drop'.", unknown="drop")


def test_an_unseen_text_is_refused_or_encoded_as_zeros():
    frame = mixed().assign(color=["red", "green", None, "blue"])
    refused(
        frame,
        "column 'color' must hold texts that the model was fitted to, 'blue' and 'red'; "
        "got 'green' in row 2 (--unknown ignore treats it as none of them).",
    )
    features = Encoder.learn(mixed()).encode(frame, unknown="ignore")
    expected = [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    np.testing.assert_array_equal(features[:, 1:4], expected)


def test_a_missing_text_that_training_did_not_see_is_unseen():
    encoder = Encoder.learn(texts(t=["a", "b"]))
    with pytest.raises(TableError, match="got a missing value in row 2"):
        encoder.encode(texts(t=["a", None]))
    features = encoder.encode(texts(t=["a", None]), unknown="ignore")
    np.testing.assert_array_equal(features, [[1.0, 0.0], [0.0, 0.0]])


def test_known_texts_are_listed_shortly_and_control_characters_escaped():
    encoder = Encoder.learn(texts(t=LETTERS[:20]))
    with pytest.raises(
        TableError, match=r"'aa', 'ab', 'ac', 'ad', 'ae' and 15 more; got"
    ) as caught:
        encoder.encode(texts(t=["\x1b[31m\n" + "x" * 1000]))
    assert r"'\x1b[31m\nxxx" in str(caught.value)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_columns_are_dropped_by_name():
    assert list(drop_columns(mixed(), ["size", "day"]).columns) == ["color"]
    with pytest.raises(
        TableError, match=r"--drop must be .*; got 'Sise' \(the nearest is 'size'\)"
    ):
        drop_columns(mixed(), ["Sise"])
    with pytest.raises(
        TableError, match=r"got 'zzz' \(the columns are 'size', 'color' and 'day'\)"
    ):
        drop_columns(mixed(), ["zzz"])


# JSON


@pytest.mark.parametrize("impute", [None, "median"])
def test_an_encoder_survives_json(impute):
    encoder = Encoder.learn(mixed(), impute=impute)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(mixed()), MIXED_FEATURES)


def column(**changes):
    return {"name": "t", "kind": "text", "categories": ["a", "b"], "fill": None} | changes


def number(**changes):
    return column(name="x", kind="number", categories=[]) | changes


def nested(depth):
    inner = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "the encoder must be an object; got None"),
        ([], "the encoder must be an object; got []"),
        ("columns", "the encoder must be an object; got 'columns'"),
        ({}, "the encoder must have the keys 'columns'; got none"),
        ({"columns": [column()], "more": 1}, "the keys 'columns'; got 'columns' and 'more'"),
        ({"columns": []}, "the encoder must list its columns; got columns=[]"),
        ({"columns": {"0": column()}}, "the encoder must list its columns; got columns={"),
        ({"columns": None}, "the encoder must list its columns; got columns=None"),
        ({"columns": [None]}, "column 1 of the encoder must be an object; got None"),
        ({"columns": [column(), 3]}, "column 2 of the encoder must be an object; got 3"),
        ({"columns": [{"name": "x"}]}, "column 1 of the encoder must have the keys 'name', 'kind'"),
        ({"columns": [column(self=1)]}, "column 1 of the encoder must have the keys"),
        ({"columns": [column(name=3)]}, "must name every column; got 3 as the name of column 1"),
        ({"columns": [column(name="")]}, "must name every column; got '' as the name"),
        ({"columns": [column(name=["t"])]}, "must name every column; got ['t'] as the name"),
        ({"columns": [column(name="\x1b[2J")]}, r"printable characters; got '\x1b[2J' as"),
        ({"columns": [column(name="\ud800")]}, r"printable characters; got '\ud800' as"),
        ({"columns": [column(name="x" * 9999)]}, "at most 1000 printable characters; got 'xxx"),
        ({"columns": [column(), column()]}, "must give each column another name; got 't' twice"),
        ({"columns": [column(kind="code")]}, "must be 'number' or 'date' or 'text'; got 'code'"),
        ({"columns": [column(kind=None)]}, "must be 'number' or 'date' or 'text'; got None"),
        ({"columns": [column(kind=["text"])]}, "'date' or 'text'; got ['text']"),
        ({"columns": [column(categories=[])]}, "must list 1 to 1001 categories; got []"),
        ({"columns": [column(categories="ab")]}, "must list 1 to 1001 categories; got 'ab'"),
        ({"columns": [column(categories=None)]}, "must list 1 to 1001 categories; got None"),
        ({"columns": [column(categories={"a": 1})]}, "must list 1 to 1001 categories; got {'a'"),
        ({"columns": [column(categories=LETTERS * 11)]}, "must list 1 to 1001 categories; got ["),
        ({"columns": [column(categories=["a", 1])]}, "must have texts for categories; got 1"),
        ({"columns": [column(categories=[["a"]])]}, "must have texts for categories; got ['a']"),
        ({"columns": [column(categories=["\udfff"])]}, r"texts for categories; got '\udfff'"),
        ({"columns": [column(categories=["a", "a"])]}, "distinct categories; got 'a' and 'a'"),
        ({"columns": [column(categories=[None, None])]}, "distinct categories; got None and"),
        ({"columns": [column(fill=1.0)]}, "must have a number to fill in, or none; got 1.0"),
        ({"columns": [number(categories=["a"])]}, "must have no categories; got ['a']"),
        ({"columns": [number(categories=None)]}, "must have no categories; got None"),
        ({"columns": [number(fill="1")]}, "must have a number to fill in, or none; got '1'"),
        ({"columns": [number(fill=True)]}, "must have a number to fill in, or none; got True"),
        ({"columns": [number(fill=[1])]}, "must have a number to fill in, or none; got [1]"),
        ({"columns": [number(fill=float("nan"))]}, "must have a finite number to fill in; got nan"),
        ({"columns": [number(fill=float("-inf"))]}, "a finite number to fill in; got -inf"),
        ({"columns": [number(fill=10**400)]}, "must have a finite number to fill in; got 1000"),
        (
            {"columns": [number(kind="date", fill=float("inf"))]},
            "finite number to fill in; got inf",
        ),
        (
            {
                "columns": [
                    column(name=f"t{n}", categories=[str(i) for i in range(1000)])
                    for n in range(101)
                ]
            },
            "the columns must make at most 100000 features; got 101000",
        ),
        ({"columns": [column(categories=nested(900))]}, "must have texts for categories; got [[["),
        (nested(900), "the encoder must be an object; got [[["),
    ],
)
def test_an_encoder_from_a_stranger_is_refused_if_it_is_not_one(obj, message):
    with pytest.raises(TableError, match=re.escape(message)) as caught:
        Encoder.from_json(obj)
    assert one_sentence(caught.value)
    assert len(str(caught.value)) < 400


def test_whole_numbers_of_json_are_floats():
    encoder = Encoder.from_json({"columns": [number(fill=3)]})
    assert encoder.columns == (Column("x", "number", (), 3.0),)
    np.testing.assert_array_equal(encoder.encode(texts(x=[None])), [[3.0]])


# Targets


@pytest.mark.parametrize(
    ("values", "task", "expected", "classes"),
    [
        (["1.5", "2", "3"], None, [1.5, 2.0, 3.0], ()),
        (["3", "8", "5", "3"], None, [3.0, 8.0, 5.0, 3.0], ()),
        (["0", "1", "1"], None, [0, 1, 1], ("0", "1")),
        (["10", "9", "9.0"], None, [1, 0, 0], ("9", "10")),
        (["0", "1", "1"], "regression", [0.0, 1.0, 1.0], ()),
        (["3", "8", "10", "3.0"], "classification", [0, 1, 2, 0], ("3", "8", "10")),
        (["no", "yes", "no"], None, [0, 1, 0], ("no", "yes")),
        (["1", "2", "3", "4+"], "classification", [0, 1, 2, 3], ("1", "2", "3", "4+")),
        (["-0", "0", "1"], None, [0, 0, 1], ("-0", "1")),
    ],
)
def test_a_target_is_a_number_or_a_class(values, task, expected, classes):
    frame = texts(y=values)
    target = Target.learn(frame, "y", task)
    assert target.task == ("classification" if classes else "regression")
    assert target.classes == classes
    found = target.encode(frame)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype.kind == ("i" if classes else "f")
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target


def test_typed_targets_agree_with_texts():
    frame = pandas.DataFrame({"y": [1.0, 2.0, 1.0], "b": [True, False, True]})
    target = Target.learn(frame, "y")
    assert target.classes == ("1", "2")
    np.testing.assert_array_equal(target.encode(texts(y=["2.0", "1"])), [1, 0])
    assert Target.learn(frame, "b").classes == ("False", "True")


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["1", None, None], None, "target 'y' must be known in every row; got 2 missing, the first "
         "in row 2 (remove those rows from the file)."),
        ([None, None], None, "must be known in every row; got 2 missing"),
        (["1", "1.0"], None, "target 'y' must have different values; got '1' in every row."),
        (["1", "1"], "regression", "must have different values; got '1' in every row."),
        (["a", "a"], None, "target 'y' must have different values; got 'a' in every row."),
        (["1", "2", "x"], None, "target 'y' must hold finite numbers; got 'x' in row 3 "
         "(--task classification treats them as classes)."),
        (["1", "2", "inf"], None, "target 'y' must hold finite numbers; got 'inf' in row 3"),
        (["a", "b"], "regression", "must hold finite numbers; got 'a' in row 1, the first of 2."),
        (["2020-01-01", "2020-01-02"], None, "target 'y' must be a number or a class; got dates"),
        (LETTERS, None, "target 'y' must repeat its texts"),
        ([str(n) for n in range(50)], "classification", "target 'y' must repeat its texts"),
        (["1", "2"], "ranking", "task must be None or 'classification' or 'regression'; got 'r"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_learned_is_refused(values, task, message):
    with pytest.raises(TableError, match=re.escape(message)) as caught:
        Target.learn(texts(y=values), "y", task)
    assert one_sentence(caught.value)


def test_an_unknown_target_names_the_nearest_column():
    message = r"the target must be a column of the table; got 'prize' \(the nearest is 'Price'\)\."
    with pytest.raises(TableError, match=message):
        Target.learn(texts(Price=["1"], size=["2"]), "prize")
    with pytest.raises(TableError, match=message):
        Target("prize", "regression").encode(texts(Price=["1"], size=["2"]))
    with pytest.raises(TableError, match="must hold numbers or classes; got the type list<"):
        Target.learn(pandas.DataFrame({"y": [[1]]}), "y")


def test_targets_of_an_evaluation_must_suit_the_model():
    target = Target("y", "classification", ("setosa", "virginica"))
    message = (
        "target 'y' must hold classes that the model was fitted to, 'setosa' and 'virginica'; "
        "got 'Virginca' in row 2, of which the nearest is 'virginica'."
    )
    with pytest.raises(TableError, match=re.escape(message)):
        target.encode(texts(y=["setosa", "Virginca"]))
    with pytest.raises(TableError, match="got 1 missing, the first in row 1"):
        target.encode(texts(y=[None, "setosa"]))
    with pytest.raises(TableError, match="'0' and '1'; got 'x' in row 2"):
        Target("y", "classification", ("0", "1")).encode(texts(y=["1", "x"]))
    with pytest.raises(TableError, match="must hold finite numbers; got 'x' in row 2"):
        Target("y", "regression").encode(texts(y=["1", "x"]))
    np.testing.assert_array_equal(target.encode(texts(y=["virginica"])), [1])
    np.testing.assert_array_equal(Target("y", "regression").encode(texts(y=["2"])), [2.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "the target must name every column; got 3"),
        ({"name": "\n"}, r"printable characters; got '\n'"),
        ({"task": "both"}, "must be 'classification' or 'regression'; got 'both'"),
        ({"task": []}, "must be 'classification' or 'regression'; got []"),
        ({"task": "regression"}, "a regression must have no classes; got ['0', '1']"),
        ({"classes": None}, "the target must list 2 to 1000 classes; got None"),
        ({"classes": ["0"]}, "the target must list 2 to 1000 classes; got ['0']"),
        ({"classes": LETTERS * 11}, "the target must list 2 to 1000 classes; got ["),
        ({"classes": ["0", 1]}, "the classes of the target must be texts; got 1"),
        ({"classes": ["0", "\ud800"]}, r"the classes of the target must be texts; got '\ud800'"),
        ({"classes": ["a", "a"]}, "the classes of the target must differ; got 'a' and 'a'"),
        ({"classes": ["1", "1.0"]}, "the classes of the target must differ; got '1' and '1.0'"),
        ({"more": 1}, "the target must have the keys 'name', 'task' and 'classes'; got"),
    ],
)
def test_a_target_from_a_stranger_is_refused_if_it_is_not_one(changes, message):
    obj = {"name": "y", "task": "classification", "classes": ["0", "1"]} | changes
    with pytest.raises(TableError, match=re.escape(message)) as caught:
        Target.from_json(obj)
    assert one_sentence(caught.value)


# Costs


def test_importing_tables_loads_no_heavy_library():
    code = "import sys, bbalpha.tables; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert not {"jax", "numpy", "pandas", "pyarrow"} & set(loaded)


def test_a_large_table_is_read_and_encoded_within_seconds(tmp_path):
    values = np.random.default_rng(0).normal(size=(100_000, 1)).round(6)
    line = ",".join(["{0}"] * 19 + ["c"])
    rows = "\n".join(line.format(value) for value in values[:, 0])
    path = written(tmp_path, ",".join(f"x{n}" for n in range(20)) + "\n" + rows)
    start = time.process_time()
    frame = read_table(path)
    features = Encoder.learn(frame).encode(frame)
    assert time.process_time() - start < 10.0  # about 3 s on one idle core
    np.testing.assert_array_equal(features[:, :19], np.repeat(values, 19, axis=1))
