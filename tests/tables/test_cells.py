"""Facts about cells: what counts as missing, and columns that are already typed."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas
import pyarrow
import pytest

from bbalpha.tables import Encoder, read_table
from bbalpha.tables.cells import codes, counts, texts, typed_column


def test_tokens_of_a_missing_value_are_missing_and_nothing_else_is(tmp_path, written, cells):
    missing = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "-", '""', " NA "]
    present = ["0", "no", "false", "none at all", "--", ".", "-1"]
    rows = "".join(f"{token},x\n" for token in missing + present)
    table = read_table(written(tmp_path, "a,b\n" + rows))
    assert [row[0] for row in cells(table)] == [None] * len(missing) + present


def test_tokens_of_the_user_are_missing_as_texts_and_as_numbers():
    tokens = ("-999", "unclear")
    assert typed_column(pyarrow.array(["-999", "unclear", "-9"]), tokens).to_pylist() == [
        None,
        None,
        "-9",
    ]
    assert typed_column(pandas.Series([-999, 5]), tokens).to_pylist() == [None, 5.0]
    assert typed_column(pandas.Series([True, False]), ("False",)).to_pylist() == [True, None]


def test_typed_columns_need_no_text(texts):
    moments = [datetime(1970, 1, 2, 12), datetime(1970, 1, 1), datetime(1970, 1, 1)]
    aware = [moment.replace(tzinfo=timezone(timedelta(hours=6))) for moment in moments]
    frame = pandas.DataFrame(
        {
            "whole": [1, 2, 4],
            "small": np.array([0.5, 1.5, 2.5], np.float32),
            "true": [True, False, False],
            "category": pandas.Categorical(["b", "a", "a"]),
            "object": np.array(["a", "a", "b"], object),
            "moment": moments,
            "aware": aware,
            "date": [date(1970, 1, 2), date(1970, 1, 1), date(1970, 1, 1)],
            "length": pandas.to_timedelta([1, 2, 3], "D"),
            "mixture": [1, "2", 3.5],
        }
    )
    encoder = Encoder.learn(frame.drop(columns=["category", "object"]))
    kinds = ["number", "number", "boolean", "date", "date", "date", "number", "number"]
    assert [column.kind for column in encoder.columns] == kinds
    expected = [
        [1.0, 0.5, 1.0, 1.5, 1.25, 1.0, 1.0, 1.0],
        [2.0, 1.5, 0.0, 0.0, -0.25, 0.0, 2.0, 2.0],
        [4.0, 2.5, 0.0, 0.0, -0.25, 0.0, 3.0, 3.5],
    ]
    features = encoder.encode(frame.drop(columns=["category", "object"]))
    np.testing.assert_array_equal(features, expected)
    as_read = texts(
        **{name: frame[name].astype(str) for name in ("whole", "small", "true", "moment", "aware")}
    )
    names = list(as_read.columns)
    np.testing.assert_array_equal(
        Encoder.learn(as_read).encode(as_read), Encoder.learn(frame[names]).encode(frame[names])
    )
    for name in ("category", "object"):
        assert typed_column(frame[name]).to_pylist() == frame[name].tolist()


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([1.0, 2.5, None], ["1", "2.5", None]),
        ([True, None], ["True", None]),
        ([datetime(2020, 1, 1), datetime(2020, 1, 1, 10)], ["2020-01-01", "2020-01-01 10:00:00"]),
        ([datetime(2020, 1, 1, 0, 0, 0, 7), None], ["2020-01-01 00:00:00.000007", None]),
        (np.array([2**60], "M8[us]"), ["38504-08-17 21:30:06.846976"]),
    ],
)
def test_typed_cells_are_spelled_as_in_a_file(column, expected):
    assert texts(typed_column(pyarrow.array(column))).to_pylist() == expected


def test_cells_are_counted_and_looked_up():
    cells = typed_column(pyarrow.array(["b", "a", None, "b"]))
    assert counts(cells) == {"b": 2, "a": 1, None: 1}
    assert codes(cells, ["a", None]).tolist() == [-1, 0, 1, -1]
