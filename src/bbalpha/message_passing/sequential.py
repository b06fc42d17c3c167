"""Sites updated one after the other: each update uses the q that results from the previous one."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from bbalpha.message_passing.sites import FullSites, Pass, cavities, keep_proper
from bbalpha.message_passing.tilted import NUM_NODES, Centers, Natural, tilted_moments
from bbalpha.message_passing.triangular import inverse_of

LEAST_GROWTH = 1e-6  # of the precision along a projection; with less, an update is skipped


class _Sequence(NamedTuple):
    """q(u) and the sites while they are visited."""

    covariance: Float[Array, "dims dims"]
    mean: Float[Array, " dims"]
    sites: Natural


class SequentialSites(NamedTuple):
    """`FullSites` whose targets come from visiting the data in order."""

    parallel: FullSites

    def start(self) -> Natural:
        """Empty sites, for which q is the prior."""
        return self.parallel.start()

    def start_centers(self) -> Centers:
        """Quadrature nodes placed according to the prior."""
        return self.parallel.start_centers()

    def sweep(
        self, sites: Natural, alpha: Array, centers: Centers, num_nodes: int = NUM_NODES
    ) -> Pass:
        """The gaps and the energy of the given sites, and the sites after one visit to each."""
        found = self.parallel.sweep(sites, alpha, centers, num_nodes)
        visited = self._visit_all(sites, alpha, found.centers, num_nodes)
        return found._replace(target=visited)

    def _visit_all(self, sites: Natural, alpha: Array, centers: Centers, num_nodes: int) -> Natural:
        rows = self.parallel.projections.rows
        q = self.parallel.moments(sites)

        def visit(state: _Sequence, place: Int[Array, ""]) -> tuple[_Sequence, None]:
            old = Natural(*(leaf[place][None] for leaf in state.sites))
            along = state.covariance @ rows[place]
            precision = 1 / (rows[place] @ along)[None]
            marginal = Natural(precision, precision * (rows[place] @ state.mean)[None])
            alphas = keep_proper(alpha, old.precision / marginal.precision)
            cavity = cavities(marginal, old, alphas)
            factor = self.parallel.factors.take(place[None])
            near = Centers(*(leaf[place][None] for leaf in centers))
            tilted, _ = tilted_moments(factor, cavity, alphas, near, num_nodes)
            matched = 1 / jnp.where(tilted.exists, tilted.variance, 1.0)
            rise = (matched - cavity.precision) / alphas - old.precision
            push = (matched * tilted.mean - cavity.shift) / alphas - old.shift
            growth = 1 + rise / marginal.precision
            is_used = tilted.exists & (growth > LEAST_GROWTH)
            rise, push = (jnp.where(is_used, change, 0.0)[0] for change in (rise, push))
            growth = jnp.where(is_used, growth, 1.0)[0]
            covariance = state.covariance - rise / growth * along[:, None] * along[None]
            mean = state.mean + (push - rise * marginal.mean[0]) / growth * along
            sites = Natural(
                state.sites.precision.at[place].add(rise), state.sites.shift.at[place].add(push)
            )
            return _Sequence(covariance, mean, sites), None

        start = _Sequence(inverse_of(q.cholesky), q.mean, sites)
        return jax.lax.scan(visit, start, jnp.arange(len(rows)))[0].sites
