"""`fit`: from data and a log-likelihood to a posterior, in one call.

The body of `fit` reads as a list of the steps; `planning` has its helpers, `engine/loop` the loop.
"""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from bbalpha.convergence import check_tolerance
from bbalpha.energy import LogLikelihood
from bbalpha.engine.loop import train
from bbalpha.engine.optimizers import Optimizer
from bbalpha.planning import (
    begin,
    budget_of,
    check_schedule,
    comes_to_rest,
    draws_for,
    ending,
    judge_of,
    optimizer_for,
    posterior_at_the_end,
    prepare_anywhere,
    reading,
    runner_of,
    steps_for,
)
from bbalpha.posterior import Posterior
from bbalpha.priors import Prior
from bbalpha.runaway import beyond_numbers
from bbalpha.state import Schedule, check_likelihood
from bbalpha.stopping import Callback, EarlyStopping, Watch, check_early_stopping
from bbalpha.training import Family, by_name, init

TOLERANCE = 0.02  # posterior deviations
LOST = 16.0  # rounding errors of a mean; a smaller deviation explains an energy that is not finite


class NonFiniteEnergyError(ArithmeticError):
    """The energy was no longer finite; `posterior` holds the result of the last finite step."""

    def __init__(self, step: int, posterior: Any):
        self.step = step
        self.posterior = posterior
        super().__init__(
            f"The energy or its gradient became NaN or infinite at step {step}. The attribute "
            f"`posterior` of this error holds the posterior before that step. {_remedy(posterior)}"
        )


