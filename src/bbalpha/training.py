"""Step seven: training, one step at a time.

`init` checks its arguments and makes a state; `step` moves it by the gradient of the energy on one
minibatch, pure, to be compiled, mapped and sharded from outside. `bbalpha.fit` is many of these.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from bbalpha.engine import threefry
from bbalpha.engine.checks import (
    as_keys,
    check_alpha,
    check_counts,
    check_family,
    check_finite,
    check_num_data,
    check_optional_counts,
    check_parts,
    without_jit,
)
from bbalpha.energy import Number, VectorLogLikelihood, chunked_energy
from bbalpha.distributions import CappedGaussian, DiagonalGaussian, Family, Noise, chunk_of_draws
from bbalpha.engine.layout import Layout
from bbalpha.engine.materialize import in_memory
from bbalpha.engine.optimizers import Optimizer, adam, as_tree
from bbalpha.posterior import Posterior

LogLikelihood = Callable[..., Float[Array, " batch"]]
FamilyStart = Callable[[Float[Array, " params"], Family], Any]
Schedule = Callable[[Int[Array, ""]], Number]
Prior = Any  # a standard deviation, a tree of them, or a Family

# A stream of its own, because split(key, n)[i] is fold_in(key, i): a user who draws the start from
# a split of the same key shall not meet the same numbers again.
NOISE_STREAM = 2**32 - 3

KEPT_NOISE = 2**25  # numbers of noise that a replica may keep from step to step: 128 MiB


@dataclasses.dataclass(frozen=True)
class Method:
    """What of a fit is fixed when it is compiled."""

    log_likelihood: LogLikelihood
    layout: Layout
    num_samples: int
    sample_chunk: int | None
    resample_every: int
    alpha_schedule: Schedule | None

    def alpha_at(self, alpha: Float[Array, ""], step: Int[Array, ""]) -> Float[Array, ""]:
        """The power at a step: constant, or the schedule's."""
        if self.alpha_schedule is None:
            return alpha
        return jnp.asarray(self.alpha_schedule(step), alpha.dtype)

    def vector_log_likelihood(self, hyperparams: PyTree) -> VectorLogLikelihood:
        """The user's log-likelihood as a function of the flat vector."""
        extra = () if hyperparams is None else (hyperparams,)
        return lambda vector, batch: self.log_likelihood(
            self.layout.unflatten(vector), batch, *extra
        )

    def chunk(self, batch: PyTree) -> int:
        """How many draws to hold in memory for such a batch."""
        if self.sample_chunk is not None:
            return self.sample_chunk
        num_rows = len(jax.tree.leaves(batch)[0])
        return chunk_of_draws(self.layout.size, num_rows, self.num_samples)


class Variables(NamedTuple):
    """What the optimizer moves: q, log-factors on the prior's variances, hyper-parameters."""

    q: Any
    log_prior_scale: Float[Array, " leaves"] | None
    hyperparams: PyTree


class FitState(eqx.Module):
    """Exactly what the next step needs, therefore exactly what a checkpoint stores."""

    variables: Variables
    optimizer_state: PyTree
    optimizer: optax.GradientTransformation
    step: Int[Array, "..."]
    key: Key[Array, "..."]
    prior: Family
    alpha: Float[Array, "..."]
    num_data: Float[Array, "..."]
    method: Method = eqx.field(static=True)

    @property
    def last_alpha(self) -> Float[Array, "..."]:
        """The power of the last step, or of the first if there was none."""
        return self.method.alpha_at(self.alpha, jnp.maximum(self.step - 1, 0))

    def posterior(self) -> Posterior:
        """The posterior as it stands; its energy on the full data is not known and is NaN."""
        q, prior = distributions(self.variables, self.prior, self.method.layout)
        return Posterior(
            q=q,
            prior=prior,
            hyperparams=self.variables.hyperparams,
            alpha=self.last_alpha,
            num_data=self.num_data,
            energy=jnp.full_like(self.alpha, jnp.nan),
            layout=self.method.layout,
        )


