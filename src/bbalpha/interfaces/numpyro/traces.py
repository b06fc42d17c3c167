"""From traces to terms: the log-densities of all sites, separately for each index of their plates.

NumPyro keeps one factor for each log-density: the product of the factors of its subsampled plates
and of the user's own `handlers.scale`. Here the factors of plates are divided out again, because
the power mean acts on single data points; the user's factor stays.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float
from numpyro import handlers
from numpyro.distributions.distribution import Unit
from numpyro.infer.util import compute_log_probs
from numpyro.primitives import Messenger
from numpyro.util import check_model_guide_match

from bbalpha.interfaces.numpyro.guides import check_drawn, check_sites

ROWS = "num_data"  # the name of the plate that `num_data` stands for
SEEDED_APART = ["sample", "prng_key", "control_flow"]  # all but plates

Trace = dict[str, Any]


class Plate(NamedTuple):
    """A plate: its axis, counted from the right, its full size, and its number of taken indices."""

    name: str
    dim: int
    size: int
    taken: int

    @property
    def factor(self) -> float:
        """How many indices each taken index stands for."""
        return self.size / self.taken


class Term(NamedTuple):
    """The log-density of a site, or a difference of two, with one axis for each of its plates."""

    name: str
    plates: tuple[Plate, ...]  # in the order of the axes
    values: Float[Array, "..."]
    mask: Bool[Array, "..."] | None = None  # false where a mask removes the site


class Terms(NamedTuple):
    """The terms of one draw, and the values of mutable sites after it."""

    observed: list[Term]  # log p(xₙ|θ, zₙ)
    latent: list[Term]  # log q − log p of latent sites
    mutable: dict[str, Any]


class Program(NamedTuple):
    """A model and a guide with their arguments, and N if the observed sites lie in no plate."""

    model: Any
    guide: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    num_data: int | None = None


class _SamePlates(Messenger):
    """Raises if a plate is subsampled differently in the model and in the guide."""

    def __init__(self, fn: Any, guide_trace: Trace):
        self.guide_trace = guide_trace
        super().__init__(fn)

    def process_message(self, msg: Any) -> None:
        """Compare the sizes of a plate."""
        of_guide = self.guide_trace.get(msg.get("name")) if msg["type"] == "plate" else None
        if of_guide is None or of_guide["type"] != "plate":
            return
        found, of_guide = _sizes(msg), _sizes(of_guide)
        if found != of_guide:
            raise ValueError(
                f"plate '{msg['name']}' must be subsampled alike in model and guide; got "
                f"{found[1]} of {found[0]} in the model and {of_guide[1]} of {of_guide[0]} in the "
                "guide."
            )


def terms_of_draw(program: Program, params: dict[str, Any], key: Array, plate_key: Array) -> Terms:
    """The terms of one draw of the guide.

    Args:
        program: the model and the guide.
        params: the values of `numpyro.param` and of mutable sites.
        key: randomness of the draw.
        plate_key: randomness of the indices that plates take.
    """
    model, guide, args, kwargs, num_data = program
    model_key, guide_key = jax.random.split(key)  # as in `Trace_ELBO`, so that draws are the same
    guide = handlers.seed(handlers.seed(guide, plate_key, SEEDED_APART), guide_key)
    log_q, guide_trace = compute_log_probs(guide, args, kwargs, params, sum_log_prob=False)
    mutable = _mutable_values(guide_trace)
    model = handlers.seed(handlers.seed(model, plate_key, SEEDED_APART), model_key)
    model = handlers.replay(_SamePlates(model, guide_trace), guide_trace)
    log_p, model_trace = compute_log_probs(
        model, args, kwargs, params | mutable, sum_log_prob=False
    )
    check_drawn(_latent_names(model_trace), guide_trace)
    check_model_guide_match(model_trace, guide_trace)
    check_sites(model_trace, guide_trace)
    observed, factors = observed_terms(model_trace, log_p, num_data)
    latent = _latent(model_trace, guide_trace, log_p, log_q)
    return Terms(observed, factors + latent, mutable | _mutable_values(model_trace))


def observed_terms(
    trace: Trace, log_p: dict[str, Array], num_data: int | None
) -> tuple[list[Term], list[Term]]:
    """The terms log p of observed sites, and − log of the factors outside plates.

    Factors outside plates belong to the prior.

    Raises:
        ValueError: if the data points have no plate.
    """
    observed, factors, plates = [], [], plates_of_trace(trace)
    for site in _samples(trace):
        name = site["name"]
        if not site["is_observed"]:
            continue
        kept = plates_of(site, plates)
        if not kept and isinstance(site["fn"], Unit):
            factors.append(_term(site, -log_p[name], ()))
            continue
        if not kept and num_data is not None and log_p[name].ndim:
            shape = log_p[name].shape
            kept = (Plate(ROWS, -len(shape), num_data, shape[0]),)
        observed.append(_term(site, log_p[name], kept))
    _check_plates(observed, num_data)
    return observed, factors


def _latent(
    model_trace: Trace, guide_trace: Trace, log_p: dict[str, Array], log_q: dict[str, Array]
) -> list[Term]:
    """The terms log q − log p of the latent sites of model and guide.

    A plate of the model splits a term only if the guide has the site in the same plate. A guide
    that draws all sites at once has one joint density, which cannot be split.
    """
    terms, plates = [], plates_of_trace(model_trace) | plates_of_trace(guide_trace)
    for site in _samples(guide_trace):
        name = site["name"]
        kept = plates_of(site, plates)
        of_model = model_trace.get(name)
        if of_model is None or of_model["type"] != "sample":
            terms.append(_term(site, log_q[name], kept))
            continue
        kept = tuple(plate for plate in kept if plate in plates_of(of_model, plates))
        mask = _mask(of_model, log_p[name].shape)
        density = log_q[name]
        if mask is not None and mask.shape == density.shape:
            density = jnp.where(mask, density, 0.0)  # a value masked in the model counts nothing
        below = _term(of_model, log_p[name], kept)
        terms.append(below._replace(values=_term(site, density, kept).values - below.values))
    return terms


def _term(site: Any, log_prob: Array, kept: tuple[Plate, ...]) -> Term:
    """The log-density summed over all axes except those of the plates, per index."""
    names = {frame.name for frame in site["cond_indep_stack"]}
    factor = math.prod(plate.factor for plate in kept if plate.name in names)
    mask = _mask(site, log_prob.shape)
    others = _other_axes(log_prob.ndim, kept)
    values = jnp.sum(log_prob, axis=others) / factor
    return Term(site["name"], kept, values, None if mask is None else jnp.any(mask, axis=others))


def _mask(site: Any, shape: tuple[int, ...]) -> Array | None:
    """The mask of a site from `handlers.mask`, in the shape of its log-density; None if none."""
    fn, mask = site["fn"], None
    while fn is not None:
        found = getattr(fn, "_mask", True)
        if found is not True:
            found = jnp.broadcast_to(jnp.asarray(found), shape)
            mask = found if mask is None else mask & found
        fn = getattr(fn, "base_dist", None)
    return mask


def _other_axes(ndim: int, kept: Iterable[Plate]) -> tuple[int, ...]:
    """The axes of an array that belong to none of the plates."""
    of_plates = {plate.dim for plate in kept}
    return tuple(axis for axis in range(ndim) if axis - ndim not in of_plates)


def plates_of_trace(trace: Trace) -> dict[str, Plate]:
    """The plates of a trace by name; the sites inside show their axes."""
    frames = {frame for site in _samples(trace) for frame in site["cond_indep_stack"]}
    return {
        frame.name: Plate(frame.name, frame.dim, _sizes(trace[frame.name])[0], frame.size)
        for frame in frames
        if frame.name in trace
    }


def plates_of(site: Any, plates: dict[str, Plate]) -> tuple[Plate, ...]:
    """The plates around a site, in the order of their axes."""
    found = [plates[frame.name] for frame in site["cond_indep_stack"] if frame.name in plates]
    return tuple(sorted(found, key=lambda plate: plate.dim))


def _sizes(plate: Any) -> tuple[int, int]:
    """The full size of a plate, and the number of indices that the model asks for."""
    size, taken = plate["args"]
    return size, size if taken is None else taken


def _samples(trace: Trace) -> list[Any]:
    return [site for site in trace.values() if site["type"] == "sample"]


def _latent_names(trace: Trace) -> list[str]:
    return [site["name"] for site in _samples(trace) if not site["is_observed"]]


def _mutable_values(trace: Trace) -> dict[str, Any]:
    return {name: site["value"] for name, site in trace.items() if site["type"] == "mutable"}


def _check_plates(observed: list[Term], num_data: int | None) -> None:
    """Raise unless every observed site has the axis of its data points."""
    outside = [term for term in observed if not term.plates]
    in_plates = [term for term in observed if term.plates and term.plates[0].name != ROWS]
    if num_data is not None and in_plates:
        raise ValueError(
            "num_data must be left out if observed sites lie in plates, which know their size; got "
            f"num_data={num_data} and the site '{in_plates[0].name}' in the plate "
            f"'{in_plates[0].plates[0].name}'."
        )
    if num_data is None and not in_plates:
        found = f"the site '{outside[0].name}' in none" if outside else "no observed site"
        raise ValueError(
            "observed sites must lie in a numpyro.plate over the data points, because the power "
            f"alpha acts on the likelihood of each; got {found}. Add the plate, or pass "
            "num_data=, the number of data points, if they are the first axis of the sites."
        )
    lengths = {term.plates[0].taken for term in observed if term.plates} if num_data else set()
    if num_data is not None and max(lengths, default=0) > num_data:
        raise ValueError(
            "num_data must be at least the number of rows that the model observes; got "
            f"num_data={num_data} with {max(lengths)} rows."
        )
    if len(lengths) > 1:
        raise ValueError(
            "num_data must be used with observed sites of one length; got lengths "
            f"{', '.join(map(str, sorted(lengths)))}."
        )
