"""Facts about numerals: every way to write a number, and what is none."""

import numpy as np
import pyarrow
import pytest

from bbalpha.tables.cells import typed_column
from bbalpha.tables.numerals import Notation, read_numerals

NAN = float("nan")


def read(*texts, **options):
    return read_numerals(typed_column(pyarrow.array(texts, pyarrow.string())), **options)


@pytest.mark.parametrize(
    ("texts", "values", "notation"),
    [
        (["1", "+7", "-2e3", ".5", "5."], [1, 7, -2000, 0.5, 5], Notation()),
        (["$3,750", "$12", "-$5", "$-5"], [3750, 12, -5, -5], Notation(".", "$")),
        (["$1,000,000.25", "($7)", "$ 3"], [1000000.25, -7, 3], Notation(".", "$")),
        (["17%", "3.5 %", "0"], [17, 3.5, 0], Notation(".", "%")),
        (["USD 5", "7.5 USD"], [5, 7.5], Notation(".", "USD")),
        (["€1.234,50", "1.234 €", "12 €"], [1234.5, 1234, 12], Notation(",", "€")),
        (["1,5", "2", "1.234"], [1.5, 2, 1234], Notation(",")),
        (["1,234", "12.5"], [1234, 12.5], Notation()),
        (["1,234", "999"], [1234, 999], Notation()),
        (["1,234,567", "2"], [1234567, 2], Notation()),
        (["1 234 567,5", "12 345"], [1234567.5, 12345], Notation(",")),
        (["1'234.5", "\u22125", "1\u202f000"], [1234.5, -5, 1000], Notation()),
        (["inf", "-Infinity", "x"], [np.inf, -np.inf, NAN], Notation()),
    ],
)
def test_numbers_are_read_as_people_write_them(texts, values, notation):
    found = read(*texts)
    np.testing.assert_array_equal(found.values, np.array(values, float))
    assert (found.notation, found.two_ways) == (notation, None)


@pytest.mark.parametrize(
    "text",
    ["0x10", "1_000", "١", "1e", ".", ",", "1.2.3", "1,2,3", "12 34", "1 2", "(5", "5)", "--5",
     "$", "5 km", "$5%", "1,23,456", "A1", "12-34", "10:30", ""],
)  # fmt: skip
def test_anything_else_is_not_a_number(text):
    assert np.isnan(read("1", text).values[1])


def test_the_most_frequent_unit_is_the_unit_and_others_are_not_read():
    found = read("$5", "$6", "€7", "8")
    np.testing.assert_array_equal(found.values, [5, 6, NAN, 8])
    assert found.notation.unit == "$"


def test_what_can_be_read_in_two_ways_is_reported_with_its_row():
    assert read("7", "1,234", decimal_commas=True).two_ways == 1
    assert read("€5", "€1.234").two_ways == 1
    assert read("1,234", "1.234").two_ways == 0


def test_where_commas_do_not_separate_cells_they_may_mark_three_decimals():
    np.testing.assert_array_equal(
        read("1,234", "5,678", decimal_commas=True).values, [1.234, 5.678]
    )
    np.testing.assert_array_equal(read("1,234", "5,678").values, [1234, 5678])


@pytest.mark.parametrize(("decimal", "value"), [(".", 1234), (",", 1.234)])
def test_the_notation_of_training_decides_between_two_readings(decimal, value):
    found = read("1,234", "7", known=Notation(decimal), decimal_commas=True)
    assert found.values.tolist() == [value, 7]
    assert found.two_ways is None


@pytest.mark.parametrize(
    ("texts", "values", "decimal"),
    [
        (["1.234", "5.678"], [1234, 5678], ","),
        (["1.234", "7"], [1234, 7], ","),
        (["-1.234", "1e3"], [-1234, 1000], ","),
        (["1.234", "2,5"], [1234, 2.5], ","),
        (["1.234", "2.5"], [1.234, 2.5], "."),  # the second cell proves the point
        (["0.125", "1.234"], [0.125, 1.234], "."),
        (["12", "7"], [12, 7], ","),
    ],
)
def test_a_column_trained_with_decimal_commas_keeps_them_unless_cells_prove_the_point(
    texts, values, decimal
):
    found = read(*texts, known=Notation(","))
    assert (found.values.tolist(), found.notation.decimal) == (values, decimal)
    assert found.two_ways is None


@pytest.mark.parametrize("seed", range(3))
def test_numbers_survive_being_written_in_any_notation(seed):
    rng = np.random.default_rng(seed)
    values = (rng.normal(size=200) * 10.0 ** rng.integers(0, 7, 200)).round(2)
    american = [f"{value:,.2f}" for value in values]
    german = [text.translate(str.maketrans(",.", ".,")) for text in american]
    for texts in (american, german, [f"${t}" for t in american], [f"{t} %" for t in german]):
        np.testing.assert_array_equal(read(*texts).values, values)


def test_numbers_are_read_to_the_last_digit():
    values = np.random.default_rng(0).normal(size=1000) * 10.0 ** np.arange(-300, 300, 0.6)
    np.testing.assert_array_equal(read(*map(repr, values.tolist())).values, values)
    np.testing.assert_array_equal(read("$1", *map(repr, values.tolist())).values[1:], values)
