"""The projections f = xₙᵀθ of the parameters, in coordinates where the prior is standard.

θ = m₀ + C z with Σ₀ = C Cᵀ and z ~ N(0, I). If there are fewer rows than columns, the data depend
on z only through u = Qᵀz, where Q is an orthonormal basis of the rows of X C; then all work is on N
numbers, without any D × D matrix. Either way, f = X m₀ + L u with u ~ N(0, I).
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from bbalpha.distributions import DiagonalGaussian, Distribution, FullGaussian
from bbalpha.low_rank import NarrowedGaussian

SYMMETRY = 1e-6  # relative; a covariance matrix may differ from its transpose by this much


class GaussianPrior(eqx.Module):
    """A Gaussian N(m₀, C Cᵀ); `factor` is the diagonal of C, or a lower-triangular C itself."""

    mean: Float[Array, " params"]
    factor: Float[Array, " params"] | Float[Array, "params params"]

    @property
    def is_diagonal(self) -> bool:
        """Whether the parameters are independent."""
        return self.factor.ndim == 1

    @property
    def distribution(self) -> DiagonalGaussian | FullGaussian:
        """The prior as a distribution of the library."""
        if self.is_diagonal:
            return DiagonalGaussian(self.mean, 2 * jnp.log(self.factor))
        return full_gaussian(self.mean, self.factor)

    def whiten(self, inputs: Float[Array, "data params"]) -> Float[Array, "data params"]:
        """X C, the projections of z."""
        return inputs * self.factor[None] if self.is_diagonal else inputs @ self.factor

    def spread(self, z: Float[Array, "params *more"]) -> Float[Array, "params *more"]:
        """C z."""
        if self.is_diagonal:
            return self.factor.reshape(-1, *(1,) * (z.ndim - 1)) * z
        return self.factor @ z


class Projections(eqx.Module):
    """L and X m₀ in f = X m₀ + L u; `basis` is Q, or None if u is z itself."""

    rows: Float[Array, "data dims"]
    offset: Float[Array, " data"]
    prior: GaussianPrior
    basis: Float[Array, "params dims"] | None

    @classmethod
    def of(
        cls, inputs: Float[Array, "data params"], prior: GaussianPrior, is_reduced: bool = True
    ) -> "Projections":
        """The projections of a table of inputs, in the smaller number of dimensions if reduced."""
        whitened = prior.whiten(inputs)
        num_data, size = whitened.shape
        basis = None
        if is_reduced and num_data < size:
            # With Q held fixed, derivatives of L Lᵀ = X Σ₀ Xᵀ are still exact: Q spans the rows.
            basis = jax.lax.stop_gradient(jnp.linalg.qr(jax.lax.stop_gradient(whitened).T)[0])
            whitened = whitened @ basis
        return cls(whitened, inputs @ prior.mean, prior, basis)

    def posterior(
        self, mean: Float[Array, " dims"], cholesky: Float[Array, "dims dims"]
    ) -> Distribution:
        """The distribution of θ if u is N(mean, A Aᵀ) with A = `cholesky`."""
        prior, basis = self.prior, self.basis
        in_full = mean if basis is None else basis @ mean
        center = prior.mean + prior.spread(in_full)
        if basis is not None and prior.is_diagonal:
            return NarrowedGaussian(center, jnp.log(prior.factor), basis, cholesky)
        factor = cholesky
        if basis is not None:
            change = cholesky - jnp.eye(len(cholesky))
            factor = jnp.eye(len(basis)) + basis @ change @ basis.T
        return full_gaussian(center, lower_factor(prior.spread(factor)))


def full_gaussian(
    mean: Float[Array, " params"], cholesky: Float[Array, "params params"]
) -> FullGaussian:
    """The Gaussian with this mean and this lower-triangular factor of the covariance."""
    scale = jnp.diag(cholesky)
    return FullGaussian(mean, jnp.log(scale), jnp.tril(cholesky / scale[:, None], -1))


def lower_factor(factor: Float[Array, "params params"]) -> Float[Array, "params params"]:
    """The lower-triangular factor, with positive diagonal, of the covariance A Aᵀ of any A."""
    upper = jnp.linalg.qr(factor.T, mode="r")
    return (upper * jnp.sign(jnp.diag(upper))[:, None]).T


def gaussian_prior(prior: Any, size: int) -> GaussianPrior:
    """The prior, from deviations, a covariance matrix or a Gaussian."""
    if isinstance(prior, FullGaussian):
        return GaussianPrior(prior.mean, prior.cholesky)
    if isinstance(prior, DiagonalGaussian):
        return GaussianPrior(prior.mean, jnp.exp(0.5 * prior.log_variance))
    factor = jnp.linalg.cholesky(prior) if prior.ndim == 2 else jnp.broadcast_to(prior, (size,))
    return GaussianPrior(jnp.zeros(size), factor)


def check_prior(prior: Any, size: int) -> None:
    """Raise unless `prior` is valid; traced values cannot be checked.

    Raises:
        ValueError: if a shape is wrong, a deviation is not positive and finite, or a covariance
            matrix is not symmetric and positive definite.
        TypeError: if it is something else.
    """
    if isinstance(prior, FullGaussian | DiagonalGaussian):
        _check_size(prior.mean.shape, size)
        return
    if callable(prior) or isinstance(prior, str | dict | eqx.Module):
        raise TypeError(
            "prior must be a standard deviation, one per parameter, a covariance matrix, or a "
            f"bb.DiagonalGaussian or bb.FullGaussian; got a {type(prior).__name__}."
        )
    if np.ndim(prior) > 0:
        _check_size(np.shape(prior), size, 2 if np.ndim(prior) == 2 else 1)
    if isinstance(prior, Tracer):
        return
    if np.ndim(prior) == 2:
        _check_covariance(np.asarray(prior, np.float64))
    else:
        _check_deviations(np.asarray(prior, np.float64))


def _check_size(shape: tuple[int, ...], size: int, ndim: int = 1) -> None:
    if shape != (size,) * ndim:
        raise ValueError(
            f"prior must be over the {size} columns of inputs; got shape {tuple(shape)}."
        )


def _check_deviations(array: np.ndarray) -> None:
    values = np.atleast_1d(array)
    wrong = values[~((values > 0) & np.isfinite(values))]
    if wrong.size:
        raise ValueError(
            "prior must hold positive and finite standard deviations, because with an improper "
            f"prior separable data have no posterior; got prior={wrong[0]:g}."
        )


def _check_covariance(matrix: np.ndarray) -> None:
    if not np.isfinite(matrix).all():
        raise ValueError("prior must be finite; got a covariance matrix with NaN or infinity.")
    gap = np.abs(matrix - matrix.T).max()
    if gap > SYMMETRY * np.abs(matrix).max():
        raise ValueError(
            f"prior must be a symmetric covariance matrix; got entries that differ by {gap:g}."
        )
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        smallest = np.linalg.eigvalsh(matrix)[0]
        raise ValueError(
            "prior must be a positive definite covariance matrix; got a smallest eigenvalue of "
            f"{smallest:.3g}."
        ) from None
