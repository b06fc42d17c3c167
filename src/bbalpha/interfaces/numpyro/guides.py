"""Checks that refuse guides and latent sites that the loss cannot train, with the reason."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from numpyro.distributions import Delta
from numpyro.infer import autoguide

DAIS = (autoguide.AutoDAIS, autoguide.AutoSemiDAIS)
POINTS = (autoguide.AutoDelta, autoguide.AutoLaplaceApproximation)


def check_guide(guide: Any) -> None:
    """Raise if an automatic guide has no density.

    Raises:
        ValueError: with the reason and what to use instead.
    """
    guide = counted_guide(guide)
    for part in guide if isinstance(guide, autoguide.AutoGuideList) else [guide]:
        name = type(part).__name__
        if isinstance(part, DAIS):
            raise ValueError(
                "guide must have a density at its draws; got an "
                f"{name}, which knows only an estimate of it. Use AutoMultivariateNormal or "
                "AutoBNAFNormal."
            )
        if isinstance(part, POINTS):
            raise ValueError(
                f"guide must have a density; got an {name}, which is a point while it is trained. "
                "Use AutoNormal, or numpyro.param for numbers without uncertainty."
            )


def counted_guide(guide: Any) -> Any:
    """The guide inside a wrapper that counts its steps."""
    return guide.args[0] if isinstance(guide, partial) and guide.args else guide


def check_sites(model_trace: dict[str, Any], guide_trace: dict[str, Any]) -> None:
    """Raise if a latent site is discrete, or if the guide's draws carry no gradient.

    Raises:
        ValueError: with the name of the site.
    """
    is_joint = any(_is_latent(site) and _is_auxiliary(site) for site in guide_trace.values())
    for trace in (guide_trace, model_trace):
        for name, site in trace.items():
            if not _is_latent(site):
                continue
            kind = _kind(site["fn"])
            if site["fn"].support.is_discrete:
                raise ValueError(
                    f"latent site '{name}' must be continuous, because draws of a discrete one "
                    f"carry no gradient; got {kind}. Sum it out, for example with "
                    "dist.MixtureSameFamily."
                )
            if trace is guide_trace and not site["fn"].has_rsample:
                raise ValueError(
                    f"guide site '{name}' must be reparameterized, so that its draws carry a "
                    f"gradient; got {kind}."
                )
            if trace is guide_trace and kind == Delta.__name__ and not is_joint:
                raise ValueError(
                    f"guide site '{name}' must have a density; got a {kind}, which is a point. Use "
                    "numpyro.param for numbers without uncertainty."
                )


def check_drawn(names: Iterable[str], guide_trace: dict[str, Any]) -> None:
    """Raise unless the guide draws all of these latent sites of the model.

    Raises:
        ValueError: with the name of a site that it leaves out.
    """
    for name in names:
        if name not in guide_trace:
            raise ValueError(
                f"guide must draw every latent site of the model; got none named '{name}'. Add "
                f'numpyro.sample("{name}", …) to the guide.'
            )


def _is_latent(site: Any) -> bool:
    return site["type"] == "sample" and not site["is_observed"]


def _is_auxiliary(site: Any) -> bool:
    return bool(site["infer"].get("is_auxiliary"))


def _kind(fn: Any) -> str:
    """The name of a distribution without its wrappers."""
    while type(fn).__name__ in ("ExpandedDistribution", "Independent", "MaskedDistribution"):
        fn = fn.base_dist
    return type(fn).__name__
