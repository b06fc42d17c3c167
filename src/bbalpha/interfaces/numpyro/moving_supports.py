"""Supports that depend on other sites, as in b ~ Uniform(0, a) with a latent a.

Their transforms differ from draw to draw. So each draw of unconstrained values is constrained by
running the model: every site finds its support given the values of the sites before it.
"""

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array
from numpyro import handlers
from numpyro.distributions import biject_to
from numpyro.infer import autoguide

from bbalpha.interfaces.numpyro.guides import counted_guide
from bbalpha.interfaces.numpyro.traces import Program, Trace

Sites = dict[str, Array]


def moving_sites(program: Program, trace: Trace) -> tuple[str, ...]:
    """The latent sites of a trace of the model whose support depends on other sites."""
    latent = {
        name: site
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"]
    }
    if all(isinstance(bound, int | float) for site in latent.values() for bound in _bounds(site)):
        return ()
    values = {
        name: jax.ShapeDtypeStruct(jnp.shape(site["value"]), jnp.result_type(site["value"]))
        for name, site in trace.items()
        if name in latent or (site["type"] == "param" and hasattr(site["value"], "dtype"))
    }

    def bounds(values: Sites) -> dict[str, list[Any]]:
        model = handlers.seed(handlers.substitute(program.model, values), jax.random.key(0))
        found = handlers.trace(model).get_trace(*program.args, **program.kwargs)
        return {name: _bounds(found[name]) for name in latent}

    jaxpr, shapes = jax.make_jaxpr(bounds, return_shape=True)(values)
    depends = jax.tree.unflatten(jax.tree.structure(shapes), _dependent(jaxpr.jaxpr))
    return tuple(name for name in latent if any(depends[name]))


def check_supports(program: Program) -> None:
    """Raise if a support depends on other sites and the guide is automatic.

    Raises:
        ValueError: with the name of the site and what to do.
    """
    guide = counted_guide(program.guide)
    trace = getattr(guide, "prototype_trace", None)
    if isinstance(guide, autoguide.AutoGuide) and trace is not None:
        for name in moving_sites(program, trace):
            raise ValueError(
                "guide must be a function if the support of a latent site depends on other sites, "
                "because automatic guides keep the support of their first draw; got an "
                f"{type(guide).__name__} and the site '{name}'. Or give the site a fixed support, "
                "and scale its value."
            )


def constrained(program: Program, free: Sites) -> tuple[Sites, Array]:
    """The values of latent sites at unconstrained values, and log |det ∂values/∂free|."""
    log_jacobians = []

    def value_of(site: Any) -> Array | None:
        if site["type"] != "sample" or site["name"] not in free:
            return None
        transform, start = biject_to(site["fn"].support), free[site["name"]]
        value = transform(start)
        log_jacobians.append(jnp.sum(transform.log_abs_det_jacobian(start, value)))
        return value

    model = handlers.seed(program.model, jax.random.key(0))  # draws only the indices of plates
    model = handlers.substitute(model, substitute_fn=value_of)
    trace = handlers.trace(model).get_trace(*program.args, **program.kwargs)
    return {name: trace[name]["value"] for name in free}, sum(log_jacobians, start=jnp.zeros(()))


def _bounds(site: Any) -> list[Any]:
    """The numbers in the support of a site."""
    return jax.tree.leaves(site["fn"].support)


def _dependent(jaxpr: Any) -> list[bool]:
    """Whether each output of a program depends on its inputs; a function inside counts as one."""
    reached = {id(variable) for variable in jaxpr.invars}
    for step in jaxpr.eqns:
        if any(id(variable) in reached for variable in step.invars):
            reached |= {id(variable) for variable in step.outvars}
    return [id(variable) in reached for variable in jaxpr.outvars]
