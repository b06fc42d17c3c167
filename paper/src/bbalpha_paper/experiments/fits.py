"""Fits of the experiments: settings as in JSON, turned into arguments of `bb.fit_many`.

All α of a split and seed share the start, the order of the rows and the noise, so that their
differences are not due to chance.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

import bbalpha as bb
from bbalpha_paper.experiments.plan import Metrics, Run

FAMILIES = {
    "capped": bb.CappedGaussian,  # the authors' code: variances at most the prior's
    "free": bb.DiagonalGaussian,  # the paper's text
}
FALLING = "1e-2 falling to 0"  # a learning rate, along a cosine
FIT_STREAM, START_STREAM, TEST_STREAM = range(3)
TEST_DRAWS = 1000
AUTHORS_DRAWS = 50  # as in the tests of the authors' code
CURVE_DRAWS = 10  # for scores during a long fit


def fit_runs(
    runs: Sequence[Run],
    log_likelihood: Callable[..., Array],
    start: Callable[[Key[Array, ""]], PyTree],
    data: Sequence[PyTree],
    **settings: Any,
) -> list[bb.Posterior]:
    """The posteriors of runs that differ only in split, seed and α.

    Args:
        runs: The runs to fit.
        log_likelihood: As for `bb.fit`.
        start: The means at which q starts, from a key.
        data: The training data of each run, all of the same size.
        **settings: Further arguments of `bb.fit_many`.
    """
    keys = jnp.stack([key_of(run, FIT_STREAM) for run in runs])
    common = runs[0].settings
    num_rows = len(jax.tree.leaves(data[0])[0])
    num_steps = common["num_epochs"] * -(-num_rows // common["batch_size"])
    posteriors = bb.fit_many(
        log_likelihood,
        jax.vmap(start)(jnp.stack([key_of(run, START_STREAM) for run in runs])),
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *data),
        keys=keys,
        alpha=jnp.array([run.alpha for run in runs]),
        data_axis=0,
        num_epochs=common["num_epochs"],
        batch_size=common["batch_size"],
        num_samples=common["num_samples"],
        optimizer=optimizer_of(common["learning_rate"], num_steps),
        family=FAMILIES[common["variance"]],
        progress=False,
        **settings,
    )
    check_ended(posteriors)
    return posteriors


def check_ended(posteriors: Sequence[bb.Posterior]) -> None:
    """Raise `KeyboardInterrupt` if a fit was interrupted, so that no row is made of half a fit."""
    if any(posterior.info.stopped == "interrupted" for posterior in posteriors):
        raise KeyboardInterrupt


def unless_lost(posterior: bb.Posterior, scores: Metrics) -> Metrics:
    """The scores of a posterior, or NaN for each if the energy stopped being finite."""
    if posterior.info.stopped != "non-finite":
        return scores
    return dict.fromkeys(scores, math.nan)


def key_of(run: Run, stream: int) -> Key[Array, ""]:
    """Randomness of a run, the same for every α."""
    key = jax.random.fold_in(jax.random.key(run.seed), run.split)
    return jax.random.fold_in(key, stream)


def optimizer_of(learning_rate: float | str, num_steps: int) -> optax.GradientTransformation:
    """Adam at a constant rate or, for the rate in words, at one that falls over the run."""
    return _adam(learning_rate, num_steps if learning_rate == FALLING else None)


@cache
def _adam(rate: Any, num_steps: int | None) -> optax.GradientTransformation:
    """One object per rate, because compiled programs are cached by it."""
    if num_steps is None:
        return optax.adam(rate)
    return optax.adam(optax.cosine_decay_schedule(1e-2, num_steps))


def mean_of_draws(outputs: Float[Array, "draws ..."]) -> Float[Array, "..."]:
    """The mean over draws: one function for all predictions, because programs are cached by it."""
    return jnp.mean(outputs, axis=0)
