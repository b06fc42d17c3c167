"""Noise for many draws at once: independent, in pairs of opposite sign, matched, or quasi-random.

Pairs cancel every odd term of the energy. Matched pairs also have the identity as their covariance,
so quadratic terms are exact, and only terms of higher order make the gradient noisy.
"""

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, UInt32

from bbalpha.engine import threefry

Draws = Literal["independent", "antithetic", "matched", "sobol"]
KINDS = ("independent", "antithetic", "matched", "sobol")

MOST_STEPS = 15  # enough for eigenvalues down to a hundredth of the largest
EXTRA_NOISE = 16  # numbers per draw besides the parameters: the directions of a low-rank q
SMALL_SIZE = 16  # rows of square matrices up to which a product is faster as a sum than by itself
MATCHED_SHARE = 3 / 8  # of the draws: the most numbers per draw whose covariance can be matched


def check_draws(draws: Any, default: Draws) -> Draws:
    """The kind of draws, or the default.

    Raises:
        ValueError: if there is no such kind.
    """
    if draws is None:
        return default
    if draws not in KINDS:
        raise ValueError(f"draws must be one of {', '.join(KINDS)}; got draws={draws!r}.")
    return draws


def paired_noise(
    draw: Callable[[Key[Array, " draws"]], Float[Array, "draws noise"]],
    keys: Key[Array, " draws"],
    matched: bool,
) -> Float[Array, "draws noise"]:
    """The noise of half of the keys, and its negative; `matched` gives it unit covariance.

    Covariances are matched as long as there are enough draws, see `MATCHED_SHARE`.
    """
    half = draw(keys[: (len(keys) + 1) // 2])
    if matched and half.shape[1] <= MATCHED_SHARE * len(keys):
        half = half @ inverse_root(half.T @ half / len(half))
    return jnp.concatenate([half, -half])[: len(keys)]


def samples_to_match(num_params: int) -> int:
    """How many draws, in pairs, match so many parameters and a few directions more."""
    return 2 * math.ceil((num_params + EXTRA_NOISE) / MATCHED_SHARE / 2)


def inverse_root(matrix: Float[Array, "size size"]) -> Float[Array, "size size"]:
    """S^(−½) of a positive definite matrix, by the iteration of Newton and Schulz.

    It takes matrix products only. LAPACK's threads, which a Cholesky factor and its solution would
    use, wait for each other on a busy machine, a hundred times as long as the products take.

    >>> from bbalpha.engine.noise import inverse_root
    >>> print(inverse_root(jnp.diag(jnp.array([4.0, 0.25]))).round(5))
    [[0.5 0. ]
     [0.  2. ]]
    """
    identity = jnp.eye(len(matrix), dtype=matrix.dtype)
    # Two bounds on the largest eigenvalue; for covariances of noise they are near it.
    norms = jnp.sqrt(jnp.sum(jnp.square(matrix))), jnp.max(jnp.sum(jnp.abs(matrix), axis=0))
    scale = jnp.minimum(*norms)
    tolerance = jnp.finfo(matrix.dtype).eps ** 0.5  # each step squares the error

    multiply = _sum_of_products if len(matrix) <= SMALL_SIZE else jnp.matmul

    def improve(carry: _Roots) -> _Roots:
        product = multiply(carry.inverse, carry.root)
        correction = 1.5 * identity - 0.5 * product
        root, inverse = multiply(carry.root, correction), multiply(correction, carry.inverse)
        error = jnp.max(jnp.abs(product - identity))
        return _Roots(root, inverse, error, carry.turn + 1)

    start = _Roots(matrix / scale, identity, jnp.ones_like(scale), jnp.array(0))
    end = jax.lax.while_loop(
        lambda carry: (carry.error > tolerance) & (carry.turn < MOST_STEPS), improve, start
    )
    return end.inverse / jnp.sqrt(scale)


def _sum_of_products(
    left: Float[Array, "size size"], right: Float[Array, "size size"]
) -> Float[Array, "size size"]:
    """The matrix product, which XLA fuses with its neighbors in this form.

    A product of small matrices by itself takes less time than starting it.
    """
    return jnp.sum(left[:, :, None] * right[None], axis=1)


class _Roots(NamedTuple):
    """The root of a matrix and its inverse so far, and how far their product was from 1."""

    root: Float[Array, "size size"]
    inverse: Float[Array, "size size"]
    error: Float[Array, ""]
    turn: Int[Array, ""]


def sobol_points(num_draws: int, size: int) -> UInt32[np.ndarray, "pairs noise"]:
    """Sobol points as 32-bit fractions, one for each pair of draws."""
    from scipy.stats import qmc  # slow to import, and only needed here

    num_points = (num_draws + 1) // 2
    exponent = max(0, (num_points - 1).bit_length())
    points = qmc.Sobol(size, scramble=False, bits=32).random_base2(exponent)[:num_points]
    return (points * 2.0**32).astype(np.uint32)


def shifted_noise(
    points: UInt32[Array, "pairs noise"], key: Key[Array, ""], num_draws: int
) -> Float[Array, "draws noise"]:
    """Gaussian noise from Sobol points under a random digital shift, in pairs of opposite sign."""
    shift = threefry.bits(key, points.shape[1])
    uniform = ((points ^ shift[None]) >> 8).astype(jnp.float32) * np.float32(2**-24)
    half = jax.scipy.special.ndtri(uniform + np.float32(2**-25))
    return jnp.concatenate([half, -half])[:num_draws]
