"""Threefry, the generator of `jax.random`, made faster on CPU.

On CPU, `jax.random` runs Threefry's twenty rounds as a loop over whole arrays, so every round goes
through memory. Here the rounds are written out, so they fuse into one pass over registers, and the
scalar keys of a step cost almost nothing. Bits and keys are the same as in `jax.random`, but normal
numbers are not: `jax.random` makes one number from two words by the inverse error function; the
Box-Muller transform, used here, makes two. Other generators and precisions are left to
`jax.random`.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Complex64, Float, Int, Key, UInt32

from bbalpha.engine import streams
from bbalpha.engine.arrays import on_device, on_host
from bbalpha.engine.materialize import in_memory

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al., 2011, Table 2
NUM_GROUPS = 5  # of four rounds
PARITY = 0x1BD11BDA
ONE_IN_BITS = 0x3F800000  # the bits of 1.0; with random mantissa bits, a number in [1, 2)
MANTISSA_BITS = 0x7FFFFF
SIGN_BIT = 0x80000000
# cos 2πt and (sin 2πt)/t as polynomials of t² for t < 1/8, highest power first, that interpolate
# them at Chebyshev nodes. Relative errors: 4e-8, 4e-9.
COSINE = (-83.59181678, 64.92123425, -19.73915212, 0.9999999723)
SINE = (-75.4016127, 81.59254287, -41.34166257, 6.283185288)
TABLE_WIDTH = 256

Words = UInt32[Array, "..."]


def normal(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Standard Gaussian numbers; in float32 they differ from `jax.random.normal`.

    >>> from bbalpha.engine.threefry import normal
    >>> numbers = normal(jax.random.key(0), (10_000,), jnp.float32)
    >>> print(f"{numbers.mean():.1f} {numbers.std():.1f}")
    0.0 1.0
    """
    if dtype != jnp.float32 or not _is_threefry(key):
        return jax.random.normal(key, shape, dtype)
    num = math.prod(shape)
    num_pairs = -(-num // 2)
    # Complex numbers, because XLA would hash the words again for each of two arrays.
    table = in_memory(normal_pairs(*_words(key, num_pairs)), jax.random.key_data(key))
    pairs = table.ravel()[:num_pairs]
    return jnp.concatenate([pairs.real, pairs.imag])[:num].reshape(shape)


@jax.jit
def normal_pairs(high: Words, low: Words) -> Complex64[Array, "..."]:
    """Two independent standard Gaussian numbers from two words, by the Box-Muller transform."""
    uniform = ((high >> 8).astype(jnp.int32) + 1).astype(jnp.float32) * np.float32(2**-24)  # (0, 1]
    radius = jnp.sqrt(-2 * jnp.log(uniform))
    cosine, sine = _point_on_circle(low)
    return jax.lax.complex(radius * cosine, radius * sine)


def bits(key: Key[Array, ""], num: int) -> UInt32[Array, " num"]:
    """Random words, equal to `jax.random.bits`."""
    if not _is_threefry(key):
        return jax.random.bits(key, (num,), jnp.uint32)
    high, low = _words(key, num)
    return (high ^ low).ravel()[:num]


def consecutive(key: Key[Array, ""], num: int) -> Key[Array, " num"]:
    """Keys for many draws: one hash of `key`, with 0, …, num − 1 added to its last word.

    `jax.random.split` would hash every key, which doubles the cost of drawing. Threefry only needs
    keys that differ, and a sum is cheap enough to be fused into the drawing. The one hash keeps the
    draws of neighboring seeds apart.
    """
    if not _is_threefry(key):
        return jax.random.split(key, num)
    first, last = jax.random.key_data(fold_in(key, streams.DRAWS))
    last = last + jax.lax.iota(jnp.uint32, num)
    return _as_keys(jnp.broadcast_to(first, last.shape), last)


def fold_in(key: Key[Array, ""], number: int | Int[Array, ""]) -> Key[Array, ""]:
    """A new key for a number, equal to `jax.random.fold_in`; made on the host if possible."""
    if not _is_threefry(key):
        return jax.random.fold_in(key, number)
    words = on_host(jax.random.key_data(key))
    if isinstance(words, np.ndarray) and isinstance(number, int):
        return _known_key(np.concatenate(_mixed(words, np.array([number], np.uint32))))
    low = jnp.asarray(number, jnp.uint32)
    return _as_keys(*_rounds(jax.random.key_data(key), low))


def words_on_host(key: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Two random words for each of some counts below 2³², by NumPy alone.

    The result depends only on the arguments and is the same on every machine. The two words of a
    count are the key that `jax.random.fold_in` returns for it.

    Args:
        key: two words, as in `jax.random.key_data`.
        counts: the numbers to hash, as `uint32`.

    >>> import numpy as np
    >>> from bbalpha.engine.threefry import words_on_host
    >>> high, low = words_on_host(np.array([0, 7], np.uint32), np.arange(3, dtype=np.uint32))
    >>> key = jax.random.fold_in(jax.random.key(7), 2)
    >>> jax.random.key_data(key).tolist() == [int(high[2]), int(low[2])]
    True
    """
    return _mixed(key, counts)


def key_of(seed: int) -> Key[Array, ""]:
    """The key of a seed below 2³², equal to `jax.random.key`, made on the host."""
    if jax.config.jax_default_prng_impl != "threefry2x32":  # pyright: ignore[reportAttributeAccessIssue]
        return jax.random.key(seed)
    return _known_key(np.array([0, seed], np.uint32))


def _is_threefry(key: Array) -> bool:
    is_default = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return is_default and jax.random.key_impl(key) == "threefry2x32"


def _as_keys(high: Words, low: Words) -> Array:
    return jax.random.wrap_key_data(jnp.stack([high, low], axis=-1), impl="threefry2x32")


def _words(key: Array, num: int) -> tuple[Words, Words]:
    """Two words for each of the counts 0, …, num − 1 (and a few more), as a table.

    Over one long axis, XLA would emit a loop without vector instructions, which is ten times as
    slow.
    """
    num_rows = max(1, -(-num // TABLE_WIDTH))
    width = -(-num // num_rows)
    shape = (num_rows, width)
    row, column = (jax.lax.broadcasted_iota(jnp.uint32, shape, axis) for axis in (0, 1))
    low = row * np.uint32(width) + column
    return _rounds(jax.random.key_data(key), low)


def _point_on_circle(word: Words) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """Cosine and sine of a uniform angle: within an eighth of a turn, reflected by three bits."""
    mantissa = (word & np.uint32(MANTISSA_BITS)) | np.uint32(ONE_IN_BITS)
    turn = (jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1) / 8
    cosine, sine = _polynomial(COSINE, turn * turn), turn * _polynomial(SINE, turn * turn)
    swap = (word >> 29) & 1 == 1
    first, second = jnp.where(swap, sine, cosine), jnp.where(swap, cosine, sine)
    return _flipped(first, word), _flipped(second, word << 1)


def _polynomial(coefficients: tuple[float, ...], x: Float[Array, "..."]) -> Float[Array, "..."]:
    value = jnp.full_like(x, coefficients[0])
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def _flipped(value: Float[Array, "..."], word: Words) -> Float[Array, "..."]:
    """The value, with its sign flipped if the first bit of the word is set."""
    bits = jax.lax.bitcast_convert_type(value, jnp.uint32) ^ (word & np.uint32(SIGN_BIT))
    return jax.lax.bitcast_convert_type(bits, jnp.float32)


def _known_key(words: np.ndarray) -> Array:
    return jax.random.wrap_key_data(on_device(words), impl="threefry2x32")


def _mixed(key: Any, low: Any) -> tuple[Any, Any]:
    """Twenty rounds of Threefry-2×32 on a count of two words, the first of which is 0."""
    # Operations of `jax.lax` take a third of the time to trace of those in `jax.numpy`.
    library = np if isinstance(low, np.ndarray) else jax.lax
    first, second, parity = (library.full_like(low, word) for word in (key[0], key[1], PARITY))
    schedule = (first, second, library.bitwise_xor(library.bitwise_xor(first, second), parity))
    high, low = first, library.add(low, second)
    for group in range(NUM_GROUPS):
        for rotation in ROTATIONS[group % 2]:
            high = library.add(high, low)
            low = library.bitwise_xor(high, _rotated(low, rotation))
        high = library.add(high, schedule[(group + 1) % 3])
        count = library.full_like(low, group + 1)
        low = library.add(library.add(low, schedule[(group + 2) % 3]), count)
    return high, low


_rounds = jax.jit(_mixed)  # traced once for each shape, however often a program hashes


def _rotated(word: Any, num_bits: int) -> Any:
    if isinstance(word, np.ndarray):
        return word << np.uint32(num_bits) | word >> np.uint32(32 - num_bits)
    left = jax.lax.shift_left(word, jax.lax.full_like(word, num_bits))
    right = jax.lax.shift_right_logical(word, jax.lax.full_like(word, 32 - num_bits))
    return jax.lax.bitwise_or(left, right)
