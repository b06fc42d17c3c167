"""Facts about the encoder: which columns become features, and every table that it refuses."""

import numpy as np
import pandas
import pyarrow
import pytest

from bbalpha.tables import Encoder, drop_columns

MIXED_FEATURES = [
    [1.5, 0.0, 1.0, 1.0, 1.0],
    [-2000.0, 1.0, 0.0, 0.5, 0.0],
    [0.5, 1.0, 0.0, 0.0, 0.0],
    [7.0, 0.0, 1.0, -0.75, 0.0],
]


def test_each_kind_of_column_becomes_features(mixed):
    mixed["size"] = ["1.5", "-2", ".5", "+7"]
    encoder = Encoder.learn(mixed)
    assert [column.kind for column in encoder.columns] == ["number", "text", "date", "boolean"]
    assert encoder.feature_names == ["size", "color=blue", "color=red", "day", "sold"]
    features = encoder.encode(mixed)
    assert features.dtype == np.float64
    np.testing.assert_array_equal(features[:, 1:], np.array(MIXED_FEATURES)[:, 1:])
    np.testing.assert_array_equal(features[:, 0], [1.5, -2, 0.5, 7])


@pytest.mark.parametrize("seed", range(5))
def test_features_of_a_row_depend_on_neither_other_rows_nor_the_order_of_columns(mixed, seed):
    encoder = Encoder.learn(mixed)
    rng = np.random.default_rng(seed)
    rows = rng.integers(4, size=rng.integers(1, 9))
    frame = mixed.iloc[rows][list(rng.permutation(list(mixed.columns)))]
    np.testing.assert_array_equal(encoder.encode(frame), encoder.encode(mixed)[rows])


def test_a_table_is_the_same_as_a_frame_and_as_an_arrow_table(mixed):
    table = pyarrow.table({name: pyarrow.array(mixed[name]) for name in mixed})
    assert Encoder.learn(table) == Encoder.learn(mixed)
    np.testing.assert_array_equal(
        Encoder.learn(mixed).encode(table), Encoder.learn(mixed).encode(mixed)
    )


def test_training_features_are_those_of_new_rows_if_there_are_no_effects(mixed):
    encoder, features = Encoder.learn_and_encode(mixed, np.arange(4.0))
    np.testing.assert_array_equal(features, encoder.encode(mixed))


IGNORED = {
    "name": ([f"house {n}" for n in range(40)], "has a different text in every row"),
    "note": ([f"t{n // 1.5}" for n in range(40)], "has 27 different texts in 40 rows"),
    "empty": ([None] * 40, "is empty"),
    "same": (["5"] * 40, "is '5' in every row that has a value"),
    "word": (["x"] * 40, "is 'x' in every row"),
    "rare": (["x"] * 39 + ["y"], "differs from 'x' in fewer than 2 rows"),
    "Unnamed: 0": ([str(n) for n in range(40)], "numbers the rows"),
    "Unnamed: 7": ([str(n) for n in range(40, 0, -1)], "numbers the rows"),
}


@pytest.mark.parametrize("name", IGNORED)
def test_a_column_that_cannot_help_is_ignored_with_the_reason(texts, name):
    values, reason = IGNORED[name]
    frame = texts(**{name: values}, x=[str(n**2) for n in range(40)])
    encoder = Encoder.learn(frame)
    assert encoder.feature_names == Encoder.learn(frame[["x"]]).feature_names
    assert [(column.name, column.reason) for column in encoder.ignored] == [(name, reason)]
    assert encoder.summary[name] == f"ignored: {reason}"
    np.testing.assert_array_equal(encoder.encode(frame), encoder.encode(frame[["x"]]))


