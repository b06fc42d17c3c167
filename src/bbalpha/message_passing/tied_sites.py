"""One site shared by all data: q(z) ∝ N(z; 0, I) f(z)^N, in memory that does not grow with N.

Every datum then has the same cavity, q without a power α of f. A pass over the data adds up, in
batches, statistics of the tilted distributions: natural parameters, which stochastic and averaged
EP average, or moments, which BB-α averages (eq. 10).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bbalpha.distributions import Distribution
from bbalpha.message_passing.arguments import Problem
from bbalpha.message_passing.diagonal_sites import (
    diagonal_distribution,
    moments_of_params,
    project,
    relative_log_normalizer,
)
from bbalpha.message_passing.projections import GaussianPrior, Projections
from bbalpha.message_passing.tilted import Centers, Factors, Natural, Tilted, tilted_moments
from bbalpha.message_passing.triangular import inverse_of, lower_solver, solve_lower


class Rows(NamedTuple):
    """The data, from which batches are taken; projections are computed for one batch at a time."""

    problem: Problem
    prior: GaussianPrior
    basis: Float[Array, "params dims"] | None

    @classmethod
    def of(cls, problem: Problem) -> "Rows":
        """The rows of a problem."""
        num_data, size = problem.inputs.shape
        is_reduced = num_data < size and not problem.is_diagonal
        basis = problem.projections().basis if is_reduced else None
        return cls(problem, problem.prior, basis)

    @property
    def num_dims(self) -> int:
        """The number of coordinates that the data depend on."""
        return self.problem.inputs.shape[1] if self.basis is None else self.basis.shape[1]

    def take(self, places: Int[Array, " batch"]) -> tuple[Float[Array, "batch dims"], Factors]:
        """Projections and factors of some rows."""
        inputs = self.problem.inputs[places]
        whitened = self.prior.whiten(inputs)
        rows = whitened if self.basis is None else whitened @ self.basis
        targets = jax.tree.map(lambda leaf: leaf[places], self.problem.targets)
        offset = inputs @ self.prior.mean
        return rows, Factors(self.problem.log_likelihood, targets, offset, self.problem.hyperparams)

    def projections(self) -> Projections:
        """The map from coordinates back to parameters; its rows are not used."""
        nothing = jnp.zeros((0, self.num_dims))
        return Projections(nothing, jnp.zeros(0), self.prior, self.basis)


class Sums(NamedTuple):
    """Sums over data, with weights: two statistics of the sites or moments, log Ẑ, and counts.

    `square` and `linear` have the shapes of a site's precision and shift.
    """

    square: Array
    linear: Array
    log_tilted: Float[Array, ""]
    skipped: Float[Array, ""]
    weight: Float[Array, ""]

    def __add__(self, other: "Sums") -> "Sums":  # pyright: ignore[reportIncompatibleMethodOverride]
        return Sums(*(a + b for a, b in zip(self, other, strict=True)))


class FullTied(NamedTuple):
    """The site is a Gaussian in all coordinates at once."""

    rows: Rows

    def start(self) -> Natural:
        """An empty site, for which q is the prior."""
        size = self.rows.num_dims
        return Natural(jnp.zeros((size, size)), jnp.zeros(size))

    def posterior(self, site: Natural, count: Any) -> Natural:
        """Natural parameters of the prior times `count` sites."""
        return Natural(jnp.eye(len(site.shift)) + count * site.precision, count * site.shift)

    def site(self, q: Natural, count: Any) -> Natural:
        """The site that, `count` times, turns the prior into q; symmetric in spite of rounding."""
        precision = 0.5 * (q.precision + q.precision.T)
        return Natural((precision - jnp.eye(len(q.shift))) / count, q.shift / count)

    def log_normalizer(self, q: Natural) -> Float[Array, ""]:
        """The log-normalizer relative to the prior's; NaN if q is improper."""
        cholesky = jnp.linalg.cholesky(q.precision)
        half = solve_lower(cholesky, q.shift)
        return 0.5 * half @ half - jnp.sum(jnp.log(jnp.diag(cholesky)))

    def site_sums(
        self, cavity: Natural, alpha: Array, places: Array, weights: Array, num_nodes: int
    ) -> Sums:
        """Natural parameters of the sites that match each tilted distribution, added up."""
        rows, base, tilted = self._tilted(cavity, alpha, places, num_nodes)
        precision = 1 / jnp.where(tilted.exists, tilted.variance, 1.0)
        squares = (precision - base.precision) / alpha
        shifts = (precision * tilted.mean - base.shift) / alpha
        return _summed(rows, squares, shifts, base, tilted, weights)

    def moment_sums(
        self, cavity: Natural, alpha: Array, places: Array, weights: Array, num_nodes: int
    ) -> Sums:
        """Changes of moments from the cavity to each tilted distribution, added up.

        Means change by V x a and second moments around the cavity's mean by V x b xᵀ V, with V the
        covariance of the cavity; added up are a x and b x xᵀ.
        """
        rows, base, tilted = self._tilted(cavity, alpha, places, num_nodes)
        shifts = (tilted.mean - base.mean) * base.precision
        squares = (tilted.variance - 1 / base.precision) * jnp.square(base.precision)
        return _summed(rows, squares + jnp.square(shifts), shifts, base, tilted, weights)

    def matched(self, cavity: Natural, sums: Sums) -> Natural:
        """The Gaussian with the average moments of the tilted distributions."""
        covariance = inverse_of(jnp.linalg.cholesky(cavity.precision))
        change = covariance @ (sums.linear / sums.weight)
        second = covariance @ (sums.square / sums.weight) @ covariance
        found = covariance + second - change[:, None] * change[None]
        precision = inverse_of(jnp.linalg.cholesky(found))
        return Natural(precision, precision @ (covariance @ cavity.shift + change))

    def gap(self, q: Natural, other: Natural) -> Float[Array, ""]:
        """The largest difference of two Gaussians, in deviations and log-variances of the first."""
        cholesky = jnp.linalg.cholesky(q.precision)
        change = other.precision - q.precision
        solve = lower_solver(cholesky)
        turned = solve(solve(change).T)
        mean = solve(solve(q.shift), is_transposed=True)
        means = jnp.linalg.solve(other.precision, other.shift) - mean  # `other` may be improper
        return jnp.maximum(jnp.max(jnp.abs(turned)), jnp.max(jnp.abs(cholesky.T @ means)))

    def distribution(self, q: Natural) -> Distribution:
        """Q over the parameters."""
        covariance = inverse_of(jnp.linalg.cholesky(q.precision))
        mean, cholesky = covariance @ q.shift, jnp.linalg.cholesky(covariance)
        return self.rows.projections().posterior(mean, cholesky)

    def _tilted(
        self, cavity: Natural, alpha: Array, places: Array, num_nodes: int
    ) -> tuple[Array, Natural, Tilted]:
        rows, factors = self.rows.take(places)
        cholesky = jnp.linalg.cholesky(cavity.precision)
        halves = solve_lower(cholesky, jnp.concatenate([rows.T, cavity.shift[:, None]], axis=1))
        half, weights = halves[:, :-1], halves[:, -1]
        precision = 1 / jnp.sum(jnp.square(half), axis=0)
        base = Natural(precision, precision * (weights @ half))
        return rows, base, _tilted_from(factors, base, alpha, num_nodes)


