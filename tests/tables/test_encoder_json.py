"""Facts about encoders in model files: they survive JSON, and a forged one is refused."""

import json

import numpy as np
import pandas
import pytest

from bbalpha.tables import Encoder

TEXTS = [str(number) for number in range(1100)]


@pytest.fixture
def every_kind(texts):
    """A column of each kind, with missing cells, rare texts, effects, units and logarithms."""
    rng = np.random.default_rng(0)
    num = 300
    frame = texts(
        cost=[f"${value:,.2f}" for value in np.exp(rng.normal(5, 2, num))],
        share=[f"{value},5 %" for value in rng.integers(0, 90, num)],
        lot=rng.choice(["a", "b", "c"], num),
        code=[f"k{number}" for number in rng.integers(0, 120, num)],
        sold=rng.choice(["yes", "no"], num),
        day=pandas.date_range("2020-01-01", periods=num, freq="50h").strftime("%d/%m/%Y %H:%M"),
        id=[f"row {number}" for number in range(num)],
    )
    frame.loc[::7, ["cost", "sold", "day"]] = None
    frame.loc[::9, "lot"] = None
    return frame


def test_an_encoder_survives_json(every_kind):
    targets = np.random.default_rng(1).normal(size=300) + every_kind["code"].str.len()
    encoder = Encoder.learn(every_kind, targets.to_numpy(), missing=["-9"])
    assert {column.kind for column in encoder.columns} == {
        *("number", "text", "boolean", "date", "ignored")
    }
    assert encoder.columns[3].effects
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(every_kind), encoder.encode(every_kind))


NUMBER = {
    "name": "x",
    "kind": "number",
    "fill": 2.0,
    "indicator": False,
    "notation": [".", ""],
    "tails": {"center": 0.0, "width": 1.0, "knee": 4.0, "log_from": None},
    "words": "number, 2 if missing",
}
TEXT = {
    "name": "t",
    "kind": "text",
    "categories": ["a", "b"],
    "pooled": ["c"],
    "other": True,
    "effects": [],
    "words": "text: 'a' and 'b'; 1 rare ones pooled",
}
WIDE = TEXT | {
    "categories": TEXTS[:100],
    "pooled": [],
    "words": f"text: {', '.join(map(repr, TEXTS[:10]))} and 90 more",
}
DATE = {
    "name": "d",
    "kind": "date",
    "fill": 0.0,
    "indicator": False,
    "dayfirst": None,
    "parts": [],
    "tails": NUMBER["tails"],
    "words": "date, 1970-01-01 if missing",
}
BOOLEAN = {
    "name": "b",
    "kind": "boolean",
    "fill": 0.0,
    "indicator": True,
    "words": "true or false, False if missing, with a feature that says so",
}
IGNORED = {"name": "i", "kind": "ignored", "reason": "is empty", "words": "ignored: is empty"}


def nested(depth):
    inner = []
    for _ in range(depth):
        inner = [inner]
    return inner


def encoder_of(*columns, **changes):
    return {"columns": list(columns), "missing": []} | changes


def tails(**changes):
    return NUMBER | {"tails": NUMBER["tails"] | changes}


