"""Facts about readings: the kind of a column, and the sentence about a cell that does not suit."""

import numpy as np
import pandas
import pyarrow
import pytest

from bbalpha.tables import Encoder
from bbalpha.tables.messages import for_python
from bbalpha.tables.reading import Habits, first_reading


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "2", "3"], "number"),
        (["$1", "$2", "."], "number"),
        (["2020-01-01", "2020-01-05"], "date"),
        (["31/12/2020", "1/12/2020"], "date"),
        (["yes", "no", "yes"], "boolean"),
        (["yes", "no", "perhaps", "no", "yes", "yes"], "text"),
        (["1", "2", "a", "a", "b", "b"], "text"),
        (["$", "$$", "$", "$$"], "text"),
    ],
)
def test_most_cells_decide_the_kind(texts, values, kind):
    assert Encoder.learn(texts(x=values * 2)).columns[0].kind == kind


def test_text_can_be_asked_for(texts):
    frame = texts(code=["01", "1", "1", "01"])
    encoder = Encoder.learn(frame, text=["code"])
    assert encoder.feature_names == ["code=01", "code=1"]
    np.testing.assert_array_equal(encoder.encode(frame), [[1, 0], [0, 1], [0, 1], [1, 0]])
    typed = pandas.DataFrame({"code": [1.0, 2.5, 1.0, 2.5]})
    assert Encoder.learn(typed, text=["code"]).feature_names == ["code=1", "code=2.5"]


def test_long_columns_are_read_as_short_ones(texts):
    values = [f"${n % 70},{n % 10}00" for n in range(10, 3010)]
    short, long = texts(x=values[:900]), texts(x=values)
    np.testing.assert_array_equal(
        Encoder.learn(long).encode(long)[:900], Encoder.learn(long).encode(short)
    )


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (
            {"x": ["1", "2", "abc"]},
            {},
            "column 'x' must hold finite numbers; got 'abc' in row 3 (--missing abc treats it as "
            "missing, --text x treats the column as text, --drop x leaves it out).",
        ),
        (
            {"living area": ["1", "b", "2", "c", "3"]},
            {},
            "column 'living area' must hold finite numbers; got 'b' in row 2, the first of 2 "
            "(--missing b treats it as missing, --text 'living area' treats the column as text, "
            "--drop 'living area' leaves it out).",
        ),
        ({"x": ["1", "-inf", "2"]}, {}, "must hold finite numbers; got '-inf' in row 2"),
        ({"x": ["1", "1e999", "2"]}, {}, "must hold finite numbers; got '1e999' in row 2"),
        ({"x": ["$1", "$2", "€5"]}, {}, "must hold finite numbers in $; got '€5' in row 3"),
        (pandas.DataFrame({"x": [1.0, np.inf]}), {}, "finite numbers; got 'inf' in row 2"),
        (
            {"d": ["2020-01-01", "2020-02-30", "2020-01-03"]},
            {},
            "column 'd' must hold dates like 2024-12-31; got '2020-02-30' in row 2 (--missing",
        ),
        (
            {"d": ["31/12/2020", "12/31/2020", "30/12/2020"]},
            {},
            "column 'd' must hold dates like 31/12/2024; got '12/31/2020' in row 2",
        ),
        (
            {"d": ["03/04/2020", "05/06/2020"]},
            {},
            "column 'd' has dates that can be read in two ways, such as '03/04/2020' in row 1 "
            "(--dayfirst reads the day first, --monthfirst the month).",
        ),
        (
            {"x": ["€5", "€1.234"]},
            {},
            "column 'x' has numbers that can be read in two ways, such as '€1.234' in row 2 "
            "(write them without separators of thousands).",
        ),
        (
            pandas.DataFrame({"x": np.array([1 + 2j, 2.5], object)}),
            {},
            "column 'x' must hold numbers, dates or texts; got the type object",
        ),
        (
            pandas.DataFrame({"x": np.array([1 + 2j, 2.5])}),
            {},
            "column 'x' must hold numbers, dates or texts; got the type complex128",
        ),
        (
            pandas.DataFrame({"x": [[1], [2]]}),
            {},
            "column 'x' must hold numbers, dates or texts; got the type list<item: int64> "
            "(--drop x leaves it out).",
        ),
        (pandas.DataFrame({"x": [1, [2]]}), {}, "numbers, dates or texts; got the type object"),
    ],
)
def test_a_cell_that_does_not_suit_is_refused_with_its_row_and_a_remedy(
    texts, refusal, columns, options, message
):
    frame = texts(**columns) if isinstance(columns, dict) else columns
    with refusal(message):
        Encoder.learn(frame, **options)


def test_the_remedies_help(texts):
    assert Encoder.learn(texts(x=["1", "2", "abc"]), missing=["abc"]).columns[0].kind == "number"
    dates = texts(d=["03/04/2020", "05/06/2020"])
    assert Encoder.learn(dates, dayfirst=True).encode(dates).tolist() == [[18355.0], [18418.0]]
    assert Encoder.learn(dates, dayfirst=False).encode(dates).tolist() == [[18325.0], [18388.0]]


def test_in_python_remedies_are_arguments(texts, refusal):
    with refusal("(missing=['z'] treats it as missing, text=['x'] treats"), for_python():
        Encoder.learn(texts(x=["1", "2", "z"]))
    with refusal("(dayfirst=True reads the day first, dayfirst=False the month)"), for_python():
        Encoder.learn(texts(x=["1/2/2020", "2/3/2020"]))


def test_new_cells_are_read_as_in_training(mixed, texts, refusal):
    encoder = Encoder.learn(mixed)

    def refused(frame, message):
        with refusal(message):
            encoder.encode(frame)

    refused(
        mixed.assign(size="big"), "'size' must hold finite numbers; got 'big' in row 1, the fir"
    )
    refused(mixed.assign(size="big"), "(correct it in the file).")
    refused(mixed.assign(size=pandas.Timestamp("2020-01-01")), "got '2020-01-01' in row 1")
    refused(mixed.assign(day=3.0), "column 'day' must hold dates like 2024-12-31; got '3' in row")
    dates = Encoder.learn(texts(d=["31/12/2020", "1/2/2020"]))
    assert dates.encode(texts(d=["1/2/2020"])).tolist() == [[18293.0]]
    with refusal("column 'd' must hold dates like 31/12/2024; got '1/31/2020' in row 1"):
        dates.encode(texts(d=["1/31/2020"]))


def test_a_message_repeats_a_cell_only_if_it_is_short_and_printable(refusal):
    for cell in ("\x1b[31mred", "\u202e123", "9" * 50 + "x" * 5000):
        column = pyarrow.array(["1", "2", "3", cell])
        with refusal("in row 4 (--text x treats the column as text, --drop x leaves it") as caught:
            first_reading("x", column, Habits())
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 300


def test_a_message_repeats_a_name_only_in_part(refusal):
    with refusal("in row 4 (--missing z treats it as missing, --text NAME treats") as caught:
        first_reading("9" * 400, pyarrow.array(["1", "2", "3", "z"]), Habits())
    assert len(str(caught.value)) < 300


def test_a_message_repeats_a_type_only_in_part(refusal):
    column = pyarrow.array([{"\x1b[31m" + "long" * 1000: 1}])
    with refusal("must hold numbers, dates or texts; got the type struct<") as caught:
        first_reading("x", column, Habits())
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400
