"""Facts about targets: numbers or classes, and every column that cannot be one."""

import json

import numpy as np
import pandas
import pyarrow
import pytest

from bbalpha.tables import Target, drop_unknown_targets

LABELS = [str(number) for number in range(1100)]


@pytest.mark.parametrize(
    ("values", "task", "expected", "classes"),
    [
        (["1.5", "2", "3"], None, [1.5, 2.0, 3.0], ()),
        (["3", "8", "5", "3"], None, [3.0, 8.0, 5.0, 3.0], ()),
        (["0", "1", "1"], None, [0, 1, 1], ("0", "1")),
        (["10", "9", "9.0"], None, [1, 0, 0], ("9", "10")),
        (["0", "1", "1"], "regression", [0.0, 1.0, 1.0], ()),
        (["3", "8", "10", "3.0"], "classification", [0, 1, 2, 0], ("3", "8", "10")),
        (["no", "yes", "no"], None, [0, 1, 0], ("no", "yes")),
        (["1", "2", "3", "4+"], "classification", [0, 1, 2, 3], ("1", "2", "3", "4+")),
        (["-0", "0", "1"], None, [0, 0, 1], ("-0", "1")),
        (["$1,500", "$20", "$3"], None, [1500.0, 20.0, 3.0], ()),
        (["17%", "18.5%", "3%"], None, [17.0, 18.5, 3.0], ()),
        (["yes", "no", "unknown", "no"], None, [2, 0, 1, 0], ("no", "unknown", "yes")),
    ],
)
def test_a_target_is_a_number_or_a_class(texts, values, task, expected, classes):
    frame = texts(y=values)
    target = Target.learn(frame, "y", task)
    assert target.task == ("classification" if classes else "regression")
    assert target.classes == classes
    found = target.encode(frame)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype.kind == ("i" if classes else "f")
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target


def test_typed_targets_agree_with_texts(texts):
    frame = pandas.DataFrame({"y": [1.0, 2.0, 1.0], "b": [True, False, True]})
    target = Target.learn(frame, "y")
    assert target.classes == ("1", "2")
    np.testing.assert_array_equal(target.encode(texts(y=["2.0", "1"])), [1, 0])
    assert Target.learn(frame, "b").classes == ("False", "True")