def test_the_examples_below_are_right_but_for_their_changes():
    encoder = Encoder.from_json(encoder_of(NUMBER, TEXT, DATE, BOOLEAN, IGNORED))
    assert encoder.to_json() == encoder_of(NUMBER, TEXT, DATE, BOOLEAN, IGNORED)


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "the encoder must be an object; got None"),
        ([], "the encoder must be an object; got []"),
        ({}, "the encoder must have the keys 'columns' and 'missing'; got none"),
        (
            encoder_of(TEXT, more=1),
            "the keys 'columns' and 'missing'; got 'columns', 'missing' and",
        ),
        (encoder_of(), "the encoder must list its columns; got columns=[]"),
        (encoder_of(columns={"0": TEXT}), "the encoder must list its columns; got columns={"),
        (
            encoder_of(TEXT, missing="x"),
            "the missing texts of the encoder must be a list of at most",
        ),
        (encoder_of(TEXT, missing=TEXTS), "must be a list of at most 100 texts; got ['0'"),
        (encoder_of(TEXT, missing=[1]), "the missing texts of the encoder must be texts; got 1"),
        (encoder_of(None), "column 1 of the encoder must be an object; got None"),
        (encoder_of(TEXT, 3), "column 2 of the encoder must be an object; got 3"),
        (encoder_of({"kind": "text"}), "must have text as the name of every column; got None"),
        (encoder_of({"name": "x"}), "'text' or 'ignored'; got None"),
        (
            encoder_of(TEXT | {"self": 1}),
            "column 't' of the encoder must have the keys 'name', 'kin",
        ),
        (encoder_of(TEXT | {"name": 3}), "text as the name of every column; got 3 for column 1"),
        (encoder_of(TEXT | {"name": ""}), "the encoder has no name for column 1"),
        (encoder_of(TEXT | {"name": "\x1b[2J"}), r"printable characters; got '\x1b[2J' for"),
        (encoder_of(TEXT | {"name": "x" * 9999}), "at most 1000 printable characters; got 'xxx"),
        (encoder_of(TEXT, TEXT), "the encoder has more than one column named 't'"),
        (encoder_of(TEXT | {"kind": "code"}), "'text' or 'ignored'; got 'code'"),
        (encoder_of(TEXT | {"kind": ["text"]}), "'text' or 'ignored'; got ['text']"),
        (
            encoder_of(TEXT | {"words": "rm"}),
            "the words of column 't' of the encoder must describe",
        ),
        (encoder_of(TEXT | {"words": None}), "must describe it; got None"),
        (encoder_of(TEXT | {"categories": "ab"}), "must be a list of at most 100 texts; got 'ab'"),
        (encoder_of(TEXT | {"categories": None}), "must be a list of at most 100 texts; got None"),
        (encoder_of(TEXT | {"categories": TEXTS}), "must be a list of at most 100 texts; got ["),
        (encoder_of(TEXT | {"categories": ["a", 1]}), "must be texts; got 1"),
        (encoder_of(TEXT | {"categories": [["a"]]}), "must be texts; got ['a']"),
        (encoder_of(TEXT | {"categories": ["\udfff"]}), r"must be texts; got '\udfff'"),
        (encoder_of(TEXT | {"categories": ["a", "a"]}), "must differ; got 'a' and 'a'"),
        (encoder_of(TEXT | {"categories": [None, None]}), "must differ; got None twice"),
        (
            encoder_of(TEXT | {"pooled": ["a"]}),
            "the categories of column 't' of the encoder must not",
        ),
        (
            encoder_of(TEXT | {"other": 1}),
            "other of column 't' of the encoder must be true or false",
        ),
        (
            encoder_of(TEXT | {"effects": [[1.0]]}),
            "must be 3 lists of 1 to 10 numbers; got [[1.0]]",
        ),
        (encoder_of(TEXT | {"effects": [[1.0], [], [2.0]]}), "must be 3 lists of 1 to 10 numbers"),
        (encoder_of(TEXT | {"effects": "abc"}), "must be 3 lists of 1 to 10 numbers; got 'abc'"),
        (encoder_of(TEXT | {"effects": [[1], [2], ["3"]]}), "must be a finite number; got '3'"),
        (
            encoder_of(NUMBER | {"fill": "1"}),
            "the fill of column 'x' of the encoder must be a fini",
        ),
        (encoder_of(NUMBER | {"fill": True}), "must be a finite number; got True"),
        (encoder_of(NUMBER | {"fill": float("nan")}), "must be a finite number; got nan"),
        (encoder_of(NUMBER | {"fill": 10**400}), "must be a finite number; got 1000"),
        (
            encoder_of(NUMBER | {"indicator": 1}),
            "the indicator of column 'x' of the encoder must be",
        ),
        (encoder_of(NUMBER | {"notation": "."}), "must have a decimal mark and a unit; got '.'"),
        (encoder_of(NUMBER | {"notation": ["x", ""]}), "must be '.' or ','; got 'x'"),
        (encoder_of(NUMBER | {"notation": [".", "\x1b[2J"]}), "must be a short text; got"),
        (encoder_of(NUMBER | {"tails": None}), "the tails of column 'x' of the encoder must be an"),
        (
            encoder_of(tails(width=0)),
            "the width of the tails of column 'x' of the encoder must be p",
        ),
        (encoder_of(tails(knee=-1.0)), "must be positive; got -1.0"),
        (encoder_of(tails(center=None)), "must be a finite number; got None"),
        (
            encoder_of(DATE | {"parts": ["day", "year"]}),
            "must have parts of ['year', 'week', 'day']",
        ),
        (encoder_of(DATE | {"parts": None}), "must have parts of"),
        (encoder_of(DATE | {"dayfirst": "yes"}), "must be true or false; got 'yes'"),
        (encoder_of(BOOLEAN | {"fill": 0.5}), "must be 0.0 or 1.0; got 0.5"),
        (encoder_of(IGNORED | {"reason": 1}), "must be a short text; got 1"),
        (encoder_of(IGNORED | {"reason": "x\n"}), "must be a short text; got 'x"),
        (encoder_of(IGNORED), "no column of the table can help to predict: 'i' is empty"),
        (
            encoder_of(*(WIDE | {"name": f"t{number}"} for number in range(1000))),
            "the columns must make at most 100000 features; got 101000",
        ),
        (encoder_of(TEXT | {"categories": nested(900)}), "must be texts; got [[["),
        (nested(900), "the encoder must be an object; got [[["),
    ],
)
def test_an_encoder_from_a_stranger_is_refused_if_it_is_not_one(refusal, obj, message):
    with refusal(message) as caught:
        Encoder.from_json(obj)
    assert len(str(caught.value)) < 400


def test_whole_numbers_of_json_are_floats(texts):
    encoder = Encoder.from_json(encoder_of(NUMBER | {"fill": 2}))
    assert isinstance(encoder.columns[0].fill, float)
    np.testing.assert_array_equal(encoder.encode(texts(x=[None])), [[2.0]])
