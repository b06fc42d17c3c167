"""Facts about the encoder: how columns become features, and every table that it refuses."""

import numpy as np
import pandas
import pytest

from bbalpha.tables import Column, Encoder, drop_columns

LETTERS = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]


MIXED_FEATURES = [
    [1.5, 0.0, 1.0, 0.0, 1.0],
    [-2000.0, 1.0, 0.0, 0.0, 0.5],
    [0.5, 0.0, 0.0, 1.0, 0.0],
    [7.0, 0.0, 1.0, 0.0, -0.75],
]


def test_numbers_texts_and_dates_become_features(mixed):
    encoder = Encoder.learn(mixed)
    assert encoder.columns == (
        Column("size", "number"),
        Column("color", "text", ("blue", "red", None)),
        Column("day", "date"),
    )
    assert encoder.feature_names == ["size", "color=blue", "color=red", "color=", "day"]
    features = encoder.encode(mixed)
    assert features.dtype == np.float64
    np.testing.assert_array_equal(features, MIXED_FEATURES)


@pytest.mark.parametrize("seed", range(5))
def test_features_of_a_row_depend_on_neither_other_rows_nor_the_order_of_columns(mixed, seed):
    encoder = Encoder.learn(mixed)
    rng = np.random.default_rng(seed)
    rows = rng.integers(4, size=rng.integers(1, 9))
    frame = mixed.iloc[rows][list(rng.permutation(list(mixed.columns)))]
    np.testing.assert_array_equal(encoder.encode(frame), np.array(MIXED_FEATURES)[rows])


def test_text_can_be_asked_for(texts):
    frame = texts(code=["01", "1", "1"])
    encoder = Encoder.learn(frame, text=["code"])
    assert encoder.feature_names == ["code=01", "code=1"]
    np.testing.assert_array_equal(encoder.encode(frame), [[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    typed = pandas.DataFrame({"code": [1.0, 2.5, np.nan], "day": pandas.to_datetime(["2020"] * 3)})
    encoder = Encoder.learn(typed, text=["code", "day"])
    assert encoder.feature_names == ["code=1", "code=2.5", "code=", "day=2020-01-01"]
    np.testing.assert_array_equal(encoder.encode(typed)[:, :3], np.eye(3))


def test_missing_numbers_and_dates_are_filled_with_the_median_of_training(texts):
    frame = texts(
        x=["1", None, "4", "5"],
        full=["1", "2", "3", "4"],
        d=["1970-01-03", None, "1970-01-05", None],
    )
    encoder = Encoder.learn(frame, impute="median")
    assert [column.fill for column in encoder.columns] == [4.0, 2.5, 3.0]
    new = texts(x=[None], full=[None], d=[None])
    np.testing.assert_array_equal(encoder.encode(new), [[4.0, 2.5, 3.0]])
    np.testing.assert_array_equal(encoder.encode(frame)[1], [4.0, 2.0, 3.0])


def test_the_median_of_the_largest_numbers_is_finite(texts):
    encoder = Encoder.learn(texts(x=["1.7e308", "1.7e308"]), impute="median")
    assert encoder.columns[0].fill == 1.7e308


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"x": ["1", "2", "abc"]},
            {},
            "column 'x' must hold finite numbers; got 'abc' in row 3 "
            "(--text x treats the column as text, --drop x leaves it out).",
        ),
        (
            {"living area": ["1", "b", "2", "c", "3"]},
            {},
            "column 'living area' must hold finite numbers; got 'b' in row 2, the first of 2 "
            "(--text 'living area' treats the column as text, --drop 'living area' leaves it out).",
        ),
        (
            {"x": ["1", "-inf", "2"]},
            {},
            "column 'x' must hold finite numbers; got '-inf' in row 2",
        ),
        ({"x": ["1", "1e999"]}, {}, "must hold finite numbers; got '1e999' in row 2"),
        (pandas.DataFrame({"x": [1.0, np.inf]}), {}, "finite numbers; got 'inf' in row 2"),
        (
            {"d": ["2020-01-01", "2020-02-30", "2020-01-03"]},
            {},
            "column 'd' must hold dates like 2024-12-31; got '2020-02-30' in row 2 (--text d",
        ),
        (
            {"x": ["1", None, None], "t": ["a", None, "a"], "d": ["2020-01-01"] * 2 + [None]},
            {},
            "numbers and dates must not be missing; got missing cells: 2 in 'x' and 1 in 'd' "
            "(--impute median fills them with the median of their column).",
        ),
        (
            {"x": ["1", "2"], "e": [None, None], "f": [None, None]},
            {"impute": "median"},
            "columns 'e' and 'f' are empty; drop them with --drop e --drop f.",
        ),
        ({"x": ["1"], "e": [None]}, {}, "column 'e' is empty; drop it with --drop e."),
        ({}, {}, "the table has no column besides the target."),
        (
            {"t": LETTERS[:21] + LETTERS[:20]},
            {},
            "column 't' has 21 different texts in 41 rows, so it cannot help to predict new rows; "
            "drop it with --drop t.",
        ),
        (
            {"t": [f"t{number % 1001}" for number in range(5000)]},
            {},
            "column 't' has 1001 different texts, more than the limit of 1000; "
            "drop it with --drop t.",
        ),
        (
            {"x": [str(n) for n in range(50)]},
            {"text": ["x"]},
            "column 'x' has a different text in every row, so it cannot help to predict new rows; "
            "drop it with --drop x.",
        ),
        (
            {"color": ["a"]},
            {"text": ["colour"]},
            "--text 'colour' is not a column of the table (did you mean 'color'?).",
        ),
        ({"x": ["1"]}, {"impute": "mean"}, "impute must be None or 'median'; got 'mean'."),
        (
            pandas.DataFrame({"x": [[1], [2]]}),
            {},
            "column 'x' must hold numbers, dates or texts; got the type list<item: int64> "
            "(--drop x leaves it out).",
        ),
        (pandas.DataFrame({"x": [1, "a"]}), {}, "numbers, dates or texts; got the type object"),
        (pandas.DataFrame({"x": pandas.to_timedelta([1, 2])}), {}, "got the type duration[ns]"),
        (pandas.DataFrame({1: [1]}), {}, "must have text as the name of every column; got 1"),
    ],
)
def test_a_training_table_that_cannot_be_encoded_is_refused(
    texts, refusal, columns, options, message
):
    frame = texts(**columns) if isinstance(columns, dict) else columns
    with refusal(message):
        Encoder.learn(frame, **options)


