"""Noise is that of `jax.random`, and neighboring keys give independent noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats

from bbalpha import threefry

KEY = jax.random.key(0)
SEEDS = [0, 1, 2**31]


def words_of(keys):
    return jax.random.key_data(keys).tolist()


def key_of_words(first, last):
    return jax.random.wrap_key_data(np.array([first, last], np.uint32))


def exact_normals(key, shape):
    """The quantiles of the uniform numbers that `jax.random.normal` draws, in double precision."""
    uniform = jax.random.uniform(key, shape, jnp.float32, minval=threefry.LOWEST_UNIFORM, maxval=1)
    return np.sqrt(2) * scipy.special.erfinv(np.asarray(uniform, np.float64))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (1001,), (7, 5), (4, 3, 2), (100_003,)])
def test_float32_normals_are_those_of_jax_random(shape):
    def draw(key):
        return threefry.normal(key, shape, jnp.float32)

    compiled = jax.jit(draw)
    for seed in SEEDS:
        key = jax.random.key(seed)
        assert draw(key).dtype == jnp.float32
        for found in (draw(key), compiled(key)):
            np.testing.assert_allclose(found, exact_normals(key, shape), rtol=5e-7)
            np.testing.assert_allclose(found, jax.random.normal(key, shape), rtol=1e-5)


def test_float32_normals_of_many_keys_are_those_of_jax_random():
    keys = jax.random.split(KEY, 50).reshape(5, 10)
    draw = jax.vmap(jax.vmap(lambda key: threefry.normal(key, (31,), jnp.float32)))
    expected = np.array([[exact_normals(key, (31,)) for key in row] for row in keys])
    np.testing.assert_allclose(draw(keys), expected, rtol=5e-7)
    np.testing.assert_allclose(jax.jit(draw)(keys), expected, rtol=5e-7)


def test_float32_normals_and_keys_are_made_without_jax_random(monkeypatch):
    """Without this the tests above would hold for a file that always asks `jax.random`."""

    def refuse(*args, **kwargs):
        raise AssertionError("jax.random was asked")

    for name in ("normal", "bits", "fold_in", "split"):
        monkeypatch.setattr(jax.random, name, refuse)
    threefry.normal(KEY, (3,), jnp.float32)
    threefry.fold_in(KEY, 3)
    threefry.consecutive(KEY, 3)


def test_float64_normals_are_those_of_jax_random(x64):
    found = threefry.normal(KEY, (1001,), jnp.float64)
    assert found.dtype == jnp.float64
    np.testing.assert_array_equal(found, jax.random.normal(KEY, (1001,), jnp.float64))


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_short_normals_are_those_of_jax_random(dtype):
    found = threefry.normal(KEY, (1001,), dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, jax.random.normal(KEY, (1001,), dtype))


def test_other_generators_are_left_to_jax_random():
    key = jax.random.key(0, impl="rbg")
    np.testing.assert_array_equal(
        threefry.normal(key, (1001,), jnp.float32), jax.random.normal(key, (1001,))
    )
    assert words_of(threefry.fold_in(key, 5)) == words_of(jax.random.fold_in(key, 5))
    keys = threefry.consecutive(key, 4)
    assert jax.random.key_impl(keys) == "rbg"
    assert words_of(keys) == words_of(jax.random.split(key, 4))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("number", [0, 5, 2**32 - 3])
def test_a_folded_key_is_that_of_jax_random(seed, number):
    key = jax.random.key(seed)
    expected = words_of(jax.random.fold_in(key, number))
    assert words_of(threefry.fold_in(key, number)) == expected


def test_a_key_folded_with_a_traced_step_is_that_of_jax_random():
    steps = jnp.array([0, 1, 1000, 2**31 - 1], jnp.int32)
    folded, expected = (
        jax.jit(jax.vmap(fold_in, in_axes=(None, 0)))(KEY, steps)
        for fold_in in (threefry.fold_in, jax.random.fold_in)
    )
    assert words_of(folded) == words_of(expected)


def test_consecutive_keys_count_from_a_hash_of_the_key():
    keys = threefry.consecutive(KEY, 4)
    first, last = words_of(jax.random.fold_in(KEY, threefry.DRAWS_STREAM))
    assert words_of(keys) == [[first, (last + k) % 2**32] for k in range(4)]


def test_consecutive_keys_wrap_around_at_the_end_of_their_last_word(monkeypatch):
    monkeypatch.setattr(threefry, "fold_in", lambda key, number: key)
    keys = threefry.consecutive(key_of_words(5, 2**32 - 2), 4)
    assert words_of(keys) == [[5, 2**32 - 2], [5, 2**32 - 1], [5, 0], [5, 1]]


@pytest.mark.parametrize("key", [KEY, jax.random.fold_in(KEY, 1), key_of_words(5, 2**32 - 50)])
def test_consecutive_keys_and_their_noise_are_distinct(key):
    keys = threefry.consecutive(key, 1000)
    assert len({tuple(words) for words in words_of(keys)}) == 1000
    noise = np.asarray(jax.vmap(lambda key: threefry.normal(key, (3,), jnp.float32))(keys))
    assert len(np.unique(noise, axis=0)) == 1000


@pytest.fixture(scope="module", params=[0, 1], ids=["a plain key", "a hashed key"])
def noise_of_consecutive_keys(request):
    """Of 100 keys from zero on, the least random there are, or from a number of no special kind."""
    key = [KEY, jax.random.fold_in(KEY, 1)][request.param]
    keys = threefry.consecutive(key, 100)
    draw = jax.vmap(lambda key: threefry.normal(key, (10_000,), jnp.float32))
    return np.asarray(draw(keys), np.float64)


# Pairs of keys at some distance, and of numbers: the same, the next, the one before. A shift of
# one along both would show if counts and keys were added up.
@pytest.mark.parametrize(("keys_apart", "numbers_apart"), [(1, 0), (1, 1), (1, -1), (2, 0)])
def test_noise_of_neighboring_keys_is_uncorrelated(
    noise_of_consecutive_keys, keys_apart, numbers_apart
):
    """z = Σ xᵢ yᵢ / √n has mean 0 and variance 1, so the sum of z² over the pairs is chi-square."""
    noise = noise_of_consecutive_keys
    products = noise[keys_apart:] * np.roll(noise, numbers_apart, axis=1)[:-keys_apart]
    z = products.sum(axis=1) / np.sqrt(noise.shape[1])
    probability = scipy.stats.chi2.cdf(np.sum(z**2), len(z))
    assert scipy.stats.norm.cdf(-4) < probability < scipy.stats.norm.cdf(4)
    assert abs(z.sum()) < 4 * np.sqrt(len(z))


def test_noise_of_one_key_and_one_number_of_many_keys_are_standard_normal():
    along = threefry.normal(KEY, (100_000,), jnp.float32)
    keys = threefry.consecutive(KEY, 100_000)
    across = jax.vmap(lambda key: threefry.normal(key, (1,), jnp.float32))(keys)[:, 0]
    for noise in (along, across):
        assert scipy.stats.kstest(np.asarray(noise, np.float64), "norm").pvalue > 1e-4
