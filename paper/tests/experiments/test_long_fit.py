"""A long fit that was killed continues from its checkpoint to the same result."""

from dataclasses import replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha_paper.experiments import long_fit
from bbalpha_paper.experiments.fits import FIT_STREAM, ORDER_STREAM, key_of, optimizer_of
from bbalpha_paper.experiments.minibatches import minibatches
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


@pytest.fixture
def epochs(monkeypatch):
    """A list that grows with every epoch."""
    begun = []
    run_epoch = long_fit.run_epoch
    monkeypatch.setattr(long_fit, "run_epoch", lambda *args: begun.append(1) or run_epoch(*args))
    return begun


def log_likelihood(weights, batch):
    return jax.scipy.stats.norm.logpdf(batch.targets, batch.inputs @ weights)


def fitted(checkpoint, run=RUN, advance=lambda part: None, likelihood=log_likelihood):
    """The posterior, the curves, and the bench of a fit."""
    bench = Bench(Path(checkpoint), advance)

    def score(posterior):
        return {"slope": float(posterior.q.mean[0])}

    found = long_fit.fit_long(run, likelihood, jnp.zeros(2), DATA, score, bench)
    return *found, bench


def killing(part):
    if part > 0.5:
        raise Killed


def results(posterior, curves):
    return [*map(np.asarray, jax.tree.leaves(posterior)), *curves.values()]


def test_a_killed_fit_continues_from_its_checkpoint_to_the_same_result(tmp_path, epochs):
    undisturbed, curves, _ = fitted(tmp_path / "undisturbed")
    assert len(epochs) == NUM_EPOCHS
    with pytest.raises(Killed):
        fitted(tmp_path / "killed", advance=killing)
    epochs.clear()
    continued, same_curves, bench = fitted(tmp_path / "killed")
    assert len(epochs) == NUM_EPOCHS // 2 - 1
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
def test_the_checkpoint_of_another_run_is_not_used(tmp_path, epochs, other):
    fitted(tmp_path / "checkpoint", run=other)
    epochs.clear()
    fitted(tmp_path / "checkpoint")
    assert len(epochs) == NUM_EPOCHS


@pytest.mark.parametrize("content", [b"", b"[]\n"])
def test_a_checkpoint_of_another_form_is_not_used(tmp_path, epochs, content):
    (tmp_path / "checkpoint").write_bytes(content)
    fitted(tmp_path / "checkpoint")
    assert len(epochs) == NUM_EPOCHS


def start(**settings):
    return bb.init(
        log_likelihood,
        jnp.zeros(2),
        num_data=10,
        key=key_of(RUN, FIT_STREAM),
        alpha=0.5,
        num_samples=4,
        resample_every=3,
        **settings,
    )


def test_a_long_fit_is_steps_over_the_minibatches_of_each_epoch(tmp_path):
    posterior, curves, _ = fitted(tmp_path / "checkpoint")
    state, step = start(optimizer=optimizer_of(1e-2)), jax.jit(bb.step)
    for epoch in range(NUM_EPOCHS):
        key = jax.random.fold_in(key_of(RUN, ORDER_STREAM), epoch)
        energy = 0.0
        for rows, weights in zip(*minibatches(key, 10, 4), strict=True):
            batch = bb.Dataset(*(jnp.asarray(leaf)[rows] for leaf in DATA))
            state, info = step(state, batch, weights)
            energy += float(info.energy * (weights > 0).sum() / 10)
        assert curves["epochs"][epoch] == epoch + 1
        assert curves["curve_energy"][epoch] == pytest.approx(energy, rel=2e-5)
        assert curves["curve_slope"][epoch] == pytest.approx(float(state.variables.q.mean[0]))
    np.testing.assert_allclose(posterior.q.mean, state.posterior().q.mean, rtol=2e-5)


def test_the_energy_is_of_all_data_with_the_draws_of_the_next_step(tmp_path):
    posterior, _, _ = fitted(tmp_path / "checkpoint")
    state = start(family=lambda mean, prior: posterior.q)
    state = replace(state, step=jnp.asarray(3 * NUM_EPOCHS))
    expected = state.energy(jax.tree.map(jnp.asarray, DATA))
    np.testing.assert_allclose(posterior.energy, expected, rtol=2e-5)


def test_a_fit_whose_energy_is_lost_says_so(tmp_path):
    def lost(weights, batch):
        return jnp.log(batch.inputs[:, 0] - 100.0) + 0.0 * weights.sum()

    posterior, curves, _ = fitted(tmp_path / "checkpoint", likelihood=lost)
    assert posterior.info.stopped == "non-finite"
    assert curves == {}
