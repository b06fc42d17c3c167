"""A long fit that was killed continues from its checkpoint to the same result."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha_paper.experiments import long_fit
from bbalpha_paper.experiments.plan import Bench, Run

NUM_EPOCHS = 4
RUN = Run(
    dataset="line",
    configuration="main",
    split=0,
    seed=0,
    alpha=0.5,
    settings={
        "variance": "capped",
        "num_samples": 4,
        "resample_every": 3,
        "batch_size": 4,
        "num_epochs": NUM_EPOCHS,
        "learning_rate": 1e-2,
    },
)
INPUTS = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)  # two batches and a half
DATA = bb.Dataset(INPUTS, INPUTS @ np.array([1.0, -2.0], np.float32))
CURVES = {"epochs", "curve_energy", "curve_slope"}


class Killed(Exception):
    pass


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch):
    monkeypatch.setattr(long_fit, "SECONDS", 0.0)


def log_likelihood(weights, batch):
    return jax.scipy.stats.norm.logpdf(batch.targets, batch.inputs @ weights)


def fitted(checkpoint, run=RUN, killed_after=1.0, likelihood=log_likelihood):
    """The posterior, the curves, and the bench of a fit, whose parts are counted."""
    bench = Bench(Path(checkpoint), lambda part: None)
    bench.parts = []

    def advance(part):
        bench.parts.append(part)
        if part > killed_after:
            raise Killed

    bench.advance = advance

    def score(posterior):
        return {"slope": float(posterior.q.mean[0])}

    found = long_fit.fit_long(run, likelihood, jnp.zeros(2), DATA, score, bench)
    return *found, bench


def results(posterior, curves):
    return [*map(np.asarray, jax.tree.leaves(posterior)), *curves.values()]


def test_a_killed_fit_continues_from_its_checkpoint_to_the_same_result(tmp_path):
    undisturbed, curves, bench = fitted(tmp_path / "undisturbed")
    assert bench.parts == [0.25, 0.5, 0.75, 1.0]
    with pytest.raises(Killed):
        fitted(tmp_path / "killed", killed_after=0.5)
    continued, same_curves, bench = fitted(tmp_path / "killed")
    assert bench.parts == [0.75, 1.0]
    assert bench.earlier > 0.0
    assert set(curves) == CURVES
    for first, second in zip(
        results(undisturbed, curves), results(continued, same_curves), strict=True
    ):
        np.testing.assert_array_equal(first, second)


OTHERS = [
    replace(RUN, seed=1),
    replace(RUN, alpha=0.0),
    replace(RUN, settings={**RUN.settings, "num_epochs": 5}),
]


@pytest.mark.parametrize("other", OTHERS, ids=["seed", "alpha", "settings"])
def test_the_checkpoint_of_another_run_is_not_used(tmp_path, other):
    fitted(tmp_path / "checkpoint", run=other)
    _, _, bench = fitted(tmp_path / "checkpoint")
    assert len(bench.parts) == NUM_EPOCHS


def test_curves_hold_the_energies_of_the_fit_and_the_scores_of_its_posteriors(tmp_path):
    posterior, curves, _ = fitted(tmp_path / "checkpoint")
    assert curves["epochs"] == [1, 2, 3, 4]
    assert curves["curve_energy"] == list(posterior.info.energies)
    assert curves["curve_slope"][-1] == float(posterior.q.mean[0])


def test_a_fit_whose_energy_is_lost_says_so(tmp_path):
    def lost(weights, batch):
        return jnp.log(batch.inputs[:, 0] - 100.0) + 0.0 * weights.sum()

    posterior, curves, _ = fitted(tmp_path / "checkpoint", likelihood=lost)
    assert posterior.info.stopped == "non-finite"
    assert curves == {}