class StepInfo(NamedTuple):
    """What a step reports: the minibatch energy before it, and whether all was finite."""

    energy: Float[Array, ""]
    finite: Bool[Array, ""]


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
    family: FamilyStart = CappedGaussian.init,
    optimizer: Optimizer | None = None,
    num_samples: int = 100,
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
        prior: p₀, as a standard deviation, a tree of them like `params`, or a `Family`.
        learn_prior: learn a factor on the prior's variances, one per leaf of `params`.
        hyperparams: a tree of arrays to be learned by minimizing the same energy.
        family: the start of q, a function of its mean and the prior.
        optimizer: any optax optimizer; by default the authors', `optax.adam(1e-3)`. Make one and
            reuse it, because every new one compiles anew.
        num_samples: K, the draws of q for each minibatch.
        sample_chunk: how many of them are in memory at once; chosen from the shapes by default.
        resample_every: M, how many steps use the same noise.

    Raises:
        ValueError: if an argument breaks its rule, with its value.
        TypeError: if `params` or `hyperparams` holds something else than arrays of numbers.

    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> state = bb.init(log_likelihood, jnp.zeros(()), num_data=100, key=jax.random.key(0))
    >>> state, info = jax.jit(bb.step)(state, jnp.array([0.5, 1.5, 2.5]))  # a batch of three
    >>> int(state.step), bool(info.finite)
    (1, True)
    """
    check_parts(log_likelihood, family, optimizer)
    log_likelihood = without_jit(log_likelihood)
    check_counts(num_samples=num_samples, resample_every=resample_every)
    check_optional_counts(sample_chunk=sample_chunk)
    check_num_data(num_data)
    check_alpha(alpha, num_data, num_samples)
    layout = Layout.of(params)
    check_finite(params, "params")
    mean = layout.flatten(params)
    prior = _as_prior(prior, layout, mean.dtype)
    if learn_prior and not isinstance(prior, DiagonalGaussian):
        raise ValueError(
            "learn_prior must be False unless the prior is a diagonal Gaussian; "
            f"got learn_prior=True with a {type(prior).__name__}."
        )
    log_prior_scale = jnp.zeros(len(layout.shapes), mean.dtype) if learn_prior else None
    q = family(mean, prior)
    check_family(q)
    variables: Any = Variables(q, log_prior_scale, _as_arrays(hyperparams))
    optimizer = as_tree(adam(1e-3) if optimizer is None else optimizer)
    schedule = alpha if callable(alpha) else None
    return FitState(
        variables=variables,
        optimizer_state=optimizer.init(variables),
        optimizer=optimizer,
        step=jnp.zeros((), jnp.int32),
        key=as_keys(key, 0, "key"),
        prior=prior,
        alpha=jnp.asarray(0.0 if callable(alpha) else alpha, mean.dtype),
        num_data=jnp.asarray(num_data, mean.dtype),
        method=Method(log_likelihood, layout, num_samples, sample_chunk, resample_every, schedule),
    )


def step(
    state: FitState, batch: PyTree, weights: Float[Array, " batch"] | None = None
) -> tuple[FitState, StepInfo]:
    """The state after one step on a minibatch, and what to report of it.

    Where the energy or what follows from its gradient is not finite, the state stays as it was.

    Args:
        state: from `init` or the last step.
        batch: any pytree of arrays whose first axis is the data points.
        weights: how many data points each of these stands for; N/|S| each by default. Entries of
            weight zero are padding.

    Raises:
        ValueError: if the log-likelihood is not one number per data point.

    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> data = jnp.array([0.5, 1.5, 2.5])  # with prior N(0, 1) the mean of the posterior is 1.125
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
    return step_with_noise(state, batch, weights, noise_keys(state))


def step_with_noise(
    state: FitState, batch: PyTree, weights: Float[Array, " batch"] | None, noise: Noise
) -> tuple[FitState, StepInfo]:
    """`step` with noise that the caller has drawn, or keys to draw it from."""
    variables: Any = state.variables
    alpha = state.method.alpha_at(state.alpha, state.step)

    def energy_of(variables: Variables) -> Float[Array, ""]:
        return energy_of_batch(state, variables, batch, noise, alpha, weights)

    energy, gradient = jax.value_and_grad(energy_of)(variables)
    extra = {}
    if isinstance(state.optimizer, optax.GradientTransformationExtraArgs):
        extra = {"value": energy, "grad": gradient, "value_fn": energy_of}
    updates, optimizer_state = state.optimizer.update(
        gradient, state.optimizer_state, variables, **extra
    )
    moved = optax.apply_updates(variables, updates)
    # Squares, because a gradient whose square overflows would freeze Adam for ever.
    finite = jnp.isfinite(energy + _sum_of_squares(gradient, moved))
    variables, optimizer_state, count = jax.tree.map(
        lambda new, old: jnp.where(finite, new, old),
        (moved, optimizer_state, state.step + 1),
        (variables, state.optimizer_state, state.step),
    )
    state = dataclasses.replace(
        state, variables=variables, optimizer_state=optimizer_state, step=count
    )
    return state, StepInfo(energy, finite)