def test_an_index_column_of_a_new_table_is_ignored(texts):
    frame = texts(x=["1", "2", "4"])
    encoder = Encoder.learn(frame)
    frame["Unnamed: 0"] = ["5", "6", "7"]
    np.testing.assert_array_equal(encoder.encode(frame)[:, 0], [1, 2, 4])


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({}, {}, "the table has no column other than the target."),
        (
            {"a": ["x"] * 3, "b": [None] * 3},
            {},
            "no column of the table can help to predict: 'a' is 'x' in every row and 'b' is empty.",
        ),
        (
            {"color": ["a"]},
            {"text": ["colour"]},
            "--text 'colour' is not a column of the table (did you mean 'color'?).",
        ),
        (pandas.DataFrame({1: [1]}), {}, "must have text as the name of every column; got 1"),
    ],
)
def test_a_training_table_that_cannot_be_encoded_is_refused(
    texts, refusal, columns, options, message
):
    frame = texts(**columns) if isinstance(columns, dict) else columns
    with refusal(message):
        Encoder.learn(frame, **options)


@pytest.mark.parametrize(
    "frame",
    [
        pandas.DataFrame({"x": [1.0, 2.0]}),
        pandas.DataFrame({"x": ["a", "a", "b", "b"], "y": ["c", "d", "c", "d"]}),
        pandas.DataFrame(np.random.default_rng(0).normal(size=(8, 300))).rename(columns=str),
    ],
    ids=["two rows", "only text", "300 columns"],
)
def test_tables_of_odd_shapes_are_encoded(frame):
    encoder, features = Encoder.learn_and_encode(frame, np.arange(float(len(frame))))
    assert features.shape == (len(frame), len(encoder.feature_names))
    np.testing.assert_array_equal(features, encoder.encode(frame))


def test_a_new_table_must_have_the_columns_of_the_training_table(mixed, refusal):
    encoder = Encoder.learn(mixed)
    with refusal(
        "the table lacks 'color' (nearest: 'colour') and 'day', which the training table had."
    ):
        encoder.encode(mixed.rename(columns={"color": "colour", "day": "z"}))
    extra = mixed.assign(y="1", extra="2")
    with refusal("the table must have no columns that the training table lacked; got 'extra'."):
        encoder.encode(extra, allowed=["y"])
    features = encoder.encode(mixed.assign(y="1"), allowed=["y", "z"])
    np.testing.assert_array_equal(features, encoder.encode(mixed))


def test_columns_are_dropped_by_name(mixed, refusal):
    table = pyarrow.Table.from_pandas(mixed)
    assert list(drop_columns(mixed, ["size", "day"]).columns) == ["color", "sold"]
    assert drop_columns(table, ["size", "day"]).column_names == ["color", "sold"]
    with refusal("--drop 'Sise' is not a column of the table (did you mean 'size'?)."):
        drop_columns(mixed, ["Sise"])
    with refusal("'zzz' is not a column of the table (the columns are 'size', 'color', 'day' and"):
        drop_columns(mixed, ["zzz"])


def test_a_hundred_categories_cost_what_the_pooled_ones_cost(texts):
    """A table with 100 categories, 40 of them in fewer than five rows."""
    rng = np.random.default_rng(0)
    names = [f"c{n:02}" for n in range(100) for _ in range(20 if n < 60 else 1 + n % 4)]
    names = rng.permutation(names)
    pooled = np.where(np.char.partition(names, "c")[:, 2].astype(int) < 60, names, "rare")
    features = [Encoder.learn(frame).encode(frame) for frame in (texts(t=names), texts(t=pooled))]
    assert features[0].shape == features[1].shape == (len(names), 61)
    np.testing.assert_array_equal(features[0][:, :60], features[1][:, :60])


def test_new_cells_are_read_with_the_decimal_mark_of_training(texts):
    encoder = Encoder.learn(texts(price=["1.234,50", "2,5", "12", "1.000"] * 3))
    new = texts(price=["1.234", "1.000", "12"])
    np.testing.assert_array_equal(encoder.encode(new)[:, 0], [1234, 1000, 12])
    proven = texts(price=["1.234", "2.5", "12"])
    np.testing.assert_array_equal(encoder.encode(proven)[:, 0], [1.234, 2.5, 12])