def fit(
    log_likelihood: LogLikelihood,
    params: PyTree,
    data: PyTree,
    *,
    key: Key[Array, ""],
    alpha: float | Array | Schedule = 0.5,
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
    sample_weight: Float[Any, " rows"] | None = None,
    early_stopping: EarlyStopping | None = None,
    callback: Callback | None = None,
    checkpoint: Any = None,
    progress: bool = True,
) -> Posterior:
    """The posterior that minimizes the BB-α energy.

    Ctrl-C ends the fit, which then returns the posterior reached so far (with early stopping, the
    best one). Its `info.stopped` is "interrupted" and its energy is NaN.

    Args:
        log_likelihood: one number per data point of a batch, never summed:
            `log_likelihood(params, batch)` or, with hyper-parameters,
            `log_likelihood(params, batch, hyperparams)`. Global variables are read only once, when
            the first fit compiles the function: pass values that change between fits in `data` or
            `hyperparams`, or write a new function.
        params: the initial mean of q; any tree of floating-point arrays.
        data: any pytree of arrays whose first axis is the data points. Or rows that need not fit in
            memory: the path of a .npy file, a Parquet file or a folder of Parquet files;
            memory-mapped arrays; a pyarrow dataset; or a `bb.Source` such as `bb.ParquetRows`.
        key: all randomness of the fit.
        alpha: the power: 0 is variational Bayes, 1 is like expectation propagation. A function from
            the step to the power makes a schedule.
        prior: p₀, in one of four forms: a standard deviation; a function `log_density(params)`,
            which need not be normalized (the energy then lacks the constant); a tree like `params`
            of deviations and functions, where a function is the log-density of its leaf, summed
            over the entries; or a `Distribution` over the free numbers. For a parameter with a
            transform, a deviation is that of its free numbers. Functions take parameters in your
            units; the Jacobian is added.
        learn_prior: learn factors on the prior's variances: True for one per leaf of `params`, or a
            tree like `params` of initial factors, each of a shape that broadcasts to its leaf. For
            weights of shape (units, inputs), `np.ones((units, 1))` gives each unit its own.
        hyperparams: a tree of arrays to learn by minimizing the same energy.
        transforms: the constraints of some parameters, such as `{"scale": bb.positive}`: a
            dictionary nested like `params`, or a tree like `params` with None for unconstrained
            leaves; if `params` is a single array, a single transform. `params`, results and draws
            are in your units; q is over the free numbers that the transforms map to these.
        family: q, as a class such as `bb.FullGaussian`, a function of its mean and the prior, or an
            instance, which is used unchanged. By default `bb.CappedGaussian`; if the prior is given
            by functions, so that its variance is unknown, `bb.DiagonalGaussian`.
        optimizer: "natural" for natural-gradient steps, "adam" for Adam with a rate that starts at
            7e-3 and falls to 0, or any optax optimizer. By default natural gradients, if q has them
            and there are at most 1,000 parameters (100 for a diagonal q), otherwise Adam. The paper
            uses `optax.adam(1e-3)`. Create an optimizer, or a schedule for `alpha`, once and reuse
            it: every new one is compiled again.
        tolerance: the fit ends when natural-gradient steps have converged, that is, when means and
            deviations are known to within this many posterior deviations.
        num_epochs: the most passes over the data; by default as many as make 10,000 steps.
        batch_size: |S|. By default 32; for natural gradients all rows up to 1,048,576 rows (and
            64 MiB, if they do not come from arrays in memory), and 8,192 beyond.
        num_samples: K, the draws of q per minibatch. By default 100; for natural gradients up to
            512, so that they can be matched, or as few as 32 from 84,000 rows on.
        draws: how the noise is drawn: "independent"; "antithetic", in pairs of opposite sign;
            "matched", in pairs whose covariance is the identity; "sobol", in pairs of quasi-random
            numbers. By default matched for natural gradients, otherwise independent. All except
            independent need a family whose noise is Gaussian.
        sample_chunk: the number of draws to hold in memory; chosen from the shapes by default.
        resample_every: M, the number of steps that share the same noise.
        sample_weight: how many data points each row stands for; 1 by default. Only for arrays.
        early_stopping: held-out data that decide when to stop.
        callback: called after every epoch with the state and the record of the run; if it returns a
            true value, the fit ends.
        checkpoint: a folder, or a `bb.Checkpoint`, in which to save the run every ten seconds and
            at its end. If the run is cut off, the same call continues it and gives the result of an
            uninterrupted run; if it had ended, the call returns at once. SIGTERM saves the run
            before it ends the process.
        progress: show a progress bar on a terminal.

    Raises:
        ValueError: if an argument breaks its rule; the message shows its value.
        TypeError: if an argument is of the wrong kind.
        NonFiniteEnergyError: if the energy stops being finite.
        SourceError: if rows cannot be read or are not finite; it holds the result so far.

    >>> def log_likelihood(mean, batch):
    ...     return jax.scipy.stats.norm.logpdf(batch, mean)
    >>> data = jnp.array([0.5, 1.5, 2.5])  # with prior N(0, 1) the exact posterior is N(1.125, ¼)
    >>> posterior = bb.fit(log_likelihood, jnp.zeros(()), data, alpha=0.0, key=jax.random.key(0))
    >>> print(f"{posterior.mean:.1f} ± {posterior.variance**0.5:.1f}")
    1.1 ± 0.5
    """
    check_tolerance(tolerance)
    optimizer = by_name(optimizer, family, params, prior, transforms)
    rows, plan, sample = prepare_anywhere(data, sample_weight, optimizer, batch_size, num_epochs)
    num_samples = draws_for(optimizer, params, num_samples, plan.batch_size)
    state = init(
        log_likelihood,
        params,
        num_data=float(rows.total_weight()),
        key=key,
        alpha=alpha,
        prior=prior,
        learn_prior=learn_prior,
        hyperparams=hyperparams,
        transforms=transforms,
        family=family,
        optimizer=optimizer_for(plan, optimizer, params, num_samples, draws),
        num_samples=num_samples,
        draws=draws,
        sample_chunk=sample_chunk,
        resample_every=resample_every,
    )
    check_schedule(state, plan)
    check_likelihood(state, sample, plan.batch_size)
    if early_stopping is not None:
        check_early_stopping(state, early_stopping)
    watch = Watch(plan, judge_of(state, plan, tolerance), early_stopping, callback)
    settings = {"tolerance": tolerance} | budget_of(optimizer, plan)
    start = begin(checkpoint, state, rows, plan, watch, settings)
    steps = steps_for(plan, optimizer, params, num_samples)
    run, rows, plan = runner_of(steps, rows, plan, start.team)
    end = ending(run, rows, plan, start, comes_to_rest(optimizer, state, plan))
    with reading(rows, start):
        state, energies, stopped = train(run, start, plan, watch, progress)
        state = watch.result(state, stopped)
        posterior, stopped = posterior_at_the_end(partial(end, state), state.posterior, stopped)
    posterior = dataclasses.replace(posterior, info=watch.info(state, energies, stopped))
    if stopped == "non-finite":
        raise NonFiniteEnergyError(int(state.step), posterior)
    watch.warn(posterior.info)
    return posterior


def _remedy(posterior: Any) -> str:
    """Advice for an energy that is not finite, which depends on whether q has run away."""
    general = "A smaller learning rate, or alpha annealed from 0, often helps."
    if not isinstance(posterior, Posterior):
        return general
    q = posterior.q
    with np.errstate(divide="ignore"):
        log_deviation = 0.5 * np.log(np.asarray(q.variance))
    runaway = beyond_numbers(q.mean, log_deviation, LOST)
    if not runaway:
        return general
    return f"There {runaway.reason(posterior.layout)}"
