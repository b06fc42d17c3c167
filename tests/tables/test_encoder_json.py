"""Facts about encoders in model files: they survive JSON, and a forged one is refused."""

import json

import numpy as np
import pytest

from bbalpha.tables import Column, Encoder

TEXTS = [str(number) for number in range(1100)]


@pytest.mark.parametrize("impute", [None, "median"])
def test_an_encoder_survives_json(mixed, impute):
    encoder = Encoder.learn(mixed, impute=impute)
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    assert again == encoder
    np.testing.assert_array_equal(again.encode(mixed), encoder.encode(mixed))


def column(**changes):
    return {"name": "t", "kind": "text", "categories": ["a", "b"], "fill": None} | changes


def number(**changes):
    return column(name="x", kind="number", categories=[]) | changes


def nested(depth):
    inner = []
    for _ in range(depth):
        inner = [inner]
    return inner


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        (None, "the encoder must be an object; got None"),
        ([], "the encoder must be an object; got []"),
        ("columns", "the encoder must be an object; got 'columns'"),
        ({}, "the encoder must have the keys 'columns'; got none"),
        ({"columns": [column()], "more": 1}, "the keys 'columns'; got 'columns' and 'more'"),
        ({"columns": []}, "the encoder must list its columns; got columns=[]"),
        ({"columns": {"0": column()}}, "the encoder must list its columns; got columns={"),
        ({"columns": None}, "the encoder must list its columns; got columns=None"),
        ({"columns": [None]}, "column 1 of the encoder must be an object; got None"),
        ({"columns": [column(), 3]}, "column 2 of the encoder must be an object; got 3"),
        ({"columns": [{"name": "x"}]}, "column 1 of the encoder must have the keys 'name', 'kind'"),
        ({"columns": [column(self=1)]}, "column 1 of the encoder must have the keys"),
        (
            {"columns": [column(name=3)]},
            "text as the name of every column; got 3 for column 1",
        ),
        ({"columns": [column(name="")]}, "the encoder has no name for column 1"),
        ({"columns": [column(name=["t"])]}, "as the name of every column; got ['t'] for column 1"),
        ({"columns": [column(name="\x1b[2J")]}, r"printable characters; got '\x1b[2J' for"),
        ({"columns": [column(name="\ud800")]}, r"printable characters; got '\ud800' for"),
        ({"columns": [column(name="x" * 9999)]}, "at most 1000 printable characters; got 'xxx"),
        ({"columns": [column(), column()]}, "the encoder has more than one column named 't'"),
        ({"columns": [column(kind="code")]}, "must be 'number' or 'date' or 'text'; got 'code'"),
        ({"columns": [column(kind=None)]}, "must be 'number' or 'date' or 'text'; got None"),
        ({"columns": [column(kind=["text"])]}, "'date' or 'text'; got ['text']"),
        ({"columns": [column(categories=[])]}, "must list 1 to 1001 categories; got []"),
        ({"columns": [column(categories="ab")]}, "must list 1 to 1001 categories; got 'ab'"),
        ({"columns": [column(categories=None)]}, "must list 1 to 1001 categories; got None"),
        ({"columns": [column(categories={"a": 1})]}, "must list 1 to 1001 categories; got {'a'"),
        ({"columns": [column(categories=TEXTS)]}, "must list 1 to 1001 categories; got ["),
        ({"columns": [column(categories=["a", 1])]}, "must have texts for categories; got 1"),
        ({"columns": [column(categories=[["a"]])]}, "must have texts for categories; got ['a']"),
        ({"columns": [column(categories=["\udfff"])]}, r"texts for categories; got '\udfff'"),
        ({"columns": [column(categories=["a", "a"])]}, "distinct categories; got 'a' and 'a'"),
        ({"columns": [column(categories=[None, None])]}, "distinct categories; got None and"),
        ({"columns": [column(fill=1.0)]}, "must have a number to fill in, or none; got 1.0"),
        ({"columns": [number(categories=["a"])]}, "must have no categories; got ['a']"),
        ({"columns": [number(categories=None)]}, "must have no categories; got None"),
        ({"columns": [number(fill="1")]}, "must have a number to fill in, or none; got '1'"),
        ({"columns": [number(fill=True)]}, "must have a number to fill in, or none; got True"),
        ({"columns": [number(fill=[1])]}, "must have a number to fill in, or none; got [1]"),
        ({"columns": [number(fill=float("nan"))]}, "must have a finite number to fill in; got nan"),
        ({"columns": [number(fill=float("-inf"))]}, "a finite number to fill in; got -inf"),
        ({"columns": [number(fill=10**400)]}, "must have a finite number to fill in; got 1000"),
        (
            {"columns": [number(kind="date", fill=float("inf"))]},
            "finite number to fill in; got inf",
        ),
        (
            {"columns": [column(name=f"t{n}", categories=TEXTS[:1000]) for n in range(101)]},
            "the columns must make at most 100000 features; got 101000",
        ),
        ({"columns": [column(categories=nested(900))]}, "must have texts for categories; got [[["),
        (nested(900), "the encoder must be an object; got [[["),
    ],
)
def test_an_encoder_from_a_stranger_is_refused_if_it_is_not_one(refusal, obj, message):
    with refusal(message) as caught:
        Encoder.from_json(obj)
    assert len(str(caught.value)) < 400


def test_whole_numbers_of_json_are_floats(texts):
    encoder = Encoder.from_json({"columns": [number(fill=3)]})
    assert encoder.columns == (Column("x", "number", (), 3.0),)
    np.testing.assert_array_equal(encoder.encode(texts(x=[None])), [[3.0]])
