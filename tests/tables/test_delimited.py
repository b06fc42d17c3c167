"""Facts about delimited text: how a file is split into cells, and every file that is no table."""

import pytest

from bbalpha.tables import read_table


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " ", "   ", " \t "])
def test_a_table_is_the_same_whatever_its_delimiter(tmp_path, written, cells, delimiter):
    lines = [["size", "color", "y"], ["1.5", "red", "-2e3"], ["2", "NA", "7"]]
    text = "\n".join(delimiter.join(line) for line in lines)
    frame = read_table(written(tmp_path, text))
    assert list(frame.columns) == ["size", "color", "y"]
    assert cells(frame) == [["1.5", "red", "-2e3"], ["2", None, "7"]]


def test_names_and_cells_are_trimmed_and_a_byte_order_mark_is_stripped(tmp_path, written, cells):
    content = b'\xef\xbb\xbf a , "b c"\r\n 1 ,"x, y "\r\n\r\n2,  z\r\n'
    frame = read_table(written(tmp_path, content))
    assert list(frame.columns) == ["a", "b c"]
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
    assert cells(read_table(written(tmp_path, "y\n1,5\n2,25\n"))) == [["1.5"], ["2.25"]]
    frame = read_table(written(tmp_path, "house price\n100\n200\n"))
    assert list(frame.columns) == ["house price"]
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
    assert list(frame.columns) == ["a, in m", "b, in s"]


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
        (b",a\n0,2\n", "has no name for column 1 (pandas"),
        (b"a,b,\n0,2,\n", "has no name for column 3 (pandas"),
        (b'a,"b\nc"\n0,2\n', r"printable characters; got 'b\nc' for column 2."),
        (b"5.1,3.5\n4.9,3.0\n", "must name its columns in the first line; got the numbers '5.1'"),
        (b'a,b\n1,2\n1,"2\n', "has an unclosed or misplaced quote, noticed in line 3: "),
        (b'a,b\n1,"2"x\n', "has an unclosed or misplaced quote, noticed in line 2: "),
        (b'a,b\n1,"' + b"x" * 200_000, "has an unclosed or misplaced quote, noticed in line 2: "),
    ],
)
def test_what_is_not_a_table_is_refused(tmp_path, written, refusal, content, message):
    with refusal(message) as caught:
        read_table(written(tmp_path, content))
    assert str(caught.value).startswith(f"{tmp_path / 'table.csv'} ")
