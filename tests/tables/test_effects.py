"""Facts about effects: posterior means in closed form, and nothing of a row's own target."""

import numpy as np
import pytest

from bbalpha.tables.effects import Effects, outputs_of


def simulated(num_categories=200, each=10, between=1.0, seed=0):
    rng = np.random.default_rng(seed)
    codes = np.repeat(np.arange(num_categories), each)
    effects = rng.normal(0, between, num_categories)
    return codes, effects, (effects[codes] + rng.normal(size=codes.size))[:, None]


def test_effects_are_the_posterior_means_of_a_normal_model():
    codes, _, outputs = simulated()
    found = Effects.learn(codes, 200, outputs)
    means = outputs[:, 0].reshape(200, 10).mean(axis=1) - outputs.mean()
    weight = 10 * found.between / (10 * found.between + found.within)
    np.testing.assert_allclose(found.values[:, 0], weight * means, atol=1e-12)


def test_variances_are_those_that_made_the_data():
    codes, _, outputs = simulated(num_categories=2000, between=0.5)
    found = Effects.learn(codes, 2000, outputs)
    # Four standard errors: of a variance from n deviations, about √(2/n) of it.
    assert found.within[0] == pytest.approx(1.0, abs=4 * np.sqrt(2 / 18_000))
    assert found.between[0] == pytest.approx(0.25, abs=4 * (0.25 + 0.1) * np.sqrt(2 / 2000))


def test_without_differences_between_categories_the_effects_vanish():
    codes, _, outputs = simulated(between=0.0, seed=1)
    found = Effects.learn(codes, 200, outputs)
    assert np.abs(found.values).max() < 0.5
    exact = np.tile([[1.0], [-1.0]], (20, 1))
    np.testing.assert_array_equal(Effects.learn(np.repeat(np.arange(20), 2), 20, exact).values, 0)


@pytest.mark.parametrize("exponent", [520, 1000, -520, -1000])
def test_targets_of_any_unit_have_the_same_outputs(exponent):
    targets = np.random.default_rng(0).uniform(1, 2, size=50)
    expected = outputs_of(targets)
    np.testing.assert_allclose([expected.mean(), expected.std()], [0, 1], atol=1e-12)
    np.testing.assert_allclose(outputs_of(np.ldexp(targets, exponent)), expected, atol=1e-12)


def test_the_effect_of_a_training_row_ignores_its_own_target():
    codes, _, outputs = simulated(num_categories=30)
    found = Effects.learn(codes, 30, outputs)
    before = found.of_training_rows(codes, outputs)
    changed = outputs.copy()
    changed[7] += 100.0
    after = found.of_training_rows(codes, changed)
    # Its tenth of the rows is centered on the mean of the other nine tenths, which do not change.
    assert after[7] == before[7]
    assert not np.array_equal(after, before)


def test_effects_out_of_fold_do_not_predict_noise():
    codes, _, outputs = simulated(num_categories=1000, each=3, between=0.0, seed=2)
    found = Effects(np.zeros((1000, 1)), np.ones(1), np.ones(1))
    leaky = Effects.learn(codes, 1000, outputs)
    own = outputs[:, 0].reshape(1000, 3).mean(axis=1)[codes]
    clean = found.of_training_rows(codes, outputs)[:, 0]
    assert np.corrcoef(own, outputs[:, 0])[0, 1] > 0.5
    # Four standard errors of a correlation of 3,000 rows.
    assert abs(np.corrcoef(clean, outputs[:, 0])[0, 1]) < 4 / np.sqrt(3000)
    assert leaky.between[0] < 0.1


def test_outputs_are_standardized_numbers_or_indicators():
    rng = np.random.default_rng(0)
    numbers = outputs_of(rng.normal(3, 5, 100))
    np.testing.assert_allclose([numbers.mean(), numbers.std()], [0, 1], atol=1e-12)
    assert outputs_of(np.array(["a", "b", "a", "a"], object)).shape == (4, 1)
    assert outputs_of(np.array([0, 1, 2, 1])).shape == (4, 3)
    assert outputs_of(rng.normal(size=(50, 2))).shape == (50, 2)
    assert outputs_of(np.ones(5)) is None
