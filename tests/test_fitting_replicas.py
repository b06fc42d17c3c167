"""Replicas: many fits in one program equal the single ones."""

from contextlib import contextmanager

import jax
import jax.numpy as jnp
import numpy as np
from problems.limited_regression import (
    DATA,
    KEY,
    NUM_DATA,
    SETTINGS,
    assert_same_q,
    fit,
    log_likelihood,
)
from problems.probit import KEY as PROBIT_KEY
from problems.probit import fit as fit_probit
from problems.probit import log_likelihood as probit_log_likelihood
from problems.probit import probit_data

import bbalpha as bb


def test_many_fits_equal_the_single_ones():
    """Ten powers with three keys each, in one program and in thirty calls."""
    data = probit_data()
    alphas = np.repeat(np.linspace(-1.0, 1.0, 10), 3)
    keys = jax.random.split(PROBIT_KEY, 30)
    starts = 0.1 * jax.random.normal(PROBIT_KEY, (30, 3))
    together = bb.fit_many(
        probit_log_likelihood, starts, data, keys=keys, alpha=alphas, num_epochs=20, num_samples=10
    )
    for start, alpha, key, replica in zip(starts, alphas, keys, together, strict=True):
        alone = bb.fit(
            probit_log_likelihood, start, data, alpha=alpha, key=key, num_epochs=20, num_samples=10
        )
        for one, other in zip(jax.tree.leaves(alone), jax.tree.leaves(replica), strict=True):
            np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(alone.info.energies, replica.info.energies, rtol=2e-5)


def test_many_fits_on_splits_equal_the_single_ones():
    inputs, labels = probit_data()
    train, _ = bb.splits(50, 3)
    together = bb.fit_many(
        probit_log_likelihood,
        jnp.zeros((3, 3)),
        (inputs[train], labels[train]),
        keys=jax.random.split(PROBIT_KEY, 3),
        data_axis=0,
        num_epochs=20,
        num_samples=10,
    )
    for rows, key, replica in zip(train, jax.random.split(PROBIT_KEY, 3), together, strict=True):
        alone = fit_probit((inputs[rows], labels[rows]), key=key)
        np.testing.assert_allclose(alone.q.mean, replica.q.mean, rtol=2e-5, atol=2e-5)
        np.testing.assert_allclose(alone.energy, replica.energy, rtol=2e-5)


KEYS = jnp.stack([KEY, jax.random.key(4), KEY])
OWN_DATA = tuple(np.stack([leaf] * 3) for leaf in DATA)
OWN_WEIGHTS = np.outer([1.0, 1.0, 0.5], np.ones(NUM_DATA))  # of totals 7, 7, 3.5


def fit_many(params, **settings):
    settings = SETTINGS | {"data_axis": 0, "sample_weight": OWN_WEIGHTS, "keys": KEYS} | settings
    del settings["key"]
    return bb.fit_many(log_likelihood, params, OWN_DATA, **settings)


def test_a_replica_that_is_not_finite_stays_where_it_was_while_the_others_go_on():
    starts = jnp.array([[0.0, 0.0], [2e9, 0.0], [0.0, 0.0]])  # the second beyond the limit
    first, stuck, third = fit_many(starts, alpha=[4.0, 0.5, 0.5])
    assert [p.info.stopped for p in (first, stuck, third)] == ["finished", "non-finite", "finished"]
    assert stuck.info.num_steps == 0
    assert stuck.info.energies == ()
    np.testing.assert_array_equal(stuck.mean, starts[1])
    for replica, settings in [
        (first, {"alpha": 4.0}),
        (third, {"alpha": 0.5, "sample_weight": OWN_WEIGHTS[2]}),
    ]:
        expected = fit(**settings)
        assert_same_q(replica, expected)
        np.testing.assert_allclose(replica.energy, expected.energy, rtol=2e-5)
        np.testing.assert_allclose(replica.info.energies, expected.info.energies, rtol=2e-5)
        assert replica.info.num_steps == 12


def test_replicas_whose_steps_share_noise_equal_the_single_fits():
    """Batches of two make four steps an epoch, so that three with one noise cross its end."""
    settings = {"resample_every": 3, "batch_size": 2}
    replicas = fit_many(jnp.zeros((3, 2)), alpha=[0.0, 0.5, 1.0], **settings)
    for replica, key, alpha, weights in zip(
        replicas, KEYS, [0.0, 0.5, 1.0], OWN_WEIGHTS, strict=True
    ):
        alone = fit(key=key, alpha=alpha, sample_weight=weights, **settings)
        assert_same_q(replica, alone)
        np.testing.assert_allclose(replica.energy, alone.energy, rtol=2e-5)
        np.testing.assert_allclose(replica.info.energies, alone.info.energies, rtol=2e-5)


def test_replicas_none_of_which_is_finite_end_the_run():
    starts = jnp.full((3, 2), 2e9)
    posteriors = fit_many(starts, num_epochs=1_000_000)
    assert [posterior.info.stopped for posterior in posteriors] == ["non-finite"] * 3
    assert [posterior.info.num_steps for posterior in posteriors] == [0] * 3


def test_ctrl_c_returns_every_replica_as_far_as_it_came(monkeypatch):
    @contextmanager
    def interrupting(show, unit, total):
        def interrupt(epochs, status):
            raise KeyboardInterrupt

        yield interrupt

    monkeypatch.setattr("bbalpha.engine.loop.progress_bar", interrupting)
    posteriors = fit_many(jnp.zeros((3, 2)))
    assert [posterior.info.stopped for posterior in posteriors] == ["interrupted"] * 3
    assert all(0 < posterior.info.num_steps < 12 for posterior in posteriors)


def test_posteriors_of_many_fits_can_be_stacked():
    keys = jax.random.split(KEY, 2)
    starts = jnp.zeros((2, 2))
    settings = {name: value for name, value in SETTINGS.items() if name != "key"}
    posteriors = bb.fit_many(log_likelihood, starts, DATA, keys=keys, **settings)
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *posteriors)
    np.testing.assert_array_equal(stacked.q.mean[1], posteriors[1].q.mean)
    assert posteriors[0].info != posteriors[1].info


def test_without_an_optimizer_many_fits_take_that_of_one():
    settings = {name: value for name, value in SETTINGS.items() if name != "key"}
    settings["optimizer"] = None
    (replica,) = bb.fit_many(log_likelihood, jnp.zeros((1, 2)), DATA, keys=KEY[None], **settings)
    alone = bb.fit(log_likelihood, jnp.zeros(2), DATA, key=KEY, **settings)
    np.testing.assert_allclose(replica.mean, alone.mean, rtol=2e-5)
