"""The numbers of `jax.random`, drawn faster on CPU.

On CPU `jax.random` runs the twenty rounds of Threefry as a loop over whole arrays, each round
through memory. Written out, as here, they fuse into one pass over registers: noise costs half, and
the scalar keys of a step almost nothing. Bits and keys are those of `jax.random`, and so are
float32 normals but for its rounding errors; what this file does not know (other generators, other
precisions) it leaves to `jax.random`.
"""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from bbalpha.special import erf_inv

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))  # Salmon et al., 2011, Table 2
NUM_GROUPS = 5  # of four rounds
PARITY = 0x1BD11BDA
ONE_IN_BITS = 0x3F800000  # the float32 1.0, under whose exponent random mantissas make [1, 2)
MANTISSA_SHIFT = 9
DRAWS_STREAM = 2**32 - 4  # beside the streams of training, epochs and loop
LOWEST_UNIFORM = np.nextafter(np.float32(-1.0), np.float32(0.0))

Words = UInt32[Array, "..."]


def normal(key: Key[Array, ""], shape: tuple[int, ...], dtype: Any) -> Float[Array, "..."]:
    """Standard Gaussian numbers, those of `jax.random.normal`.

    >>> from bbalpha.threefry import normal
    >>> key = jax.random.key(0)
    >>> bool(jnp.allclose(normal(key, (3,), jnp.float32), jax.random.normal(key, (3,)), rtol=1e-5))
    True
    """
    if dtype != jnp.float32 or not _is_threefry(key):
        return jax.random.normal(key, shape, dtype)
    mantissa = (bits(key, math.prod(shape)) >> MANTISSA_SHIFT) | np.uint32(ONE_IN_BITS)
    uniform = jax.lax.bitcast_convert_type(mantissa, jnp.float32) - 1
    uniform = jnp.maximum(LOWEST_UNIFORM, uniform * (1 - LOWEST_UNIFORM) + LOWEST_UNIFORM)
    return (np.float32(math.sqrt(2)) * erf_inv(uniform)).reshape(shape)


def bits(key: Key[Array, ""], num: int) -> UInt32[Array, " num"]:
    """Random words, those of `jax.random.bits`."""
    if not _is_threefry(key):
        return jax.random.bits(key, (num,), jnp.uint32)
    low = jax.lax.iota(jnp.uint32, num)
    high, low = _rounds(jax.random.key_data(key), jnp.zeros_like(low), low)
    return high ^ low


def consecutive(key: Key[Array, ""], num: int) -> Key[Array, " num"]:
    """Keys for many draws: a hash of `key` with 0, …, num − 1 added to its last word.

    `jax.random.split` would hash each. Threefry needs no hashed keys, only different ones, and a
    sum is cheap enough to be fused into the drawing, where a hash would double its cost. That of
    `key` keeps the draws of neighboring seeds apart.
    """
    if not _is_threefry(key):
        return jax.random.split(key, num)
    first, last = jax.random.key_data(fold_in(key, DRAWS_STREAM))
    last = last + jax.lax.iota(jnp.uint32, num)
    return _as_keys(jnp.broadcast_to(first, last.shape), last)


def fold_in(key: Key[Array, ""], number: int | Int[Array, ""]) -> Key[Array, ""]:
    """A new key for a number, that of `jax.random.fold_in`."""
    if not _is_threefry(key):
        return jax.random.fold_in(key, number)
    low = jnp.asarray(number, jnp.uint32)
    return _as_keys(*_rounds(jax.random.key_data(key), jnp.zeros_like(low), low))


def _is_threefry(key: Array) -> bool:
    is_default = jax.config.jax_threefry_partitionable  # pyright: ignore[reportAttributeAccessIssue]
    return is_default and jax.random.key_impl(key) == "threefry2x32"


def _as_keys(high: Words, low: Words) -> Array:
    return jax.random.wrap_key_data(jnp.stack([high, low], axis=-1), impl="threefry2x32")


def _rounds(key: UInt32[Array, " 2"], high: Words, low: Words) -> tuple[Words, Words]:
    """Threefry-2×32 with twenty rounds of a count of two words."""
    schedule = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(PARITY))
    high, low = high + schedule[0], low + schedule[1]
    for group in range(NUM_GROUPS):
        for rotation in ROTATIONS[group % 2]:
            high = high + low
            low = (low << rotation) | (low >> (32 - rotation))
            low = high ^ low
        high = high + schedule[(group + 1) % 3]
        low = low + schedule[(group + 2) % 3] + np.uint32(group + 1)
    return high, low
