"""`fit`: from a NumPyro model to a posterior in one call."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Key
from numpyro import handlers
from numpyro.infer import SVI, autoguide, init_to_uniform
from numpyro.infer.util import initialize_model

from bbalpha.distributions import DiagonalGaussian, FullGaussian
from bbalpha.engine.checks import as_keys, check_optional_counts
from bbalpha.engine.loop import Plan
from bbalpha.engine.optimizers import Optimizer, decaying_adam
from bbalpha.fitting import TOLERANCE, NonFiniteEnergyError
from bbalpha.fitting import fit as fit_parameters
from bbalpha.interfaces.numpyro.guide_draws import GuideDraws
from bbalpha.interfaces.numpyro.guides import check_drawn, check_guide
from bbalpha.interfaces.numpyro.loss import NUM_PARTICLES, BBAlphaELBO, Schedule, count_steps
from bbalpha.interfaces.numpyro.moving_supports import check_supports, constrained
from bbalpha.interfaces.numpyro.posterior import ModelPosterior, ParameterDraws
from bbalpha.interfaces.numpyro.runs import run_svi
from bbalpha.interfaces.numpyro.structure import (
    Structure,
    log_likelihoods,
    log_prior,
    structure_of,
)
from bbalpha.interfaces.numpyro.supports import transform_of
from bbalpha.interfaces.numpyro.traces import ROWS, Program
from bbalpha.low_rank import LowRankGaussian
from bbalpha.planning import NUM_STEPS
from bbalpha.posterior import FitInfo

# Unconstrained values start within ± 0.1, the deviation in the authors' code. NumPyro uses ± 2.
CLOSE_TO_ZERO = partial(init_to_uniform, radius=0.1)  # pyright: ignore[reportArgumentType]
FULL_SIZE = 100  # most latent numbers for which q has a full covariance by default

GAUSSIAN_GUIDES = (
    autoguide.AutoNormal,
    autoguide.AutoDiagonalNormal,
    autoguide.AutoMultivariateNormal,
    autoguide.AutoLowRankMultivariateNormal,
)


def fit(
    model: Any,
    *args: Any,
    key: Key[Array, ""],
    guide: Any = None,
    alpha: float | Array | Schedule = 0.5,
    num_data: int | None = None,
    num_particles: int | None = None,
    optimizer: Optimizer | str | None = None,
    tolerance: float = TOLERANCE,
    num_epochs: int | None = None,
    progress: bool = True,
    **kwargs: Any,
) -> ModelPosterior:
    """The posterior of a NumPyro model that minimizes the BB-α energy.

    A model with one data plate and global latent sites, under a Gaussian guide, is fitted like
    `bbalpha.fit`: by natural gradients, until it has converged. Other models and guides are trained
    by `SVI` with Adam, and the energies show whether the fit has converged.

    Args:
        model: a model with a `numpyro.plate` around the observed sites. If the plate is subsampled,
            each step of the fit takes as many rows.
        args: positional arguments of the model.
        key: all randomness of the fit.
        guide: an automatic guide, its class, or a function. By default a Gaussian, with a full
            covariance for up to 100 latent numbers and a diagonal one for more; `AutoNormal` if
            latent sites lie inside the data plates.
        alpha: the power, or a function from the step to the power, as for `bbalpha.fit`.
        num_data: N, if the observed sites lie in no plate.
        num_particles: K, the draws of the guide per step.
        optimizer: "natural", "adam" or any optax optimizer, as for `bbalpha.fit`.
        tolerance: how accurate the means must be for natural-gradient steps to count as converged,
            in posterior standard deviations.
        num_epochs: the most passes over the data; by default as many as make 10,000 steps.
        progress: show a progress bar on a terminal.
        kwargs: keyword arguments of the model.

    Raises:
        ValueError: if an argument breaks its rule; the message shows its value.
        NonFiniteEnergyError: if the energy stops being finite.

    >>> import numpyro, numpyro.distributions as dist
    >>> from bbalpha.interfaces.numpyro import fit
    >>> def model(data):
    ...     mean = numpyro.sample("mean", dist.Normal(0, 1))
    ...     with numpyro.plate("data", len(data)):
    ...         numpyro.sample("x", dist.Normal(mean, 1), obs=data)
    >>> data = jnp.array([0.5, 1.5, 2.5])  # the exact posterior is N(1.125, ¼)
    >>> posterior = fit(model, data, alpha=0.0, key=jax.random.key(0))
    >>> print(posterior.summary())
          mean  deviation   5 %  95 %
    mean  1.12       0.50  0.30  1.95
    """
    key = as_keys(key, 0, "key")
    check_optional_counts(num_particles=num_particles, num_epochs=num_epochs)
    guide = guide(model) if isinstance(guide, type) else guide
    check_guide(guide)
    program = Program(model, guide, args, kwargs, num_data)
    structure = structure_of(program, jax.random.fold_in(key, 0))
    _check_num_data(structure)
    is_gaussian = guide is None or type(guide) in GAUSSIAN_GUIDES
    settings = {"alpha": alpha, "optimizer": optimizer, "num_epochs": num_epochs}
    if structure.is_plain and is_gaussian:
        settings |= {"tolerance": tolerance, "num_samples": num_particles, "progress": progress}
        return _fit_parameters(program, structure, key, settings)
    return _fit_guide(program, structure, key, num_particles or NUM_PARTICLES, progress, **settings)


def posterior_of(svi: SVI, result: Any, *args: Any, **kwargs: Any) -> ModelPosterior:
    """The posterior that your own run of `SVI` has found, as the object that `fit` returns.

    Args:
        svi: the `SVI` object, with any loss; without `BBAlphaELBO`, energies are those of α = 0.
        result: the result of `svi.run`.
        args: positional arguments of the model, with all of the data.
        kwargs: keyword arguments of the model.

    Raises:
        ValueError: if the guide leaves out a latent site, or does not fit its support.

    >>> import numpyro, numpyro.distributions as dist, optax
    >>> from numpyro.infer import SVI
    >>> from numpyro.infer.autoguide import AutoNormal
    >>> from bbalpha.interfaces.numpyro import BBAlphaELBO, posterior_of
    >>> def model(data):
    ...     mean = numpyro.sample("mean", dist.Normal(0, 1))
    ...     with numpyro.plate("data", len(data)):
    ...         numpyro.sample("x", dist.Normal(mean, 1), obs=data)
    >>> svi = SVI(model, AutoNormal(model), optax.adam(0.03), BBAlphaELBO(alpha=0.5))
    >>> data = jnp.array([0.5, 1.5, 2.5])
    >>> result = svi.run(jax.random.key(0), 10, data, progress_bar=False)
    >>> print(posterior_of(svi, result, data).info.num_steps)
    10
    """
    is_ours = isinstance(svi.loss, BBAlphaELBO)
    loss = svi.loss if is_ours else BBAlphaELBO(0.0, max(2, svi.loss.num_particles))
    kwargs = kwargs | svi.static_kwargs
    program = Program(svi.model, svi.guide, args, kwargs, loss.num_data)
    check_supports(program)
    structure = structure_of(program, jax.random.key(0))
    losses = tuple(map(float, result.losses))
    info = FitInfo(energies=losses, num_steps=len(losses))
    params = result.params | (result.state.mutable_state or {})
    guide = handlers.substitute(handlers.seed(svi.guide, jax.random.key(0)), params)
    check_drawn(structure.latent, handlers.trace(guide).get_trace(*args, **kwargs))
    return ModelPosterior(program, structure, GuideDraws(loss, program, structure, params, info))


def _fit_parameters(
    program: Program, structure: Structure, key: Array, settings: dict[str, Any]
) -> ModelPosterior:
    """The posterior of a plain model under a Gaussian guide, by `bbalpha.fit`."""
    (plate,) = structure.groups[0]
    start_key, key = jax.random.split(key)
    transforms = {
        name: None if structure.moving else transform_of(site["fn"].support)
        for name, site in structure.latent.items()
    }
    start = _start(program, structure, transforms, start_key)
    log_likelihood = partial(log_likelihoods, program, structure)
    log_density = partial(log_prior, program, structure)
    values_of = None
    if structure.moving:
        values_of = partial(constrained, program)
        log_likelihood, log_density = _of_free(log_likelihood, log_density, values_of)
    rows = jnp.arange(plate.size if plate.name != ROWS else plate.taken)
    is_subsampled = plate.taken < plate.size
    posterior = fit_parameters(
        log_likelihood,
        start,
        rows,
        key=key,
        prior=log_density,
        transforms=transforms,
        family=_family(program.guide, sum(leaf.size for leaf in start.values())),
        batch_size=plate.taken if is_subsampled else None,
        **settings,
    )
    draws = ParameterDraws(posterior, log_likelihood, rows, values_of)
    return ModelPosterior(program, structure, draws)


def _of_free(log_likelihood: Any, log_prior: Any, values_of: Any) -> tuple[Any, Any]:
    """Log-likelihoods and log-prior as functions of unconstrained values."""

    def of_rows(free: dict[str, Array], rows: Array) -> Array:
        return log_likelihood(values_of(free)[0], rows)

    def density(free: dict[str, Array]) -> Array:
        values, log_jacobian = values_of(free)
        return log_prior(values) + log_jacobian

    return of_rows, density


def _start(
    program: Program, structure: Structure, transforms: dict[str, Any], key: Array
) -> dict[str, Array]:
    """The initial means: where the guide says, or near 0 in unconstrained values."""
    strategy = CLOSE_TO_ZERO if program.guide is None else program.guide.init_loc_fn
    found = initialize_model(
        key,
        program.model,
        init_strategy=strategy,
        model_args=program.args,
        model_kwargs=program.kwargs,
        validate_grad=False,
    )
    free = found.param_info.z
    return {
        name: free[name] if transforms[name] is None else transforms[name].forward(free[name])
        for name in structure.latent
    }


def _family(guide: Any, num_latent: int) -> Any:
    """The distribution of bbalpha that is equivalent to a Gaussian guide."""
    if isinstance(guide, autoguide.AutoLowRankMultivariateNormal):
        rank = guide.rank or max(1, round(num_latent**0.5))
        return partial(LowRankGaussian.init, rank=rank)
    is_full = guide is None and num_latent <= FULL_SIZE
    if is_full or isinstance(guide, autoguide.AutoMultivariateNormal):
        return FullGaussian
    return DiagonalGaussian


def _fit_guide(
    program: Program,
    structure: Structure,
    key: Array,
    num_particles: int,
    progress: bool,
    *,
    alpha: Any,
    optimizer: Any,
    num_epochs: int | None,
) -> ModelPosterior:
    """The posterior of any model under any guide, trained by `SVI`."""
    if optimizer == "natural":
        raise ValueError(
            'optimizer must not be "natural" unless the model has one data plate without latent '
            "sites inside and the guide is Gaussian; got another model or guide."
        )
    if program.guide is None:
        guide = autoguide.AutoNormal(program.model, init_loc_fn=CLOSE_TO_ZERO)
        program = program._replace(guide=guide)
    num_batches = structure.num_batches
    num_epochs = -(-NUM_STEPS // num_batches) if num_epochs is None else num_epochs
    plan = Plan(structure.num_data, num_batches, num_epochs)
    if optimizer in (None, "adam"):
        optimizer = decaying_adam(plan.num_steps)
    loss = BBAlphaELBO(alpha, num_particles, num_data=program.num_data)
    counted = count_steps(program.guide) if callable(alpha) else program.guide
    svi = SVI(program.model, counted, optimizer, loss)
    state, info = run_svi(svi, program, plan, structure.num_data, key, progress)
    params = svi.get_params(state) | (state.mutable_state or {})
    draws = GuideDraws(loss, program, structure, params, info)
    posterior = ModelPosterior(program, structure, draws)
    if info.stopped == "non-finite":
        raise NonFiniteEnergyError(info.num_steps, posterior)
    return posterior


def _check_num_data(structure: Structure) -> None:
    """Raise if `num_data` implies that the arguments are only a part of the data."""
    for plates in structure.groups:
        for plate in plates:
            if plate.name == ROWS and plate.taken != plate.size:
                raise ValueError(
                    "num_data must be the number of rows, because fit needs all data; got "
                    f"num_data={plate.size} with {plate.taken} rows. For minibatches, put a "
                    "subsampled plate around the observed sites."
                )
