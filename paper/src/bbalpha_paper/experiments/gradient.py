"""Bias and variance of the gradient: Tables 4 and 5, Section 4.5.

The power mean of K draws is biased, and so is its gradient. At the point that a network reaches
after 100 epochs, the gradient with few draws is compared with the gradient with 10,000 draws, on
each minibatch of an epoch.

The bias in the paper is mostly noise, which the paper removes by subtracting the value at α = 0,
where there is no bias. The rows hold that figure as it is, and one without noise: blocks of draws
are cut into groups of K, and the difference between the mean gradient of the groups and the
gradient of the block has as its mean the bias of K draws minus the bias of a block, which is a
hundredth of it for K = 10. Nearly all noise is linear in the draws and cancels; at α = 0 nothing is
left. The inner product of the differences of two blocks is an unbiased estimate of the squared
norm.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, Key, PyTree

import bbalpha as bb
from bbalpha_paper.experiments.fits import TEST_STREAM, fit_runs, key_of, unless_lost
from bbalpha_paper.experiments.minibatches import minibatches
from bbalpha_paper.experiments.plan import Bench, Configuration, Experiment, Metrics, Run
from bbalpha_paper.experiments.problems import load_problem, split_of
from bbalpha_paper.experiments.regression import log_likelihood

DRAWS_AT_ONCE = 10  # in memory: few, so that they fit into the cache of a core

PAPER = Configuration(
    name="authors' code",
    datasets=("boston",),
    alphas=(1.0, 0.5, 1e-6, 0.0),
    num_splits=50,
    settings={
        "hidden": 100,
        "variance": "capped",
        "num_samples": 50,  # in training
        "batch_size": 32,
        "num_epochs": 100,
        "learning_rate": 1e-3,
        "compared_samples": [1, 5, 10],
        "repetitions": 1000,
        "reference_samples": 10_000,
        "blocks": 10,
        "block_samples": 1000,  # a multiple of each number of samples compared
    },
    together=4,
)
CONFIGURATIONS = {
    "smoke": (
        replace(PAPER, datasets=("diabetes",), num_splits=1).changed(
            hidden=10,  # like the regression, so that both share the program of the fit
            num_samples=10,
            num_epochs=4,
            compared_samples=[1, 10],
            repetitions=50,
            reference_samples=500,
            blocks=4,
            block_samples=500,  # as many as the reference, so that both share one program
        ),
    ),
    "quick": (replace(PAPER, num_splits=1),),
    "paper": (PAPER,),
}


class Batches(NamedTuple):
    """The minibatches of an epoch, and how many data points each row of them stands for."""

    data: PyTree
    weights: Float[Array, "batches size"]


class Moments(NamedTuple):
    """Mean and mean square of the gradient on each minibatch, over repetitions."""

    mean: Float[Array, "batches dimensions"]
    square: Float[Array, "batches dimensions"]


def measure(runs: Sequence[Run], bench: Bench) -> list[Metrics]:
    """Bias and deviation of the gradient at the point that each run reaches."""
    train = [_standardized(run) for run in runs]
    sizes = (train[0].inputs.shape[1], runs[0].settings["hidden"], 1)

    def start(key: Key[Array, ""]) -> PyTree:
        return bb.init_mlp(sizes, key=key)

    posteriors = fit_runs(runs, log_likelihood, start, train, hyperparams=bb.Gaussian())
    metrics = []
    for run, posterior, data in zip(runs, posteriors, train, strict=True):
        order_key, draws_key = jax.random.split(key_of(run, TEST_STREAM))
        # At α = 1e-6 the bias is below the rounding errors of single precision.
        with jax.enable_x64(True):
            state = _state(run, posterior)
            batches = _batches(order_key, data, run.settings["batch_size"])
            found = bias_and_deviation(log_likelihood, state, batches, draws_key, run.settings)
        metrics.append(unless_lost(posterior, found))
        bench.advance(len(metrics) / len(runs))
    return metrics


def bias_and_deviation(
    log_likelihood: Callable[..., Array],
    state: bb.FitState,
    batches: Batches,
    key: Key[Array, ""],
    settings: Mapping[str, Any],
) -> Metrics:
    """Bias and deviation of the gradient, per dimension, for each number of samples compared.

    With g_K the gradient of the energy with K draws and D its dimension, the lists are

        bias            mean over batches of ‖ḡ_K − g‖/√D: ḡ_K over repetitions, g the reference
        denoised_bias   estimate of the mean over batches of ‖E[g_K] − E[g_block]‖/√D
        denoised_error  its standard error
        deviation       √(mean over dimensions of the variance of g_K over batches, repetitions)

    Args:
        log_likelihood: As for `bb.fit`.
        state: The variables at which to take the gradient, and α.
        batches: The minibatches.
        key: Randomness of the draws, which all minibatches share.
        settings: Numbers of samples, repetitions and blocks.
    """
    moments = partial(gradient_moments, log_likelihood, state, batches)
    noisy_key, reference_key, blocks_key = jax.random.split(key, 3)
    reference = moments(reference_key, 1, settings["reference_samples"]).mean
    blocks = jax.random.split(blocks_key, settings["blocks"])
    block_samples = settings["block_samples"]
    of_blocks = [moments(block, 1, block_samples).mean for block in blocks]
    columns = []
    for num_samples in settings["compared_samples"]:
        noisy_stream = jax.random.fold_in(noisy_key, num_samples)
        noisy = moments(noisy_stream, settings["repetitions"], num_samples)
        differences = [
            moments(block, block_samples // num_samples, num_samples).mean - of_block
            for block, of_block in zip(blocks, of_blocks, strict=True)
        ]
        columns.append(
            {
                "num_samples": num_samples,
                "bias": float(np.mean(_root_mean_square(noisy.mean - reference))),
                **_common_norm(np.asarray(differences)),
                "deviation": _deviation(noisy),
            }
        )
    return {name: [column[name] for column in columns] for name in columns[0]}


@partial(jax.jit, static_argnames=("log_likelihood", "num_samples"))
def gradient_moments(
    log_likelihood: Callable[..., Array],
    state: bb.FitState,
    batches: Batches,
    key: Key[Array, ""],
    num_repetitions: int | Int[Array, ""],
    num_samples: int,
) -> Moments:
    """Moments of the gradient with K draws, on each minibatch.

    Repetition r uses the draws rK, …, rK + K − 1 of the key's stream, so that the same draws can
    be taken in groups of any size.
    """
    together = max(1, DRAWS_AT_ONCE // num_samples)
    num_dimensions = ravel_pytree(state.variables)[0].size

    def add(turn: Int[Array, ""], sums: Moments) -> Moments:
        repetitions = turn * together + jnp.arange(together)
        draws = turn * together * num_samples + jnp.arange(together * num_samples)
        noise = _noise(state, key, draws).reshape(together, num_samples, -1)
        is_real = (repetitions < num_repetitions)[:, None]

        def of_batch(batch: Batches) -> Moments:
            gradient = partial(_gradient, log_likelihood, state, batch)
            gradients = jax.vmap(gradient)(noise)
            gradients = jnp.where(is_real, gradients, 0.0)
            return Moments(gradients.sum(axis=0), jnp.square(gradients).sum(axis=0))

        return jax.tree.map(jnp.add, sums, jax.lax.map(of_batch, batches))

    zeros = jnp.zeros((len(batches.weights), num_dimensions), state.alpha.dtype)
    num_turns = -(-num_repetitions // together)
    sums = jax.lax.fori_loop(0, num_turns, add, Moments(zeros, zeros))
    return jax.tree.map(lambda total: total / num_repetitions, sums)


def _standardized(run: Run) -> bb.Dataset:
    train = split_of(run.dataset, run.split).train
    return bb.Dataset(bb.standardize(train.inputs)[0], bb.standardize(train.targets)[0])


def _state(run: Run, posterior: bb.Posterior) -> bb.FitState:
    """The state at the end of a run, in double precision."""
    params, hyperparams, q, prior = jax.tree.map(
        lambda leaf: leaf.astype(float),
        (posterior.mean, posterior.hyperparams, posterior.q, posterior.prior),
    )
    return bb.init(
        log_likelihood,
        params,
        num_data=float(posterior.num_data),
        key=key_of(run, TEST_STREAM),
        alpha=run.alpha,
        prior=prior,
        hyperparams=hyperparams,
        family=TRAINED[run.settings["variance"]](q, prior),
    )


def _capped(q: bb.DiagonalGaussian, prior: bb.DiagonalGaussian) -> bb.CappedGaussian:
    """The Gaussian in terms of the variables that were trained."""
    log_fraction = q.log_variance - prior.log_variance  # log sigmoid(ρ)
    return bb.CappedGaussian(q.mean, log_fraction - jnp.log(-jnp.expm1(log_fraction)))


TRAINED: dict[str, Callable[..., Any]] = {"capped": _capped, "free": lambda q, prior: q}


def _batches(key: Key[Array, ""], data: bb.Dataset, batch_size: int) -> Batches:
    rows, weights = minibatches(key, len(data.targets), batch_size)
    return Batches(jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], data), weights)


def _noise(
    state: bb.FitState, key: Key[Array, ""], draws: Int[Array, " draws"]
) -> Float[Array, "draws params"]:
    """The noise of some draws of a stream, in single precision, which is much faster to draw."""
    shape = state.variables.q.mean.shape

    def draw(number: Int[Array, ""]) -> Float[Array, " params"]:
        return jax.random.normal(jax.random.fold_in(key, number), shape, jnp.float32)

    return jax.vmap(draw)(draws).astype(state.alpha.dtype)


def _gradient(
    log_likelihood: Callable[..., Array],
    state: bb.FitState,
    batch: Batches,
    noise: Float[Array, "draws params"],
) -> Float[Array, " dimensions"]:
    """The gradient of the energy with respect to q's two vectors and the hyper-parameters."""

    def energy_of(variables: Any) -> Float[Array, ""]:
        posterior = replace(state, variables=variables).posterior()
        return bb.alpha_energy(
            log_likelihood,
            posterior.q,
            posterior.prior,
            batch.data,
            noise,
            alpha=state.alpha,
            num_data=state.num_data,
            layout=posterior.layout,
            hyperparams=posterior.hyperparams,
            weights=batch.weights,
            sample_chunk=DRAWS_AT_ONCE,
        )

    return ravel_pytree(jax.grad(energy_of)(state.variables))[0]