@pytest.mark.parametrize(
    ("values", "task", "message"),
    [
        (["1", None, None], None, "target 'y' is missing in 2 rows, the first of which is row 2 "
         "(--skip-missing-target leaves such rows out)."),
        ([None, None], None, "is missing in 2 rows"),
        (["1", "1.0"], None, "target 'y' is '1' in every row, so there is nothing to predict."),
        (["1", "1"], "regression", "target 'y' is '1' in every row"),
        (["a", "a"], None, "target 'y' is 'a' in every row, so there is nothing to predict."),
        (["1", "2", "x"], None, "target 'y' must hold finite numbers; got 'x' in row 3 "
         "(--missing x treats it as missing, --task classification treats them as classes)."),
        (["1", "2", "inf"], None, "target 'y' must hold finite numbers; got 'inf' in row 3"),
        (["a", "b"], "regression", "must hold finite numbers; got 'a' in row 1, the first of 2 (c"),
        (["2020-01-01", "2020-01-02"], None, "target 'y' must be a number or a class; got dates"),
        (["03/04/2024", "05/06/2024"], None, "target 'y' must be a number or a class; got dates"),
        ([f"class {n}" for n in range(100)], None, "target 'y' has a different text in every row, "
         "so its classes cannot be learned."),
        ([*LABELS[:50], "0"], "classification", "target 'y' has 50 different texts in 51 rows, so"),
        (LABELS[:1001] * 3, "classification", "has 1001 different texts, more than the limit"),
        (["1", "2"], "ranking", "task must be None or 'classification' or 'regression'; got 'r"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_learned_is_refused(texts, refusal, values, task, message):
    with refusal(message):
        Target.learn(texts(y=values), "y", task)


def test_rows_without_a_target_are_dropped_and_counted(texts):
    frame = texts(y=["1", None, "3", ".", "5", "-9"], x=list("abcdef"))
    kept, num = drop_unknown_targets(frame, "y", missing=["-9"])
    assert (kept["x"].tolist(), num) == (["a", "c", "e"], 3)
    target = Target.learn(kept, "y", missing=["-9"])
    assert (target.task, target.missing) == ("regression", ("-9",))
    table = pyarrow.Table.from_pandas(frame)
    assert drop_unknown_targets(table, "y", missing=["-9"])[0].column("x").to_pylist() == [*"ace"]
    classes = texts(y=["a", "NA", "b"])
    assert drop_unknown_targets(classes, "y")[1] == 1
    assert drop_unknown_targets(classes, "y", "classification")[1] == 1
    assert drop_unknown_targets(texts(y=["1", "2"]), "y")[1] == 0


def test_a_table_without_any_target_is_refused(texts, refusal):
    with refusal("target 'y' is missing in every row."):
        drop_unknown_targets(texts(y=["NA", ""]), "y")


def test_an_unknown_target_names_the_nearest_column(texts, refusal):
    message = "target 'prize' is not a column of the table (did you mean 'Price'?)."
    with refusal(message):
        Target.learn(texts(Price=["1"], size=["2"]), "prize")
    with refusal(message):
        Target("prize", "regression").encode(texts(Price=["1"], size=["2"]))


def test_a_target_of_another_type_is_refused(refusal):
    with refusal("target 'y' must hold numbers, dates or texts; got the type list<"):
        Target.learn(pandas.DataFrame({"y": [[1]]}), "y")


def test_targets_of_an_evaluation_must_suit_the_model(texts, refusal):
    target = Target("y", "classification", ("setosa", "virginica"))
    message = (
        "target 'y' has 'Virginca' in row 2, but the training table had only 'setosa' and "
        "'virginica' (did you mean 'virginica'?)."
    )
    with refusal(message):
        target.encode(texts(y=["setosa", "Virginca"]))
    with refusal("target 'y' is missing in row 1 (--skip-missing-target leaves such rows out)."):
        target.encode(texts(y=[None, "setosa"]))
    with refusal("has 'x' in row 2, but the training table had only '0' and '1'."):
        Target("y", "classification", ("0", "1")).encode(texts(y=["1", "x"]))
    with refusal("must hold finite numbers; got 'x' in row 2 (correct it in the file)."):
        Target("y", "regression").encode(texts(y=["1", "x"]))
    np.testing.assert_array_equal(target.encode(texts(y=["virginica"])), [1])
    np.testing.assert_array_equal(Target("y", "regression").encode(texts(y=["2"])), [2.0])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": 3}, "the target must have text as the name of every column; got 3"),
        ({"name": "\n"}, r"printable characters; got '\n'"),
        ({"task": "both"}, "must be 'classification' or 'regression'; got 'both'"),
        ({"task": []}, "must be 'classification' or 'regression'; got []"),
        ({"task": "regression"}, "a regression must have no classes; got ['0', '1']"),
        ({"classes": None}, "the target must list 2 to 1000 classes; got None"),
        ({"classes": ["0"]}, "the target must list 2 to 1000 classes; got ['0']"),
        ({"classes": LABELS}, "the target must list 2 to 1000 classes; got ["),
        ({"classes": ["0", 1]}, "the classes of the target must be texts; got 1"),
        ({"classes": ["0", "\ud800"]}, r"the classes of the target must be texts; got '\ud800'"),
        ({"classes": ["a", "a"]}, "the classes of the target must differ; got 'a' and 'a'"),
        ({"classes": ["1", "1.0"]}, "the classes of the target must differ; got '1' and '1.0'"),
        ({"notation": 1}, "the target must have a decimal mark and a unit; got 1"),
        ({"missing": [1]}, "the missing texts of the target must be texts; got 1"),
        ({"more": 1}, "the target must have the keys 'name', 'task', 'classes', 'notation' and"),
    ],
)
def test_a_target_from_a_stranger_is_refused_if_it_is_not_one(refusal, changes, message):
    obj = {"name": "y", "task": "classification", "classes": ["0", "1"]}
    obj |= {"notation": [".", ""], "missing": []} | changes
    with refusal(message):
        Target.from_json(obj)
