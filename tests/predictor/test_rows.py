"""Rows with typed cells get the features that the encoder of their table gives them."""

from datetime import date, datetime, timedelta, timezone

import numpy as np
import pandas
import pytest

from bbalpha.predictor.rows import cells_of


def test_rows_as_objects_have_the_features_of_the_table(houses, encoder, row_encoder, rows):
    kinds = {(column.kind, bool(getattr(column, "effects", ()))) for column in encoder.columns}
    assert kinds == {(kind, False) for kind in ("number", "text", "boolean", "date", "ignored")} | {
        ("text", True)
    }
    expected = encoder.encode(houses)
    np.testing.assert_allclose(row_encoder.encode(cells_of(rows)), expected, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        row_encoder.encode(cells_of(houses)), expected, rtol=1e-10, atol=1e-10
    )


def test_unseen_texts_and_gaps_are_treated_as_by_the_encoder(houses, encoder, row_encoder, rows):
    frame = houses.head(1).assign(town="Paris", street="new", area=np.nan, sold=pandas.NaT)
    row = rows[0] | {"town": "Paris", "street": "new", "area": None, "sold": None}
    found = row_encoder.encode(cells_of([row]))
    np.testing.assert_allclose(found, encoder.encode(frame), rtol=1e-12)
    other = rows[0] | {"town": "NA", "always": "other", "price": 3}
    same = row_encoder.encode(cells_of([rows[0] | {"town": None}]))
    np.testing.assert_array_equal(row_encoder.encode(cells_of([other])), same)


@pytest.mark.parametrize(
    ("cell", "same"),
    [
        (date(2003, 2, 1), "2003-02-01"),
        (datetime(2003, 2, 1, 12), "2003-02-01T12:00"),
        (datetime(2003, 2, 1, 12, tzinfo=timezone(timedelta(hours=2))), "2003-02-01T10:00:00"),
        (np.datetime64("2003-02-01T12", "us"), "2003-02-01T12:00"),
    ],
)
def test_dates_are_texts_or_dates_of_python(row_encoder, rows, cell, same):
    found, expected = (
        row_encoder.encode(cells_of([rows[0] | {"sold": value}])) for value in (cell, same)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rooms": "many"}, "column 'rooms' of X must hold a number in every row, or None; got"),
        ({"rooms": "3"}, "column 'rooms' of X must hold a number"),
        ({"rooms": float("inf")}, "column 'rooms' of X must hold a number"),
        ({"rooms": [1]}, "column 'rooms' of X must hold a number"),
        ({"rooms": 10**400}, "column 'rooms' of X must hold a number"),
        ({"new": "yes"}, "column 'new' of X must hold a boolean"),
        ({"new": 2}, "column 'new' of X must hold a boolean"),
        ({"sold": "yesterday"}, "column 'sold' of X must hold a date"),
        ({"sold": 3}, "column 'sold' of X must hold a date"),
        ({"town": 3}, "column 'town' of X must hold a text in every row, or None; got 3 in row 0"),
        ({"town": {}}, "column 'town' of X must hold a text"),
        ({"garden": 1}, "X must have no columns that the model does not know; got 'garden'"),
    ],
)
def test_a_wrong_cell_is_named(row_encoder, rows, change, message):
    with pytest.raises(ValueError, match=message):
        row_encoder.encode(cells_of([rows[0] | change]))


def test_a_missing_column_is_named_with_the_nearest_name(row_encoder, rows):
    row = {name.replace("rooms", "room"): cell for name, cell in rows[0].items()}
    with pytest.raises(ValueError, match=r"column 'rooms'; it lacks it \(nearest: 'room'\)\."):
        row_encoder.encode(cells_of([row]))


def test_rows_and_columns_must_agree(rows):
    with pytest.raises(ValueError, match="row 1 of X lacks 'rooms', which other rows have"):
        cells_of([rows[0], {}])
    with pytest.raises(ValueError, match="row 1 of X must be an object"):
        cells_of([rows[0], 3])
    with pytest.raises(ValueError, match="columns of X must have the same length"):
        cells_of({"a": [1], "b": [1, 2]})
    assert cells_of([[1.0, 2.0]]) is None
