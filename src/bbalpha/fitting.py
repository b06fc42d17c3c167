"""Step ten: whole fits, from checked arguments to a posterior."""

import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.engine.checks import (
    as_keys,
    check_alpha,
    check_counts,
    check_finite,
    check_log_likelihood,
    check_optional_counts,
    warn,
)
from bbalpha.data import as_array, check_data, check_weights, padded_length
from bbalpha.engine.epochs import (
    Rows,
    full_energy,
    full_energy_many,
    no_order,
    replica_runner,
    run_steps,
)
from bbalpha.distributions import CappedGaussian
from bbalpha.engine.layout import Layout
from bbalpha.engine.loop import EarlyStopping, Plan, Watch, train
from bbalpha.engine.optimizers import Optimizer, decaying_adam
from bbalpha.posterior import FitInfo, Posterior
from bbalpha.training import (
    FamilyStart,
    FitState,
    LogLikelihood,
    Prior,
    Schedule,
    init,
)

DEFAULT_STEPS = 10_000
DEFAULT_BATCH_SIZE = 32  # the authors'


class NonFiniteEnergyError(ArithmeticError):
    """The energy was no longer finite; `posterior` is what the last finite step had reached."""

    def __init__(self, step: int, posterior: Posterior):
        self.step = step
        self.posterior = posterior
        super().__init__(
            f"the energy or its gradient must be finite; got a non-finite value at step {step}. "
            "The posterior before that step is kept in the attribute posterior of this error; "
            "a smaller learning rate, or alpha annealed from 0, often helps."
        )


def fit(
    log_likelihood: LogLikelihood,
    params: PyTree,
    data: PyTree,
    *,
    key: Key[Array, ""],
    alpha: float | Array | Schedule = 0.5,
    prior: Prior = 1.0,
    learn_prior: bool = False,
    hyperparams: PyTree = None,
    family: FamilyStart = CappedGaussian.init,
    optimizer: Optimizer | None = None,
    num_epochs: int | None = None,
    batch_size: int | None = None,
    num_samples: int = 100,
    sample_chunk: int | None = None,
    resample_every: int = 1,
    sample_weight: Float[Any, " rows"] | None = None,
    early_stopping: EarlyStopping | None = None,
    callback: Callable[[FitState, FitInfo], bool | None] | None = None,
    progress: bool = True,
) -> Posterior:
    """The posterior that minimizes the BB-α energy.

    Ctrl-C ends a fit with the posterior reached (the best one, with early stopping), whose
    `info.stopped` is "interrupted" and whose energy is NaN.

    Args:
        log_likelihood: one number per data point of a batch, never summed:
            `log_likelihood(params, batch)` or, with hyper-parameters,
            `log_likelihood(params, batch, hyperparams)`.
            Variables from outside are read when it is compiled, at the first fit: what is to
            change from fit to fit belongs in `data`, `hyperparams` or a new function.
        params: where the mean of q starts; any tree of floating-point arrays.
        data: any pytree of arrays whose first axis is the data points.
        key: all randomness of the fit.
        alpha: 0 is variational Bayes, 1 is like expectation propagation; or a schedule, a function
            from the step to the power.
        prior: p₀, as a standard deviation, a tree of them like `params`, or a `Family`.
        learn_prior: learn a factor on the prior's variances, one per leaf of `params`.
        hyperparams: a tree of arrays to be learned by minimizing the same energy.
        family: the start of q, a function of its mean and the prior.
        optimizer: any optax optimizer; by default Adam with a rate that falls from 1e-2 to 0 along
            a cosine. The paper's is `optax.adam(1e-3)`. Make one and reuse it, as well as a
            schedule for `alpha`, because every new one compiles anew.
        num_epochs: passes over the data; by default as many as make 10,000 steps.
        batch_size: |S|; 32 by default.
        num_samples: K, the draws of q for each minibatch.
        sample_chunk: how many of them are in memory at once; chosen from the shapes by default.
        resample_every: M, how many steps use the same noise.
        sample_weight: how many data points each row stands for; 1 by default.
        early_stopping: held-out data that end the fit.
        callback: called after every epoch with the state and what is known of the run; a true
            result ends the fit.
        progress: show a progress bar when there is a terminal.

    Raises:
        ValueError: if an argument breaks its rule, with its value.
        TypeError: if `params` or `hyperparams` holds something else than arrays of numbers.
        NonFiniteEnergyError: if the energy stops being finite.

    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> data = jnp.array([0.5, 1.5, 2.5])  # with prior N(0, 1) the exact posterior is N(1.125, ¼)
    >>> posterior = bb.fit(log_likelihood, jnp.zeros(()), data, alpha=0.0, key=jax.random.key(0))
    >>> print(f"{posterior.mean:.1f} ± {posterior.variance**0.5:.1f}")
    1.1 ± 0.5
    """
    rows, plan = prepare(data, sample_weight, batch_size, num_epochs)
    state = init(
        log_likelihood,
        params,
        num_data=float(rows.total_weight()),
        key=key,
        alpha=alpha,
        prior=prior,
        learn_prior=learn_prior,
        hyperparams=hyperparams,
        family=family,
        optimizer=decaying_adam(plan.num_steps) if optimizer is None else optimizer,
        num_samples=num_samples,
        sample_chunk=sample_chunk,
        resample_every=resample_every,
    )
    _check_schedule(state, plan)
    check_log_likelihood(_log_likelihood_of_data(state), data, plan.batch_size)
    if early_stopping is not None:
        _check_early_stopping(state, early_stopping)
    run = partial(run_steps, rows=rows, batch_size=plan.batch_size)
    order = no_order(rows, plan.batch_size)
    watch = Watch(early_stopping, callback, plan)
    state, energies, stopped = train(run, state, order, plan, watch, progress)
    energy, stopped = _energy_at_the_end(partial(full_energy, state, rows), state, stopped)
    info = watch.info(state, energies, stopped)
    posterior = dataclasses.replace(state.posterior(), energy=energy, info=info)
    if stopped == "non-finite":
        raise NonFiniteEnergyError(int(state.step), posterior)
    return posterior


