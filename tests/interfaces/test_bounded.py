"""Likelihoods whose logarithmic outputs cannot explode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.interfaces.bounded import UNLIMITED, Bounded

LOWER, UPPER = np.array([-UNLIMITED, -2.0]), np.array([UNLIMITED, 1.5])
NOISE = Bounded(bb.HeteroscedasticGaussian(), LOWER, UPPER)
COUNTS = {
    "Poisson": Bounded(bb.Poisson(), np.array([-UNLIMITED]), np.array([3.0])),
    "NegativeBinomial": Bounded(
        bb.NegativeBinomial(np.zeros(1)), np.array([-UNLIMITED]), np.array([3.0])
    ),
}
BOUNDED = {"HeteroscedasticGaussian": NOISE} | COUNTS


def noise_variance(log_variance):
    """For one log-variance per datum."""
    outputs = jnp.stack([jnp.zeros_like(log_variance), log_variance], axis=-1)
    return NOISE.variance(outputs)[:, 0]


@pytest.mark.parametrize("name", BOUNDED)
def test_it_is_a_likelihood_with_an_order(name):
    assert isinstance(BOUNDED[name], bb.Likelihood)
    assert isinstance(BOUNDED[name], bb.OrderedLikelihood)


@pytest.mark.parametrize("name", BOUNDED)
def test_inside_the_limits_it_is_the_likelihood_itself(name):
    bounded, plain = BOUNDED[name], BOUNDED[name].likelihood
    outputs = jnp.asarray(
        np.random.RandomState(0).uniform(-2, 1.5, size=(4, 7, 2 if bounded is NOISE else 1)),
        jnp.float32,
    )
    targets, key = np.arange(7.0, dtype=np.float32)[:, None], jax.random.key(0)
    for method in ("log_prob", "cdf", "survival"):
        found, expected = (getattr(x, method)(outputs, targets) for x in (bounded, plain))
        np.testing.assert_array_equal(found, expected)
    for method in ("mean", "variance"):
        found, expected = (getattr(x, method)(outputs) for x in (bounded, plain))
        np.testing.assert_array_equal(found, expected)
    found, expected = (x.sample(outputs, key=key) for x in (bounded, plain))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("limit", [-2.0, 1.5])
def test_value_and_slope_have_no_jump_at_the_limits(limit, x64):
    step = 1e-6
    around = limit + step * jnp.arange(-1.0, 2.0)
    np.testing.assert_allclose(jnp.log(noise_variance(around)), around, atol=1e-11)
    slopes = jax.grad(lambda x: jnp.sum(jnp.log(noise_variance(x))))(around)
    np.testing.assert_allclose(slopes, np.ones(3), atol=2 * step)


def test_beyond_the_limits_variances_change_linearly():
    """exp(upper) times 1 plus the distance, and exp(lower) over 1 plus the distance."""
    distance = jnp.array([0.0, 1.0, 10.0, 1e6])
    found = noise_variance(1.5 + distance)
    np.testing.assert_allclose(found, np.exp(1.5) * (1 + distance), rtol=1e-4)
    found = noise_variance(-2.0 - distance)
    np.testing.assert_allclose(found, np.exp(-2.0) / (1 + distance), rtol=1e-4)


def test_outputs_that_are_no_logarithms_are_not_limited():
    outputs = jnp.array([[-1e6, 0.0], [1e6, 0.0]])
    np.testing.assert_array_equal(NOISE.mean(outputs), [[-1e6], [1e6]])


@pytest.mark.parametrize("name", BOUNDED)
@pytest.mark.parametrize("sign", [-1, 1])
def test_everything_is_finite_at_outputs_of_a_million(name, sign):
    bounded = BOUNDED[name]
    outputs = jnp.full((3, 2 if bounded is NOISE else 1), sign * 1e6)
    targets = np.array([[0.0], [3.0], [40.0]], np.float32)

    def total(likelihood, outputs):
        return jnp.sum(likelihood.log_prob(outputs, targets))

    assert np.isfinite(bounded.mean(outputs)).all()
    assert np.isfinite(bounded.variance(outputs)).all()
    assert np.isfinite(bounded.log_prob(outputs, targets)).all()
    tails = bounded.cdf(outputs, targets) + bounded.survival(outputs, targets)
    np.testing.assert_allclose(tails, 1, rtol=1e-5)
    gradients = jax.grad(total, argnums=(0, 1))(bounded, outputs)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


@pytest.mark.parametrize("name", COUNTS)
def test_rates_beyond_the_limit_grow_linearly(name):
    outputs = jnp.array([[2.9], [4.0], [13.0], [1e6]])
    expected = [np.exp(2.9), np.exp(3) * 2, np.exp(3) * 11, np.exp(3) * (1e6 - 2)]
    np.testing.assert_allclose(COUNTS[name].mean(outputs)[:, 0], expected, rtol=1e-4)


@pytest.mark.parametrize("name", BOUNDED)
def test_training_cannot_move_the_limits(name):
    """The energy has no slope in them, wherever the outputs lie."""
    columns = 2 if BOUNDED[name] is NOISE else 1
    outputs = jnp.linspace(-20.0, 20.0, 9)[:, None] * jnp.ones((1, columns))
    targets = np.arange(9.0, dtype=np.float32)[:, None]
    slope = jax.grad(lambda likelihood: jnp.sum(likelihood.log_prob(outputs, targets)))
    gradient = slope(BOUNDED[name])
    np.testing.assert_array_equal(gradient.lower, 0)
    np.testing.assert_array_equal(gradient.upper, 0)
    assert all((leaf != 0).all() for leaf in jax.tree.leaves(gradient.likelihood))
