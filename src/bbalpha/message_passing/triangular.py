"""Triangular systems: LAPACK for large ones, a few matrix products for small ones.

LAPACK's threads wait for each other. On a busy machine, this takes 8 ms, whereas a small solve
itself takes 0.05 ms, and every sweep has one.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

SMALL = 64  # up to this size, products are as fast as LAPACK on an idle machine


def solve_lower(
    lower: Float[Array, "dims dims"], right: Float[Array, "dims *more"]
) -> Float[Array, "dims *more"]:
    """L⁻¹ B for a lower-triangular L; only the lower triangle is read."""
    return lower_solver(lower)(right)


def lower_solver(lower: Float[Array, "dims dims"]) -> Callable[..., Float[Array, "dims *more"]]:
    """A function of B, and whether L is transposed, that returns L⁻¹ B or L⁻ᵀ B."""
    inverse = _inverse(lower) if len(lower) <= SMALL else None

    def solve(right: Array, is_transposed: bool = False) -> Array:
        if inverse is None:
            trans = int(is_transposed)
            return jax.scipy.linalg.solve_triangular(lower, right, lower=True, trans=trans)
        return (inverse.T if is_transposed else inverse) @ right

    return solve


def inverse_of(cholesky: Float[Array, "dims dims"]) -> Float[Array, "dims dims"]:
    """(L Lᵀ)⁻¹, from the Cholesky factor L of a matrix."""
    half = solve_lower(cholesky, jnp.eye(len(cholesky)))
    return half.T @ half


def _inverse(lower: Float[Array, "dims dims"]) -> Float[Array, "dims dims"]:
    """L⁻¹, from inverted diagonal blocks of 1, 2, 4, … rows.

    A block [[A, 0], [C, B]] has the inverse [[A⁻¹, 0], [−B⁻¹ C A⁻¹, B⁻¹]]. With X the inverted
    blocks on the diagonal, and C all blocks that join neighbors, the next X is X − X C X.
    """
    places = jnp.arange(len(lower))

    def joined(level: Array, inverse: Array) -> Array:
        row, column = places[:, None] >> level, places[None] >> level
        between = jnp.where((row == column + 1) & (row % 2 == 1), lower, 0.0)
        return inverse - inverse @ between @ inverse

    num_levels = (len(lower) - 1).bit_length()
    return jax.lax.fori_loop(0, num_levels, joined, jnp.diag(1 / jnp.diag(lower)))
