"""Many fits of one shape, trained together by one compiled program."""

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Key, PyTree

from bbalpha.convergence import check_tolerance
from bbalpha.data import as_array
from bbalpha.energy import LogLikelihood
from bbalpha.engine.batches import Rows
from bbalpha.engine.checks import as_keys, check_alpha, check_finite
from bbalpha.engine.compiling import Compiled
from bbalpha.engine.layout import Layout
from bbalpha.engine.loop import Plan, train
from bbalpha.engine.optimizers import Optimizer
from bbalpha.engine.replicas import full_energy_many, replica_runner
from bbalpha.fitting import TOLERANCE
from bbalpha.planning import (
    at_rest,
    begin,
    budget_of,
    check_schedule,
    comes_to_rest,
    draws_for,
    energy_at_rest,
    judge_of,
    optimizer_for,
    posterior_at_the_end,
    prepare,
)
from bbalpha.posterior import Posterior
from bbalpha.priors import DensityPrior, Prior, check_start
from bbalpha.state import FitState, check_likelihood
from bbalpha.stopping import ReplicaWatch, Watch, replica_of
from bbalpha.training import Family, by_name, init


def fit_many(
    log_likelihood: LogLikelihood,
    params: PyTree,
    data: PyTree,
    *,
    keys: Key[Array, " replicas"],
    alpha: Any = 0.5,
    prior: Prior = 1.0,
    learn_prior: bool | PyTree = False,
    hyperparams: PyTree = None,
    transforms: PyTree = None,
    family: Family = None,
    optimizer: Optimizer | str | None = None,
    tolerance: float = TOLERANCE,
    num_epochs: int | None = None,
    batch_size: int | None = None,
    num_samples: int | None = None,
    draws: str | None = None,
    sample_chunk: int | None = None,
    resample_every: int = 1,
    sample_weight: Any = None,
    data_axis: int | None = None,
    checkpoint: Any = None,
    progress: bool = True,
) -> list[Posterior]:
    """The posteriors of many replicas, trained together by one compiled program.

    Each posterior equals the result of `fit` for the same α, key, start and data. A replica whose
    energy stops being finite keeps its last finite state while the others continue; its
    `info.stopped` is "non-finite".

    Args:
        log_likelihood: as for `fit`.
        params: the initial means of q, a tree whose leaves have a leading axis of replicas.
        data: as for `fit`, shared by the replicas; with `data_axis=0` each array has a leading axis
            of replicas, such as `(x[rows], y[rows])` for the rows of many splits.
        keys: one key per replica.
        alpha: one power per replica, or one power or schedule for all replicas.
        prior: as for `fit`; the replicas share the prior and the settings below.
        learn_prior: as for `fit`.
        hyperparams: as for `fit`.
        transforms: as for `fit`.
        family: as for `fit`.
        optimizer: as for `fit`.
        tolerance: as for `fit`.
        num_epochs: as for `fit`.
        batch_size: as for `fit`.
        num_samples: as for `fit`.
        draws: as for `fit`.
        sample_chunk: as for `fit`.
        resample_every: as for `fit`.
        sample_weight: as for `fit`, with a leading axis of replicas if `data_axis=0`.
        data_axis: 0 if every replica has its own data, None if they share them.
        checkpoint: as for `fit`.
        progress: as for `fit`.

    Raises:
        ValueError: if an argument breaks its rule; the message shows its value.
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
    check_tolerance(tolerance)
    keys = as_keys(keys, 1, "keys")
    _check_replicas(keys, params, data, data_axis)
    one = jax.tree.map(lambda leaf: leaf[0], params)
    optimizer = by_name(optimizer, family, one, prior, transforms)
    rows, plan = prepare(data, sample_weight, optimizer, batch_size, num_epochs, data_axis)
    num_samples = draws_for(optimizer, one, num_samples, plan.batch_size)
    start = partial(
        init,
        log_likelihood,
        prior=prior,
        learn_prior=learn_prior,
        hyperparams=hyperparams,
        transforms=transforms,
        family=family,
        optimizer=optimizer_for(plan, optimizer, one, num_samples, draws),
        num_samples=num_samples,
        draws=draws,
        sample_chunk=sample_chunk,
        resample_every=resample_every,
    )
    num_data = np.broadcast_to(rows.total_weight(), keys.shape)
    state = _start_replicas(start, params, keys, alpha, num_data, num_samples)
    check_schedule(state, plan)
    check_likelihood(replica_of(state, 0), _all_rows(data, data_axis), plan.batch_size)
    run = replica_runner(rows, len(keys), plan.batch_size, data_axis)
    watch = ReplicaWatch(plan, _watches(state, plan, tolerance))
    settings = {"tolerance": tolerance} | budget_of(optimizer, plan)
    start = begin(checkpoint, state, rows, plan, watch, settings)
    state, energies, stopped = train(run, start, plan, watch, progress)
    results = watch.result(state)
    if comes_to_rest(optimizer, state, plan) and at_rest(results, plan):
        with_energies = partial(_at_rest, run, results, rows, plan)
    else:
        with_energies = partial(_with_energies, results, rows, data_axis)
    together, stopped = posterior_at_the_end(with_energies, partial(_posteriors, results), stopped)
    reasons = [watch.reason(replica, state, stopped) for replica in range(len(keys))]
    return _reported(watch, results, together, energies, reasons)


def _reported(
    watch: ReplicaWatch,
    results: FitState,
    together: Posterior,
    energies: np.ndarray,
    reasons: list[str],
) -> list[Posterior]:
    """The posteriors of all replicas with the records of their runs."""
    posteriors = []
    for replica, one in enumerate(watch.watches):
        info = one.info(replica_of(results, replica), energies[replica], reasons[replica])
        posteriors.append(dataclasses.replace(replica_of(together, replica), info=info))
    watch.warn([posterior.info for posterior in posteriors])
    return posteriors


@partial(Compiled, static_argnames=("data_axis",), is_rare=True)
def _with_energies(state: FitState, rows: Rows, data_axis: int | None) -> Posterior:
    def of_replica(state: FitState, energy: Array) -> Posterior:
        return dataclasses.replace(state.posterior(), energy=energy)

    return jax.vmap(of_replica)(state, full_energy_many(state, rows, data_axis))


def _at_rest(run: Callable, state: FitState, rows: Rows, plan: Plan) -> Posterior:
    return dataclasses.replace(_posteriors(state), energy=energy_at_rest(run, state, rows, plan))


_posteriors = jax.vmap(FitState.posterior)


def _watches(state: FitState, plan: Plan, tolerance: float) -> list[Watch]:
    """A watch for every replica."""
    ones = (replica_of(state, replica) for replica in range(len(state.alpha)))
    return [Watch(plan, judge_of(one, plan, tolerance)) for one in ones]


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

    state = jax.vmap(start_one)(*jax.tree.map(jnp.asarray, (params, keys, powers, num_data)))
    layout = state.method.layout
    if layout.is_constrained or isinstance(state.prior, DensityPrior):
        for place in range(len(keys)):  # `init` saw only traced values
            one = jax.tree.map(lambda leaf, place=place: leaf[place], (params, state.prior))
            check_start(one[0], layout, one[1])
    return state


def _all_rows(data: PyTree, data_axis: int | None) -> PyTree:
    """The rows of all replicas, one after another."""
    if data_axis is None:
        return data
    return jax.tree.map(lambda leaf: as_array(leaf).reshape(-1, *np.shape(leaf)[2:]), data)


def _check_replicas(keys: Array, params: PyTree, data: PyTree, data_axis: int | None) -> None:
    if isinstance(data, str | Path) or hasattr(data, "read") or hasattr(data, "get_fragments"):
        raise TypeError(
            f"data must be arrays in memory for replicas; got {type(data).__name__}. "
            "Fit them one after another with bb.fit."
        )
    if data_axis not in (None, 0):
        raise ValueError(f"data_axis must be None or 0; got data_axis={data_axis}.")
    trees = {"params": params} | ({} if data_axis is None else {"data": data})
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
