"""The log-ratios of the energy: each data point's log-likelihood minus its share of latent sites.

    tₖₙ = log p(xₙ|θₖ, zₖₙ) − Σ (log q − log p) / (number of data points that share the site)

The sum is over latent sites. A site outside all data plates, such as the weights of a network, is
shared by all N data points. A site inside the plate of the data belongs to a single data point, so
it is not divided. With nested plates, a site of the outer plate is shared by the data points inside
its index.
"""

import math
from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from bbalpha.interfaces.numpyro.traces import Plate, Term, Terms

Plates = tuple[Plate, ...]
Count = float | Float[Array, "..."]


class Group(NamedTuple):
    """A group of data points: the observed sites in the same plates, summed for each index."""

    plates: Plates
    values: Float[Array, "..."]
    present: Bool[Array, "..."] | None  # false where masks leave nothing of a data point

    @property
    def names(self) -> set[str]:
        """The names of the plates."""
        return {plate.name for plate in self.plates}


class Ratios(NamedTuple):
    """Log-ratios, weights and log-likelihoods of data points, and ratios of sites without data.

    `most_alpha` is the smallest number of data points that share a latent site. For larger α, the
    energy has no lower bound. With masks, the number depends on the data.
    """

    values: Float[Array, " data"]
    weights: Float[Array, " data"]
    log_likelihoods: Float[Array, " data"]
    without_data: Float[Array, ""]
    most_alpha: float
    tightest: str  # the site that `most_alpha` comes from


def ratios_of(terms: Terms) -> Ratios:
    """The log-ratios of one draw."""
    groups = _groups(terms)
    log_likelihoods = _joined(group.values for group in groups)
    most_alpha, tightest = math.inf, ""
    without_data = jnp.zeros(())
    for term in terms.latent:
        local = _local_plates(term.plates, groups)
        carriers = [group for group in groups if _names(local) <= group.names]
        values = _summed(term, local)
        count = sum(_count(group, local) for group in carriers)
        if isinstance(count, float):
            shares = values / count
            if count < most_alpha:
                most_alpha, tightest = count, term.name
        else:
            shares = jnp.where(count > 0, values / jnp.maximum(count, 1.0), 0.0)
            alone = jnp.sum(jnp.where(count > 0, 0.0, values))
            without_data = without_data - _factor(local) * alone
        groups = [
            group._replace(values=group.values - _spread(shares, local, group.plates))
            if _names(local) <= group.names
            else group
            for group in groups
        ]
    return Ratios(
        _joined(group.values for group in groups),
        _joined(map(_weights, groups)),
        log_likelihoods,
        without_data,
        most_alpha,
        tightest,
    )


def _joined(arrays: Iterable[Array]) -> Float[Array, " data"]:
    return jnp.concatenate([array.ravel() for array in arrays])


def _groups(terms: Terms) -> list[Group]:
    """The observed sites, grouped by their plates."""
    by_plates: dict[Plates, list[Term]] = {}
    for term in terms.observed:
        by_plates.setdefault(term.plates, []).append(term)
    groups = []
    for plates, observed in by_plates.items():
        inside = [term for term in terms.latent if term.plates == plates and plates]
        values = sum((term.values for term in observed), start=jnp.zeros(()))
        groups.append(Group(plates, values, _any_of(observed + inside)))
    return groups


def _any_of(terms: list[Term]) -> Array | None:
    """Where at least one of the terms is not masked; None means everywhere."""
    present = None
    for term in terms:
        if term.mask is None:
            return None
        present = term.mask if present is None else present | term.mask
    return present


def _local_plates(plates: Plates, groups: list[Group]) -> Plates:
    """The plates around a site that also contain data points; all data points must lie in them."""
    local = tuple(plate for plate in plates if any(plate in group.plates for group in groups))
    return local if any(_names(local) <= group.names for group in groups) else ()


def _summed(term: Term, kept: Plates) -> Array:
    """The term summed over its other plates, where each index counts as many as it stands for."""
    others = tuple(axis for axis, plate in enumerate(term.plates) if plate not in kept)
    factor = math.prod(term.plates[axis].factor for axis in others)
    return factor * jnp.sum(term.values, axis=others)


def _count(group: Group, local: Plates) -> Count:
    """The number of data points of a group that share an index of the plates."""
    others = tuple(axis for axis, plate in enumerate(group.plates) if plate not in local)
    if group.present is None:
        return float(math.prod(group.plates[axis].size for axis in others))
    factor = math.prod(group.plates[axis].factor for axis in others)
    return factor * jnp.sum(group.present, axis=others, dtype=group.values.dtype)


def _spread(shares: Array, local: Plates, plates: Plates) -> Array:
    """The shares, with axes of length one for the plates that they do not depend on."""
    shape = [plate.taken if plate in local else 1 for plate in plates]
    return jnp.broadcast_to(shares.reshape(shape), [plate.taken for plate in plates])


def _weights(group: Group) -> Array:
    """How many data points each data point of a group stands for."""
    factor = jnp.full(group.values.shape, _factor(group.plates), group.values.dtype)
    return factor if group.present is None else jnp.where(group.present, factor, 0.0)


def _factor(plates: Plates) -> float:
    return math.prod((plate.factor for plate in plates), start=1.0)


def _names(plates: Plates) -> set[str]:
    return {plate.name for plate in plates}
