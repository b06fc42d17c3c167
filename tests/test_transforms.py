"""Transforms are one-to-one onto their constraint, and their Jacobians are right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import bbalpha as bb

NUM_FREE = 3
FREE = np.array([0.3, -1.2, 0.7])
TRANSFORMS = {
    "positive": bb.positive,
    "probability": bb.probability,
    "interval": bb.interval(-2.0, 5),
    "ordered": bb.ordered,
    "simplex": bb.simplex,
}
SUPPORTS = {
    "positive": lambda x: np.all(x > 0),
    "probability": lambda x: np.all((x > 0) & (x < 1)),
    "interval": lambda x: np.all((x > -2) & (x < 5)),
    "ordered": lambda x: np.all(np.diff(x, axis=-1) > 0),
    "simplex": lambda x: np.all(x > 0) and np.allclose(x.sum(axis=-1), 1),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_inverse_undoes_the_transform(name):
    transform = TRANSFORMS[name]
    free = jnp.asarray(np.stack([FREE, 2 - FREE]))
    values = transform.forward(free)
    assert SUPPORTS[name](np.asarray(values))
    np.testing.assert_allclose(transform.inverse(values), free, atol=1e-10)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_the_jacobian_is_that_of_automatic_differentiation(name):
    transform = TRANSFORMS[name]
    free = jnp.asarray(FREE)
    # Of a simplex, the first entries are the coordinates.
    jacobian = jax.jacfwd(lambda free: transform.forward(free)[:NUM_FREE])(free)
    expected = np.linalg.slogdet(jacobian)[1]
    np.testing.assert_allclose(jnp.sum(transform.log_det_jacobian(free)), expected, rtol=1e-10)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_rows_are_transformed_one_by_one(name):
    transform = TRANSFORMS[name]
    rows = jnp.asarray(np.stack([FREE, 2 * FREE]), jnp.float32)
    for method in (transform.forward, lambda free: transform.inverse(transform.forward(free))):
        expected = np.stack([method(row) for row in rows])
        np.testing.assert_allclose(method(rows), expected, rtol=2e-5, atol=2e-5)
    total = sum(jnp.sum(transform.log_det_jacobian(row)) for row in rows)
    np.testing.assert_allclose(jnp.sum(transform.log_det_jacobian(rows)), total, rtol=2e-5)


@pytest.mark.parametrize("free", [-200.0, 200.0])
def test_probabilities_never_round_to_zero_or_one(free):
    value = bb.probability.forward(jnp.float32(free))
    assert 0 < value < 1
    weights = bb.simplex.forward(jnp.full(2, free, jnp.float32))
    assert np.all(weights > 0)


@pytest.mark.usefixtures("x64")
def test_a_standard_prior_treats_the_entries_of_a_simplex_alike():
    """Log-ratios to the geometric mean have covariance I − 11ᵀ/K: no entry is special."""
    contrasts = jax.vmap(lambda free: jnp.log(bb.simplex.forward(free)))(jnp.eye(NUM_FREE))
    centered = contrasts - contrasts.mean(axis=1, keepdims=True)
    num_entries = NUM_FREE + 1
    expected = np.eye(num_entries) - 1 / num_entries
    np.testing.assert_allclose(centered.T @ centered, expected, atol=1e-10)


def test_transforms_are_values():
    assert bb.interval(0, 1) == bb.probability
    assert hash(bb.interval(0, 1)) == hash(bb.probability)
    assert bb.interval(0, 2) != bb.probability


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0)])
def test_the_ends_of_an_interval_must_be_in_order(ends):
    message = r"^low must be less than high, both finite; got low=\S+, high=\S+\.$"
    with pytest.raises(ValueError, match=message):
        bb.interval(*ends)


def posterior_over(params, transforms):
    """A Gaussian with correlations over the free numbers."""
    layout = bb.Layout.of(params, transforms=transforms)
    mean = 0.3 * jnp.arange(float(layout.size)) - 0.2
    q = bb.FullGaussian(mean, jnp.full_like(mean, -0.7), 0.5 * jnp.ones((layout.size,) * 2))
    scalar = jnp.zeros(())
    return bb.Posterior(q, q, None, scalar, scalar, scalar, layout)


RANGES = {  # of which values, and how they fill the array
    "positive": (0.0, 40.0, lambda x: jnp.stack([x])),
    "probability": (0.0, 1.0, lambda x: jnp.stack([x])),
    "interval": (-2.0, 5.0, lambda x: jnp.stack([x])),
    "simplex": (0.0, 1.0, lambda x: jnp.stack([x, 1 - x])),
}


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", RANGES)
def test_the_density_of_a_constrained_parameter_integrates_to_one(name):
    low, high, fill = RANGES[name]
    start = fill(jnp.array(0.5))
    posterior = posterior_over(start, TRANSFORMS[name])
    values = jnp.linspace(low, high, 20_001)[1:-1]
    densities = jnp.exp(jax.vmap(lambda x: posterior.log_prob(fill(x)))(values))
    total = scipy.integrate.trapezoid(densities, values)
    np.testing.assert_allclose(total, 1.0, atol=1e-6)


@pytest.mark.usefixtures("x64")
def test_the_density_of_an_ordered_pair_integrates_to_one():
    posterior = posterior_over(jnp.array([0.0, 1.0]), bb.ordered)
    first, gap = np.linspace(-4, 4, 401), np.linspace(0, 20, 4001)[1:]
    pairs = jnp.asarray(np.stack(np.meshgrid(first, gap, indexing="ij"), axis=-1))
    pairs = pairs.at[..., 1].add(pairs[..., 0])
    densities = jnp.exp(jax.vmap(jax.vmap(posterior.log_prob))(pairs))
    total = scipy.integrate.trapezoid(scipy.integrate.trapezoid(densities, gap, axis=1), first)
    np.testing.assert_allclose(total, 1.0, atol=1e-4)


def test_a_value_outside_of_the_constraint_has_no_density():
    posterior = posterior_over({"scale": jnp.ones(())}, {"scale": bb.positive})
    assert posterior.log_prob({"scale": jnp.array(-1.0)}) == -jnp.inf
