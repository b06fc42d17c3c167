"""Words and keys match `jax.random`; noise is Gaussian and independent across keys."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from jax.extend.random import threefry_2x32

from bbalpha.engine import streams, threefry

KEY = jax.random.key(0)
SEEDS = [0, 1, 2**31]


def words_of(keys):
    return jax.random.key_data(keys).tolist()


def key_of_words(first, last):
    return jax.random.wrap_key_data(np.array([first, last], np.uint32))


def box_muller(high, low):
    """Pairs of normals from pairs of words in double precision, as `threefry.py` defines them."""
    radius = np.sqrt(-2 * np.log(((high >> 8) + 1.0) / 2**24))
    angle = 2 * np.pi * (low & (2**23 - 1)) / 2**26
    cosine, sine = np.cos(angle), np.sin(angle)
    swap = low >> 29 & 1 == 1
    first, second = np.where(swap, sine, cosine), np.where(swap, cosine, sine)
    signs = 1 - 2.0 * (low >> 31 & 1), 1 - 2.0 * (low >> 30 & 1)
    return radius * first * signs[0], radius * second * signs[1]


def exact_normals(key, shape):
    """The normals of a key in double precision, from the words of jax's own Threefry."""
    num_pairs = (math.prod(shape) + 1) // 2
    counts = np.concatenate([np.zeros(num_pairs), np.arange(num_pairs)]).astype(np.uint32)
    words = np.asarray(threefry_2x32(jax.random.key_data(key), counts))
    pairs = box_muller(words[:num_pairs], words[num_pairs:])
    return np.concatenate(pairs)[: math.prod(shape)].reshape(shape)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (1001,), (7, 5), (4, 3, 2), (100_003,)])
def test_float32_normals_are_those_of_their_definition(shape):
    def draw(key):
        return threefry.normal(key, shape, jnp.float32)

    compiled = jax.jit(draw)
    for seed in SEEDS:
        key = jax.random.key(seed)
        assert draw(key).dtype == jnp.float32
        for found in (draw(key), compiled(key)):
            np.testing.assert_allclose(found, exact_normals(key, shape), rtol=5e-7)


def test_float32_normals_of_many_keys_are_those_of_each():
    keys = jax.random.split(KEY, 50).reshape(5, 10)
    draw = jax.vmap(jax.vmap(lambda key: threefry.normal(key, (31,), jnp.float32)))
    expected = np.array([[exact_normals(key, (31,)) for key in row] for row in keys])
    np.testing.assert_allclose(draw(keys), expected, rtol=5e-7)
    np.testing.assert_allclose(jax.jit(draw)(keys), expected, rtol=5e-7)


def test_extreme_words_give_finite_normals():
    words = np.array([0, 255, 256, 2**23, 2**29, 2**30, 2**31, 2**32 - 256, 2**32 - 1], np.uint32)
    high, low = (grid.ravel() for grid in np.meshgrid(words, words))
    pairs = np.asarray(threefry.normal_pairs(jnp.asarray(high), jnp.asarray(low)))
    np.testing.assert_allclose((pairs.real, pairs.imag), box_muller(high, low), rtol=5e-7)
    assert np.abs(pairs.real).max() == pytest.approx(np.sqrt(48 * np.log(2)))  # −2 log 2⁻²⁴


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("num", [1, 2, 1001])
def test_bits_are_those_of_jax_random(seed, num):
    key = jax.random.key(seed)
    np.testing.assert_array_equal(threefry.bits(key, num), jax.random.bits(key, (num,), jnp.uint32))


def test_float32_normals_and_keys_are_made_without_jax_random(monkeypatch):
    """Without this the tests above would hold for a file that always asks `jax.random`."""

    def refuse(*args, **kwargs):
        raise AssertionError("jax.random was asked")

    for name in ("normal", "bits", "fold_in", "split"):
        monkeypatch.setattr(jax.random, name, refuse)
    threefry.normal(KEY, (3,), jnp.float32)
    threefry.bits(KEY, 3)
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
    np.testing.assert_array_equal(threefry.bits(key, 7), jax.random.bits(key, (7,), jnp.uint32))
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
    first, last = words_of(jax.random.fold_in(KEY, streams.DRAWS))
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


def test_the_numbers_of_a_pair_are_independent_and_their_tails_gaussian():
    num_pairs = 2_000_000
    noise = np.asarray(threefry.normal(KEY, (2 * num_pairs,), jnp.float32), np.float64)
    first, second = noise.reshape(2, num_pairs)
    for f, g in itertools.product([lambda x: x, lambda x: (x**2 - 1) / np.sqrt(2)], repeat=2):
        # Both have mean 0 and variance 1, and so has the normalized sum of their products.
        assert abs(np.sum(f(first) * g(second))) < 4 * np.sqrt(num_pairs)
    for bound in (1, 2, 3, 4, 4.5):
        expected = 2 * num_pairs * 2 * scipy.stats.norm.cdf(-bound)
        assert abs(np.sum(np.abs(noise) > bound) - expected) < 4 * np.sqrt(expected)


@pytest.mark.parametrize("seed", [0, 7, 2**31 - 1])
def test_keys_made_on_the_host_are_those_of_jax_random(seed, compilations):
    key = threefry.fold_in(threefry.key_of(seed), 5)
    assert compilations == []
    assert words_of(key) == words_of(jax.random.fold_in(jax.random.key(seed), 5))


def test_seeds_of_another_generator_are_left_to_jax_random():
    with jax.default_prng_impl("rbg"):
        assert words_of(threefry.key_of(3)) == words_of(jax.random.key(3))
