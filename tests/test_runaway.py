"""Fits that cannot converge stop early and say which parameters run away."""

import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy import stats

import bbalpha as bb
from bbalpha.runaway import STEADY_CHANGE, beyond_numbers, names, steady_change

KEY = jax.random.key(0)
LAYOUT = bb.Layout.of({"bias": jnp.zeros(()), "weights": jnp.zeros((2, 2))})


def test_parameters_are_named_as_in_a_summary():
    def named(*chosen):
        return names(LAYOUT, np.isin(np.arange(5), chosen))

    assert named(0) == "bias"
    assert named(2, 3) == "weights[0, 1], weights[1, 0]"
    assert named(1, 2, 3, 4) == "weights"
    wide = bb.Layout.of(jnp.zeros(9))
    assert names(wide, np.arange(9) > 3) == "params[4], params[5], params[6] and 2 more"


@pytest.mark.parametrize(("dtype", "limit"), [(np.float32, 29.5), (np.float64, 236.0)])
def test_a_deviation_must_leave_room_for_its_cube(dtype, limit):
    log_deviations = np.array([0.99, 1.01, -0.99, -1.01]) * limit
    found = beyond_numbers(np.zeros(4, dtype), log_deviations)
    assert found.grows.tolist() == [False, True, False, False]
    assert found.shrinks.tolist() == [False, False, False, True]


def test_a_deviation_must_be_visible_beside_its_mean():
    eps = np.finfo(np.float32).eps
    found = beyond_numbers(np.full(2, -100, np.float32), np.log([90 * eps, 110 * eps]))
    assert found.shrinks.tolist() == [True, False]


def test_a_steady_change_is_told_from_a_change_that_fades():
    time = np.arange(40)[:, None] / 10  # in quarters of the run
    steady = 1.1 * STEADY_CHANGE * time
    fades = 10 * (1 - np.exp(-time))
    returns = 5 * np.sin(time)
    found = steady_change(np.hstack([steady, -steady, fades, returns, 0.9 * steady]))
    assert found.grows.tolist() == [True, False, False, False, False]
    assert found.shrinks.tolist() == [False, True, False, False, False]


def logistic(weights, batch):
    inputs, signs = batch
    return jax.nn.log_sigmoid(signs * (inputs @ weights))


def flat(params):
    return 0.0 * sum(jnp.sum(leaf) for leaf in jax.tree.leaves(params))


def rows(num_wrong):
    """Points on both sides of a plane, at least half a unit from it; some are mislabeled."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(60, 3))
    signs = np.sign(inputs.sum(axis=1))
    inputs += 0.5 * signs[:, None] / np.sqrt(3)
    signs[:num_wrong] *= -1
    return inputs.astype(np.float32), signs.astype(np.float32)


def fit(log_likelihood, params, data, **settings):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = bb.fit(log_likelihood, params, data, **{"key": KEY} | settings)
    return posterior, "".join(str(warning.message) for warning in caught)


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_separable_data_under_a_flat_prior_diverge(alpha):
    posterior, warning = fit(logistic, jnp.zeros(3), rows(0), prior=flat, alpha=alpha)
    assert posterior.info.stopped == "diverged"
    assert not posterior.info.converged
    assert posterior.info.num_steps < 2000  # of 10,000
    assert warning.startswith("fit did not converge: the deviations of params")
    assert "grow without end" in warning


def test_one_wrong_label_gives_the_same_model_an_optimum():
    """At α = 0: a label on the wrong side costs in proportion to the distance."""
    posterior, warning = fit(logistic, jnp.zeros(3), rows(1), prior=flat, alpha=0.0)
    assert posterior.info.stopped == "converged"
    assert not warning


def undetermined(params, batch):
    return stats.norm.logpdf(batch, params["seen"]) + 0.0 * params["unseen"]


TARGETS = np.linspace(-1, 1, 30).astype(np.float32)


def test_a_parameter_that_the_data_do_not_determine_is_named():
    start = {"seen": jnp.zeros(()), "unseen": jnp.zeros(())}
    posterior, warning = fit(undetermined, start, TARGETS, prior=flat)
    assert posterior.info.stopped == "diverged"
    assert posterior.info.num_steps < 200
    assert "the deviations of unseen grow without end" in warning
    posterior, warning = fit(undetermined, start, TARGETS)  # under the default prior
    assert posterior.info.converged
    np.testing.assert_allclose(posterior.variance["unseen"], 1.0, rtol=0.03)


def test_replicas_that_run_away_are_counted_and_one_is_explained():
    def some_determined(params, batch):
        targets, sees = batch
        return stats.norm.logpdf(targets, params["seen"] + sees * params["unseen"])

    targets, half = np.stack([TARGETS, TARGETS]), np.arange(30) % 2
    sees, keys = np.stack([half, 0 * half]).astype(np.float32), jax.random.split(KEY, 2)
    start = {"seen": jnp.zeros(2), "unseen": jnp.zeros(2)}
    with pytest.warns(bb.ConvergenceWarning, match="1 of 2 .* In replica 1, the dev.* of unseen g"):
        first, second = bb.fit_many(
            some_determined,
            start,
            (targets, sees),
            data_axis=0,
            keys=keys,
            prior=flat,
        )
    assert first.info.stopped == "converged"
    assert second.info.stopped == "diverged"
    assert second.info.num_steps < first.info.num_steps
    one = jax.tree.map(lambda leaf: leaf[1], start)
    data = (targets[1], sees[1])
    alone, _ = fit(some_determined, one, data, prior=flat, key=keys[1])
    assert alone.info.num_steps == second.info.num_steps
    np.testing.assert_allclose(alone.q.log_variance, second.q.log_variance, rtol=0.01)


def line(weights, batch, log_noise):
    inputs, targets = batch
    return stats.norm.logpdf(targets, inputs @ weights, jnp.exp(log_noise))


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_noise_that_goes_to_zero_is_told_from_little_noise(noise):
    random = np.random.default_rng(1)
    inputs = random.normal(size=(40, 3)).astype(np.float32)
    targets = (inputs.sum(axis=1) + noise * random.normal(size=40)).astype(np.float32)
    settings = {"hyperparams": jnp.zeros(()), "family": bb.FullGaussian, "alpha": 0.0}
    posterior, warning = fit(line, jnp.zeros(3), (inputs, targets), **settings)
    assert posterior.info.converged == (noise > 0)
    assert posterior.info.num_steps < 1000
    if noise == 0:
        assert posterior.info.stopped == "diverged"
        assert "shrink below numerical precision" in warning


def test_an_energy_that_overflows_says_what_ran_away():
    posterior = bb.init(logistic, jnp.zeros(3), num_data=60, key=KEY).posterior()
    assert "A smaller learning rate" in str(bb.NonFiniteEnergyError(7, posterior))
    wide = bb.DiagonalGaussian(jnp.zeros(3), jnp.array([0.0, jnp.inf, 0.0]))
    posterior = dataclasses.replace(posterior, q=wide)
    error = str(bb.NonFiniteEnergyError(7, posterior))
    assert "There the deviations of params[1] grow without end" in error
