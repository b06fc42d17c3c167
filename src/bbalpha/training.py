"""Training, one step at a time.

`init` checks its arguments and makes a state; `step` moves it along the gradient of the energy on
one minibatch. Both are pure: compile, map and shard them from outside. `bbalpha.fit` is many steps.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.distributions import CappedGaussian, DiagonalGaussian, Distribution
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
from bbalpha.engine.layout import Layout
from bbalpha.engine.optimizers import Optimizer, adam, as_tree
from bbalpha.state import FitState, Method, Schedule, StepInfo, Variables

Family = Any  # a class of distributions, an instance, or a function of the mean and the prior
Prior = Any  # a standard deviation, a tree of them, or a Distribution

NUM_SAMPLES = 100  # K in Section 4; for a few parameters the draws cost almost nothing


def init(
    log_likelihood: LogLikelihood,
    params: PyTree,
    *,
    num_data: Number,
    key: Key[Array, ""],
    alpha: Number | Schedule = 0.5,
    prior: Prior = 1.0,
    learn_prior: bool = False,
    hyperparams: PyTree = None,
    family: Family = CappedGaussian,
    optimizer: Optimizer | None = None,
    num_samples: int = NUM_SAMPLES,
    sample_chunk: int | None = None,
    resample_every: int = 1,
) -> FitState:
    """The state before the first step.

    Args:
        log_likelihood: one number per data point of a batch: `log_likelihood(params, batch)` or,
            with hyper-parameters, `log_likelihood(params, batch, hyperparams)`.
        params: where the mean of q starts; any tree of floating-point arrays.
        num_data: N, the number of data points (or their total weight).
        key: all randomness of the run.
        alpha: the power, or a schedule: a function from the step to the power.
        prior: p₀, as a standard deviation, a tree of them like `params`, or a `Distribution`.
        learn_prior: learn a factor on the prior's variances, one per leaf of `params`.
        hyperparams: a tree of arrays to be learned by minimizing the same energy.
        family: q, as a class of distributions, a function of its mean and the prior, or an
            instance, which is taken as it is.
        optimizer: any optax optimizer; by default the authors', `optax.adam(1e-3)`, because the
            decaying rate of `fit` needs the number of steps. Make one and reuse it: every new one
            is compiled again.
        num_samples: K, the draws of q for each minibatch.
        sample_chunk: how many draws to hold in memory; chosen from the shapes by default.
        resample_every: M, how many steps share the same noise.

    Raises:
        ValueError: if an argument breaks its rule, with its value.
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
    layout = Layout.of(params)
    check_finite(params, "params")
    mean = layout.flatten(params)
    prior = _as_prior(prior, layout, mean.dtype)
    log_prior_scale = _log_prior_scale(prior, layout, mean.dtype) if learn_prior else None
    q = _start_of(family, mean, prior)
    variables: Any = Variables(q, log_prior_scale, _as_arrays(hyperparams))
    optimizer = as_tree(adam(1e-3) if optimizer is None else optimizer)
    schedule = alpha if callable(alpha) else None
    log_likelihood = without_jit(log_likelihood)
    return FitState(
        variables=variables,
        optimizer_state=optimizer.init(variables),
        optimizer=optimizer,
        step=on_device(np.int32(0)),
        key=as_keys(key, 0, "key"),
        prior=prior,
        alpha=on_device(0.0 if callable(alpha) else alpha, mean.dtype),
        num_data=on_device(num_data, mean.dtype),
        method=Method(log_likelihood, layout, num_samples, sample_chunk, resample_every, schedule),
    )


