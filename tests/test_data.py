"""Data: units, splits, and the checks of arguments."""

import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from bbalpha.data import (
    Dataset,
    Standardizer,
    check_data,
    splits,
    standardize,
)

PUBLISHED = Path(
    os.environ.get("BBALPHA_DATA", Path(__file__).parents[1].parent / "shared" / "data")
)


def table(shape, seed=0):
    return np.random.default_rng(seed).normal(loc=300.0, scale=7.0, size=shape)


# Dataset


def test_dataset_is_a_pair_and_a_pytree_of_its_arrays():
    data = Dataset(inputs=jnp.ones((4, 3)), targets=jnp.arange(4.0))
    inputs, targets = data
    assert len(data) == 2
    assert inputs is data.inputs
    assert targets is data.targets
    assert [leaf.shape for leaf in jax.tree.leaves(data)] == [(4, 3), (4,)]
    assert isinstance(jax.tree.map(lambda array: array[:1], data), Dataset)


# Standardization


@pytest.mark.parametrize("shape", [(50,), (50, 1), (50, 3)])
def test_standardized_columns_have_mean_zero_and_population_variance_one(shape):
    standardized, standardizer = standardize(table(shape))
    assert standardized.shape == shape
    assert standardizer.mean.shape == shape[1:]
    np.testing.assert_allclose(standardized.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose((standardized**2).mean(axis=0), 1.0, atol=1e-10)


def test_a_weighted_row_is_standardized_as_so_many_rows():
    array, weights = table((6, 2)), np.array([1, 2, 0, 1, 3, 1])
    standardized, weighted = standardize(array, weights)
    _, repeated = standardize(np.repeat(array, weights, axis=0))
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-10)
    np.testing.assert_allclose(weighted.scale, repeated.scale, rtol=1e-10)
    assert standardized.shape == array.shape


@pytest.mark.parametrize("shape", [(50,), (50, 3)])
def test_inverse_undoes_transform_for_numpy_and_jax_and_leading_axes(shape):
    array = table(shape)
    standardized, standardizer = standardize(array)
    np.testing.assert_allclose(standardizer.inverse(standardized), array, rtol=1e-10)
    draws = np.stack([standardized, 2 * standardized])
    np.testing.assert_allclose(standardizer.inverse(draws)[0], array, rtol=1e-10)
    from_jax, same = standardize(jnp.asarray(array))
    assert isinstance(from_jax, jax.Array)
    assert isinstance(standardized, np.ndarray)
    np.testing.assert_allclose(from_jax, standardized, atol=2e-5)  # 300/7 float32 roundings
    np.testing.assert_allclose(jax.jit(Standardizer.inverse)(same, draws)[0], array, rtol=2e-5)


def test_the_test_split_is_standardized_by_the_training_split():
    train, test = table((40, 2), seed=1), table((10, 2), seed=2)
    _, standardizer = standardize(train)
    expected = (test - train.mean(axis=0)) / train.std(axis=0)
    np.testing.assert_allclose(standardizer.transform(test), expected, rtol=1e-10)


def test_variance_of_inverted_draws_is_inverse_variance():
    _, standardizer = standardize(table((30, 2)))
    draws = np.random.default_rng(3).normal(size=(200, 5, 2))
    np.testing.assert_allclose(
        standardizer.inverse_variance(draws.var(axis=0)),
        standardizer.inverse(draws).var(axis=0),
        rtol=1e-10,
    )


