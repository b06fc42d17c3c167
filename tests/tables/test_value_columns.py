"""Facts about columns of numbers, dates and booleans: their features, and missing cells."""

import numpy as np
import pandas
import pytest

from bbalpha.tables import Encoder
from bbalpha.tables.value_columns import DAYS_PER_YEAR


def test_missing_values_are_filled_with_the_median_and_marked_if_training_had_them(texts):
    frame = texts(
        x=["1", None, "4", "5", None, "6"],
        b=["yes", "no", "no", None, None, "no"],
        d=["1970-01-03", None, "1970-01-05", None, "1970-01-09", "1970-01-09"],
        full=["1", "2", "3", "4", "5", "6"],
    )
    encoder = Encoder.learn(frame)
    assert [column.fill for column in encoder.columns] == [4.5, 0.0, 6.0, 3.5]
    assert encoder.feature_names == [
        *("x", "x is missing", "b", "b is missing", "d", "d is missing", "full"),
    ]
    np.testing.assert_array_equal(encoder.encode(frame)[1], [4.5, 1, 0, 0, 6, 1, 2])
    rows = encoder.read(texts(x=[None], b=[None], d=[None], full=[None]))
    np.testing.assert_array_equal(rows.features, [[4.5, 1, 0, 1, 6, 1, 3.5]])
    assert rows.notes == ("column 'full': 1 of 1 cells are missing, filled with the median 3.5.",)


def test_a_single_missing_cell_makes_no_indicator(texts):
    encoder = Encoder.learn(texts(x=[None, *map(str, range(99))]))
    assert encoder.feature_names == ["x"]


def test_columns_that_are_missing_together_share_one_indicator(texts):
    values = ["1", "2", None, None, "5", "7"]
    encoder = Encoder.learn(texts(x=values, y=values[::1], z=values[::-1]))
    assert encoder.feature_names == ["x", "x is missing", "y", "z"]


def test_marks_of_missing_values_count_among_numbers_but_not_among_texts(texts):
    encoder = Encoder.learn(texts(x=["1", ".", "3", "unknown"] * 5, t=["a", ".", ".", "b"] * 5))
    assert encoder.columns[0].kind == "number"
    assert encoder.columns[1].categories == (".", "a", "b")


def test_the_median_of_the_largest_numbers_is_finite(texts):
    assert Encoder.learn(texts(x=["1.7e308", "1.6e308"])).columns[0].fill == pytest.approx(1.65e308)


def test_booleans_are_one_feature_whatever_the_spelling(texts):
    frame = texts(a=["Yes", "no", "YES"], b=["t", "f", "t"], c=["off", "on", "off"])
    encoder = Encoder.learn(frame)
    assert encoder.feature_names == ["a", "b", "c"]
    np.testing.assert_array_equal(encoder.encode(frame), [[1, 1, 0], [0, 0, 1], [1, 1, 0]])
    typed = pandas.DataFrame({"a": [True, False], "b": [1.0, 0.0], "c": ["maybe", "on"]})
    rows = encoder.read(typed)
    np.testing.assert_array_equal(rows.features, [[1, 1, 0], [0, 0, 1]])
    assert any("1 of these are neither true nor false" in note for note in rows.notes)


def test_dates_have_the_phases_of_the_periods_that_they_cover(texts):
    hours = pandas.date_range("2020-01-01", periods=60, freq="200h")
    frame = pandas.DataFrame(
        {"t": hours, "short": hours[0] + np.arange(60) * np.timedelta64(1, "D")}
    )
    encoder = Encoder.learn(frame)
    phases = ["sine of year", "cosine of year", "sine of week", "cosine of week"]
    day = ["sine of day", "cosine of day"]
    assert encoder.feature_names == [
        *("t", *(f"t {phase}" for phase in phases + day)),
        *("short", "short sine of week", "short cosine of week"),
    ]
    features = encoder.encode(frame)
    turns = 2 * np.pi * hours.hour.to_numpy() / 24
    np.testing.assert_allclose(
        features[:, 5:7], np.stack([np.sin(turns), np.cos(turns)], 1), atol=1e-9
    )
    weekdays = 2 * np.pi * (hours.day_of_week.to_numpy() + 1) / 7
    np.testing.assert_allclose(features[:, 3], np.sin(weekdays), atol=1e-9)
    np.testing.assert_allclose(np.hypot(features[:, 1], features[:, 2]), 1)
    year_later = frame + pandas.Timedelta(days=DAYS_PER_YEAR)
    np.testing.assert_allclose(encoder.encode(year_later)[:, 1:3], features[:, 1:3], atol=1e-9)


def test_few_dates_have_no_phases(texts):
    encoder = Encoder.learn(texts(d=["2020-01-01", "2021-05-01", "2022-09-03"]))
    assert encoder.feature_names == ["d"]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (["$1", "$2", "$4"], "number in $, 2 if missing"),
        (["1,5", "2,5", "4"], "number with decimal commas, 2.5 if missing"),
        (["1", "2", None, None], "number, 1.5 if missing, with a feature that says so"),
        ([str(2.0**n) for n in range(30)], "number, logarithms, 24576 if missing"),
        (["3/1/2020", "20/1/2020"], "date, 2020-01-11 if missing"),
        (["yes", "no", "no"], "true or false, False if missing"),
        (["a", "a", "b", "b"], "text: 'a' and 'b'"),
    ],
)
def test_every_decision_is_told_in_words(texts, values, words):
    assert Encoder.learn(texts(x=values)).summary == {"x": words}
