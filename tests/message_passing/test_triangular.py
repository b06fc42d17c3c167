"""Triangular systems, small and large, against SciPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from bbalpha.message_passing.triangular import SMALL, inverse_of, lower_solver, solve_lower


def cholesky_factor(size):
    rows = np.random.default_rng(size).normal(size=(size + 3, size))
    return np.linalg.cholesky(rows.T @ rows + 0.1 * np.eye(size))


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("size", [1, 2, 5, SMALL, SMALL + 1])
def test_solutions_are_those_of_scipy(size):
    lower, right = cholesky_factor(size), np.random.default_rng(0).normal(size=(size, 3))
    noise = np.triu(np.ones((size, size)), 1)  # above the diagonal, where nothing is read
    solve = lower_solver(jnp.asarray(lower + noise))
    for is_transposed in (False, True):
        exact = scipy.linalg.solve_triangular(lower, right, lower=True, trans=int(is_transposed))
        np.testing.assert_allclose(
            solve(jnp.asarray(right), is_transposed), exact, rtol=1e-10, atol=1e-12
        )
    inverse = np.linalg.inv(lower @ lower.T)
    np.testing.assert_allclose(inverse_of(jnp.asarray(lower)), inverse, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("x64")
def test_derivatives_are_those_of_lapack():
    lower, right = jnp.asarray(cholesky_factor(6)), jnp.arange(6.0)

    def by_products(lower):
        return jnp.sum(solve_lower(lower, right) ** 2)

    def by_lapack(lower):
        return jnp.sum(jax.scipy.linalg.solve_triangular(lower, right, lower=True) ** 2)

    np.testing.assert_allclose(jax.grad(by_products)(lower), jax.grad(by_lapack)(lower), rtol=1e-8)
