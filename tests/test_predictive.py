"""Predictions: moments, densities and quantiles of the mixture over draws."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from scipy.optimize import brentq
from scipy.special import logsumexp

import bbalpha as bb

EXTREMES = [1e-4, 0.05, 0.5, 0.95, 1 - 1e-4]
MANY = (100, 4)  # draws and rows of most tests of quantiles, which then share their programs

# One compiled program each, where plain calls would compile every operation by itself.
predictive_cdf = jax.jit(bb.predictive_cdf)
predictive_log_density = jax.jit(bb.predictive_log_density)
variance_of = jax.jit(lambda likelihood, outputs: likelihood.variance(outputs))


@jax.jit
def predictive_moments(likelihood, outputs):
    return bb.predictive_mean(likelihood, outputs), bb.predictive_variance(likelihood, outputs)


def test_predictive_moments_and_density_are_those_of_the_mixture(likelihood_case, x64):
    case, values = likelihood_case, likelihood_case.values
    outputs, targets = case.outputs(6, 3), case.targets(3)
    means, variances = predictive_moments(case.make(), outputs)
    for datum in range(3):
        one = np.repeat(np.asarray(outputs)[:, [datum]], len(values), axis=1)
        log_density = case.log_density(one, np.stack([values[:, None]] * 6))
        masses = case.weights * np.exp(log_density).mean(0)
        features = case.indicators(values if case.name == "Categorical" else values[:, None])
        mean = masses @ features
        variance = masses @ (features - mean) ** 2
        np.testing.assert_allclose(means[datum], mean, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(variances[datum], variance, rtol=1e-9)
    found = predictive_log_density(case.make(), outputs, targets)
    log_density = case.log_density(outputs, np.stack([targets] * 6))
    np.testing.assert_allclose(found, logsumexp(log_density, axis=0) - np.log(6), rtol=1e-9)


def test_predictive_log_density_does_not_underflow():
    outputs = jnp.array([[[0.0]], [[10.0]]])
    found = predictive_log_density(bb.Gaussian(), outputs, jnp.array([1000.0]))
    expected = st.norm.logpdf(990.0) + np.log1p(np.exp(-(1000**2 - 990**2) / 2)) - np.log(2)
    np.testing.assert_allclose(found, [expected], rtol=2e-7)


def test_predictive_log_density_of_many_draws_keeps_its_digits():
    """The logarithm of a sum over 1,000 draws is near 6, where float32 numbers are 5e-7 apart."""
    outputs = jnp.asarray(np.random.default_rng(0).normal(size=(1000, 500, 1)), jnp.float32)
    found = predictive_log_density(bb.Bernoulli(), outputs, np.ones(500))
    log_density = -np.log1p(np.exp(-np.asarray(outputs, np.float64)))[..., 0]
    expected = logsumexp(log_density, axis=0) - np.log(1000)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 1e-7  # 2e-7 if log K is subtracted


def test_predictions_without_an_axis_of_draws_are_refused():
    outputs, message = jnp.zeros((5, 1)), r"shape \(draws, data, columns\); got shape \(5, 1\)"
    with pytest.raises(ValueError, match=message):
        bb.predictive_mean(bb.Gaussian(), outputs)
    with pytest.raises(ValueError, match=message):
        bb.predictive_variance(bb.Gaussian(), outputs)
    with pytest.raises(ValueError, match=message):
        bb.predictive_log_density(bb.Gaussian(), outputs, np.zeros(5))
    with pytest.raises(ValueError, match=message):
        bb.predictive_cdf(bb.Gaussian(), outputs, np.zeros(5))
    with pytest.raises(ValueError, match=message):
        bb.predictive_quantiles(bb.Gaussian(), outputs, [0.5])


def test_predictive_cdf_is_the_mean_over_draws(ordered_case):
    outputs, targets = ordered_case.outputs(6, 5), ordered_case.targets(5)
    draws = ordered_case.distribution(np.asarray(outputs, np.float64))
    expected = draws.cdf(np.stack([targets] * 6)).mean(0)
    found = predictive_cdf(ordered_case.make(), outputs, targets)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 1e-5), (True, 1e-10)])
def test_quantiles_of_one_draw_are_those_of_scipy(ordered_case, x64, tolerance):
    with jax.enable_x64(x64):
        likelihood, outputs = ordered_case.make(), ordered_case.outputs(1, 7, num_targets=2)
        exact = ordered_case.distribution(np.asarray(outputs[0], np.float64))
        expected = np.stack([*map(exact.ppf, EXTREMES[:3]), *map(exact.isf, [0.05, 1e-4])], -1)
        scale = np.asarray(jnp.sqrt(variance_of(likelihood, outputs)))[0, ..., None]
        found = bb.predictive_quantiles(likelihood, outputs, EXTREMES)
        assert found.shape == (7, 2, 5)
        assert found.dtype == outputs.dtype
        atol = 0 if ordered_case.is_discrete else tolerance * scale.max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def test_quantiles_of_many_draws_are_those_of_the_mixture(ordered_case):
    likelihood, outputs = ordered_case.make(), ordered_case.outputs(*MANY)
    found = np.asarray(bb.predictive_quantiles(likelihood, outputs, EXTREMES), np.float64)
    for datum in range(4):
        draws = ordered_case.distribution(np.asarray(outputs[:, datum], np.float64))
        for p, quantile in zip(EXTREMES, found[datum, 0], strict=True):
            expected = quantile_of_mixture(draws, p, whole=ordered_case.is_discrete)
            assert abs(quantile - expected) < (0.5 if ordered_case.is_discrete else 1e-5)


def quantile_of_mixture(draws, p, whole=False):
    """By root finding in float64, or for whole numbers by trying them all."""
    if whole:
        counts = np.arange(2000)
        return counts[np.argmax(draws.cdf(counts).mean(0) >= p)]
    if p > 0.5:
        return brentq(lambda y: draws.sf(y).mean() - (1 - p), -1e5, 1e5, xtol=1e-12)
    return brentq(lambda y: draws.cdf(y).mean() - p, -1e5, 1e5, xtol=1e-12)


def test_quantiles_invert_the_cdf(continuous_case, x64):
    likelihood, outputs = continuous_case.make(), continuous_case.outputs(6, 1)
    for y in (-3.0, 0.1, 2.0):
        p = predictive_cdf(likelihood, outputs, np.array([y]))[0]
        found = bb.predictive_quantiles(likelihood, outputs, p)
        np.testing.assert_allclose(found, [[[y]]], rtol=1e-10)


@pytest.mark.parametrize("log_variance", [-8.0, 0.0, 3.0])
def test_quantiles_of_draws_far_apart_are_those_of_their_own_component(log_variance):
    scale = np.exp(log_variance / 2)
    outputs = scale * jnp.array([0.0, 1e4, 2e4]).reshape(3, 1, 1)
    probabilities = [0.01, 0.3, 0.4, 0.5, 0.6, 0.99]
    found = bb.predictive_quantiles(bb.Gaussian(log_variance), outputs, probabilities)[0, 0]
    shares = st.norm.ppf([0.03, 0.9, 0.2, 0.5, 0.8, 0.97])
    expected = scale * (np.array([0, 0, 1e4, 1e4, 1e4, 2e4]) + shares)
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-6 * scale)


def test_quantiles_of_vanishing_noise_are_the_order_statistics_of_the_draws():
    means = jnp.array([3.0, -1.0, 1e-3, 2e4, 0.5]).reshape(5, 1, 1)
    probabilities = [0.1, 0.3, 0.5, 0.7, 0.9]
    for log_variance in (-80.0, -500.0):
        outputs = jnp.concatenate([means, jnp.full_like(means, log_variance)], axis=-1)
        found = bb.predictive_quantiles(bb.HeteroscedasticGaussian(), outputs, probabilities)
        np.testing.assert_allclose(found[0, 0], np.sort(means.ravel()), rtol=2e-7)
    outputs = 1e4 * jnp.arange(1000.0).reshape(1000, 1, 1)
    found = bb.predictive_quantiles(bb.Gaussian(), outputs, np.arange(1, 1000) / 1000)[0, 0]
    np.testing.assert_allclose(found / 1e4, np.arange(999), atol=1e-3)  # K p draws are below


@pytest.mark.parametrize("degrees_of_freedom", [0.3, 0.9, 1.1, 4.0, 1e6])
def test_quantiles_of_heavy_tails_are_exact_to_rounding(degrees_of_freedom):
    likelihood = bb.StudentT(log_degrees_of_freedom=np.log(degrees_of_freedom))
    outputs = jnp.array([-1.0, 2.0]).reshape(2, 1, 1)
    df = np.exp(np.asarray(likelihood.log_degrees_of_freedom, np.float64))
    found = bb.predictive_quantiles(likelihood, outputs, [1e-4, 1e-3, 1 - 1e-3, 1 - 1e-4])[0, 0]
    tails = st.t(df).sf
    for tail, low, high in zip([1e-4, 1e-3], found[:2], found[:1:-1], strict=True):
        reach = (tails(-1 - low) + tails(2 - low)) / 2, (tails(high + 1) + tails(high - 2)) / 2
        np.testing.assert_allclose(reach, tail, rtol=1e-5)


def test_quantiles_of_a_mirrored_mixture_are_mirrored(continuous_case):
    likelihood, outputs = continuous_case.make(), continuous_case.outputs(*MANY)
    signs = jnp.array([-1.0] if continuous_case.columns == 1 else [-1.0, 1.0])
    mirrored = outputs * signs[None, None]
    found = bb.predictive_quantiles(likelihood, outputs, EXTREMES)
    other = bb.predictive_quantiles(likelihood, mirrored, EXTREMES)
    np.testing.assert_allclose(found, -other[..., ::-1], atol=5e-6)
    half = MANY[0] // 2
    symmetric = jnp.concatenate([outputs[:half], mirrored[:half]])
    both = bb.predictive_quantiles(likelihood, symmetric, EXTREMES)[..., EXTREMES.index(0.5)]
    np.testing.assert_allclose(both, 0, atol=5e-6)


def test_quantiles_shift_and_scale_with_the_target():
    outputs, scale, shift = jnp.linspace(-3, 4, 400).reshape(*MANY, 1), 2.5, 7.0
    plain = bb.predictive_quantiles(bb.StudentT(-0.5), outputs, EXTREMES)
    likelihood = bb.StudentT(-0.5 + np.log(scale))
    moved = bb.predictive_quantiles(likelihood, scale * outputs + shift, EXTREMES)
    np.testing.assert_allclose(moved, scale * plain + shift, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("log_rate", [-20.0, -1.0, 0.7, 3.0, 6.0])
def test_quantiles_of_counts_are_the_smallest_that_reach_the_probability(log_rate):
    outputs = jnp.asarray(log_rate).reshape(1, 1, 1)
    probabilities = np.linspace(0.01, 0.99, 23)
    found = bb.predictive_quantiles(bb.Poisson(), outputs, probabilities)[0, 0]
    expected = st.poisson.ppf(probabilities, np.exp(np.float64(np.float32(log_rate))))
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(found).any()


def test_quantiles_rise_with_the_probability(ordered_case):
    likelihood, outputs = ordered_case.make(), ordered_case.outputs(*MANY)
    close = 0.3 + 1e-7 * np.arange(20)  # closer than the rounding of a mean over draws
    probabilities = np.concatenate([[1e-30, 1e-4], close, np.linspace(0.31, 0.99, 42), [1 - 1e-9]])
    fives = probabilities.reshape(-1, len(EXTREMES))  # as many at a time as in the other tests
    found = [bb.predictive_quantiles(likelihood, outputs, five) for five in fives]
    found = jnp.concatenate(found, axis=-1)
    assert (jnp.diff(found, axis=-1) >= 0).all()
    assert jnp.isfinite(found).all()


def test_quantiles_of_a_row_do_not_depend_on_the_other_rows(ordered_case):
    likelihood, outputs = ordered_case.make(), ordered_case.outputs(*MANY)
    found = bb.predictive_quantiles(likelihood, outputs, EXTREMES)
    others = outputs.at[:, 1:].set(jnp.nan)
    again = bb.predictive_quantiles(likelihood, others, EXTREMES)
    np.testing.assert_array_equal(found[0], again[0])
    assert jnp.isnan(again[1:]).all()
    alone = bb.predictive_quantiles(likelihood, outputs[:, :1], EXTREMES)
    np.testing.assert_allclose(alone[0], found[0], rtol=2e-6, atol=1e-6)


def test_quantiles_in_jit_are_those_outside(ordered_case):
    likelihood, outputs = ordered_case.make(), ordered_case.outputs(*MANY)
    probabilities = jnp.array(EXTREMES)
    found = jax.jit(bb.predictive_quantiles)(likelihood, outputs, probabilities)
    expected = bb.predictive_quantiles(likelihood, outputs, probabilities)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, 1.5, np.nan])
def test_probabilities_outside_the_open_interval_are_refused(wrong):
    outputs = jnp.zeros((2, 3, 1))
    with pytest.raises(ValueError, match=f"lie strictly between 0 and 1; got {wrong}"):
        bb.predictive_quantiles(bb.Gaussian(), outputs, [0.5, wrong])


def test_probabilities_of_another_shape_are_refused():
    outputs = jnp.zeros((2, 3, 1))
    with pytest.raises(ValueError, match=r"probabilities must have one axis; got shape \(\)"):
        bb.predictive_quantiles(bb.Gaussian(), outputs, 0.5)


@pytest.mark.parametrize("likelihood", [bb.Probit(), bb.Bernoulli(), bb.Categorical()])
def test_targets_without_an_order_have_no_quantiles(likelihood):
    outputs, message = jnp.zeros((2, 3, 1)), "methods cdf and survival, .*; got "
    with pytest.raises(TypeError, match=message + type(likelihood).__name__):
        bb.predictive_quantiles(likelihood, outputs, [0.5])
    with pytest.raises(TypeError, match=message + type(likelihood).__name__):
        bb.predictive_cdf(likelihood, outputs, np.zeros(3))
