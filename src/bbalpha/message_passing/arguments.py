"""The door of the message-passing algorithms: arguments are checked and converted to 64 bits."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from bbalpha.data import check_data
from bbalpha.distributions import DiagonalGaussian, FullGaussian
from bbalpha.engine.checks import check_log_likelihood, without_jit
from bbalpha.engine.options import inside_program
from bbalpha.likelihoods import Likelihood
from bbalpha.message_passing.diagonal_sites import DiagonalSites
from bbalpha.message_passing.projections import (
    GaussianPrior,
    Projections,
    check_prior,
    gaussian_prior,
)
from bbalpha.message_passing.sites import FullSites
from bbalpha.message_passing.tilted import Centers, Factors

ProjectedLikelihood = Likelihood | Callable[..., Float[Array, " data"]]
GaussianFamily = type  # FullGaussian or DiagonalGaussian; `check_family` refuses others


class Problem(eqx.Module):
    """Checked arguments in 64 bits: the model p₀(θ) Πₙ p(yₙ|xₙᵀθ) and the family of q."""

    log_likelihood: Any
    inputs: Float[Array, "data params"]
    targets: PyTree
    prior_argument: Any  # deviations, a covariance matrix or a Gaussian, as given by the user
    hyperparams: PyTree
    is_diagonal: bool = eqx.field(static=True)
    is_traced: bool = eqx.field(static=True)  # then derivatives may be needed

    @property
    def num_data(self) -> int:
        """N."""
        return len(self.inputs)

    @property
    def prior(self) -> GaussianPrior:
        """The prior, as its mean and the factor of its covariance."""
        return gaussian_prior(self.prior_argument, self.inputs.shape[1])

    def projections(self) -> Projections:
        """The projections, reduced to the span of the rows if these are few and q is full."""
        return Projections.of(self.inputs, self.prior, is_reduced=not self.is_diagonal)

    def factors(self, projections: Projections) -> Factors:
        """The likelihood factors of all data."""
        return Factors(self.log_likelihood, self.targets, projections.offset, self.hyperparams)

    def sites(self) -> FullSites | DiagonalSites:
        """The family of sites."""
        projections = self.projections()
        family = DiagonalSites if self.is_diagonal else FullSites
        return family(projections, self.factors(projections))


def prepare(
    log_likelihood: ProjectedLikelihood,
    inputs: Any,
    targets: PyTree,
    prior: Any,
    hyperparams: PyTree,
    family: GaussianFamily,
) -> Problem:
    """The problem for these arguments; call this in a context with 64 bits.

    Raises:
        ValueError: if an argument breaks its rule.
        TypeError: if an argument is of the wrong kind.
    """
    check_family(family)
    inputs = inputs if isinstance(inputs, Array) else np.asarray(inputs)
    if inputs.ndim != 2 or 0 in inputs.shape:
        raise ValueError(
            "inputs must be a table with at least one row and one column; "
            f"got shape {tuple(inputs.shape)}."
        )
    check_data({"inputs": inputs, "targets": targets}, "data")
    is_diagonal = family is DiagonalGaussian
    check_prior(prior, inputs.shape[1])
    if is_diagonal and (isinstance(prior, FullGaussian) or np.ndim(prior) == 2):
        raise ValueError(
            "prior must be diagonal for a diagonal q; got a covariance matrix. Use "
            "family=bb.FullGaussian."
        )
    log_likelihood = in_64_bits(without_jit(log_likelihood))
    targets, prior, hyperparams = (in_64_bits(tree) for tree in (targets, prior, hyperparams))
    inputs = in_64_bits(inputs)
    _check_factors(log_likelihood, len(inputs), targets, hyperparams)
    parts = (log_likelihood, inputs, targets, prior, hyperparams)
    return Problem(*parts, is_diagonal, is_traced=inside_program(parts))


def held(problem: Problem) -> Problem:
    """The problem with derivatives stopped."""
    return jax.tree.map(
        lambda leaf: jax.lax.stop_gradient(leaf) if eqx.is_array(leaf) else leaf, problem
    )


def stationary_energy(
    problem: Problem, sites: Any, alphas: Array, centers: Centers, num_nodes: int
) -> Float[Array, ""]:
    """The power-EP energy at a fixed point, differentiable with respect to prior and likelihood.

    At a fixed point the energy is stationary in the sites, so the sites are held fixed.
    """
    return with_slope(
        lambda problem: problem.sites().energy(sites, alphas, centers, num_nodes), problem
    )


def with_slope(energy: Callable[[Problem], Array], problem: Problem) -> Float[Array, ""]:
    """The energy of a problem together with its derivative, which is computed here.

    Otherwise, jax would compute the derivative after the 64-bit context has ended, and fail.
    """
    if not problem.is_traced:
        return energy(problem)
    numbers, rest = eqx.partition(problem, eqx.is_inexact_array)
    fixed = jax.lax.stop_gradient(numbers)
    value, slope = jax.value_and_grad(lambda numbers: energy(eqx.combine(numbers, rest)))(fixed)
    changes = jax.tree.map(
        lambda rate, new, old: jnp.sum(rate * (new - old)), slope, numbers, fixed
    )
    return value + sum(jax.tree.leaves(changes))


def check_power(alpha: Any, method: str) -> None:
    """Raise unless the power is a finite number other than 0; traced ones cannot be checked."""
    if isinstance(alpha, Tracer):
        return
    if np.shape(alpha) or not np.issubdtype(np.asarray(alpha).dtype, np.number):
        raise TypeError(f"alpha must be a number; got alpha={alpha!r}.")
    if alpha == 0:
        raise ValueError(
            f"alpha must not be 0 for {method}, whose limit at 0 is bb.vmp; got alpha=0."
        )
    if not math.isfinite(alpha):
        raise ValueError(f"alpha must be finite; got alpha={alpha}.")


def check_positive(**numbers: Any) -> None:
    """Raise unless each number is positive and finite."""
    for name, number in numbers.items():
        if not isinstance(number, int | float | np.number) or not 0 < number < math.inf:
            raise ValueError(f"{name} must be positive and finite; got {name}={number!r}.")


def check_family(family: Any) -> None:
    """Raise unless the family is one of the two that sites can have."""
    if family not in (FullGaussian, DiagonalGaussian):
        name = getattr(family, "__name__", repr(family))
        raise ValueError(
            f"family must be bb.FullGaussian or bb.DiagonalGaussian; got family={name}."
        )


def in_64_bits(tree: PyTree) -> PyTree:
    """The tree with its floating-point arrays in 64 bits."""

    def converted(leaf: Any) -> Any:
        if not eqx.is_array_like(leaf) or isinstance(leaf, bool):
            return leaf
        array = leaf if isinstance(leaf, Array) else np.asarray(leaf)
        if jnp.issubdtype(array.dtype, jnp.floating) or isinstance(leaf, int):
            return jnp.asarray(array, jnp.float64)
        return array if isinstance(array, Array) else jnp.asarray(array)

    return jax.tree.map(converted, tree)


def _check_factors(
    log_likelihood: Any, num_data: int, targets: PyTree, hyperparams: PyTree
) -> None:
    """Raise unless the likelihood has one number per datum for projections of shape (data,)."""
    if isinstance(log_likelihood, type) or not (
        callable(log_likelihood) or isinstance(log_likelihood, Likelihood)
    ):
        raise TypeError(
            "log_likelihood must be a likelihood, such as bb.Probit(), or a function of f and "
            f"targets; got {log_likelihood!r}."
        )
    extra = () if hyperparams is None else (hyperparams,)

    def of_rows(f: Array, targets: PyTree) -> Any:
        if isinstance(log_likelihood, Likelihood):
            return log_likelihood.log_prob(f[..., None], targets)
        return log_likelihood(f, targets, *extra)

    check_log_likelihood(of_rows, jax.ShapeDtypeStruct((num_data,), np.float64), targets)
