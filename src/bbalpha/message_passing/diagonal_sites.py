"""Sites of a diagonal q: a Gaussian of independent parameters per datum, O(N D) numbers.

Only the moments of the projection of each tilted distribution are computed. The moments of every
parameter follow from them, because, given the projection, the parameters are distributed as in the
cavity.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bbalpha.distributions import DiagonalGaussian
from bbalpha.message_passing.projections import Projections
from bbalpha.message_passing.sites import Pass, keep_proper, log_predictive
from bbalpha.message_passing.tilted import (
    NUM_NODES,
    Centers,
    Factors,
    Natural,
    PerDatum,
    Tilted,
    tilted_at,
    tilted_moments,
)


class DiagonalSites(NamedTuple):
    """q is diagonal: the sites are one pair of numbers per datum and parameter."""

    projections: Projections
    factors: Factors

    def start(self) -> Natural:
        """Empty sites, for which q is the prior."""
        zeros = jnp.zeros(self.projections.rows.shape)
        return Natural(zeros, zeros)

    def start_centers(self) -> Centers:
        """Quadrature nodes placed according to the prior."""
        variance = jnp.sum(jnp.square(self.projections.rows), axis=1)
        return Centers(jnp.zeros_like(variance), jnp.sqrt(variance))

    def q(self, sites: Natural) -> Natural:
        """Natural parameters of q over z; a precision may be negative if q is improper."""
        return Natural(1 + jnp.sum(sites.precision, axis=0), jnp.sum(sites.shift, axis=0))

    def sweep(
        self, sites: Natural, alpha: Array, centers: Centers, num_nodes: int = NUM_NODES
    ) -> Pass:
        """Cavities, tilted moments and matching sites, for all data at once (Section 2)."""
        q = self.q(sites)
        is_proper = jnp.all(q.precision > 0)
        shares = jnp.max(alpha * sites.precision / q.precision[None], axis=1) / alpha
        alphas = keep_proper(alpha, shares)
        cavity = _cavities(q, sites, alphas)
        base = project(self.projections.rows, cavity)
        tilted, centers = tilted_moments(self.factors, base, alphas, centers, num_nodes)
        matched, is_positive = moments_of_params(self.projections.rows, cavity, base, tilted)
        exists = tilted.exists & is_positive
        gap = _gap(q, matched, exists)
        target = Natural(
            *(
                jnp.where(exists[:, None], (new - rest) / alphas[:, None], site)
                for new, rest, site in zip(matched, cavity, sites, strict=True)
            )
        )
        energy = _energy(q, cavity, base, tilted, alphas)
        return Pass(target, gap, energy, alphas, base, centers, exists, is_proper)

    def energy(
        self, sites: Natural, alphas: PerDatum, centers: Centers, num_nodes: int = NUM_NODES
    ) -> Float[Array, ""]:
        """The power-EP energy (eq. 6), minus the log-evidence; differentiable at fixed nodes."""
        q = self.q(sites)
        cavity = _cavities(q, sites, alphas)
        base = project(self.projections.rows, cavity)
        tilted = tilted_at(self.factors, base, alphas, centers, num_nodes)
        return _energy(q, cavity, base, tilted, alphas)

    def leave_one_out(
        self, sites: Natural, centers: Centers, num_nodes: int = NUM_NODES
    ) -> PerDatum:
        """Log p(yₙ) under q without the site of datum n; NaN where that cavity is improper."""
        cavity = _cavities(self.q(sites), sites, jnp.ones(len(sites.shift)))
        is_proper = jnp.all(cavity.precision > 0, axis=1)
        base = project(self.projections.rows, cavity)
        predictive = log_predictive(self.factors, base, centers, num_nodes)
        return jnp.where(is_proper, predictive, jnp.nan)

    def distribution(self, sites: Natural) -> DiagonalGaussian:
        """Q over the parameters."""
        return diagonal_distribution(self.projections, self.q(sites))


def diagonal_distribution(projections: Projections, q: Natural) -> DiagonalGaussian:
    """The distribution of θ if z has these natural parameters."""
    prior = projections.prior
    mean = prior.mean + prior.factor * q.mean
    return DiagonalGaussian(mean, 2 * jnp.log(prior.factor) - jnp.log(q.precision))


def project(rows: Float[Array, "data params"], cavity: Natural) -> Natural:
    """The Gaussian of each projection, given independent parameters, one row of them per datum."""
    variance = jnp.sum(jnp.square(rows) / cavity.precision, axis=1)
    mean = jnp.sum(rows * cavity.mean, axis=1)
    return Natural(1 / variance, mean / variance)


def moments_of_params(
    rows: Float[Array, "data params"], cavity: Natural, base: Natural, tilted: Tilted
) -> tuple[Natural, Bool[Array, " data"]]:
    """The Gaussians that match each tilted distribution's means and variances of parameters."""
    gain = rows / cavity.precision * base.precision[:, None]  # covariance with g / variance of g
    mean = cavity.mean + gain * (tilted.mean - base.mean)[:, None]
    change = tilted.variance - 1 / base.precision
    variance = 1 / cavity.precision + jnp.square(gain) * change[:, None]
    is_positive = jnp.all(variance > 0, axis=1)
    precision = 1 / jnp.where(variance > 0, variance, 1.0)
    return Natural(precision, precision * mean), is_positive


def _gap(
    q: Natural, matched: Natural, exists: Bool[Array, " data"]
) -> Float[Array, "two data params"]:
    """The distance of matched moments from those of q, in units of q; zero where there are none."""
    in_deviations = (matched.mean - q.mean[None]) * jnp.sqrt(q.precision)[None]
    in_logs = jnp.log(q.precision[None] / matched.precision)
    return jnp.where(exists[None, :, None], jnp.stack([in_deviations, in_logs]), 0.0)


def _cavities(q: Natural, sites: Natural, alphas: PerDatum) -> Natural:
    return Natural(
        *(whole[None] - alphas[:, None] * site for whole, site in zip(q, sites, strict=True))
    )


def _energy(
    q: Natural, cavity: Natural, base: Natural, tilted: Tilted, alphas: PerDatum
) -> Float[Array, ""]:
    """Eq. 6, with normalizers relative to the prior's."""
    log_q = jnp.sum(relative_log_normalizer(q))
    log_cavity = jnp.sum(relative_log_normalizer(cavity), axis=1)
    log_tilted = tilted.log_normalizer - base.log_normalizer  # log E_cavity[p^α]
    return -log_q - jnp.sum((log_cavity - log_q + log_tilted) / alphas)


def relative_log_normalizer(natural: Natural) -> Array:
    """The log-normalizer of each parameter, minus that of the standard prior."""
    return 0.5 * (jnp.square(natural.shift) / natural.precision - jnp.log(natural.precision))
