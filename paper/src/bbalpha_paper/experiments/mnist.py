"""A network for handwritten digits: Table 2, Section 4.3.

The paper's schedule takes days on two cores. The short one has a fifth of the epochs at five times
the rate, so that q's variances can move as far, and a fifth of the draws.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

import bbalpha as bb
from bbalpha_paper.experiments.fits import (
    AUTHORS_DRAWS,
    CURVE_DRAWS,
    START_STREAM,
    TEST_DRAWS,
    TEST_STREAM,
    key_of,
    unless_lost,
)
from bbalpha_paper.experiments.long_fit import fit_long
from bbalpha_paper.experiments.plan import Bench, Configuration, Experiment, Metrics, Run
from bbalpha_paper.experiments.problems import load_problem, split_of

NUM_CLASSES = 10

PAPER = Configuration(
    name="paper's schedule",
    datasets=("mnist",),
    alphas=(1.0, 0.5, 1e-6, 0.0, -1.0),
    num_seeds=20,
    settings={
        "hidden": [400, 400],
        "variance": "capped",
        "num_samples": 50,
        "resample_every": 10,
        "batch_size": 250,
        "num_epochs": 250,
        "learning_rate": 1e-4,
    },
)
SHORT = replace(PAPER, num_seeds=1).changed(
    "short schedule", num_samples=10, num_epochs=50, learning_rate=5e-4
)
CONFIGURATIONS = {
    "smoke": (
        replace(SHORT, datasets=("digits",)).changed(
            hidden=[20, 20], num_epochs=2, num_samples=4, learning_rate=1e-2
        ),
    ),
    "quick": (SHORT,),
    "paper": (PAPER,),
}


def measure(runs: Sequence[Run], bench: Bench) -> list[Metrics]:
    """Test log-likelihood and error of a single run, with learning curves."""
    (run,) = runs
    train, test = split_of(run.dataset, run.split)
    sizes = (train.inputs.shape[1], *run.settings["hidden"], NUM_CLASSES)
    params = bb.init_mlp(sizes, key=key_of(run, START_STREAM), scheme="glorot")
    score = partial(_scores, run, test, num_samples=CURVE_DRAWS)
    posterior, curves = fit_long(run, log_likelihood, params, train, score, bench)
    few = _scores(run, test, posterior, AUTHORS_DRAWS)
    scores = {
        **_scores(run, test, posterior, TEST_DRAWS),
        "log_likelihood_50": few["log_likelihood"],
        "error_50": few["error"],
        "energy": float(posterior.energy),
    }
    return [{**unless_lost(posterior, scores), **curves}]


def log_likelihood(params: PyTree, batch: bb.Dataset) -> Float[Array, " batch"]:
    """Return log p(yₙ) of a softmax over the outputs of the network."""
    return bb.Categorical().log_prob(bb.mlp(params, batch.inputs), batch.targets)


def log_probabilities(params: PyTree, inputs: Array) -> Float[Array, "rows classes"]:
    """The log-probability of every class."""
    return jax.nn.log_softmax(bb.mlp(params, inputs))


def _log_mean_exp(log_values: Float[Array, "draws rows classes"]) -> Float[Array, "rows classes"]:
    return jax.nn.logsumexp(log_values, axis=0) - math.log(len(log_values))


def _scores(
    run: Run, test: bb.Dataset, posterior: bb.Posterior, num_samples: int
) -> dict[str, float]:
    predicted = posterior.predict(
        log_probabilities,
        test.inputs,
        key=key_of(run, TEST_STREAM),
        num_samples=num_samples,
        summary=_log_mean_exp,
    )
    labels = np.asarray(test.targets)
    return {
        "log_likelihood": float(np.mean(np.asarray(predicted)[np.arange(len(labels)), labels])),
        "error": bb.metrics.error_rate(jnp.exp(predicted), labels),
    }


EXPERIMENT = Experiment(
    name="mnist",
    configurations=CONFIGURATIONS,
    measure=measure,
    load=load_problem,
)
