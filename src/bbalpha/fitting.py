"""Whole fits: from checked arguments to a posterior, or to many."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.data import as_array, check_data, check_weights
from bbalpha.distributions import CappedGaussian
from bbalpha.energy import LogLikelihood
from bbalpha.engine.arrays import on_device, on_host
from bbalpha.engine.batches import Order, Rows, no_order, padded_length, padded_rows
from bbalpha.engine.checks import as_keys, check_alpha, check_finite, check_optional_counts, warn
from bbalpha.engine.compiling import Compiled, compile_ahead
from bbalpha.engine.epochs import full_energy, run_steps
from bbalpha.engine.layout import Layout
from bbalpha.engine.loop import Plan, train
from bbalpha.engine.optimizers import Optimizer, decaying_adam
from bbalpha.engine.replicas import full_energy_many, replica_runner
from bbalpha.posterior import Posterior
from bbalpha.state import FitState, Schedule, check_likelihood
from bbalpha.stopping import Callback, EarlyStopping, Watch, check_early_stopping
from bbalpha.training import NUM_SAMPLES, Family, Prior, init

NUM_STEPS = 10_000
BATCH_SIZE = 32  # the authors'


class NonFiniteEnergyError(ArithmeticError):
    """The energy was no longer finite; `posterior` holds the result of the last finite step."""

    def __init__(self, step: int, posterior: Posterior):
        self.step = step
        self.posterior = posterior
        super().__init__(
            f"The energy or its gradient became NaN or infinite at step {step}. The attribute "
            "`posterior` of this error holds the posterior before that step. A smaller learning "
            "rate, or alpha annealed from 0, often helps."
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
    family: Family = CappedGaussian,
    optimizer: Optimizer | None = None,
    num_epochs: int | None = None,
    batch_size: int | None = None,
    num_samples: int = NUM_SAMPLES,
    sample_chunk: int | None = None,
    resample_every: int = 1,
    sample_weight: Float[Any, " rows"] | None = None,
    early_stopping: EarlyStopping | None = None,
    callback: Callback | None = None,
    progress: bool = True,
) -> Posterior:
    """The posterior that minimizes the BB-α energy.

    Ctrl-C ends a fit and returns the posterior reached so far (the best one, with early stopping);
    its `info.stopped` is "interrupted" and its energy is NaN.

    Args:
        log_likelihood: one number per data point of a batch, never summed:
            `log_likelihood(params, batch)` or, with hyper-parameters,
            `log_likelihood(params, batch, hyperparams)`. Variables from outside are read once, when
            the first fit compiles it: pass what changes between fits in `data` or `hyperparams`,
            or write a new function.
        params: where the mean of q starts; any tree of floating-point arrays.
        data: any pytree of arrays whose first axis is the data points.
        key: all randomness of the fit.
        alpha: the power: 0 is variational Bayes, 1 is like expectation propagation. A function from
            the step to the power makes a schedule.
        prior: p₀, as a standard deviation, a tree of them like `params`, or a `Distribution`.
        learn_prior: learn a factor on the prior's variances, one per leaf of `params`.
        hyperparams: a tree of arrays to be learned by minimizing the same energy.
        family: q, as a class such as `bb.FullGaussian`, a function of its mean and the prior, or an
            instance, which is taken as it is.
        optimizer: any optax optimizer; by default Adam with a rate that falls along a cosine from
            1e-2 to 0. The paper's is `optax.adam(1e-3)`. Make one and reuse it, and likewise a
            schedule for `alpha`: every new one is compiled again.
        num_epochs: passes over the data; by default as many as make 10,000 steps.
        batch_size: |S|; 32 by default.
        num_samples: K, the draws of q for each minibatch.
        sample_chunk: how many draws to hold in memory; chosen from the shapes by default.
        resample_every: M, how many steps share the same noise.
        sample_weight: how many data points each row stands for; 1 by default.
        early_stopping: held-out data that decide when to stop.
        callback: called after every epoch with the state and the record of the run; a true result
            ends the fit.
        progress: show a progress bar on a terminal.

    Raises:
        ValueError: if an argument breaks its rule, with its value.
        TypeError: if an argument is of the wrong kind.
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
    check_likelihood(state, data, plan.batch_size)
    if early_stopping is not None:
        check_early_stopping(state, early_stopping)
    run = partial(run_steps, rows=rows, batch_size=plan.batch_size)
    watch = Watch(early_stopping, callback, plan)
    order = no_order(rows, plan.batch_size)
    with_energy = _ending(run, rows, plan, state, order)
    state, energies, stopped = train(run, state, order, plan, watch, progress)
    if watch.best is not None and stopped != "non-finite":
        state = watch.best
    posterior, stopped = _posterior_at_the_end(
        partial(with_energy, state), state.posterior, stopped
    )
    posterior = dataclasses.replace(posterior, info=watch.info(state, energies, stopped))
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
    prior: Prior = 1.0,
    learn_prior: bool = False,
    hyperparams: PyTree = None,
    family: Family = CappedGaussian,
    optimizer: Optimizer | None = None,
    num_epochs: int | None = None,
    batch_size: int | None = None,
    num_samples: int = NUM_SAMPLES,
    sample_chunk: int | None = None,
    resample_every: int = 1,
    sample_weight: Any = None,
    data_axis: int | None = None,
    progress: bool = True,
) -> list[Posterior]:
    """The posteriors of many replicas, trained together by one compiled program.

    Each equals what `fit` gives for its α, key, start and data. A replica whose energy stops being
    finite keeps its last finite state while the others go on; its `info.stopped` is "non-finite".

    Args:
        log_likelihood: as for `fit`.
        params: the starts, a tree whose leaves have a leading axis of replicas.
        data: as for `fit`, shared by the replicas; with `data_axis=0` each array has a leading axis
            of replicas, such as `(x[rows], y[rows])` for the rows of many splits.
        keys: one key per replica.
        alpha: one power per replica, or one power or schedule for all.
        prior: as for `fit`; the replicas share this and the settings below.
        learn_prior: as for `fit`.
        hyperparams: as for `fit`.
        family: as for `fit`.
        optimizer: as for `fit`.
        num_epochs: as for `fit`.
        batch_size: as for `fit`.
        num_samples: as for `fit`.
        sample_chunk: as for `fit`.
        resample_every: as for `fit`.
        sample_weight: as for `fit`, with a leading axis of replicas if `data_axis=0`.
        data_axis: 0 if every replica has its own data, None if they share them.
        progress: as for `fit`.

    Raises:
        ValueError: if an argument breaks its rule, with its value.
        TypeError: if an argument is of the wrong kind.

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
    start = partial(
        init,
        log_likelihood,
        prior=prior,
        learn_prior=learn_prior,
        hyperparams=hyperparams,
        family=family,
        optimizer=decaying_adam(plan.num_steps) if optimizer is None else optimizer,
        num_samples=num_samples,
        sample_chunk=sample_chunk,
        resample_every=resample_every,
    )
    num_data = np.broadcast_to(rows.total_weight(), keys.shape)
    state = _start_replicas(start, params, keys, alpha, num_data, num_samples)
    _check_schedule(state, plan)
    check_likelihood(_replica(state, 0), _all_rows(data, data_axis), plan.batch_size)
    run = replica_runner(rows, len(keys), plan.batch_size, data_axis)
    watch = Watch(None, None, plan)
    order = no_order(rows, plan.batch_size, keys.shape)
    state, energies, stopped = train(run, state, order, plan, watch, progress)
    together, stopped = _posterior_at_the_end(
        partial(_with_energies, state, rows, data_axis), partial(_posteriors, state), stopped
    )
    posteriors = []
    for replica in range(len(keys)):
        one = _replica(state, replica)
        reason = "non-finite" if int(one.step) < np.asarray(state.step).max() else stopped
        info = watch.info(one, energies[replica], reason)
        posteriors.append(dataclasses.replace(_replica(together, replica), info=info))
    return posteriors


def prepare(
    data: PyTree,
    sample_weight: Any,
    batch_size: int | None,
    num_epochs: int | None,
    data_axis: int | None = None,
) -> tuple[Rows, Plan]:
    """The data checked and on the device, and the plan of the run."""
    num_rows = check_data(data)
    if data_axis is not None:  # the leading axis was the replicas
        num_rows = check_data(jax.tree.map(lambda leaf: leaf[0], data))
    shape = np.shape(jax.tree.leaves(data)[0])[: 1 if data_axis is None else 2]
    sample_weight = np.ones(shape) if sample_weight is None else np.asarray(sample_weight)
    check_weights(sample_weight, shape, "sample_weight")
    check_optional_counts(batch_size=batch_size, num_epochs=num_epochs)
    batch_size = _used_batch_size(batch_size, num_rows)
    num_batches = -(-num_rows // batch_size)
    num_epochs = -(-NUM_STEPS // num_batches) if num_epochs is None else num_epochs
    return padded_rows(data, sample_weight), Plan(batch_size, num_batches, num_epochs)


def _used_batch_size(batch_size: int | None, num_rows: int) -> int:
    num_slots = padded_length(num_rows)
    if batch_size is None:
        return min(BATCH_SIZE, num_slots)
    if batch_size > num_slots:
        warn(
            f"batch_size should not exceed the number of data points; got batch_size={batch_size} "
            f"with {num_rows} data points, all of which now make one batch."
        )
    return min(batch_size, num_slots)


def _check_schedule(state: FitState, plan: Plan) -> None:
    """Check the powers that a schedule gives at all steps."""
    if state.method.alpha_schedule is None:
        return
    at = partial(state.method.alpha_at, state.alpha.ravel()[0])
    shape = jax.eval_shape(at, state.step.ravel()[0]).shape
    if shape != ():
        raise ValueError(f"alpha must return one number for each step; got shape {shape}.")
    alphas = np.asarray(jax.vmap(at)(jnp.arange(plan.num_steps)))
    worst = float(alphas.max() if np.isfinite(alphas).all() else np.nan)
    check_alpha(worst, float(state.num_data.min()), state.method.num_samples)


def _posterior_at_the_end(
    with_energy: Callable[[], Posterior], without: Callable[[], Posterior], stopped: str
) -> tuple[Posterior, str]:
    """The posterior with its energy on the full data, which is NaN if the run was cut short."""
    if stopped in ("interrupted", "non-finite"):
        return without(), stopped
    try:
        return jax.block_until_ready(with_energy()), stopped
    except KeyboardInterrupt:
        return without(), "interrupted"


def _ending(run: Callable, rows: Rows, plan: Plan, state: FitState, order: Order) -> Callable:
    """A function from the last state to its posterior with the energy on the full data.

    A step on all rows reports that energy, so one more step gives it; otherwise a program of its
    own does, which is compiled while others are compiled and run.
    """
    if plan.batch_size == len(rows.sample_weight):

        def of_next_step(state: FitState) -> Posterior:
            energies = run(state, order=order, num_steps=on_device(1))[2]
            return dataclasses.replace(state.posterior(), energy=_replica(energies, 0))

        return of_next_step
    wait = compile_ahead(_with_energy.program, state, rows)

    def of_all_rows(state: FitState) -> Posterior:
        wait()
        return _with_energy(state, rows)

    return of_all_rows


@partial(Compiled, is_rare=True)
def _with_energy(state: FitState, rows: Rows) -> Posterior:
    return dataclasses.replace(state.posterior(), energy=full_energy(state, rows))


@partial(Compiled, static_argnames=("data_axis",), is_rare=True)
def _with_energies(state: FitState, rows: Rows, data_axis: int | None) -> Posterior:
    def of_replica(state: FitState, energy: Array) -> Posterior:
        return dataclasses.replace(state.posterior(), energy=energy)

    return jax.vmap(of_replica)(state, full_energy_many(state, rows, data_axis))


_posteriors = jax.vmap(FitState.posterior)


def _start_replicas(
    start: Callable[..., FitState],
    params: PyTree,
    keys: Array,
    alpha: Any,
    num_data: np.ndarray,
    num_samples: int,
) -> FitState:
    """The states of all replicas, stacked."""
    powers = None if callable(alpha) else _one_per_replica(alpha, keys)
    if powers is not None:
        for power, total in zip(powers, num_data.tolist(), strict=True):
            check_alpha(power, total, num_samples)
    Layout.of(params)
    check_finite(params, "params")

    def start_one(params: PyTree, key: Array, power: Any, num_data: Array) -> FitState:
        return start(params, num_data=num_data, key=key, alpha=alpha if power is None else power)

    return jax.vmap(start_one)(*jax.tree.map(jnp.asarray, (params, keys, powers, num_data)))


def _replica(tree: PyTree, replica: int) -> Any:
    return jax.tree.map(lambda leaf: on_device(on_host(leaf)[replica]), tree)


def _all_rows(data: PyTree, data_axis: int | None) -> PyTree:
    """The rows of all replicas, one after another."""
    if data_axis is None:
        return data
    return jax.tree.map(lambda leaf: as_array(leaf).reshape(-1, *np.shape(leaf)[2:]), data)


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
