"""The structure of a model: its latent sites, its data plates, and how `fit` can treat it."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array
from numpyro import handlers
from numpyro.infer.util import compute_log_probs
from numpyro.primitives import Messenger

from bbalpha.interfaces.numpyro.guides import check_sites
from bbalpha.interfaces.numpyro.moving_supports import moving_sites
from bbalpha.interfaces.numpyro.traces import (
    ROWS,
    Plate,
    Program,
    Term,
    observed_terms,
    plates_of,
    plates_of_trace,
)


class Structure(NamedTuple):
    """The structure of a model, found by running it once.

    Attributes:
        latent: the latent sites by name.
        local: the names of the latent sites inside data plates.
        moving: the names of the latent sites whose support depends on other sites.
        groups: the plates around observed sites, one tuple for each kind of data point.
        is_plain: whether `bbalpha.fit` can fit the model: it has one data plate with no latent
            sites inside, and no masks, `numpyro.param` or mutable state.
    """

    latent: dict[str, Any]
    local: tuple[str, ...]
    moving: tuple[str, ...]
    groups: tuple[tuple[Plate, ...], ...]
    is_plain: bool

    @property
    def num_data(self) -> int:
        """N, the number of data points."""
        return sum(math.prod(plate.size for plate in plates) for plates in self.groups)

    @property
    def num_batches(self) -> int:
        """The number of minibatches in an epoch."""
        shares = [math.prod(plate.factor for plate in plates) for plates in self.groups]
        return max(1, math.ceil(max(shares)))


class TakeRows(Messenger):
    """Makes plates take given indices instead of drawing them."""

    def __init__(self, fn: Any, rows: dict[str, Array]):
        self.rows = rows
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        """Replace the indices of a plate, and its number of indices."""
        if msg["type"] == "plate" and msg["name"] in self.rows:
            rows = self.rows[msg["name"]]
            msg["value"], msg["args"] = rows, (msg["args"][0], len(rows))


class TakeAll(Messenger):
    """Makes plates take all of their indices, in order."""

    def process_message(self, msg: Any) -> None:
        """Replace the indices of a plate, and its number of indices."""
        if msg["type"] == "plate":
            size = msg["args"][0]
            msg["value"], msg["args"] = jnp.arange(size), (size, size)


def structure_of(program: Program, key: Array) -> Structure:
    """The structure of a model, from one run of it.

    Raises:
        ValueError: if it has no latent site, a discrete latent site, or an observed site outside
            all plates.
    """
    model = handlers.seed(program.model, key)
    log_p, trace = compute_log_probs(model, program.args, program.kwargs, {}, sum_log_prob=False)
    check_sites(trace, {})
    observed, _ = observed_terms(trace, log_p, program.num_data)
    groups = tuple(dict.fromkeys(term.plates for term in observed))
    data_plates = {plate.name for plates in groups for plate in plates}
    latent = {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    if not latent:
        raise ValueError("model must have a latent site, whose posterior to find; got none.")
    plates = plates_of_trace(trace)
    local = tuple(
        name
        for name, site in latent.items()
        if any(plate.name in data_plates for plate in plates_of(site, plates))
    )
    has_state = any(site["type"] in ("param", "mutable") for site in trace.values())
    is_simple = len(groups) == 1 and len(groups[0]) == 1 and not has_state
    is_plain = is_simple and not local and all(term.mask is None for term in observed)
    return Structure(latent, local, moving_sites(program, trace), groups, is_plain)


def with_all_rows(program: Program) -> Program:
    """The program whose plates take all indices, in order, whatever their sizes."""
    return program._replace(model=TakeAll(program.model), guide=TakeAll(program.guide))


def log_likelihoods(
    program: Program, structure: Structure, params: dict[str, Array], rows: Array
) -> Array:
    """Log p(xₙ|θ) of some rows of a plain model, given its latent sites."""
    terms, _ = _terms(program, structure, params, rows)
    values = sum((term.values for term in terms), start=jnp.zeros(()))
    return values if _is_subsampled(structure) else values[rows]


def log_prior(program: Program, structure: Structure, params: dict[str, Array]) -> Array:
    """Log p₀(θ) of a plain model, including factors outside plates."""
    (plate,) = structure.groups[0]
    _, log_density = _terms(program, structure, params, jnp.arange(plate.taken))
    return log_density


def _terms(
    program: Program, structure: Structure, params: dict[str, Array], rows: Array
) -> tuple[list[Term], Array]:
    """The observed terms of some rows, and the log-density of everything else."""
    (plate,) = structure.groups[0]
    model = TakeRows(program.model, {plate.name: rows} if _is_subsampled(structure) else {})
    seeded = handlers.seed(model, jax.random.key(0))  # nothing is drawn: all values are given
    log_p, trace = compute_log_probs(
        seeded, program.args, program.kwargs, params, sum_log_prob=False
    )
    observed, factors = observed_terms(trace, log_p, program.num_data)
    log_density = -sum((term.values for term in factors), start=jnp.zeros(()))
    for name in structure.latent:
        log_density = log_density + jnp.sum(log_p[name])
    return observed, log_density


def _is_subsampled(structure: Structure) -> bool:
    (plate,) = structure.groups[0]
    return plate.name != ROWS and plate.taken < plate.size
