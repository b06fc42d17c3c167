"""Sites on projections: q(u) ∝ N(u; 0, I) Πₙ exp(νₙ gₙ − ½ τₙ gₙ²) with g = L u, a full Gaussian.

One pass over the data costs O(N R²), with R the smaller of the numbers of rows and columns.
Precisions τ may be negative, as they must for heavy-tailed likelihoods.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bbalpha.distributions import Distribution
from bbalpha.message_passing.projections import Projections
from bbalpha.message_passing.tilted import (
    NUM_NODES,
    Centers,
    Factors,
    Natural,
    PerDatum,
    tilted_at,
    tilted_moments,
)
from bbalpha.message_passing.triangular import inverse_of, lower_solver, solve_lower

LEAST_CAVITY = 1e-3  # smallest share of q's precision that a cavity keeps along its projection


class Pass(NamedTuple):
    """One pass over all data for fixed sites.

    `target` holds the sites that match the tilted moments. `gap` is the distance of the tilted
    moments from those of q (in deviations of q, and in log-variances). `energy` is minus the
    log-evidence. `alpha` is the power of each datum, which is lowered where the cavity would be
    improper.
    """

    target: Any
    gap: Float[Array, "two data ..."]
    energy: Float[Array, ""]
    alpha: PerDatum
    cavity: Natural
    centers: Centers
    exists: Bool[Array, " data"]
    is_proper: Bool[Array, ""]


class Moments(NamedTuple):
    """q(u): the Cholesky factor of its precision, its mean, and the marginals of g."""

    cholesky: Float[Array, "dims dims"]
    mean: Float[Array, " dims"]
    marginal: Natural
    log_normalizer: Float[Array, ""]


class FullSites(NamedTuple):
    """q is a full Gaussian: the sites are numbers, one pair per datum."""

    projections: Projections
    factors: Factors

    def start(self) -> Natural:
        """Empty sites, for which q is the prior."""
        zeros = jnp.zeros(len(self.projections.offset))
        return Natural(zeros, zeros)

    def start_centers(self) -> Centers:
        """Quadrature nodes placed according to the prior."""
        variance = jnp.sum(jnp.square(self.projections.rows), axis=1)
        return Centers(jnp.zeros_like(variance), jnp.sqrt(variance))

    def moments(self, sites: Natural) -> Moments:
        """The moments of q for given sites; not finite if q is improper."""
        rows = self.projections.rows
        precision = jnp.eye(rows.shape[1]) + rows.T @ (sites.precision[:, None] * rows)
        cholesky = jnp.linalg.cholesky(precision)
        solve = lower_solver(cholesky)
        half = solve(rows.T)
        weights = half @ sites.shift
        marginal_precision = 1 / jnp.sum(jnp.square(half), axis=0)
        marginal = Natural(marginal_precision, marginal_precision * (weights @ half))
        mean = solve(weights, is_transposed=True)
        log_normalizer = 0.5 * weights @ weights - jnp.sum(jnp.log(jnp.diag(cholesky)))
        return Moments(cholesky, mean, marginal, log_normalizer)

    def half_and_mean(self, sites: Natural) -> tuple[Float[Array, "dims data"], PerDatum]:
        """A with AᵀA the covariance of the projections under q, and their means."""
        rows = self.projections.rows
        q = self.moments(sites)
        half = solve_lower(q.cholesky, rows.T)
        return half, q.marginal.mean

    def sweep(
        self, sites: Natural, alpha: Array, centers: Centers, num_nodes: int = NUM_NODES
    ) -> Pass:
        """Cavities, tilted moments and matching sites, for all data at once (Section 2)."""
        q = self.moments(sites)
        alphas = keep_proper(alpha, sites.precision / q.marginal.precision)
        cavity = cavities(q.marginal, sites, alphas)
        tilted, centers = tilted_moments(self.factors, cavity, alphas, centers, num_nodes)
        exists = tilted.exists
        precision = 1 / jnp.where(exists, tilted.variance, 1.0)
        target = Natural(
            (precision - cavity.precision) / alphas,
            (precision * tilted.mean - cavity.shift) / alphas,
        )
        target = Natural(*(jnp.where(exists, *pair) for pair in zip(target, sites, strict=True)))
        energy = _energy(q, cavity, tilted.log_normalizer, alphas)
        is_proper = jnp.all(jnp.isfinite(q.cholesky)) & jnp.isfinite(q.log_normalizer)
        gap = moment_gap(q.marginal, tilted.mean, tilted.variance, exists)
        return Pass(target, gap, energy, alphas, cavity, centers, exists, is_proper)

    def energy(
        self, sites: Natural, alphas: PerDatum, centers: Centers, num_nodes: int = NUM_NODES
    ) -> Float[Array, ""]:
        """The power-EP energy (eq. 6), minus the log-evidence; differentiable at fixed nodes."""
        q = self.moments(sites)
        cavity = cavities(q.marginal, sites, alphas)
        tilted = tilted_at(self.factors, cavity, alphas, centers, num_nodes)
        return _energy(q, cavity, tilted.log_normalizer, alphas)

    def leave_one_out(
        self, sites: Natural, centers: Centers, num_nodes: int = NUM_NODES
    ) -> PerDatum:
        """Log p(yₙ) under q without the site of datum n; NaN where that cavity is improper."""
        cavity = cavities(self.moments(sites).marginal, sites, jnp.ones(len(sites.shift)))
        return log_predictive(self.factors, cavity, centers, num_nodes)

    def distribution(self, sites: Natural) -> Distribution:
        """Q over the parameters."""
        q = self.moments(sites)
        covariance = inverse_of(q.cholesky)
        return self.projections.posterior(q.mean, jnp.linalg.cholesky(covariance))


def log_predictive(factors: Factors, cavity: Natural, centers: Centers, num_nodes: int) -> PerDatum:
    """Log E[p(yₙ|f)] under a Gaussian for each projection; NaN where it is improper."""
    ones = jnp.ones(len(cavity.shift))
    tilted, _ = tilted_moments(factors, cavity, ones, centers, num_nodes)
    is_proper = (cavity.precision > 0) & tilted.exists
    return jnp.where(is_proper, tilted.log_normalizer - cavity.log_normalizer, jnp.nan)


def keep_proper(alpha: Array, shares: Float[Array, "*data"]) -> Float[Array, "*data"]:
    """The power of each datum, lowered where removing the site would leave an improper cavity.

    `shares` holds the precision of each site, relative to that of q along its projection. Removing
    a smaller part of a site is power EP with a smaller power for that datum.
    """
    most = 1 - LEAST_CAVITY
    removed = alpha * shares
    return jnp.where(removed > most, alpha * most / jnp.maximum(removed, most), alpha)


def cavities(marginal: Natural, sites: Natural, alphas: PerDatum) -> Natural:
    """The marginals of q with a power of each site removed."""
    return Natural(
        marginal.precision - alphas * sites.precision, marginal.shift - alphas * sites.shift
    )


def moment_gap(
    marginal: Natural, mean: PerDatum, variance: PerDatum, exists: Bool[Array, " data"]
) -> Float[Array, "two data"]:
    """The distance of tilted moments from those of q, in units of q; zero where there are none."""
    in_deviations = (mean - marginal.mean) * jnp.sqrt(marginal.precision)
    in_logs = jnp.log(jnp.where(exists, variance, 1.0) * marginal.precision)
    return jnp.where(exists[None], jnp.stack([in_deviations, in_logs]), 0.0)


def _energy(
    q: Moments, cavity: Natural, log_tilted: PerDatum, alphas: PerDatum
) -> Float[Array, ""]:
    """Eq. 6; the ratio of the normalizers of cavity and q is computed along the projection."""
    del cavity  # its normalizer is inside that of the tilted distribution
    return -q.log_normalizer - jnp.sum((log_tilted - q.marginal.log_normalizer) / alphas)
