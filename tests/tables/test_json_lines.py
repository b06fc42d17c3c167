"""Facts about files of JSON lines."""

import gzip

import pytest

from bbalpha.tables import Encoder, read_table


def test_keys_are_columns_and_an_absent_one_is_missing(tmp_path, written):
    content = '{"x": 1, "t": "a", "b": true}\n\n{"x": 2.5, "b": false}\n'
    expected = {"x": [1.0, 2.5], "t": ["a", None], "b": [True, False]}
    assert read_table(written(tmp_path, content, "t.jsonl")).to_pydict() == expected
    packed = gzip.compress(content.encode())
    assert read_table(written(tmp_path, packed, "t.ndjson.gz")).to_pydict() == expected


def test_texts_of_json_are_read_like_those_of_csv(tmp_path, written):
    lines = "".join(f'{{"price": "${n}", "day": "2024-01-0{n}"}}\n' for n in range(1, 9))
    encoder = Encoder.learn(read_table(written(tmp_path, lines, "t.jsonl")))
    assert [column.kind for column in encoder.columns] == ["number", "date"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty."),
        ("\n \n", "is empty."),
        ('{"x": 1}\n{"x": \n', "is not a file of JSON lines: JSON parse error: Invalid value"),
        ('{"x": 1}\n{"x": "a"}\n', "changed from number to string in line 2."),
        ("[1, 2]\n", "is not a file of JSON lines: "),
        ('{"x": 1, "x ": 2}\n', "has more than one column named 'x'."),
    ],
)
def test_what_is_not_json_lines_is_refused(tmp_path, written, refusal, content, message):
    with refusal(message) as caught:
        read_table(written(tmp_path, content, "t.jsonl"))
    assert str(caught.value).startswith(f"{tmp_path / 't.jsonl'} ")
