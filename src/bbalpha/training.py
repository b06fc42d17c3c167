"""Training, one step at a time: the lower level under `bbalpha.fit`, which takes many steps.

`init` checks its arguments and creates a state; `step` moves it along the gradient of the energy on
one minibatch. Both are pure functions: compile, map and shard them from outside.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree, UInt32

from bbalpha.distributions import (
    CappedGaussian,
    Density,
    DiagonalGaussian,
    Distribution,
    is_distribution,
)
from bbalpha.energy import LogLikelihood, Number
from bbalpha.engine.arrays import on_device
from bbalpha.engine.checks import (
    as_keys,
    check_alpha,
    check_counts,
    check_finite,
    check_num_data,
    check_optimizer,
    check_optional_counts,
    without_jit,
)
from bbalpha.engine.layout import Layout, shown
from bbalpha.engine.noise import check_draws, sobol_points
from bbalpha.engine.optimizers import Optimizer, adam, as_tree
from bbalpha.natural import NaturalState
from bbalpha.priors import DensityPrior, Prior, as_prior, check_start
from bbalpha.state import FitState, Method, Schedule, StepInfo, Variables

Family = Any  # a class of distributions, an instance, or a function of the mean and the prior

# The most parameters for which `fit` takes natural-gradient steps by default. For mean-field
# networks, Adam predicts better in the same time (docs/benchmarks.md).
NATURAL_SIZE, NATURAL_SIZE_MEAN_FIELD = 1000, 100
NUM_SAMPLES = 100  # K in Section 4; with few parameters, draws cost almost nothing


def init(
    log_likelihood: LogLikelihood,
    params: PyTree,
    *,
    num_data: Number,
    key: Key[Array, ""],
    alpha: Number | Schedule = 0.5,
    prior: Prior = 1.0,
    learn_prior: bool | PyTree = False,
    hyperparams: PyTree = None,
    transforms: PyTree = None,
    family: Family = None,
    optimizer: Optimizer | None = None,
    num_samples: int = NUM_SAMPLES,
    draws: str | None = None,
    sample_chunk: int | None = None,
    resample_every: int = 1,
) -> FitState:
    """The state before the first step.

    Args:
        log_likelihood: one number per data point of a batch: `log_likelihood(params, batch)` or,
            with hyper-parameters, `log_likelihood(params, batch, hyperparams)`.
        params: the initial mean of q; any tree of floating-point arrays.
        num_data: N, the number of data points (or their total weight).
        key: all randomness of the run.
        alpha: the power, or a schedule: a function from the step to the power.
        prior: as for `fit`.
        learn_prior: learn factors on the prior's variances: True for one per leaf of `params`, or a
            tree like `params` of initial factors, each of a shape that broadcasts to its leaf. For
            weights of shape (units, inputs), `np.ones((units, 1))` gives each unit its own.
        hyperparams: a tree of arrays to learn by minimizing the same energy.
        transforms: the constraints of some parameters, as for `fit`.
        family: q, as for `fit`.
        optimizer: any optax optimizer; by default that of the authors, `optax.adam(1e-3)`, because
            the decaying rate of `fit` needs the number of steps. Create one and reuse it, because
            every new optimizer is compiled again.
        num_samples: K, the draws of q per minibatch.
        draws: as for `fit`.
        sample_chunk: the number of draws to hold in memory; chosen from the shapes by default.
        resample_every: M, the number of steps that share the same noise.

    Raises:
        ValueError: if an argument breaks its rule; the message shows its value.
        TypeError: if an argument is of the wrong kind.

    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> state = bb.init(log_likelihood, jnp.zeros(()), num_data=100, key=jax.random.key(0))
    >>> state, info = jax.jit(bb.step)(state, jnp.array([0.5, 1.5, 2.5]))  # a batch of three
    >>> int(state.step), bool(info.finite)
    (1, True)
    """
    if not callable(log_likelihood):
        raise TypeError(
            "log_likelihood must be a function of params and batch; "
            f"got {type(log_likelihood).__name__}."
        )
    check_optimizer(optimizer)
    check_counts(num_samples=num_samples, resample_every=resample_every)
    check_optional_counts(sample_chunk=sample_chunk)
    check_num_data(num_data)
    check_alpha(alpha, num_data, num_samples)
    layout = Layout.of(params, transforms=transforms)
    check_finite(params, "params")
    mean = layout.flatten(params)
    prior = as_prior(prior, layout, mean.dtype)
    check_start(params, layout, prior)
    log_prior_scale = _log_prior_scale(learn_prior, prior, layout, mean.dtype)
    q = _start_of(family, mean, prior)
    variables: Any = Variables(q, log_prior_scale, _as_arrays(hyperparams))
    optimizer = as_tree(adam(1e-3) if optimizer is None else optimizer)
    optimizer_state = optimizer.init(variables)
    natural = isinstance(optimizer_state, NaturalState)
    draws = check_draws(draws, "matched" if natural else "independent")
    schedule = alpha if callable(alpha) else None
    log_likelihood = without_jit(log_likelihood)
    sizes = (num_samples, sample_chunk, resample_every)
    return FitState(
        variables=variables,
        optimizer_state=optimizer_state,
        optimizer=optimizer,
        step=on_device(np.int32(0)),
        key=as_keys(key, 0, "key"),
        prior=prior,
        alpha=on_device(0.0 if callable(alpha) else alpha, mean.dtype),
        num_data=on_device(num_data, mean.dtype),
        method=Method(log_likelihood, layout, *sizes, schedule, draws),
        sobol_points=_sobol_points(q, num_samples) if draws == "sobol" else None,
    )


def step(
    state: FitState, batch: PyTree, weights: Float[Array, " batch"] | None = None
) -> tuple[FitState, StepInfo]:
    """The state after one step on a minibatch, and a report.

    If the energy, its gradient or the result is not finite, the state does not change.

    Args:
        state: from `init` or the last step.
        batch: any pytree of arrays whose first axis is the data points.
        weights: how many data points each row stands for; N/|S| each by default. Rows of weight
            zero are padding.

    Raises:
        ValueError: if the log-likelihood is not one number per data point.

    >>> import optax
    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> data = jnp.array([0.5, 1.5, 2.5])  # with prior N(0, 1) the posterior mean is 1.125
    >>> state = bb.init(
    ...     log_likelihood,
    ...     jnp.zeros(()),
    ...     num_data=3,
    ...     key=jax.random.key(0),
    ...     optimizer=optax.sgd(0.1),
    ... )
    >>> for _ in range(100):
    ...     state, info = jax.jit(bb.step)(state, data)
    >>> print(f"{state.posterior().mean:.1f}")
    1.1
    """
    return state.advance(batch, weights, state.noise_at(state.step))


def by_name(
    optimizer: Any, family: Family, params: PyTree, prior: Prior, transforms: PyTree = None
) -> Any:
    """The optimizer itself, or "natural" or "adam" if it was given by name or left to the default.

    Raises:
        ValueError: if the name is unknown, or if q has no natural gradient.
    """
    if optimizer is not None and not isinstance(optimizer, str):
        return optimizer
    if optimizer not in (None, "natural", "adam"):
        raise ValueError(
            'optimizer must be "natural", "adam" or an optax optimizer; '
            f"got optimizer={optimizer!r}."
        )
    if optimizer == "adam":
        return optimizer
    layout = Layout.of(params, transforms=transforms)
    mean = layout.flatten(params)
    q = _start_of(family, mean, as_prior(prior, layout, mean.dtype))
    has_natural_gradient = hasattr(q, "natural_gradient")
    if optimizer is None:
        is_mean_field = isinstance(q, CappedGaussian | DiagonalGaussian)
        largest = NATURAL_SIZE_MEAN_FIELD if is_mean_field else NATURAL_SIZE
        return "natural" if has_natural_gradient and layout.size <= largest else "adam"
    if not has_natural_gradient:
        raise ValueError(
            'optimizer must not be "natural" for a family without a member natural_gradient; '
            f"got a {type(q).__name__}."
        )
    return optimizer


def _sobol_points(q: Distribution, num_samples: int) -> UInt32[Array, "pairs noise"]:
    noise = jax.eval_shape(q.noise, jax.random.key(0))
    return jnp.asarray(sobol_points(num_samples, noise.size))


def _as_arrays(hyperparams: PyTree) -> PyTree:
    if not jax.tree.leaves(hyperparams):
        return hyperparams
    hyperparams = jax.tree.map(on_device, hyperparams)
    Layout.of(hyperparams, "hyperparams")
    check_finite(hyperparams, "hyperparams")
    return hyperparams


def _log_prior_scale(
    learn_prior: Any, prior: Density, layout: Layout, dtype: Any
) -> tuple[Float[Array, "..."], ...] | None:
    """The initial logarithms of the factors to learn, one array per leaf, or None."""
    if isinstance(learn_prior, bool | np.bool_) and not learn_prior:
        return None
    if not isinstance(prior, DiagonalGaussian):
        raise ValueError(
            "learn_prior must be False unless the prior is a diagonal Gaussian; "
            f"got learn_prior=True with a {type(prior).__name__}."
        )
    if isinstance(learn_prior, bool | np.bool_):
        return tuple(on_device(np.zeros(()), dtype) for _ in layout.shapes)
    factors, structure = jax.tree.flatten(learn_prior)
    if structure != layout.structure:
        raise ValueError(
            "learn_prior must be True, False or a tree like params; "
            f"got a tree {structure} where params is {layout.structure}."
        )
    for factor, path, shape in zip(factors, layout.paths, layout.free_shapes, strict=True):
        if not (_fits(np.shape(factor), shape) and np.all(np.asarray(factor) > 0)):
            raise ValueError(
                f"learn_prior{path} must hold positive factors of a shape that broadcasts to "
                f"{shape}; got {shown(factor)} of shape {np.shape(factor)}."
            )
    return tuple(on_device(np.log(factor), dtype) for factor in factors)


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Whether an array of this shape broadcasts to the wanted one."""
    try:
        return np.broadcast_shapes(shape, wanted) == wanted
    except ValueError:
        return False