def test_few_texts_may_all_be_different(texts):
    assert len(Encoder.learn(texts(t=LETTERS[:20])).feature_names) == 20
    assert len(Encoder.learn(texts(t=LETTERS[:21] * 2)).feature_names) == 21


@pytest.fixture
def refused(mixed, refusal):
    """Expects an encoder of `mixed` to refuse a new table."""

    def refused(frame, message, **options):
        with refusal(message):
            Encoder.learn(mixed).encode(frame, **options)

    return refused


def test_a_new_table_must_have_the_columns_of_the_training_table(mixed, refused):
    refused(
        mixed.rename(columns={"color": "colour", "day": "z"}),
        "the table lacks 'color' (nearest: 'colour') and 'day', which the training table had.",
    )
    refused(
        mixed.assign(y="1", extra="2"),
        "the table must have no columns that the training table lacked; got 'extra'.",
        allowed=["y"],
    )
    features = Encoder.learn(mixed).encode(mixed.assign(y="1"), allowed=["y", "z"])
    np.testing.assert_array_equal(features, MIXED_FEATURES)


def test_a_new_table_must_have_cells_of_the_same_kind(mixed, refused):
    refused(mixed.assign(size="big"), "'size' must hold finite numbers; got 'big' in row 1")
    refused(mixed.assign(size=pandas.Timestamp("2020-01-01")), "got '2020-01-01' in row 1")
    refused(mixed.assign(day=3.0), "column 'day' must hold dates like 2024-12-31; got '3' in row")
    refused(
        mixed.assign(day=None, size=["1", None, "2", "3"]),
        "numbers and dates must not be missing; got missing cells: 1 in 'size' and 4 in 'day' "
        "(a model fitted with --impute median fills them with the median of their column).",
    )
    refused(mixed, "unknown must be 'error' or 'ignore'; got 'drop'.", unknown="drop")


def test_an_unseen_text_is_refused_or_encoded_as_zeros(mixed, refused):
    frame = mixed.assign(color=["red", "green", None, "blue"])
    refused(
        frame,
        "column 'color' has 'green' in row 2, but the training table had only 'blue' and 'red' "
        "(--unknown ignore treats it as none of them).",
    )
    features = Encoder.learn(mixed).encode(frame, unknown="ignore")
    expected = [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    np.testing.assert_array_equal(features[:, 1:4], expected)


def test_a_missing_text_that_training_did_not_see_is_unseen(texts, refusal):
    encoder = Encoder.learn(texts(t=["a", "b"]))
    with refusal("column 't' has a missing value in row 2, but the training table had only 'a'"):
        encoder.encode(texts(t=["a", None]))
    features = encoder.encode(texts(t=["a", None]), unknown="ignore")
    np.testing.assert_array_equal(features, [[1.0, 0.0], [0.0, 0.0]])


def test_known_texts_are_listed_shortly_and_control_characters_escaped(texts, refusal):
    encoder = Encoder.learn(texts(t=LETTERS[:20]))
    with refusal("had only 'aa', 'ab', 'ac', 'ad', 'ae' and 15 more") as caught:
        encoder.encode(texts(t=["\x1b[31m\n" + "x" * 1000]))
    assert r"'\x1b[31m\nxxx" in str(caught.value)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_columns_are_dropped_by_name(mixed, refusal):
    assert list(drop_columns(mixed, ["size", "day"]).columns) == ["color"]
    with refusal("--drop 'Sise' is not a column of the table (did you mean 'size'?)."):
        drop_columns(mixed, ["Sise"])
    with refusal("'zzz' is not a column of the table (the columns are 'size', 'color' and 'day')."):
        drop_columns(mixed, ["zzz"])