def fit_many(
    log_likelihood: LogLikelihood,
    params: PyTree,
    data: PyTree,
    *,
    keys: Key[Array, " replicas"],
    alpha: Any = 0.5,
    data_axis: int | None = None,
    num_epochs: int | None = None,
    batch_size: int | None = None,
    sample_weight: Any = None,
    progress: bool = True,
    **settings: Any,
) -> list[Posterior]:
    """The posteriors of many replicas, trained together by one compiled program.

    Each equals what `fit` gives for its α, key, start and data. A replica whose energy stops being
    finite stays where it was while the others go on, and its `info.stopped` is "non-finite".

    Args:
        log_likelihood: as for `fit`.
        params: the starts, a tree whose leaves have a leading axis of replicas.
        data: as for `fit`, shared by the replicas; or, with `data_axis=0`, with a leading axis of
            replicas, such as `(x[rows], y[rows])` for the rows of many splits.
        keys: one key per replica.
        alpha: one power per replica, or one power or schedule for all.
        data_axis: 0 when every replica has data of its own.
        num_epochs: as for `fit`.
        batch_size: as for `fit`.
        sample_weight: as for `fit`, with a leading axis of replicas when `data_axis=0`.
        progress: as for `fit`.
        **settings: the arguments of `init` from `prior` on, which all replicas share. The default
            optimizer is that of `fit`.

    Raises:
        ValueError: if an argument breaks its rule, with its value.
        TypeError: if `params` or `hyperparams` holds something else than arrays of numbers.

    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> posteriors = bb.fit_many(
    ...     log_likelihood,
    ...     jnp.zeros(3),
    ...     jnp.array([0.5, 1.5, 2.5]),
    ...     alpha=jnp.array([0.0, 0.5, 1.0]),
    ...     keys=jax.random.split(jax.random.key(0), 3),
    ... )
    >>> narrow, wide, wider = (float(posterior.variance) for posterior in posteriors)
    >>> narrow < wide < wider
    True
    """
    if data_axis not in (None, 0):
        raise ValueError(f"data_axis must be None or 0; got data_axis={data_axis}.")
    keys = as_keys(keys, 1, "keys")
    _check_replicas(keys, params=params, **({} if data_axis is None else {"data": data}))
    rows, plan = prepare(data, sample_weight, batch_size, num_epochs, data_axis)
    _check_settings(settings)
    if settings.get("optimizer") is None:
        settings["optimizer"] = decaying_adam(plan.num_steps)
    num_data = np.broadcast_to(rows.total_weight(), keys.shape)
    state = _start_replicas(log_likelihood, params, keys, alpha, num_data, settings)
    _check_schedule(state, plan)
    first = jax.tree.map(lambda leaf: leaf[0], state)
    all_rows = jax.tree.map(as_array, data)
    if data_axis is not None:
        all_rows = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), all_rows)
    check_log_likelihood(_log_likelihood_of_data(first), all_rows, plan.batch_size)
    run = replica_runner(rows, len(keys), plan.batch_size, data_axis)
    order = no_order(rows, plan.batch_size, keys.shape)
    watch = Watch(None, None, plan)
    state, energies, stopped = train(run, state, order, plan, watch, progress)
    full_energies, stopped = _energy_at_the_end(
        partial(full_energy_many, state, rows, data_axis), state, stopped
    )
    posteriors = []
    for replica, energy in enumerate(full_energies):
        one = jax.tree.map(lambda leaf, replica=replica: leaf[replica], state)
        reason = "non-finite" if one.step < jnp.max(state.step) else stopped
        info = watch.info(one, energies[replica], reason)
        posteriors.append(dataclasses.replace(one.posterior(), energy=energy, info=info))
    return posteriors