def energy_of_batch(
    state: FitState,
    variables: Variables,
    batch: PyTree,
    noise: Noise,
    alpha: Float[Array, ""],
    weights: Float[Array, " batch"] | None,
) -> Float[Array, ""]:
    """The energy of `variables` on a minibatch, under the settings of `state`."""
    method = state.method
    q, prior = distributions(variables, state.prior, method.layout)
    return chunked_energy(
        method.vector_log_likelihood(variables.hyperparams),
        q,
        prior,
        batch,
        noise,
        alpha=alpha,
        num_data=state.num_data,
        sample_chunk=method.chunk(batch),
        weights=weights,
    ).astype(state.alpha.dtype)


def distributions(variables: Variables, prior: Family, layout: Layout) -> tuple[Family, Family]:
    """The approximation q and the prior p₀ that the variables stand for."""
    if variables.log_prior_scale is not None:
        assert isinstance(prior, DiagonalGaussian)
        log_variance = prior.log_variance + layout.per_leaf(variables.log_prior_scale)
        prior = DiagonalGaussian(prior.mean, log_variance)
    q = variables.q
    return (q.under(prior) if isinstance(q, CappedGaussian) else q), prior


def noise_keys(state: FitState) -> Key[Array, " draws"]:
    """One key for the noise of each draw, the same for `resample_every` steps."""
    period = state.step // state.method.resample_every

    key = threefry.fold_in(threefry.fold_in(state.key, NOISE_STREAM), period)
    keys = threefry.consecutive(key, state.method.num_samples)
    # A hash that is fused into the drawing would cost as much as the drawing.
    words = in_memory(jax.random.key_data(keys), jax.random.key_data(state.key))
    return jax.random.wrap_key_data(words, impl=str(jax.random.key_impl(state.key)))


def noise_of_steps(state: FitState) -> Noise:
    """The noise that the next steps share; left as keys if it is of one step, or large."""
    q, _ = distributions(state.variables, state.prior, state.method.layout)
    keys = noise_keys(state)
    draw = jax.vmap(q.noise)
    is_kept = state.method.resample_every > 1 and jax.eval_shape(draw, keys).size <= KEPT_NOISE
    return draw(keys) if is_kept else keys


def next_noise(state: FitState, noise: Noise, begin: Int[Array, ""]) -> Noise:
    """The noise of the next step, given that of the step before it, or of step `begin` itself."""
    resample_every = state.method.resample_every
    if resample_every == 1:
        return noise_of_steps(state)

    def redraw(turn: Int[Array, ""], _: Noise) -> Noise:
        # The turn is 0. Without it XLA would draw before the loop, and so at every step.
        return noise_of_steps(dataclasses.replace(state, step=state.step + turn))

    # A loop of no turn or one, because `jax.lax.cond` would copy what is kept.
    is_due = (state.step % resample_every == 0) & (state.step > begin)
    return jax.lax.fori_loop(0, is_due.astype(int), redraw, noise)


def _sum_of_squares(*trees: PyTree) -> Float[Array, ""]:
    sums = jax.tree.map(lambda *leaves: jnp.sum(sum(jnp.square(leaf) for leaf in leaves)), *trees)
    return sum(jax.tree.leaves(sums), start=jnp.zeros(()))


def _as_arrays(hyperparams: PyTree) -> PyTree:
    if not jax.tree.leaves(hyperparams):
        return hyperparams
    hyperparams = jax.tree.map(jnp.asarray, hyperparams)
    Layout.of(hyperparams, "hyperparams")
    check_finite(hyperparams, "hyperparams")
    return hyperparams


def _as_prior(prior: Prior, layout: Layout, dtype: Any) -> Family:
    """The prior as a distribution over the flat vector."""
    if isinstance(prior, Family):
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
    return DiagonalGaussian(jnp.zeros(layout.size, dtype), jnp.asarray(2 * np.log(deviations)))


def _deviations_of_leaves(prior: PyTree, layout: Layout) -> np.ndarray:
    leaves, structure = jax.tree.flatten(prior)
    if structure != layout.structure:
        raise ValueError(
            "prior must be a number, a tree like params or a Family; "
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
