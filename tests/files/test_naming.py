"""Facts about names: which mean one file, which several, and which a query."""

from pathlib import Path

import pytest

from bbalpha.files.naming import files_in_query, files_of, is_query, name_of_source


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM 'a.csv'", True),
        ("  with a as (select 1) select * from a", True),
        ("from 'a.csv'\n", True),
        ("selection.csv", False),
        ("select.csv", False),
        ("houses.csv", False),
        ("DROP TABLE x", False),
    ],
)
def test_a_query_begins_like_one(text, expected):
    assert is_query(text) == expected


def test_a_file_may_have_a_name_like_a_query(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "from here").touch()
    assert not is_query("from here")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        (Path("some/houses.csv.gz"), "houses"),
        (Path("houses.v2.parquet"), "houses.v2"),
        (Path("flights/*.parquet"), "flights"),
        ("SELECT 1", "query"),
    ],
)
def test_what_is_made_from_a_source_has_its_name(source, name):
    assert name_of_source(source) == name


def test_files_are_found_in_a_folder_a_pattern_and_a_query(tmp_path):
    for name in ("b.csv", "a.parquet", "c.txt"):
        (tmp_path / name).touch()
    both = [tmp_path / "a.parquet", tmp_path / "b.csv"]
    assert files_of(tmp_path) == both
    assert name_of_source(tmp_path) == tmp_path.name
    assert files_of(tmp_path / "[ab].*") == both
    assert files_of(tmp_path / "gone.csv") == [tmp_path / "gone.csv"]
    assert files_of(tmp_path / "*.tsv") == []
    query = f"SELECT 'x' FROM '{tmp_path}/b.csv', '{tmp_path}/*.parquet', 'gone.csv'"
    assert files_in_query(query) == both[::-1]