def _start_replicas(
    log_likelihood: LogLikelihood,
    params: PyTree,
    keys: Array,
    alpha: Any,
    num_data: np.ndarray,
    settings: dict[str, Any],
) -> FitState:
    """The states of all replicas, stacked."""
    powers = None if callable(alpha) else _one_per_replica(alpha, keys)
    if powers is not None:
        for power, total in zip(powers, num_data.tolist(), strict=True):
            check_alpha(power, total, settings.get("num_samples", 2))
    Layout.of(params)
    check_finite(params, "params")

    def start(params: PyTree, key: Array, power: Any, num_data: Array) -> FitState:
        power = alpha if power is None else power
        return init(log_likelihood, params, num_data=num_data, key=key, alpha=power, **settings)

    return jax.vmap(start)(*jax.tree.map(jnp.asarray, (params, keys, powers, num_data)))


def _energy_at_the_end(
    energy: Callable[[], Array], state: FitState, stopped: str
) -> tuple[Array, str]:
    """The energy on the full data, which is not known where the run did not end well."""
    unknown = jnp.full_like(state.alpha, jnp.nan)
    if stopped in ("interrupted", "non-finite"):
        return unknown, stopped
    try:
        return jax.block_until_ready(energy()), stopped
    except KeyboardInterrupt:
        return unknown, "interrupted"


def _check_settings(settings: dict[str, Any]) -> None:
    known = inspect.signature(init).parameters
    for name in settings:
        if name not in known:
            raise TypeError(f"fit_many must get its own arguments or those of init; got {name}.")


