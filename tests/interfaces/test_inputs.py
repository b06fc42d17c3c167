"""The units and the limits of inputs."""

import numpy as np
import pytest

from bbalpha.interfaces.inputs import MOST_AXES, REACH, InputUnits

RARE = np.zeros(1000)
RARE[7] = 1.0


def learned(*columns, weights=None, with_axes=False):
    inputs = np.column_stack(columns).astype(float)
    weights = np.ones(len(inputs)) if weights is None else weights
    return InputUnits.learn(inputs, weights, with_axes=with_axes)


def test_a_column_of_many_values_has_mean_zero_and_deviation_one():
    column = np.random.RandomState(0).normal(10.0, 3.0, size=500)
    found = learned(column).transform(column[:, None])
    np.testing.assert_allclose([found.mean(), found.std()], [0, 1], atol=1e-12)


def test_weights_count_as_repeated_rows():
    column, weights = np.array([1.0, 2.0, 4.0, 8.0]), np.array([3.0, 1.0, 2.0, 1.0])
    weighted = learned(column, weights=weights)
    repeated = learned(np.repeat(column, weights.astype(int)))
    for name in ("mean", "scale", "lower", "upper"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-12)


def test_inputs_along_the_axes_are_uncorrelated_and_as_long_as_they_were():
    stream = np.random.RandomState(0)
    common = stream.normal(size=200)
    columns = [common + 0.01 * stream.normal(size=200) for _ in range(3)]
    units = learned(*columns, with_axes=True)
    first, second = np.split(units.transform(np.column_stack(columns)), 2, axis=1)
    covariance = second.T @ second
    np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-9)
    np.testing.assert_allclose(np.sum(second**2, axis=1), np.sum(first**2, axis=1), rtol=1e-12)


def test_axes_of_weighted_rows_are_those_of_repeated_rows():
    stream = np.random.RandomState(0)
    inputs, weights = stream.normal(size=(9, 3)), stream.randint(1, 4, size=9)
    weighted = learned(*inputs.T, weights=weights.astype(float), with_axes=True)
    repeated = learned(*np.repeat(inputs, weights, axis=0).T, with_axes=True)
    np.testing.assert_allclose(np.abs(weighted.axes.T @ repeated.axes), np.eye(3), atol=1e-9)


CROSSED = np.array([[0.1, 0.3], [0.1, 0.7], [0.4, 0.3], [0.4, 0.7], [0.9, 0.3], [0.9, 0.7]])


@pytest.mark.parametrize("factor", [3, 7, 0.3048, 1e154, 1e-300])
def test_axes_do_not_depend_on_units(table, factor):
    """Two columns have axes of equal entries; those of a crossed design are of equal widths."""
    three = np.random.RandomState(0).normal(size=(9, 3))
    for inputs in (table.inputs, CROSSED, three, np.column_stack([three, three[:, :1]])):
        expected = learned(*inputs.T, with_axes=True).axes
        found = learned(*(inputs * factor).T, with_axes=True).axes
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("num_columns", [1, MOST_AXES + 1])
def test_one_column_and_very_many_have_no_axes(num_columns):
    inputs = np.random.RandomState(0).normal(size=(20, num_columns))
    units = learned(*inputs.T, with_axes=True)
    assert units.transform(inputs).shape == inputs.shape


@pytest.mark.parametrize("column", [RARE, 1 - RARE, 5 - 300 * RARE, np.arange(10.0) % 2])
def test_two_values_lie_two_units_apart_however_rare_one_of_them_is(column):
    units = learned(column)
    values = np.unique(column)[:, None]
    np.testing.assert_allclose(np.diff(units.transform(values), axis=0), [[2.0]], rtol=1e-12)
    np.testing.assert_allclose(units.transform(column[:, None]).mean(), 0, atol=1e-12)


def test_values_far_outside_become_the_limits_and_those_inside_are_let_through():
    units = learned(np.array([0.0, 1.0, 3.0, 10.0]))
    np.testing.assert_allclose([units.lower, units.upper], [[-10 * REACH], [10 + 10 * REACH]])
    inside = np.array([[-4.9], [0.0], [14.9]])
    np.testing.assert_allclose(
        units.transform(inside) * units.scale + units.mean, inside, rtol=1e-12, atol=1e-12
    )
    far = np.array([[-1e300], [-6.0], [16.0], [1e300]])
    limits = np.array([units.lower, units.lower, units.upper, units.upper])
    np.testing.assert_array_equal(units.transform(far), units.transform(limits))
    assert not units.is_outside(inside).any()
    assert not units.is_outside(limits).any()
    assert units.is_outside(far).all()


def test_each_column_has_limits_of_its_own():
    units = learned(np.array([0.0, 1.0, 2.0]), np.array([0.0, 100.0, 200.0]))
    found = units.is_outside(np.array([[1.0, 301.0], [50.0, 50.0], [-5.0, 0.0]]))
    np.testing.assert_array_equal(found, [[False, True], [True, False], [True, False]])


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e6 / 3])
def test_a_constant_column_says_nothing_whatever_comes_later(value):
    """Its mean, a sum over many rows, may differ from the constant by a rounding."""
    units = learned(np.full(1001, value))
    assert units.lower <= units.mean <= units.upper
    assert not units.is_outside(np.array([[value]])).any()
    later = np.array([[value], [value + 1], [-1e9], [1e300]])
    np.testing.assert_allclose(units.transform(later), 0, atol=1e-9)
    np.testing.assert_array_equal(units.is_outside(later)[:, 0], [False, True, True, True])


def test_two_values_that_differ_by_a_rounding_are_a_constant():
    column = np.array([0.3, 0.1 + 0.2] * 5)
    assert np.unique(column).size == 2
    units = learned(column)
    assert units.scale == 1
    np.testing.assert_allclose(units.transform(np.array([[0.3], [0.31]])), 0, atol=1e-15)


def test_the_largest_numbers_have_finite_units():
    column = np.array([-1.7e308, 1.7e308, 1e308, 5.0])
    for values in (column, column[:2], column[[0, 1, 1, 0]]):
        units, smaller = learned(values), learned(values / 2**20)
        found, expected = (
            units.transform(values[:, None]),
            smaller.transform(values[:, None] / 2**20),
        )
        np.testing.assert_allclose(found, expected, rtol=1e-15, atol=1e-15)
        limits = [units.mean, units.scale, units.lower, units.upper]
        assert np.isfinite(limits).all()
        assert not units.is_outside(values[:, None]).any()
