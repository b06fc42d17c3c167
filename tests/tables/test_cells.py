"""Facts about cells: what counts as missing, as a number, as a date and as text."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas
import pytest

from bbalpha.tables import Encoder, read_table


def test_tokens_of_a_missing_value_are_missing_and_nothing_else_is(tmp_path, written):
    missing = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?", "-", '""', " NA "]
    present = ["0", "no", "false", "none at all", "--", "-1"]
    rows = "".join(f"{token},x\n" for token in missing + present)
    frame = read_table(written(tmp_path, "a,b\n" + rows))
    assert frame["a"].isna().tolist() == [True] * len(missing) + [False] * len(present)
    assert frame["a"].dropna().tolist() == present


def test_decimal_commas_are_points_unless_the_delimiter_is_a_comma(tmp_path, written, cells):
    assert cells(read_table(written(tmp_path, "a;b\n1,5;x\n-2,25e3;1,2,3\n"))) == [
        ["1.5", "x"],
        ["-2.25e3", "1,2,3"],
    ]
    assert cells(read_table(written(tmp_path, 'a,b\n"1,5",x\n'))) == [["1,5", "x"]]


@pytest.mark.parametrize("column", [["1,234", "12.5"], ["1,234", "999"]])
def test_a_comma_that_may_mark_thousands_is_not_read_as_a_decimal_comma(
    tmp_path, written, refusal, column
):
    frame = read_table(written(tmp_path, "a;b\n" + "".join(f"{cell};x\n" for cell in column)))
    assert frame["a"].tolist() == column
    with refusal("column 'a' must hold finite numbers; got '1,234' in row 1"):
        Encoder.learn(frame)


def test_numbers_are_read_to_the_last_digit(texts):
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-300, 300, 0.6)
    frame = texts(x=[repr(float(value)) for value in values])
    np.testing.assert_array_equal(Encoder.learn(frame).encode(frame)[:, 0], values)


def test_a_number_is_a_plain_decimal_number_and_nothing_else(texts, refusal):
    for stray in ("0x10", "1_000", "1 000", "True", "١", "1,5", "5%", "−1", "1e", ".", "1\n"):
        frame = texts(x=["1", "2", "3", stray])
        with refusal("column 'x' must hold finite numbers; got"):
            Encoder.learn(frame.replace("1\n", "1\n2"))


def test_typed_columns_need_no_text(texts):
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


def test_dates_far_from_today_are_read_together_with_nanoseconds(texts):
    frame = texts(d=["0001-01-01", "9999-12-31", "1970-01-01T00:00:00.864000123"])
    expected = [(date(1, 1, 1) - date(1970, 1, 1)).days, 2932896, 1e-5]
    np.testing.assert_allclose(Encoder.learn(frame).encode(frame)[:, 0], expected, rtol=1e-12)