def prepare(
    data: PyTree,
    sample_weight: Any,
    batch_size: int | None,
    num_epochs: int | None,
    data_axis: int | None = None,
) -> tuple[Rows, Plan]:
    """The data checked and on the device, and the plan of the run."""
    if data_axis is None:
        num_rows = check_data(data)
    else:
        check_data(data)  # the leading axis is the replicas
        num_rows = check_data(jax.tree.map(lambda leaf: leaf[0], data))
    shape = np.shape(jax.tree.leaves(data)[0])[: 1 if data_axis is None else 2]
    sample_weight = np.ones(shape) if sample_weight is None else np.asarray(sample_weight)
    check_weights(sample_weight, shape, "sample_weight")
    check_optional_counts(batch_size=batch_size, num_epochs=num_epochs)
    num_slots = padded_length(num_rows)
    batch_size = _used_batch_size(batch_size, num_rows, num_slots)
    num_batches = -(-num_rows // batch_size)
    num_epochs = -(-DEFAULT_STEPS // num_batches) if num_epochs is None else num_epochs
    axis = len(shape) - 1
    padding = [(0, 0)] * axis + [(0, num_slots - num_rows)]
    rows = Rows(
        jax.tree.map(lambda leaf: jnp.asarray(_padded(as_array(leaf), num_slots, axis)), data),
        jnp.asarray(np.pad(sample_weight, padding), float),
        jnp.asarray(num_rows),
    )
    return rows, Plan(batch_size, num_batches, num_epochs)


def _padded(leaf: Any, num_slots: int, axis: int) -> Any:
    """The rows, then copies of the first, for which the log-likelihood is as finite as for it."""
    num_rows = leaf.shape[axis]
    if num_rows == num_slots:
        return leaf
    taken = np.where(np.arange(num_slots) < num_rows, np.arange(num_slots), 0)
    return leaf.take(taken, axis=axis)


def _used_batch_size(batch_size: int | None, num_rows: int, num_slots: int) -> int:
    if batch_size is None:
        return min(DEFAULT_BATCH_SIZE, num_slots)
    if batch_size > num_slots:
        warn(
            f"batch_size should not exceed the number of data points; got batch_size={batch_size} "
            f"with {num_rows} data points, all of which now make one batch."
        )
    return min(batch_size, num_slots)


def _check_replicas(keys: Array, **trees: PyTree) -> None:
    for name, tree in trees.items():
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if np.shape(leaf)[:1] != keys.shape:
                raise ValueError(
                    f"{name}{jax.tree_util.keystr(path)} must have a leading axis of "
                    f"{len(keys)} replicas, one per key; got shape {np.shape(leaf)}."
                )


def _one_per_replica(alpha: Any, keys: Array) -> np.ndarray:
    powers = np.asarray(alpha, float)
    if powers.shape not in ((), keys.shape):
        raise ValueError(
            f"alpha must be one number or one for each of {len(keys)} replicas; "
            f"got shape {powers.shape}."
        )
    return np.broadcast_to(powers, keys.shape)


def _check_schedule(state: FitState, plan: Plan) -> None:
    """Check the powers of all steps that a schedule will give."""
    if state.method.alpha_schedule is None:
        return
    at = partial(state.method.alpha_at, state.alpha.ravel()[0])
    shape = jax.eval_shape(at, state.step.ravel()[0]).shape
    if shape != ():
        raise ValueError(f"alpha must return one number for each step; got shape {shape}.")
    alphas = np.asarray(jax.vmap(at)(jnp.arange(plan.num_steps)))
    worst = float(alphas.max() if np.isfinite(alphas).all() else np.nan)
    check_alpha(worst, float(state.num_data.min()), state.method.num_samples)


def _check_early_stopping(state: FitState, rule: EarlyStopping) -> None:
    for name in ("patience", "every", "num_samples"):
        check_counts(**{f"early_stopping.{name}": getattr(rule, name)})
    num_rows = check_data(rule.data, "early_stopping.data")
    if rule.sample_weight is not None:
        name = "early_stopping.sample_weight"
        check_weights(np.asarray(rule.sample_weight), (num_rows,), name)
    check_log_likelihood(_log_likelihood_of_data(state), rule.data, batch_size=1)


def _log_likelihood_of_data(state: FitState) -> Callable[[PyTree], Any]:
    """The user's function with parameters of no matter what value, for `jax.eval_shape`."""
    log_likelihood = state.method.vector_log_likelihood(state.variables.hyperparams)
    size, dtype = state.method.layout.size, state.alpha.dtype
    return lambda data: log_likelihood(jnp.zeros(size, dtype), data)
