"""Facts about delimited text: how a file is split into cells, and every file that is no table."""

import csv

import numpy as np
import pytest

from bbalpha.tables import delimited, read_table


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "   ", " \t "])
def test_a_table_is_the_same_whatever_its_delimiter(tmp_path, written, cells, delimiter):
    lines = [["size", "color", "y"], ["1.5", "red", "-2e3"], ["2", "NA", "7"]]
    text = "\n".join(delimiter.join(line) for line in lines)
    frame = read_table(written(tmp_path, text))
    assert frame.column_names == ["size", "color", "y"]
    assert cells(frame) == [["1.5", "red", "-2e3"], ["2", None, "7"]]


def test_names_and_cells_are_trimmed_and_a_byte_order_mark_is_stripped(tmp_path, written, cells):
    content = b'\xef\xbb\xbf a , "b c"\r\n 1 ,"x, y "\r\n\r\n2,  z\r\n'
    frame = read_table(written(tmp_path, content))
    assert frame.column_names == ["a", "b c"]
    assert cells(frame) == [["1", "x, y"], ["2", "z"]]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_may_end_as_on_any_system(tmp_path, written, cells, end):
    assert cells(read_table(written(tmp_path, end.join(["a,b", "1,2", "3,4"])))) == [
        ["1", "2"],
        ["3", "4"],
    ]


def test_digits_are_kept_as_they_are_written(tmp_path, written, cells):
    frame = read_table(written(tmp_path, "zip,y\n01234,1.10\n00007,12345678901234567890\n"))
    assert cells(frame) == [["01234", "1.10"], ["00007", "12345678901234567890"]]


def test_a_single_column_may_have_spaces_and_commas_in_it(tmp_path, written, cells):
    assert cells(read_table(written(tmp_path, "y\n1\n2\n"))) == [["1"], ["2"]]
    assert cells(read_table(written(tmp_path, "y\n1,5\n2,25\n"))) == [["1,5"], ["2,25"]]
    frame = read_table(written(tmp_path, "house price\n100\n200\n"))
    assert frame.column_names == ["house price"]
    assert cells(read_table(written(tmp_path, "when\n2020-01-01 10:00\n"))) == [
        ["2020-01-01 10:00"]
    ]


def test_a_blank_line_of_a_single_column_is_a_missing_cell_unless_it_is_last(
    tmp_path, written, cells
):
    assert cells(read_table(written(tmp_path, "y\n1\n\n3\n\n\n"))) == [["1"], [None], ["3"]]
    assert cells(read_table(written(tmp_path, "a,b\n1,2\n\n3,4\n"))) == [["1", "2"], ["3", "4"]]


def test_the_delimiter_is_the_one_that_agrees_with_the_rows(tmp_path, written):
    frame = read_table(written(tmp_path, "a, in m;b, in s\n1,5;2\n3;4\n"))
    assert frame.column_names == ["a, in m", "b, in s"]


@pytest.mark.parametrize(
    ("content", "names"),
    [
        (b",a,b\n0,1,2\n1,3,4\n", ["Unnamed: 0", "a", "b"]),
        (b'"","a","b"\n"r 1",1,2\n"r 2",3,4\n', ["Unnamed: 0", "a", "b"]),
        (b'"a" "b"\n"r1" 1 2\n"r2" 3 4\n', ["Unnamed: 0", "a", "b"]),
        (b"a,b\nr1,1,2\nr2,3,4\n", ["Unnamed: 0", "a", "b"]),
        (b"a,b,\n1,2,\n3,4,\n", ["a", "b", "Unnamed: 2"]),
    ],
)
def test_a_column_without_a_name_is_named_by_its_position(tmp_path, written, content, names):
    table = read_table(written(tmp_path, content))
    assert (table.column_names, table.num_rows) == (names, 2)