class DiagonalTied(NamedTuple):
    """The site is a Gaussian of independent parameters."""

    rows: Rows

    def start(self) -> Natural:
        """An empty site, for which q is the prior."""
        return Natural(jnp.zeros(self.rows.num_dims), jnp.zeros(self.rows.num_dims))

    def posterior(self, site: Natural, count: Any) -> Natural:
        """Natural parameters of the prior times `count` sites."""
        return Natural(1 + count * site.precision, count * site.shift)

    def site(self, q: Natural, count: Any) -> Natural:
        """The site that, `count` times, turns the prior into q."""
        return Natural((q.precision - 1) / count, q.shift / count)

    def log_normalizer(self, q: Natural) -> Float[Array, ""]:
        """The log-normalizer relative to the prior's; NaN if q is improper."""
        return jnp.sum(relative_log_normalizer(q))

    def site_sums(
        self, cavity: Natural, alpha: Array, places: Array, weights: Array, num_nodes: int
    ) -> Sums:
        """Natural parameters of the sites that match each tilted distribution, added up."""
        matched, base, tilted = self._matched(cavity, alpha, places, num_nodes)
        site = Natural(
            *((new - whole[None]) / alpha for new, whole in zip(matched, cavity, strict=True))
        )
        return _added(site.precision, site.shift, base, tilted, weights)

    def moment_sums(
        self, cavity: Natural, alpha: Array, places: Array, weights: Array, num_nodes: int
    ) -> Sums:
        """Means and second moments of the tilted distributions, added up."""
        matched, base, tilted = self._matched(cavity, alpha, places, num_nodes)
        second = 1 / matched.precision + jnp.square(matched.mean)
        return _added(second, matched.mean, base, tilted, weights)

    def matched(self, cavity: Natural, sums: Sums) -> Natural:
        """The Gaussian with the average moments of the tilted distributions."""
        del cavity
        mean = sums.linear / sums.weight
        precision = 1 / (sums.square / sums.weight - jnp.square(mean))
        return Natural(precision, precision * mean)

    def gap(self, q: Natural, other: Natural) -> Float[Array, ""]:
        """The largest difference of two Gaussians, in deviations and log-variances of the first."""
        means = (other.mean - q.mean) * jnp.sqrt(q.precision)
        return jnp.max(jnp.abs(jnp.stack([means, jnp.log(other.precision / q.precision)])))

    def distribution(self, q: Natural) -> Distribution:
        """Q over the parameters."""
        return diagonal_distribution(self.rows.projections(), q)

    def _matched(
        self, cavity: Natural, alpha: Array, places: Array, num_nodes: int
    ) -> tuple[Natural, Natural, Tilted]:
        rows, factors = self.rows.take(places)
        shared = Natural(*(leaf[None] for leaf in cavity))
        base = project(rows, shared)
        tilted = _tilted_from(factors, base, alpha, num_nodes)
        matched, is_positive = moments_of_params(rows, shared, base, tilted)
        return matched, base, tilted._replace(exists=tilted.exists & is_positive)