@pytest.mark.parametrize("shape", [(30,), (30, 3)])
def test_log_scale_moves_a_gaussian_log_density_to_original_units(shape):
    array = table(shape)
    standardized, standardizer = standardize(array)

    def log_density(values, mean, scale):
        terms = -0.5 * ((values - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
        return terms.reshape(len(values), -1).sum(axis=1)

    np.testing.assert_allclose(
        log_density(array, standardizer.mean, standardizer.scale),
        log_density(standardized, 0.0, 1.0) - float(standardizer.log_scale),
        rtol=2e-5,
    )


@pytest.mark.parametrize("value", [0.0, 0.998, 288.0, 1e-200])
def test_a_constant_column_is_centered_and_not_scaled(value):
    column = np.full((1000, 1), value)
    standardized, standardizer = standardize(np.hstack([column, table((1000, 1))]))
    assert standardizer.scale[0] == 1.0
    np.testing.assert_allclose(standardized[:, 0], 0.0, atol=1e-10)


@pytest.mark.parametrize(
    "values", [np.array([0.3, 0.1 + 0.2]), np.array([1.0, 1.0 + 2**-23], np.float32)]
)
def test_a_column_that_is_constant_to_rounding_is_not_scaled(values):
    assert np.ptp(values) > 0
    assert standardize(values)[1].scale == 1.0


def test_a_column_of_little_variation_on_a_large_level_is_scaled():
    seconds = 1.7e9 + np.arange(10.0)
    standardized, standardizer = standardize(seconds)
    np.testing.assert_allclose(standardizer.scale, np.arange(10.0).std(), rtol=1e-12)
    np.testing.assert_allclose(standardized.std(), 1.0, rtol=1e-6)


@pytest.mark.parametrize(
    "column",
    [
        jnp.arange(248, 256, dtype=jnp.bfloat16),
        np.array([2000, 2002, 2004, 2007], np.float16),
        1.7e9 + np.array([0.0, 256.0, 512.0], np.float32),
        1_700_000_000_000 + np.array([0, 86_400, 200_000]),  # more than 32 bits
    ],
    ids=["bfloat16", "float16", "float32", "int64"],
)
def test_values_that_differ_by_more_than_rounding_are_scaled(column):
    _, standardizer = standardize(column)
    expected = np.asarray(column, np.float64).std()
    np.testing.assert_allclose(standardizer.scale, expected, rtol=1e-10)


@pytest.mark.parametrize("exponent", [-1000, -540, -200, 200, 540, 1000])
def test_a_change_of_units_by_a_power_of_two_changes_no_bit(exponent):
    """Up to 1e±301, where squares would overflow or vanish."""
    values = np.random.default_rng(0).normal(3.0, 2.0, size=(20, 2))
    expected, units = standardize(values)
    found, scaled = standardize(np.ldexp(values, exponent))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(scaled.mean, np.ldexp(units.mean, exponent))
    np.testing.assert_array_equal(scaled.scale, np.ldexp(units.scale, exponent))


def test_the_logarithm_of_a_scale_that_single_precision_lacks_is_finite():
    _, standardizer = standardize(1e-46 * np.array([-1.0, 1.0]))
    np.testing.assert_allclose(standardizer.log_scale, np.log(1e-46), rtol=1e-10)


@pytest.mark.parametrize("weights", [[1.0, -1.0], [0.0, 0.0]])
def test_weights_by_which_nothing_can_be_standardized_are_refused(weights):
    with pytest.raises(ValueError, match=r"^sample_weight must be finite, not negative and not al"):
        standardize(np.array([1.0, 2.0]), np.array(weights))


def test_standardizers_of_several_splits_can_be_stacked_and_mapped_over():
    arrays = [table((20, 2), seed) for seed in (4, 5)]
    pairs = [standardize(array) for array in arrays]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *[pair[1] for pair in pairs])
    result = jax.vmap(Standardizer.transform)(stacked, jnp.asarray(np.stack(arrays)))
    np.testing.assert_allclose(result, np.stack([pair[0] for pair in pairs]), atol=2e-5)


def test_standardize_names_what_is_wrong():
    with pytest.raises(
        ValueError,
        match=r"array must have shape \(rows,\) or \(rows, columns\); "
        r"got shape \(2, 2, 2\)\.",
    ):
        standardize(np.ones((2, 2, 2)))
    with pytest.raises(
        ValueError,
        match=r"array must be finite; got 1 NaN or infinite values, "
        r"the first in row 1\.",
    ):
        standardize(np.array([1.0, np.nan]))
    _, standardizer = standardize(np.ones((3, 2)))
    with pytest.raises(
        ValueError,
        match=r"array must have shape \(\.\.\., 2\), with the columns that were "
        r"standardized; got shape \(5, 4\)\.",
    ):
        standardizer.transform(np.ones((5, 4)))
    _, one_column = standardize(np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"must have shape \(\.\.\., 1\), .*got shape \(5,\)\."):
        one_column.inverse(np.ones(5))


# Splits


def legacy_permutations(num, num_permutations, seed):
    """Fisher–Yates shuffles on one Mersenne Twister, with bounded numbers by masked rejection."""
    words = iter(np.random.RandomState(seed).randint(2**32, size=5000, dtype=np.uint32).tolist())
    for _ in range(num_permutations):
        rows = list(range(num))
        for last in range(num - 1, 0, -1):
            mask = 2 ** last.bit_length() - 1
            chosen = next(word & mask for word in words if word & mask <= last)
            rows[last], rows[chosen] = rows[chosen], rows[last]
        yield rows


def test_splits_are_consecutive_shuffles_of_one_legacy_stream():
    permutations = list(legacy_permutations(308, 3, seed=1))
    train, test = splits(308, 3)
    assert train.shape == (3, 277)
    assert test.shape == (3, 31)
    np.testing.assert_array_equal(np.hstack([train, test]), permutations)


def test_every_split_holds_every_row_once_and_more_splits_keep_the_earlier_ones():
    few, many = splits(40, 2, train_fraction=0.75, seed=7), splits(40, 5, 0.75, seed=7)
    assert many.train.shape == (5, 30)
    rows = np.sort(np.hstack([many.train, many.test]), axis=1)
    np.testing.assert_array_equal(rows, np.tile(np.arange(40), (5, 1)))
    np.testing.assert_array_equal(many.test[:2], few.test)
    assert (splits(40, 2, seed=8).train != splits(40, 2, seed=7).train).any()


@pytest.mark.skipif(not list(PUBLISHED.glob("*/splits.npz")), reason="no published splits here")
def test_splits_are_the_published_ones():
    for path in sorted(PUBLISHED.glob("*/splits.npz")):
        published = np.load(path)
        num_splits, num_train = published["train"].shape
        train, test = splits(num_train + published["test"].shape[1], num_splits)
        np.testing.assert_array_equal(train, published["train"], err_msg=str(path))
        np.testing.assert_array_equal(test, published["test"], err_msg=str(path))


@pytest.mark.parametrize(
    ("num_data", "fraction"), [(10, 0.99), (10, 0.0), (10, 1.5), (1, 0.9), (0, 0.9)]
)
def test_splits_refuse_an_empty_part(num_data, fraction):
    message = (
        "train_fraction must leave at least one row to train and one to test; "
        f"got train_fraction={fraction} with num_data={num_data}."
    )
    with pytest.raises(ValueError, match=message):
        splits(num_data, 2, fraction)


def test_no_splits_at_all_are_refused():
    with pytest.raises(ValueError, match=r"num_splits must be at least 1; got num_splits=0\."):
        splits(10, 0)


# Checks of arguments


@pytest.mark.parametrize(
    "data",
    [
        np.ones((5, 2)),
        jnp.ones(5),
        (jnp.ones((5, 2)), np.arange(5)),
        Dataset({"a": np.ones((5, 2, 2)), "b": np.ones(5, dtype=bool)}, jnp.ones(5, jnp.bfloat16)),
    ],
)
def test_check_data_counts_the_rows(data):
    assert check_data(data) == 5


NAN_ROWS = np.array([[1.0, 2.0], [3.0, np.nan], [np.inf, np.nan]])
BAD_DATA = {
    "no arrays": ((), r"data must hold at least one array; got data=\(\)\."),
    "none": (None, r"data must hold at least one array; got data=None\."),
    "no rows": (
        (np.ones((0, 3)), np.ones(0)),
        r"data must have at least one row; got data\[0\] of shape \(0, 3\)\.",
    ),
    "lengths": (
        Dataset(np.ones((5, 2)), jnp.ones(4)),
        r"data must have the same number of rows in every array; got data\.inputs with 5, "
        r"data\.targets with 4\.",
    ),
    "scalar": (
        {"x": np.ones(3), "y": 2.5},
        r"data\['y'\] must be an array with one row per data point; got the single value 2\.5\.",
    ),
    "lists": (([1, 2], [3, 4]), r"data\[0\]\[0\] must be an array with one row per data point"),
    "nan": (
        Dataset(NAN_ROWS, np.ones(3)),
        r"data\.inputs must be finite; got 3 NaN or infinite values, the first in row 1\.",
    ),
    "jax nan": (
        (jnp.ones(3), jnp.asarray(NAN_ROWS)),
        r"data\[1\] must be finite; got 3 NaN or infinite values, the first in row 1\.",
    ),
    "object": (
        (np.array([1.0, None, 2.0]), np.ones(3)),
        r"data\[0\] must be numeric; got an array of dtype object\.",
    ),
    "complex": (
        np.array([1.0, 1j]),
        r"data must be real; got an array of dtype complex128\.",
    ),
    "string": (
        {"labels": np.array(["a", "b"])},
        r"data\['labels'\] must be numeric; got an array of dtype <U1\.",
    ),
}


@pytest.mark.parametrize(("data", "message"), BAD_DATA.values(), ids=BAD_DATA.keys())
def test_check_data_names_what_is_wrong(data, message):
    with pytest.raises(ValueError, match=message):
        check_data(data)


def test_check_data_speaks_of_the_callers_argument():
    with pytest.raises(ValueError, match=r"X\[1\] must be numeric"):
        check_data((np.ones(2), np.array(["a", "b"])), name="X")


def test_integers_of_few_bits_are_data():
    assert check_data(jnp.array([1, 2, 3], jnp.int4)) == 3


def test_the_largest_numbers_are_standardized():
    values = np.array([-1.7e308, 1.7e308, 1.0e308, 5.0])
    expected, _ = standardize(values / 2**20)
    np.testing.assert_allclose(standardize(values)[0], expected, atol=1e-15)
