"""Facts about queries: the result is a table, and a query can do nothing but read."""

import sys

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

pytest.importorskip("duckdb")

from bbalpha.tables import read_table, write_table
from bbalpha.tables.query import tables_of_query


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "a.csv").write_text("id,x\n1,10\n2,20\n3,30\n")
    (tmp_path / "b.csv").write_text("id,t\n1,u\n3,v\n")
    write_table(read_table(tmp_path / "b.csv"), tmp_path / "b.parquet")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_files_of_two_kinds_are_joined(folder):
    right = "(SELECT id::INT AS id, t FROM 'b.parquet')"
    query = f"SELECT a.x, t FROM 'a.csv' a JOIN {right} USING (id) ORDER BY x"
    assert read_table(query).to_pydict() == {"x": [10, 30], "t": ["u", "v"]}
    assert read_table("with c as (select 1 as n) from c").to_pydict() == {"n": [1]}


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO 'out.csv'",
        "ATTACH 'out.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CREATE TABLE t (x INT)",
        "SET threads = 1",
        "PRAGMA disable_checkpoint_on_shutdown",
        "SELECT 1; COPY (SELECT 1) TO 'out.csv'",
        "SELECT 1; SELECT 2",
        "EXPLAIN SELECT 1",
        "",
    ],
)
def test_a_query_must_be_one_select(folder, refusal, query):
    before = sorted(folder.iterdir())
    with refusal("a query must be one SELECT statement; got "):
        list(tables_of_query(query))
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT * FROM 'https://example.com/t.csv'", "requires the extension httpfs"),
        ("SELECT * FROM 's3://bucket/t.parquet'", "requires the extension httpfs"),
        ("SELECT * FROM sqlite_scan('t.db', 't')", "is not in the catalog"),
        ("SELECT * FROM sys", "Table with name sys does not exist"),
    ],
)
def test_a_query_reaches_neither_the_network_nor_this_process(folder, refusal, query, message):
    assert sys  # a variable that DuckDB would otherwise look up
    with refusal(message):
        read_table(query)


def test_the_settings_are_locked(folder):
    query = "SELECT current_setting('lock_configuration') AS locked"
    assert read_table(query).to_pydict() == {"locked": [True]}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT nope FROM 'a.csv'", 'Binder Error: Referenced column "nope" not found in FROM '),
        ("SELECT nope FROM 'a.csv'", "in line 1 of the query at \"nope FROM 'a.csv'\"."),
        ("SELECT x\nFRM 'a.csv'", "syntax error at or near \"'a.csv'\", in line 2 of the query"),
        ("SELECT * FROM 'gone.csv'", 'No files found that match the pattern "gone.csv".'),
        ("SELECT id::DATE AS d FROM 'a.csv'", "the query cannot be run: "),
        ("SELECT 1 AS x, 2 AS x", "the query has more than one column named 'x'."),
        ("SELECT 1 AS x WHERE false", "has no rows below its header."),
    ],
)
def test_an_error_is_told_with_its_text_and_place(folder, refusal, query, message):
    with refusal(message):
        read_table(query)


def test_joins_and_groups_give_the_same_rows_in_the_same_order_every_time(tmp_path):
    stream = np.random.default_rng(0)
    for number in range(3):
        keys, values = stream.integers(0, 20_000, 150_000), stream.normal(size=150_000)
        table = pyarrow.table({"key": keys, "value": values})
        pyarrow.parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=10_000)
    names = pyarrow.array([f"name {number}" for number in range(20_000)])
    table = pyarrow.table({"key": stream.permutation(20_000), "name": names})
    pyarrow.parquet.write_table(table, tmp_path / "names.parquet", row_group_size=1_000)
    rows, more = f"'{tmp_path}/[0-9].parquet'", f"'{tmp_path}/names.parquet'"
    for query in (
        f"SELECT key, sum(value) AS total FROM {rows} GROUP BY key",
        f"SELECT name, value FROM {rows} JOIN {more} USING (key) WHERE value > 1",
    ):
        found = {digest(read_table(query)) for _ in range(4)}
        assert len(found) == 1


def digest(table):
    columns = [np.asarray(column.combine_chunks()).tolist() for column in table.columns]
    return hash(tuple(map(tuple, columns)))


def test_without_duckdb_the_way_to_install_it_is_told(monkeypatch, refusal):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with refusal("a query needs DuckDB (pip install duckdb); got 'SELECT 1'."):
        read_table("SELECT 1")