def tied_sites(problem: Problem) -> FullTied | DiagonalTied:
    """The family of a problem."""
    return (DiagonalTied if problem.is_diagonal else FullTied)(Rows.of(problem))


def tied_energy(
    family: FullTied | DiagonalTied, q: Natural, cavity: Natural, alpha: Array, sums: Sums
) -> Float[Array, ""]:
    """The power-EP energy with all sites equal: the BB-α energy (eq. 9)."""
    log_q = family.log_normalizer(q)
    shared = sums.weight * (family.log_normalizer(cavity) - log_q)
    return -log_q - (shared + sums.log_tilted) / alpha


def _tilted_from(factors: Factors, base: Natural, alpha: Array, num_nodes: int) -> Tilted:
    centers = Centers(base.mean, 1 / jnp.sqrt(base.precision))
    alphas = jnp.full(len(base.shift), alpha)
    return tilted_moments(factors, base, alphas, centers, num_nodes)[0]


def _summed(
    rows: Array, squares: Array, shifts: Array, base: Natural, tilted: Tilted, weights: Array
) -> Sums:
    """Σ squares x xᵀ and Σ shifts x."""
    used = jnp.where(tilted.exists, weights, 0.0)
    squares, shifts = (used * jnp.where(tilted.exists, part, 0.0) for part in (squares, shifts))
    counts = _counts(base, tilted, weights)
    return Sums(rows.T @ (squares[:, None] * rows), shifts @ rows, *counts)


def _added(square: Array, linear: Array, base: Natural, tilted: Tilted, weights: Array) -> Sums:
    """Σ square and Σ linear."""
    used = jnp.where(tilted.exists, weights, 0.0)
    parts = (jnp.where(tilted.exists[:, None], part, 0.0) for part in (square, linear))
    square, linear = (used @ part for part in parts)
    return Sums(square, linear, *_counts(base, tilted, weights))


def _counts(base: Natural, tilted: Tilted, weights: Array) -> tuple[Array, Array, Array]:
    """Σ log Ẑ, the number of skipped data, and the weight of the others."""
    log_tilted = jnp.where(tilted.exists, tilted.log_normalizer - base.log_normalizer, 0.0)
    used = jnp.where(tilted.exists, weights, 0.0)
    return used @ log_tilted, jnp.sum(jnp.where(tilted.exists, 0.0, weights)), jnp.sum(used)