def _start_of(family: Family, mean: Float[Array, " params"], prior: Density) -> Distribution:
    """The initial q: an instance, or the result of a class or function of the mean and the prior.

    Raises:
        TypeError: if `family` is none of these, or if the result cannot be trained.
        ValueError: if an instance has another number of parameters, or if q needs the variance of a
            prior whose variance is unknown.
    """
    if family is None:
        family = DiagonalGaussian if isinstance(prior, DensityPrior) else CappedGaussian
    make: Any = getattr(family, "init", None) if isinstance(family, type) else family
    if not (callable(make) or is_distribution(make)):
        raise TypeError(
            "family must be a class of distributions such as bb.DiagonalGaussian, an instance, or "
            f"a function of the mean and the prior; got {family!r}."
        )
    q: Any = make if is_distribution(make) else make(mean, prior)
    _check_trainable(q)
    if q.mean.shape != mean.shape:
        raise ValueError(
            f"family must have as many parameters as params, {mean.size}; "
            f"got a {type(q).__name__} over {q.mean.size}."
        )
    if hasattr(q, "under") and isinstance(prior, DensityPrior):
        raise ValueError(
            "family must not depend on the prior's variance if the prior is given by its "
            f"log-density; got {type(q).__name__}. Use bb.DiagonalGaussian."
        )
    return q


def _check_trainable(q: Any) -> None:
    """Raise unless q is a distribution whose fields an optimizer can change."""
    if not is_distribution(q):
        raise TypeError(f"family must make a bb.Distribution; got {type(q).__name__}.")
    for path, leaf in jax.tree_util.tree_leaves_with_path(q):
        if not jnp.issubdtype(getattr(leaf, "dtype", object), jnp.floating):
            raise TypeError(
                "family must make a module whose fields are arrays of floating-point numbers or "
                f"static; got {type(q).__name__}{jax.tree_util.keystr(path)} of type "
                f"{type(leaf).__name__}."
            )