def step(
    state: FitState, batch: PyTree, weights: Float[Array, " batch"] | None = None
) -> tuple[FitState, StepInfo]:
    """The state after one step on a minibatch, and a report.

    If the energy, its gradient or the result is not finite, the state stays as it was.

    Args:
        state: from `init` or the last step.
        batch: any pytree of arrays whose first axis is the data points.
        weights: how many data points each of them stands for; N/|S| each by default. Entries of
            weight zero are padding.

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
    return state.advance(batch, weights, state.noise_keys())


def _as_arrays(hyperparams: PyTree) -> PyTree:
    if not jax.tree.leaves(hyperparams):
        return hyperparams
    hyperparams = jax.tree.map(on_device, hyperparams)
    Layout.of(hyperparams, "hyperparams")
    check_finite(hyperparams, "hyperparams")
    return hyperparams


def _log_prior_scale(prior: Distribution, layout: Layout, dtype: Any) -> Float[Array, " leaves"]:
    if not isinstance(prior, DiagonalGaussian):
        raise ValueError(
            "learn_prior must be False unless the prior is a diagonal Gaussian; "
            f"got learn_prior=True with a {type(prior).__name__}."
        )
    return on_device(np.zeros(len(layout.shapes)), dtype)


def _start_of(family: Family, mean: Float[Array, " params"], prior: Distribution) -> Distribution:
    """Where q starts: what a class or a function makes of the mean and the prior, or an instance.

    Raises:
        TypeError: if `family` is none of these, or makes something that cannot be trained.
        ValueError: if an instance has another number of parameters.
    """
    make: Any = getattr(family, "init", None) if isinstance(family, type) else family
    if not (callable(make) or _is_distribution(make)):
        raise TypeError(
            "family must be a class of distributions such as bb.DiagonalGaussian, an instance, or "
            f"a function of the mean and the prior; got {family!r}."
        )
    q: Any = make if _is_distribution(make) else make(mean, prior)
    _check_trainable(q)
    if q.mean.shape != mean.shape:
        raise ValueError(
            f"family must have as many parameters as params, {mean.size}; "
            f"got a {type(q).__name__} over {q.mean.size}."
        )
    return q


def _as_prior(prior: Any, layout: Layout, dtype: Any) -> Distribution:
    """The prior as a distribution: given as one, as a standard deviation, or as a tree of them.

    Raises:
        ValueError: if its structure or a shape differs from the parameters, or if a deviation is
            not positive.
    """
    if _is_distribution(prior):
        if prior.mean.shape != (layout.size,):
            raise ValueError(
                f"prior must be over the {layout.size} parameters of the model; "
                f"got a {type(prior).__name__} over {prior.mean.size}."
            )
        return prior
    if jax.tree.structure(prior) == jax.tree.structure(0.0) and np.ndim(prior) == 0:
        deviations = np.full(layout.size, prior, dtype)
    else:
        deviations = _deviations_of_leaves(prior, layout).astype(dtype)
    if not np.all(np.isfinite(deviations) & (deviations > 0)):
        worst = deviations[np.argmin(np.where(np.isfinite(deviations), deviations, -np.inf))]
        raise ValueError(f"prior must hold positive standard deviations; got prior={worst:g}.")
    log_variance = on_device(2 * np.log(deviations))
    return DiagonalGaussian(on_device(np.zeros(layout.size), dtype), log_variance)


def _is_distribution(value: Any) -> bool:
    """`isinstance(value, Distribution)`, which before Python 3.12 computes the variance."""
    answers = []
    jax.eval_shape(lambda: answers.append(isinstance(value, Distribution)))  # traced, not compiled
    return answers[0]


def _check_trainable(q: Any) -> None:
    """Raise unless q is a distribution whose fields an optimizer can move."""
    if not _is_distribution(q):
        raise TypeError(f"family must make a bb.Distribution; got {type(q).__name__}.")
    for path, leaf in jax.tree_util.tree_leaves_with_path(q):
        if not jnp.issubdtype(getattr(leaf, "dtype", object), jnp.floating):
            raise TypeError(
                "family must make a module whose fields are arrays of floating-point numbers or "
                f"static; got {type(q).__name__}{jax.tree_util.keystr(path)} of type "
                f"{type(leaf).__name__}."
            )


def _deviations_of_leaves(prior: PyTree, layout: Layout) -> np.ndarray:
    leaves, structure = jax.tree.flatten(prior)
    if structure != layout.structure:
        raise ValueError(
            "prior must be a number, a tree like params or a bb.Distribution; "
            f"got a tree {structure} where params is {layout.structure}."
        )
    deviations = []
    for leaf, path, shape in zip(leaves, layout.paths, layout.shapes, strict=True):
        if np.shape(leaf) not in ((), shape):
            raise ValueError(
                f"prior{path} must be a number or have shape {shape}, as in params; "
                f"got shape {np.shape(leaf)}."
            )
        deviations.append(np.broadcast_to(leaf, shape).ravel())
    return np.concatenate(deviations)
