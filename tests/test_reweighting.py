"""What reweighted draws say of the exact posterior, and where they say that they cannot."""

import re
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import conjugate
from problems.conjugate import DATA, flat, log_likelihood

import bbalpha as bb

KEY = jax.random.key(0)


def test_effective_size_and_moments_follow_the_weights():
    weights = np.array([0.1, 0.2, 0.7])
    tree = {"a": jnp.array([[1.0, 0.0], [2.0, 0.0], [4.0, 1.0]]), "b": jnp.array([1.0, 1.0, 3.0])}
    exact = bb.Reweighted(tree, weights, 0.0)
    assert exact.effective_size == pytest.approx(1 / 0.54)
    np.testing.assert_allclose(exact.mean["a"], [3.3, 0.7], rtol=1e-6)
    np.testing.assert_allclose(exact.variance["a"], [1.21, 0.21], rtol=1e-6)
    np.testing.assert_allclose(exact.variance["b"], 0.84, rtol=1e-6)
    assert exact.mean["b"].dtype == jnp.float32


def test_draws_are_taken_as_often_as_their_weights_say():
    exact = bb.Reweighted(jnp.arange(3.0), np.array([0.1, 0.2, 0.7]), 0.0)
    num = 10_000
    counts = np.bincount(np.asarray(exact.sample(num, key=KEY), int), minlength=3)
    error = np.sqrt(num * exact.weights * (1 - exact.weights))
    assert np.all(np.abs(counts - num * exact.weights) < 4 * error)


def test_at_least_one_resampled_draw_is_needed():
    exact = bb.Reweighted(jnp.arange(2.0), np.array([0.5, 0.5]), 0.0)
    with pytest.raises(ValueError, match=r"^num_samples must be at least 1; got num_samples=0\.$"):
        exact.sample(0, key=KEY)


def test_standard_errors_are_the_spread_of_repeated_estimates():
    posterior, keys = conjugate.posterior(width=1.5), jax.random.split(KEY, 40)
    found = [posterior.reweighted(log_likelihood, DATA, key=key) for key in keys]
    means = [flat(each.mean) for each in found]
    deviations = [np.sqrt(flat(each.variance)) for each in found]
    mean_errors = [flat(each.mean_error) for each in found]
    deviation_errors = [flat(each.deviation_error) for each in found]
    tolerance = 4 / np.sqrt(2 * len(keys))  # of a deviation estimated from so many
    for values, errors in ((means, mean_errors), (deviations, deviation_errors)):
        ratios = np.std(values, axis=0, ddof=1) / np.mean(errors, axis=0)
        np.testing.assert_allclose(ratios, 1.0, atol=tolerance)


def one_too_narrow(deviation):
    """q of ten numbers, the first too narrow for its posterior, which is standard normal."""
    size = 10
    log_variance = jnp.zeros(size).at[0].set(2 * np.log(deviation))
    return bb.Posterior(
        q=bb.DiagonalGaussian(jnp.zeros(size), log_variance),
        prior=bb.DiagonalGaussian(jnp.zeros(size), jnp.zeros(size)),
        hyperparams=None,
        alpha=jnp.array(0.5),
        num_data=jnp.array(1.0),
        energy=jnp.array(jnp.nan),
        layout=bb.Layout.of({"narrow": jnp.zeros(()), "others": jnp.zeros(size - 1)}),
    )


def no_information(params, batch):
    return 0.0 * batch


def reweighted(deviation, key, **settings):
    """The warnings of a reweighting, or the message of its refusal, and the deviation found."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = one_too_narrow(deviation).reweighted(
                no_information, np.zeros(1), key=key, **settings
            )
        except ValueError as refusal:
            return str(refusal), np.nan
    return "".join(str(each.message) for each in caught), float(found.variance["narrow"]) ** 0.5


def test_a_tail_that_q_misses_is_refused_or_named():
    outcomes = [reweighted(0.4, key) for key in jax.random.split(KEY, 20)]
    named = [text for text, _ in outcomes if "does not correct the deviation of" in text]
    refused = [text for text, _ in outcomes if "must be closer to the exact posterior" in text]
    assert len(named) + len(refused) == 20
    assert named  # k̂ of the weights alone would let these pass
    assert all(np.isnan(found) or found < 0.9 for _, found in outcomes)  # they are wrong indeed
    pattern = (
        r"Reweighting does not correct the deviation of .*narrow.*: q is too narrow in a tail, "
        r"where few draws carry the variance \(Pareto k̂=\d\.\d\d, above 0\.70\)\. Try another"
    )
    assert all(re.search(pattern, text) for text in named)


def test_a_slightly_narrow_q_is_corrected_without_a_word():
    for key in jax.random.split(KEY, 5):
        text, found = reweighted(0.9, key)
        assert not text
        assert abs(found - 1) < 0.05


def test_too_few_draws_are_reported_with_the_number_needed():
    text, _ = reweighted(1.0, KEY, num_samples=100)
    number = r"only known to 0\.1\d* posterior deviations\. Raise num_samples to about 1,000\.$"
    assert re.search(number, text)


def test_numbers_that_do_not_vary_have_no_error_and_no_tail():
    found = bb.Reweighted(jnp.ones((128, 2)), np.full(128, 1 / 128), 0.0)
    np.testing.assert_array_equal(found.mean_error, np.zeros(2))
    np.testing.assert_array_equal(found.deviation_error, np.zeros(2))
    np.testing.assert_array_equal(found.tail_pareto_k, np.full(2, -np.inf))