QUOTED = [
    'a,b\n"x, 1","y ""2"""\n',
    'a,b\n"two\nlines",2\n',
    'a,b\n"",""\n"3",4',
    'a;b\n"1;5";2\n',
    "a,b\n1,2\r\n\r\n3,4\r\n",
    'a,b\n1, "x, y"\n',
    "a,b\n  1 , 2\n",
    'a,b\n5" pipe,2\n',
    "a,b\né,日本\n",
]


@pytest.mark.parametrize("text", QUOTED)
def test_both_readers_split_a_file_alike(tmp_path, written, cells, monkeypatch, text):
    quick = cells(read_table(written(tmp_path, text)))
    monkeypatch.setattr(delimited, "_quick_columns", lambda *_: None)
    assert cells(read_table(written(tmp_path, text))) == quick


@pytest.mark.parametrize("seed", range(5))
def test_any_table_that_python_writes_is_split_as_it_was_written(tmp_path, cells, seed):
    rng = np.random.default_rng(seed)
    letters = list('ab,;"\n \t1é|')
    rows = [["".join(rng.choice(letters, rng.integers(1, 6))) for _ in range(3)] for _ in range(20)]
    with (tmp_path / "t.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([["x", "y", "z"], *rows])
    expected = [[cell.strip() or None for cell in row] for row in rows]
    assert cells(read_table(tmp_path / "t.csv")) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty."),
        (b"\n  \n\n", "is empty."),
        (b"\xef\xbb\xbf", "is empty."),
        (b"a,b\n", "has no rows below its header."),
        (b"y\n\n\n", "has no rows below its header."),
        (b"a,b\n1,2\ncaf\xe9,3\n", "is not UTF-8 text: line 3 has the byte 0xe9 (convert it"),
        ("a,b\n1,2\n".encode("utf-16"), "is UTF-16 text, not UTF-8 (convert it"),
        (bytes(range(256)) * 4, "is not text: line 1 has the byte 0x00."),
        (b"a,b\n1,\x07\n", "is not text: line 2 has the byte 0x07."),
        (b"a,b\n1,2\n1,2,3\n", "has 3 cells in line 3, but 2 in its header."),
        (b"a,b\n\n1,2\n\n1\n", "has 1 cell in line 5, but 2 in its header."),
        (b"a b\n1 2\n3 4\n5 6\n1 2 3\n", "has 3 cells in line 5, but 2 in its header."),
        (b"a,b,a\n1,2,3\n", "has more than one column named 'a'."),
        (b"a, a \n1,2\n", "has more than one column named 'a'."),
        (b",\n0,2\n", "must name its columns in the first line; got no name."),
        (b",Unnamed: 0\n1,2\n", "has more than one column named 'Unnamed: 0'."),
        (b'a,"b\nc"\n0,2\n', r"printable characters; got 'b\nc' for column 2."),
        (b"5.1,3.5\n4.9,3.0\n", "must name its columns in the first line; got the numbers '5.1'"),
        (b'a,b\n1,2\n1,"2\n', "has an unclosed or misplaced quote, noticed in line 3: "),
        (b'a\tb\n1\t"2"x\n', "or misplaced quote, noticed in line 2: ' ' expected after '\"'."),
        (b'a,b\n1,"2"x\n', "has an unclosed or misplaced quote, noticed in line 2: "),
        (
            b'a,b\n1,"' + b"x" * 200_000,
            "a longer one in line 2 (perhaps a quote is not closed).",
        ),
        (
            b"a,b\n1," + b"x" * 200_000,
            "must have cells of at most 131,072 characters; got a long",
        ),
        (b"a,b\n" + b"1,2\n" * 99 + b"1," + b"x" * 200_000, "got a longer one in line 101 "),
        (b"a," * 100_000 + b"a\n1,2", "must have at most 20,000 columns; got 100,001."),
    ],
)
def test_what_is_not_a_table_is_refused(tmp_path, written, refusal, content, message):
    with refusal(message) as caught:
        read_table(written(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path / 'table.csv'} ")
