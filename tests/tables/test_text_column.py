"""Facts about columns of text: frequent texts have a feature, rare ones share one."""

import numpy as np
import pytest

from bbalpha.tables import Encoder
from bbalpha.tables.text_column import MAX_ONE_HOTS, TextColumn

LETTERS = [f"{first}{second}" for first in "abcdefghij" for second in "abcdefghij"]


def column_of(texts_, **options):
    return Encoder.learn(texts_, **options).columns[0]


def test_every_feature_of_zeros_and_ones_has_five_rows_on_either_side(texts):
    values = ["a"] * 50 + ["b"] * 40 + ["c"] * 5 + ["d"] * 3 + ["e", "f"]
    frame = texts(t=values)
    encoder = Encoder.learn(frame)
    assert encoder.columns == (TextColumn("t", ("a", "b", "c"), ("d", "e", "f"), True),)
    assert encoder.feature_names == ["t=a", "t=b", "t=c", "t=other"]
    features = encoder.encode(frame)
    np.testing.assert_array_equal(features.sum(axis=0), [50, 40, 5, 5])
    np.testing.assert_array_equal(features.sum(axis=1), 1)


def test_too_few_rare_rows_have_no_feature_of_their_own(texts):
    frame = texts(t=["a"] * 50 + ["b"] * 48 + ["c", "d"])
    encoder = Encoder.learn(frame)
    assert encoder.feature_names == ["t=a", "t=b"]
    np.testing.assert_array_equal(encoder.encode(frame)[-2:], 0)


def test_small_tables_need_fewer_rows_per_feature(texts):
    assert column_of(texts(t=["a"] * 6 + ["b"] * 2 + ["c"] * 2)).categories == ("a", "b", "c")
    assert column_of(texts(t=["a"] * 40 + ["b"] * 3 + ["c"] * 2)).categories == ("a", "b")


def test_missing_texts_are_a_category_if_there_are_enough(texts):
    encoder = Encoder.learn(texts(t=["a"] * 10 + ["b"] * 10 + [None] * 5))
    assert encoder.columns[0].categories == ("a", "b", None)
    assert encoder.feature_names == ["t=a", "t=b", "t="]
    few = column_of(texts(t=["a"] * 10 + ["b"] * 89 + [None]))
    assert (few.categories, few.pooled, few.other) == (("a", "b"), (None,), False)


def test_unseen_texts_join_the_rare_ones_and_are_counted(texts):
    encoder = Encoder.learn(texts(t=["a"] * 50 + ["b"] * 44 + ["c"] * 3 + ["d"] * 3))
    rows = encoder.read(texts(t=["a", "d", "new", None, "newer"]))
    np.testing.assert_array_equal(rows.features, [[1, 0, 0]] + [[0, 0, 1]] * 4)
    assert rows.notes == (
        "column 't': 3 of 5 texts were not in the training table, such as 'new'; "
        "they are pooled with the rare ones.",
    )
    encoder = Encoder.learn(texts(t=["a"] * 50 + ["b"] * 50))
    rows = encoder.read(texts(t=["b", "new"]))
    np.testing.assert_array_equal(rows.features, [[0, 1], [0, 0]])
    assert "such as 'new'; they are counted as none of the known texts." in rows.notes[0]


def test_unseen_texts_are_refused_on_request_but_rare_ones_are_not(texts, refusal):
    encoder = Encoder.learn(texts(t=["a"] * 50 + ["b"] * 48 + ["c", "d"]))
    assert encoder.encode(texts(t=["c"]), unknown="error").tolist() == [[0, 0]]
    with refusal(
        "column 't' has 'x' in row 2, but the training table had only 'a', 'b', 'c' and 'd' "
        "(--unknown other pools it with the rare ones)."
    ):
        encoder.encode(texts(t=["a", "x"]), unknown="error")
    with refusal("column 't' has a missing value in row 1"):
        encoder.encode(texts(t=[None]), unknown="error")
    with refusal("unknown must be 'other' or 'error'; got 'drop'."):
        encoder.encode(texts(t=["a"]), unknown="drop")


def test_known_texts_are_listed_shortly_and_control_characters_escaped(texts, refusal):
    encoder = Encoder.learn(texts(t=LETTERS[:20] * 2))
    with refusal("had only 'aa', 'ab', 'ac', 'ad', 'ae' and 15 more") as caught:
        encoder.encode(texts(t=["\x1b[31m\n" + "x" * 1000]), unknown="error")
    assert r"'\x1b[31m\nxxx" in str(caught.value)
    assert len(str(caught.value)) < 300
    assert str(caught.value).isprintable()


def test_a_text_that_is_called_other_keeps_its_feature(texts):
    encoder = Encoder.learn(texts(t=["other"] * 50 + ["a"] * 45 + ["b", "c", "d", "e", "f"]))
    assert encoder.feature_names == ["t=a", "t=other", "t=other texts"]


@pytest.fixture(scope="module")
def many():
    """3,000 categories of three rows each and their effects, in 1,500 training and new rows."""
    rng = np.random.default_rng(0)
    codes = rng.integers(3000, size=9000)
    effects = rng.normal(size=3000)
    names = np.array([f"c{code}" for code in codes])
    return names, effects[codes] + 0.5 * rng.normal(size=9000)


def test_thousands_of_categories_have_one_effect_that_predicts_new_rows(texts, many):
    names, targets = many
    frame = texts(t=names[:6000])
    encoder, features = Encoder.learn_and_encode(frame, targets[:6000])
    assert encoder.feature_names[-1] == "effect of t"
    assert features.shape[1] <= MAX_ONE_HOTS + 2
    new = encoder.encode(texts(t=names[6000:]))[:, -1]
    fresh = np.corrcoef(new, targets[6000:])[0, 1]
    out_of_fold = np.corrcoef(features[:, -1], targets[:6000])[0, 1]
    leaky = np.corrcoef(encoder.encode(frame)[:, -1], targets[:6000])[0, 1]
    assert fresh > 0.6
    # Effects do not predict training rows better than new ones, unless they see their targets.
    error = (1 - fresh**2) / np.sqrt(3000)
    assert out_of_fold < fresh + 4 * error < leaky
    assert encoder.encode(texts(t=["unseen"]))[0, -1] == 0
    assert "3 rare ones pooled" not in encoder.columns[0].words
    assert "the effect of each" in encoder.columns[0].words


def test_each_class_has_an_effect(texts, many):
    names, targets = many
    labels = np.digitize(targets, [-1, 1]).astype(str)
    encoder = Encoder.learn(texts(t=names), labels)
    assert encoder.feature_names[-3:] == ["effect of t 1", "effect of t 2", "effect of t 3"]
    two = Encoder.learn(texts(t=names), (targets > 0).astype(str))
    assert two.feature_names[-1] == "effect of t"


def test_without_targets_there_are_no_effects(texts, many):
    assert not Encoder.learn(texts(t=many[0])).columns[0].effects
