"""Fits of the experiments: settings in JSON's kinds made into arguments of `fit_many`.

All α of a split and seed share their start, the order of their rows and their noise, so that their
differences are not those of chance.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from bbalpha_paper.experiments.plan import Metrics, Run
from bbalpha.distributions import CappedGaussian, DiagonalGaussian
from bbalpha.fitting import fit_many
from bbalpha.engine.optimizers import Optimizer, adam
from bbalpha.posterior import Posterior

FAMILIES = {
    "capped": CappedGaussian.init,  # the authors' code: by the prior's variance
    "free": DiagonalGaussian.init,  # the paper's text
}
FALLING = "1e-2 falling to 0"  # a learning rate: the default of `fit`
FIT_STREAM, START_STREAM, TEST_STREAM = range(3)
TEST_DRAWS = 1000
AUTHORS_DRAWS = 50  # with which their code tests
CURVE_DRAWS = 10  # with which a long fit is looked at along the way


def fit_runs(
    runs: Sequence[Run],
    log_likelihood: Callable[..., Array],
    start: Callable[[Key[Array, ""]], PyTree],
    data: Sequence[PyTree],
    **settings: Any,
) -> list[Posterior]:
    """The posteriors of runs that differ in split, seed and α only.

    Args:
        runs: What is fitted.
        log_likelihood: as for `fit`.
        start: the means at which q starts, from a key.
        data: the training data of each run, all of one size.
        **settings: further arguments of `fit_many`.
    """
    keys = jnp.stack([key_of(run, FIT_STREAM) for run in runs])
    common = runs[0].settings
    posteriors = fit_many(
        log_likelihood,
        jax.vmap(start)(jnp.stack([key_of(run, START_STREAM) for run in runs])),
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *data),
        keys=keys,
        alpha=jnp.array([run.alpha for run in runs]),
        data_axis=0,
        num_epochs=common["num_epochs"],
        batch_size=common["batch_size"],
        num_samples=common["num_samples"],
        optimizer=optimizer_of(common["learning_rate"]),
        family=FAMILIES[common["variance"]],
        progress=False,
        **settings,
    )
    check_ended(posteriors)
    return posteriors


def check_ended(posteriors: Sequence[Posterior]) -> None:
    """Pass on the interruption that a fit ended with, lest its result be taken for a whole one."""
    if any(posterior.info.stopped == "interrupted" for posterior in posteriors):
        raise KeyboardInterrupt


def unless_lost(posterior: Posterior, scores: Metrics) -> Metrics:
    """The scores of a posterior, NaN where its energy stopped being finite."""
    if posterior.info.stopped != "non-finite":
        return scores
    return dict.fromkeys(scores, math.nan)


def key_of(run: Run, stream: int) -> Key[Array, ""]:
    """Randomness of a run, the same for every α."""
    key = jax.random.fold_in(jax.random.key(run.seed), run.split)
    return jax.random.fold_in(key, stream)


def optimizer_of(learning_rate: float | str) -> Optimizer | None:
    """Adam at a rate; for a rate in words None, the default of `fit`."""
    return None if isinstance(learning_rate, str) else adam(learning_rate)


def mean_of_draws(outputs: Float[Array, "draws ..."]) -> Float[Array, "..."]:
    """The mean over draws: one function for all predictions, since programs are cached by it."""
    return jnp.mean(outputs, axis=0)
