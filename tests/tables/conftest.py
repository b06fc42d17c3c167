"""Files and frames to read, and the form of every refusal."""

import re
from contextlib import contextmanager

import pandas
import pytest

from bbalpha.tables import TableError
from bbalpha.tables.cells import typed_column
from bbalpha.tables.files import names_of, select_column


@pytest.fixture(scope="session")
def written():
    """Writes a file and returns its path."""

    def written(folder, content, name="table.csv"):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return written


@pytest.fixture(scope="session")
def cells():
    """The rows of a table as lists, None where a cell is missing."""

    def cells(table):
        columns = [typed_column(select_column(table, name)) for name in names_of(table)]
        return [list(row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]

    return cells


@pytest.fixture(scope="session")
def texts():
    """A frame of text columns."""

    def texts(**columns):
        return pandas.DataFrame({name: pandas.Series(c, dtype=str) for name, c in columns.items()})

    return texts


@pytest.fixture
def mixed(texts):
    """A column of each kind."""
    return texts(
        size=["1.5", "-2e3", ".5", "+7"],
        color=["red", "blue", "blue", "red"],
        day=["1970-01-02", "1970-01-01T12:00", "1970-01-01T01:00+01:00", "1969-12-31 06:00:00Z"],
        sold=["yes", "no", "no", "No"],
    )


@pytest.fixture(scope="session")
def refusal():
    """Expects a `TableError` whose message is one sentence that contains the text."""

    @contextmanager
    def refusal(message):
        with pytest.raises(TableError, match=re.escape(message)) as caught:
            yield caught
        assert is_one_sentence(str(caught.value))

    return refusal


def is_one_sentence(message):
    body = re.sub(r"'[^']*'|\S+/\S+", "", message)
    return "\n" not in message and body.endswith(".") and ". " not in body
