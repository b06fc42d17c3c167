"""When a fit counts as converged, and the words when it does not."""

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.special
from problems.references import REFERENCES, answers

import bbalpha as bb
from bbalpha.convergence import (
    FEWEST_ROUNDS,
    MOST_ROUNDS,
    ROUND_STEPS,
    Convergence,
    check_tolerance,
    fall_of,
    mean_energies,
)
from bbalpha.natural import Record
from bbalpha.state import Variables

KEY = jax.random.key(0)
QUICK = ["linear", "poisson", "hierarchical"]  # the others take `make slow`


def a_round(mean, log_deviation=0.0, travel=5.0):
    """A round of ten steps around a mean."""
    means, deviations = ROUND_STEPS * np.full(1, mean), ROUND_STEPS * np.full(1, log_deviation)
    q = bb.DiagonalGaussian(jnp.asarray(means), jnp.asarray(2 * deviations))
    variables: Any = Variables(q, None, None)
    sums: Any = (variables, means, deviations, np.array(travel), np.array(ROUND_STEPS))
    return Record(*sums)


def judged(means, **settings):
    judge = Convergence(tolerance=0.02, layout=bb.Layout.of(jnp.zeros(1)))
    for mean in means:
        judge.add(a_round(mean, **settings))
    return judge


def test_rounds_that_agree_have_converged():
    noise = 1e-3 * np.random.default_rng(0).normal(size=FEWEST_ROUNDS)
    judge = judged(3.0 + noise)
    assert judge.converged
    expected = 3.0 + noise[FEWEST_ROUNDS // 2 :].mean()  # the average of the last half
    np.testing.assert_allclose(judge.average().q.mean, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "means",
    [
        np.linspace(0, 1, FEWEST_ROUNDS),  # a drift
        np.zeros(FEWEST_ROUNDS - 1),  # too few rounds
        np.random.default_rng(0).normal(size=FEWEST_ROUNDS),  # noise that hides the mean
    ],
    ids=["drift", "few", "noise"],
)
def test_rounds_that_drift_or_leave_doubt_have_not_converged(means):
    assert not judged(means).converged


def test_short_steps_tell_nothing():
    assert not judged(np.zeros(FEWEST_ROUNDS), travel=0.01).converged


def test_a_drift_is_measured_in_deviations():
    drift = np.linspace(0, 1, FEWEST_ROUNDS)
    narrow, wide = judged(drift), judged(drift, log_deviation=np.log(1000.0))
    assert wide.converged
    np.testing.assert_allclose(wide.movement.means, narrow.movement.means / 1000, rtol=1e-6)


def test_noise_alone_is_told_from_a_drift():
    generator = np.random.default_rng(0)
    assert judged(generator.normal(size=40)).is_noisy
    assert not judged(np.linspace(0, 40, 40) + generator.normal(size=40)).is_noisy


def test_memory_of_a_long_run_is_bounded():
    judge = judged(np.linspace(0, 1, 500))
    assert len(judge.rounds) < MOST_ROUNDS
    steps = sum(int(each.num_steps) for each in judge.rounds)
    assert steps == 500 * ROUND_STEPS


def test_a_slow_approach_has_not_converged_before_it_is_near():
    """An error that falls e-fold in 500 steps hardly changes from one round to the next."""
    judge, step = judged([]), 0
    while not judge.converged and step < 10_000:
        error, length = np.exp(-step / 500), judge.round_steps // ROUND_STEPS
        step += judge.round_steps
        judge.add(jax.tree.map(lambda leaf, length=length: length * leaf, a_round(error)))
    assert judge.converged
    assert 0 < judge.average().q.mean < 0.02


def fit(name, alpha=0.0, **settings):
    problem = REFERENCES[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = bb.fit(
            problem.log_likelihood,
            problem.params,
            problem.data,
            **{"alpha": alpha, "family": bb.FullGaussian, "key": KEY} | settings,
        )
    return posterior, [str(warning.message) for warning in caught]


def assert_close_to_optimum(posterior, name, alpha, means, deviations):
    answer = answers()[name][f"alpha={alpha:g}"]
    exact = np.array(answer["deviations"])
    assert np.max(np.abs(posterior.q.mean - np.array(answer["means"])) / exact) < means
    assert np.max(np.abs(np.sqrt(posterior.q.variance) / exact - 1)) < deviations


def assert_converges(name, alpha, means, deviations):
    """Whole, a fit reaches the optimum and says so; cut at a tenth, it warns."""
    posterior, caught = fit(name, alpha)
    assert posterior.info.converged
    assert not caught
    assert_close_to_optimum(posterior, name, alpha, means, deviations)
    cut, caught = fit(name, alpha, num_epochs=posterior.info.num_steps // 10)
    assert not cut.info.converged
    assert caught[0].startswith("fit did not converge: ")


@pytest.mark.parametrize("name", QUICK)
def test_a_fit_reaches_the_optimum_of_variational_bayes_and_knows_it(name):
    assert_converges(name, 0.0, 0.05, 0.03)


@pytest.mark.parametrize("name", ["hierarchical", "ridge"])
def test_a_fit_reaches_the_optimum_at_one_half_and_knows_it(name):
    assert_converges(name, 0.5, 0.1, 0.05)


@pytest.mark.slow
@pytest.mark.parametrize("name", REFERENCES)
def test_every_reference_problem_converges(name):
    assert_converges(name, 0.0, 0.05, 0.03)
    assert_converges(name, 0.5, 0.1, 0.05)


@pytest.mark.slow
def test_no_false_alarm_in_a_hundred_fits():
    for seed in range(10):
        for name in REFERENCES:
            posterior, caught = fit(name, key=jax.random.key(100 + seed))
            assert posterior.info.converged, (name, seed, caught)
            assert_close_to_optimum(posterior, name, 0.0, 0.05, 0.03)


def log_likelihood(mean, batch):
    return jax.scipy.stats.norm.logpdf(batch, mean)


DATA = jnp.linspace(-1.0, 2.0, 30)


def test_alpha_near_the_number_of_data_cannot_converge():
    with pytest.warns(bb.ConvergenceWarning, match="the energy hardly depends on q. Lower alpha."):
        posterior = bb.fit(log_likelihood, jnp.zeros(()), DATA, alpha=30.0, key=KEY)
    assert not posterior.info.converged
    assert posterior.info.num_steps < 300  # of 10,000


def test_replicas_converge_one_by_one_and_are_counted():
    keys = jax.random.split(KEY, 2)
    powers = jnp.array([0.0, 30.0])
    said = "1 of 2 replicas did not converge. In replica 1, alpha is so close .* Lower alpha."
    with pytest.warns(bb.ConvergenceWarning, match=said):
        replicas = bb.fit_many(log_likelihood, jnp.zeros(2), DATA, alpha=powers, keys=keys)
    assert [one.info.converged for one in replicas] == [True, False]
    assert [one.info.stopped for one in replicas] == ["converged", "finished"]
    for power, key, replica in zip(powers.tolist(), keys, replicas, strict=True):
        alone, _ = fitted(alpha=power, key=key)
        assert alone.info.num_steps == replica.info.num_steps < 300  # of 10,000
        np.testing.assert_allclose(replica.mean, alone.mean, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(replica.variance, alone.variance, rtol=1e-4)


def fitted(**settings):
    """A fit of a mean, and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = bb.fit(log_likelihood, jnp.zeros(()), DATA, **settings)
    return posterior, [str(warning.message) for warning in caught]


def test_replicas_that_have_not_converged_say_how_far_the_worst_still_moves():
    keys = jax.random.split(KEY, 2)
    settings: Any = {"alpha": 0.0, "keys": keys, "num_epochs": 150, "tolerance": 1e-9}
    said = "2 of 2 replicas did not converge. In replica [01], the means are known to .* Raise num_"
    with pytest.warns(bb.ConvergenceWarning, match=said):
        bb.fit_many(log_likelihood, jnp.array([0.0, 1.0]), DATA, **settings)


def linear_log_likelihood(weights, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)


def linear_derivatives(outputs, targets):
    return targets - outputs, np.full_like(outputs, -1.0)


def logistic_log_likelihood(weights, batch):
    inputs, labels = batch
    return jax.nn.log_sigmoid(labels * (inputs @ weights))


def logistic_derivatives(outputs, labels):
    wrong = scipy.special.expit(-labels * outputs)
    return labels * wrong, -wrong * (1 - wrong)


def assert_many_rows_converge(log_likelihood, derivatives, num_data):
    """Few steps lead where E_q[∇ log p] = 0 and Σ⁻¹ = −E_q[∇² log p], by quadrature."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(num_data, 10)).astype(np.float32)
    targets = (inputs @ random.normal(size=10) + random.logistic(size=num_data)).astype(np.float32)
    if log_likelihood is logistic_log_likelihood:
        targets = np.sign(targets)
    settings = {"alpha": 0.0, "family": bb.FullGaussian, "key": KEY}
    posterior = bb.fit(log_likelihood, jnp.zeros(10), (inputs, targets), **settings)
    assert posterior.info.converged
    assert posterior.info.num_steps < 100
    mean, covariance = np.asarray(posterior.mean, float), np.asarray(posterior.q.covariance, float)
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    spread = np.sqrt(np.einsum("ni,ij,nj->n", inputs, covariance, inputs))
    outputs = inputs @ mean + nodes[:, None] * spread
    slopes, curvatures = (
        np.tensordot(weights / weights.sum(), each, 1) for each in derivatives(outputs, targets)
    )
    exact = np.linalg.inv(np.eye(10) - inputs.T * curvatures @ inputs)
    deviations = np.sqrt(np.diag(exact))
    step = exact @ (inputs.T @ slopes - mean)  # of Newton's method
    assert np.max(np.abs(step) / deviations) < 0.05
    np.testing.assert_allclose(np.sqrt(posterior.variance), deviations, rtol=0.03)


MANY_ROWS = pytest.mark.parametrize(
    ("log_likelihood", "derivatives"),
    [
        (linear_log_likelihood, linear_derivatives),
        (logistic_log_likelihood, logistic_derivatives),
    ],
    ids=["linear", "logistic"],
)


@MANY_ROWS
def test_long_steps_are_judged_by_shorter_rounds(monkeypatch, log_likelihood, derivatives):
    monkeypatch.setattr("bbalpha.planning.LONG_STEP", 2**16)
    assert_many_rows_converge(log_likelihood, derivatives, 5000)


@MANY_ROWS
@pytest.mark.slow
def test_two_hundred_thousand_rows_converge_in_few_steps(log_likelihood, derivatives):
    assert_many_rows_converge(log_likelihood, derivatives, 200_000)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, float("nan"), "small"])
def test_a_tolerance_must_be_positive(tolerance):
    with pytest.raises(ValueError, match="tolerance must be positive and finite; got tolerance="):
        check_tolerance(tolerance)


def curve(num_epochs, rate, noise=0.0):
    """Energies of 100 data points that fall from 2 nats each, e-fold at a rate per epoch."""
    random = np.random.default_rng(0).normal(size=num_epochs)
    return 100 * (2 * np.exp(-rate * np.arange(num_epochs)) + noise * random)


def test_energies_that_still_fall_are_told_from_energies_at_rest():
    assert fall_of(curve(100, 0.2), 100.0) == 0
    falling = curve(100, 0.01)
    quarters = falling.reshape(4, 25).mean(axis=1) / 100
    np.testing.assert_allclose(fall_of(falling, 100.0), quarters[1] - quarters[2])
    assert fall_of(curve(100, 0.2, noise=0.5), 100.0) == 0  # noise is no fall
    assert fall_of(curve(7, 0.2), 100.0) == np.inf  # too few to tell
    for num_energies in range(8, 24):  # a steady fall is not mistaken for noise
        assert fall_of(curve(num_energies, 0.4 / num_energies, noise=1e-3), 100.0) > 0
        assert fall_of(curve(num_energies, 40 / num_energies, noise=1e-3), 100.0) == 0


def test_parts_of_an_epoch_have_the_mean_energies_of_their_batches():
    """Two epochs of six minibatches in three parts; energies are summed by their shares."""
    batches = np.arange(12.0).reshape(2, 6)
    sums = np.cumsum(batches / 6, axis=1)[:, 1::2]
    np.testing.assert_allclose(mean_energies(sums), batches.reshape(6, 2).mean(axis=1))


MANY = jnp.asarray(np.random.default_rng(0).normal(1.0, size=40_000).astype(np.float32))


def test_a_few_long_epochs_are_judged_by_their_parts():
    settings = {"key": KEY, "alpha": 0.0, "num_samples": 2, "num_epochs": 3}
    settings |= {"family": bb.DiagonalGaussian(jnp.full(1, 5.0), jnp.full(1, -10.0))}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # no false alarm
        done = bb.fit(log_likelihood, jnp.zeros(()), MANY, optimizer=optax.adam(1e-2), **settings)
    assert done.info.converged
    assert (len(done.info.energies), done.info.fall) == (3, 0.0)
    with pytest.warns(bb.ConvergenceWarning, match="still fell by .* in the middle of its 3 epoc"):
        slow = bb.fit(log_likelihood, jnp.zeros(()), MANY, optimizer=optax.adam(3e-4), **settings)
    assert not slow.info.converged
    assert 0 < slow.info.fall < np.inf


def test_a_run_that_is_too_short_to_judge_says_so():
    settings: Any = {"key": KEY, "optimizer": "adam", "batch_size": 10}
    for num_epochs, words in (1, "1 epoch with 3 steps"), (7, "7 epochs with 21 steps"):
        with pytest.warns(bb.ConvergenceWarning, match=f"{words} in all are too few to judge. Rai"):
            cut = bb.fit(log_likelihood, jnp.zeros(()), DATA, num_epochs=num_epochs, **settings)
        assert not cut.info.converged
        assert cut.info.fall == np.inf


def test_natural_steps_that_are_too_few_to_judge_say_how_many_it_takes():
    words = (
        "fit did not converge: 119 steps are too few to judge: .* takes at least 120. Raise num_"
    )
    with pytest.warns(bb.ConvergenceWarning, match=words):
        cut = bb.fit(log_likelihood, jnp.zeros(()), DATA, alpha=0.0, key=KEY, num_epochs=119)
    assert not cut.info.converged


def test_any_optimizer_is_judged_by_its_energies():
    settings = {"key": KEY, "alpha": 0.0, "batch_size": 10}
    with pytest.warns(bb.ConvergenceWarning, match="the energy still fell by .* nats per data"):
        slow = bb.fit(
            log_likelihood,
            jnp.full((), 10.0),
            DATA,
            optimizer=optax.adam(3e-2),
            num_epochs=100,
            **settings,
        )
    assert not slow.info.converged
    done = bb.fit(log_likelihood, jnp.zeros(()), DATA, optimizer="adam", **settings)
    assert done.info.converged
    assert done.info.stopped == "finished"


def test_a_fall_before_the_prior_was_learned_does_not_count():
    """At epoch 40 the prior begins to move, and the energy drops to where it then stays."""
    stream = np.random.RandomState(0)
    energies = np.where(np.arange(100) < 45, 300.0, 200.0) + stream.normal(size=100)
    assert fall_of(energies, 100.0) > 0
    assert fall_of(energies, 100.0, first=40) == 0
