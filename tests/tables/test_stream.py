"""Facts about streams: the rows of a table, cut anywhere, as often as they are asked for."""

import os
import threading

import pyarrow
import pytest

from bbalpha.tables import delimited, read_table, stream
from bbalpha.tables.stream import TableStream

ENDS = [0, 1, 70, 70, 1999, 2000]


@pytest.fixture
def source(tmp_path):
    """A table in two files, one of which is not well-formed for arrow."""
    lines = "".join(f'{n},"a ""{n}"",\n{n}"\n' for n in range(1000))
    (tmp_path / "a.csv").write_text("x,t\n" + lines)
    lines = "".join(f'{n},{n}" pipe\n' for n in range(1000))
    (tmp_path / "b.csv").write_text("x,t\n" + lines)
    return tmp_path


@pytest.mark.parametrize("most_kept", [0, 2**26])
def test_parts_are_the_rows_of_the_whole(source, monkeypatch, most_kept):
    monkeypatch.setattr(stream, "MOST_KEPT", most_kept)
    monkeypatch.setattr(delimited, "BLOCK_SIZE", 1000)
    monkeypatch.setattr("bbalpha.tables.compression.PIECE", 333)
    found, whole = TableStream(source), read_table(source)
    assert (found.names, found.num_rows) == (["x", "t"], 2000)
    assert whole.column("x").to_pylist() == [str(n % 1000) for n in range(2000)]
    assert whole.column("t").to_pylist()[999] == 'a "999",\n999'
    assert whole.column("t").to_pylist()[1999] == '999" pipe'
    for _ in range(2):
        parts = list(found.parts(ENDS))
        assert [part.num_rows for part in parts] == [1, 69, 0, 1929, 1]
        assert pyarrow.concat_tables(parts).equals(whole)
    assert found.whole().equals(whole)


def test_lines_are_counted_from_the_start_of_the_file(tmp_path, monkeypatch, refusal):
    monkeypatch.setattr(delimited, "BLOCK_SIZE", 100)
    monkeypatch.setattr("bbalpha.tables.compression.PIECE", 64)
    path = tmp_path / "t.csv"
    lines = ['"1\n",2'] * 200
    for wrong, message in [
        ("1,2,3", "has 3 cells in line 403, but 2 in its header."),
        ('1,"2"x', "quote, noticed in line 403: "),
    ]:
        path.write_text("\n".join(["a,b", "", *lines[:200], wrong, "1,2"]) + "\n")
        with refusal(message):
            read_table(path)
    path.write_bytes(b"a,b\n" + b"1,2\n" * 300 + b"\xff,1\n")
    with refusal("is not UTF-8 text: line 302 has the byte 0xff"):
        TableStream(path)


def test_a_pipe_is_read_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(stream, "MOST_KEPT", 0)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[b"a,b\n1,2\n"])
    writer.start()
    found = TableStream(tmp_path / "pipe")
    writer.join()
    assert found.whole().to_pydict() == {"a": ["1"], "b": ["2"]}
