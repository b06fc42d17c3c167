"""What ends a fit: callbacks, held-out scores, and the state that is kept."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.limited_regression import (
    HELD_OUT,
    INPUTS,
    KEY,
    NEVER,
    NUM_BATCHES,
    NUM_DATA,
    TARGETS,
    fit,
    log_likelihood,
    with_limit,
)

import bbalpha as bb
from bbalpha.engine import streams


def test_a_callback_is_called_once_per_epoch():
    calls = []
    posterior = fit(callback=lambda state, info: calls.append((state, info)))
    assert [len(info.energies) for _, info in calls] == [1, 2, 3, 4]
    assert [info.num_steps for _, info in calls] == [3, 6, 9, 12]
    assert [int(state.step) for state, _ in calls] == [3, 6, 9, 12]
    assert {info.stopped for _, info in calls} == {"running"}
    assert calls[-1][1].energies == posterior.info.energies
    np.testing.assert_array_equal(calls[-1][0].posterior().mean, posterior.mean)


def test_a_callback_sees_the_epoch_at_which_the_fit_stops_early():
    epochs = []
    rule = bb.EarlyStopping(HELD_OUT, patience=2, num_samples=20)
    posterior = fit(
        num_epochs=60,
        early_stopping=rule,
        callback=lambda state, info: epochs.append(len(info.energies)),
    )
    assert posterior.info.stopped == "early"
    assert epochs == [epoch for epoch, _ in posterior.info.held_out]


def test_a_true_result_of_the_callback_ends_the_fit():
    posterior = fit(callback=lambda state, info: len(info.energies) == 2)
    assert posterior.info.stopped == "callback"
    assert posterior.info.num_steps == 6
    expected = fit(num_epochs=2)
    np.testing.assert_array_equal(posterior.mean, expected.mean)
    np.testing.assert_array_equal(posterior.energy, expected.energy)


def test_ctrl_c_in_a_callback_returns_the_posterior_reached():
    def interrupt(state, info):
        if len(info.energies) == 2:
            raise KeyboardInterrupt

    posterior = fit(callback=interrupt)
    assert posterior.info.stopped == "interrupted"
    assert posterior.info.num_steps == 6
    assert np.isnan(posterior.energy)
    np.testing.assert_array_equal(posterior.mean, fit(num_epochs=2).mean)


def test_any_other_error_of_a_callback_reaches_the_caller():
    def fail(state, info):
        raise LookupError("not today")

    with pytest.raises(LookupError, match="not today"):
        fit(callback=fail)


@pytest.mark.parametrize("every", [1, 2])
def test_early_stopping_returns_the_best_state(every):
    rule = bb.EarlyStopping(HELD_OUT, patience=4, every=every, num_samples=20)
    posterior = fit(num_epochs=60, early_stopping=rule)
    epochs, scores = zip(*posterior.info.held_out, strict=True)
    best = int(np.argmax(scores))
    assert posterior.info.stopped == "early"
    assert epochs == tuple(range(every, epochs[-1] + 1, every))
    assert 0 < best < len(scores) - 1
    assert epochs[-1] - epochs[best] == rule.patience
    assert posterior.info.num_steps == epochs[best] * NUM_BATCHES
    assert len(posterior.info.energies) == epochs[best]
    key = jax.random.fold_in(KEY, streams.HELD_OUT)
    densities = posterior.log_density(log_likelihood, HELD_OUT, key=key, num_samples=20)
    np.testing.assert_allclose(jnp.mean(densities), max(scores), rtol=1e-6)
    np.testing.assert_array_equal(posterior.mean, fit(num_epochs=epochs[best]).mean)


def natural_fit(held_out, **settings):
    def log_likelihood(mean, batch):
        return jax.scipy.stats.norm.logpdf(batch, mean)

    rule = bb.EarlyStopping(held_out, patience=10_000)
    data = jnp.linspace(-1.0, 2.0, 30)
    settings = {"key": KEY, "alpha": 0.0, "early_stopping": rule} | settings
    return bb.fit(log_likelihood, jnp.full((), 5.0), data, **settings)


def test_the_best_state_counts_as_converged_only_if_it_had_settled():
    plain = natural_fit(None, early_stopping=None)
    settled = natural_fit(jnp.full(5, float(plain.mean)))
    assert (settled.info.stopped, settled.info.converged) == ("converged", True)
    np.testing.assert_allclose(settled.mean, plain.mean, atol=0.02 * float(plain.variance) ** 0.5)
    earlier = natural_fit(jnp.full(5, 4.0))  # prefers a state on the way
    assert (earlier.info.stopped, earlier.info.converged) == ("converged", False)
    assert earlier.info.num_steps < plain.info.num_steps
    assert earlier.mean > 1.0


def test_a_state_from_before_the_energies_were_judged_has_not_converged():
    far = jnp.full((), 5.0)
    adam = {"optimizer": "adam", "batch_size": 10, "num_epochs": 1000}
    late = natural_fit(jnp.full(5, 0.4), **adam)
    assert (late.info.stopped, late.info.converged) == ("finished", True)
    early = natural_fit(far[None], **adam)
    assert early.info.num_steps < 0.25 * late.info.num_steps
    assert (early.info.stopped, early.info.fall, early.info.converged) == ("finished", 0.0, False)


def test_a_fit_that_ends_before_patience_does_returns_the_best_state_too():
    rule = bb.EarlyStopping(HELD_OUT, patience=1000, num_samples=20)
    posterior = fit(num_epochs=30, early_stopping=rule)
    epochs, scores = zip(*posterior.info.held_out, strict=True)
    assert epochs == tuple(range(1, 31))
    assert posterior.info.stopped == "finished"
    assert posterior.info.num_steps == (1 + int(np.argmax(scores))) * NUM_BATCHES < 90


def test_a_held_out_score_that_is_not_a_number_is_never_the_best():
    rule = bb.EarlyStopping((INPUTS, TARGETS, np.full(NUM_DATA, 2.7)), num_samples=20)
    posterior = fit(params=jnp.array([3.0, 0.0]), num_epochs=10, early_stopping=rule)
    scores = [score for _, score in posterior.info.held_out]
    assert np.isnan(scores[0])
    assert posterior.info.num_steps == (1 + int(np.nanargmax(scores))) * NUM_BATCHES > NUM_BATCHES


def test_a_non_finite_energy_is_told_at_its_own_step_however_good_an_earlier_state_was():
    with pytest.raises(bb.NonFiniteEnergyError, match="at step") as plain:
        fit(data=with_limit(0.3), num_epochs=10)
    rule = bb.EarlyStopping((INPUTS, -TARGETS, NEVER), num_samples=20)  # best at the first epoch
    with pytest.raises(bb.NonFiniteEnergyError, match="at step") as caught:
        fit(data=with_limit(0.3), num_epochs=10, early_stopping=rule)
    assert caught.value.step == plain.value.step
    np.testing.assert_array_equal(caught.value.posterior.mean, plain.value.posterior.mean)


def test_held_out_rows_count_by_their_weights():
    """A row of weight zero does not count: spoiling it changes no score."""
    weights = np.where(np.arange(NUM_DATA) < 2, 0.0, 2.0)
    spoiled = (INPUTS, np.where(weights == 0, 100.0, TARGETS).astype(np.float32), NEVER)
    kept = jax.tree.map(lambda leaf: leaf[weights > 0], (INPUTS, TARGETS, NEVER))
    scores = [
        fit(num_epochs=3, early_stopping=rule).info.held_out
        for rule in (
            bb.EarlyStopping(spoiled, num_samples=20, sample_weight=weights),
            bb.EarlyStopping(kept, num_samples=20),
        )
    ]
    np.testing.assert_allclose(*scores, rtol=2e-5)


def test_the_last_epoch_is_scored_though_it_is_not_one_of_every_few():
    rule = bb.EarlyStopping(HELD_OUT, patience=1000, every=7, num_samples=20)
    posterior = fit(num_epochs=10, early_stopping=rule)
    assert [epoch for epoch, _ in posterior.info.held_out] == [7, 10]