def _root_mean_square(vectors: Array) -> np.ndarray:
    return np.sqrt(np.mean(np.square(vectors), axis=-1))


def _common_norm(estimates: np.ndarray) -> Metrics:
    """The norm of the mean of independent estimates, and its jackknife standard error."""
    norms = [_cross_norm(np.delete(estimates, block, axis=0)) for block in range(len(estimates))]
    return {
        "denoised_bias": _cross_norm(estimates),
        "denoised_error": float(np.sqrt((len(norms) - 1) * np.var(norms))),
    }


def _cross_norm(estimates: np.ndarray) -> float:
    """Mean over batches of ‖E[estimate]‖/√D, from axes (estimates, batches, dimensions).

    The mean of ⟨xᵢ, xⱼ⟩ over i ≠ j is an unbiased estimate of ‖E[x]‖². It can be negative if there
    is only noise; then its root counts as negative, because a 0 would be too large on average.
    """
    num = len(estimates)
    of_sum = np.mean(np.square(estimates.sum(axis=0)), axis=-1)
    of_each = np.mean(np.square(estimates), axis=-1).sum(axis=0)
    squares = (of_sum - of_each) / (num * (num - 1))
    return float(np.mean(np.sign(squares) * np.sqrt(np.abs(squares))))


def _deviation(noisy: Moments) -> float:
    """The root of the mean variance over batches and repetitions."""
    mean, square = (np.mean(moment, axis=0) for moment in noisy)
    return float(np.sqrt(np.mean(square - np.square(mean))))


EXPERIMENT = Experiment(
    name="gradient",
    configurations=CONFIGURATIONS,
    measure=measure,
    load=load_problem,
)
