"""Facts about messages: names and values from files are shown short, printable and in quotes."""

import pytest

from bbalpha.tables.messages import for_python, join, listing, nearest, option, quote, remedies


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("red", "'red'"),
        ("it's", '"it\'s"'),
        ("\x1b[2J\n", r"'\x1b[2J\n'"),
        ("x" * 100, "'" + "x" * 59 + "…'"),
        (3, "3"),
        (None, "None"),
        ([[[[[[[[[[1]]]]]]]]]], "[[[[[[[...]]]]]]]"),
    ],
)
def test_a_value_is_shown_on_one_short_line(value, shown):
    assert quote(value) == shown


def test_words_are_joined_as_in_a_sentence():
    assert join(["a"]) == "a"
    assert join(["a", "b"]) == "a and b"
    assert join(["a", "b", "c"]) == "a, b and c"
    assert join(["a", "b"], num_more=3) == "a, b and 3 more"
    assert listing(["a", "b", "c"], 2) == "'a', 'b' and 1 more"


def test_an_option_is_shown_as_it_is_typed():
    assert option("--drop", "id") == "--drop id"
    assert option("--drop", "living area") == "--drop 'living area'"
    assert option("--dayfirst", "", "helps") == "--dayfirst helps"
    with for_python():
        assert option("--drop", "living area", "helps") == "drop=['living area'] helps"
        assert option("--dayfirst", "") == "dayfirst=True"
    assert remedies("a", None, "b") == " (a, b)"
    assert remedies(None) == ""


def test_the_nearest_name_ignores_case_and_may_be_none():
    assert nearest("prize", ["size", "Price"]) == "Price"
    assert nearest("zzz", ["size", "Price"]) is None
