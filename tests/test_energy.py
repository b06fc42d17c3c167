"""The energy against closed forms, identities and independent integrations."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.optimize
import scipy.special
import scipy.stats
from jax.flatten_util import ravel_pytree

import bbalpha as bb
from bbalpha.engine.batches import minibatch_rows

alpha_energy = jax.jit(
    bb.alpha_energy, static_argnames=("log_likelihood", "layout", "sample_chunk")
)

ALPHAS = [-1.0, -1e-3, 0.0, 1e-3, 0.25, 0.5, 1.0, 1.5]


def gauss_hermite(num_nodes, num_params=1):
    """Nodes and weights of a standard Gaussian: with them as noise the energy is exact."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    weights = weights / weights.sum()
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*[nodes] * num_params)], axis=1)
    product = np.prod([axis.ravel() for axis in np.meshgrid(*[weights] * num_params)], axis=0)
    return jnp.asarray(grid), jnp.asarray(product)


def gaussian(mean, variance):
    return bb.DiagonalGaussian(jnp.asarray(mean), jnp.log(jnp.asarray(variance)))


def linear_log_likelihood(params, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ params, 0.8)


def probit_log_likelihood(params, batch):
    inputs, labels = batch
    return jax.scipy.stats.norm.logcdf(labels * (inputs @ params))


@pytest.fixture
def linear_data(x64):
    inputs = jnp.array([[1.0], [-0.5], [2.0], [0.3]])
    return inputs, jnp.array([0.7, -0.2, 1.5, 0.4])


@pytest.fixture
def probit_data(x64):
    generator = np.random.default_rng(0)
    inputs = jnp.asarray(generator.normal(size=(11, 2)))
    return inputs, jnp.asarray(np.sign(generator.normal(size=11) + 0.5))


def exact_energy(log_likelihood, q, prior, data, alpha, num_nodes=80):
    noise, noise_weights = gauss_hermite(num_nodes, q.mean.size)
    return alpha_energy(
        log_likelihood,
        q,
        prior,
        data,
        noise,
        alpha=alpha,
        num_data=len(data[1]),
        noise_weights=noise_weights,
    )


def closed_form_energy(q_mean, q_variance, prior_variance, data, alpha, noise_variance=0.64):
    """The exact energy for one weight, by the Gaussian integrals of each datum's tilted density.

    ∫ q(θ) (p/f)^α dθ = ∫ q^(1 − α/N) p₀^(α/N) p^α dθ, where all three are exponentials of
    quadratics a θ² + b θ + c.
    """
    inputs, targets = np.asarray(data[0])[:, 0], np.asarray(data[1])
    power = alpha / len(targets)

    def log_gaussian(mean, variance):
        scale = -0.5 * np.log(2 * np.pi * variance)
        return np.array([-0.5 / variance, mean / variance, scale - 0.5 * mean**2 / variance])

    energy = 0.0
    for x, y in zip(inputs, targets, strict=True):
        log_p = np.array([-0.5 * x**2, x * y, -0.5 * y**2]) / noise_variance
        log_p[2] -= 0.5 * np.log(2 * np.pi * noise_variance)
        a, b, c = (
            (1 - power) * log_gaussian(q_mean, q_variance)
            + power * log_gaussian(0.0, prior_variance)
            + alpha * log_p
        )
        energy -= (c - b**2 / (4 * a) + 0.5 * np.log(-np.pi / a)) / alpha
    return energy


@pytest.mark.parametrize("alpha", [alpha for alpha in ALPHAS if abs(alpha) > 1e-2])
def test_energy_equals_the_gaussian_integral_of_linear_regression(alpha, linear_data):
    energy = exact_energy(
        linear_log_likelihood, gaussian([0.4], [0.1]), gaussian([0.0], [2.0]), linear_data, alpha
    )
    np.testing.assert_allclose(energy, closed_form_energy(0.4, 0.1, 2.0, linear_data, alpha), 1e-10)


def test_energy_at_alpha_zero_is_the_negative_evidence_lower_bound(linear_data):
    inputs, targets = linear_data
    mean, variance, prior_variance = 0.4, 0.1, 2.0
    residuals = targets - inputs[:, 0] * mean
    expected = jnp.sum(jax.scipy.stats.norm.logpdf(residuals, 0.0, 0.8))
    expected -= jnp.sum(0.5 * inputs[:, 0] ** 2 * variance / 0.64)
    ratio = variance / prior_variance
    divergence = 0.5 * (ratio + mean**2 / prior_variance - 1 - jnp.log(ratio))
    energy = exact_energy(
        linear_log_likelihood,
        gaussian([mean], [variance]),
        gaussian([0.0], [prior_variance]),
        linear_data,
        0.0,
    )
    np.testing.assert_allclose(energy, divergence - expected, rtol=1e-10)


def test_energy_is_constant_in_q_when_alpha_equals_num_data(linear_data):
    prior = gaussian([0.0], [2.0])
    members = [gaussian([0.5], [0.3]), gaussian([0.7], [0.5]), gaussian([0.4], [0.4])]
    energies = [
        exact_energy(linear_log_likelihood, q, prior, linear_data, 4.0, num_nodes=150)
        for q in members
    ]
    np.testing.assert_allclose(energies, energies[0], rtol=1e-8)


def test_energy_is_minus_log_evidence_for_every_q_when_one_datum_and_alpha_one(x64):
    data = jnp.array([[1.3]]), jnp.array([0.9])
    evidence = scipy.stats.norm.logpdf(0.9, 0.0, np.sqrt(2.0 * 1.3**2 + 0.64))
    for q in (gaussian([0.5], [0.3]), gaussian([0.7], [1.2]), gaussian([0.0], [2.0])):
        energy = exact_energy(linear_log_likelihood, q, gaussian([0.0], [2.0]), data, 1.0, 150)
        np.testing.assert_allclose(energy, -evidence, rtol=1e-8)


def test_energy_does_not_increase_with_alpha(probit_data):
    noise = jax.random.normal(jax.random.key(0), (50, 2))
    energies = [
        alpha_energy(
            probit_log_likelihood,
            gaussian([0.3, -0.2], [0.5, 0.2]),
            gaussian([0.0, 0.0], [1.0, 1.0]),
            probit_data,
            noise,
            alpha=alpha,
            num_data=11,
        )
        for alpha in [*ALPHAS, 5.0]
    ]
    assert np.all(np.diff(energies) < 0)


@pytest.mark.parametrize("alpha", [-1.0, 0.5, 1.0])
def test_energy_equals_the_natural_parameter_form(alpha, probit_data):
    """The form of the paper's equation and of the authors' code, with its log-normalizers."""
    inputs, labels = probit_data
    batch = inputs[:4], labels[:4]
    mean, variance = np.array([0.3, -0.2]), np.array([0.5, 0.2])
    prior_mean, prior_variance = np.array([0.1, 0.4]), np.array([1.5, 0.7])
    noise = np.random.default_rng(1).normal(size=(7, 2))
    draws = mean + np.sqrt(variance) * noise
    precision = (1 / variance - 1 / prior_variance) / 11
    linear = (mean / variance - prior_mean / prior_variance) / 11
    log_site = draws @ linear - 0.5 * draws**2 @ precision
    log_normalizer = lambda m, v: np.sum(0.5 * np.log(2 * np.pi * v) + m**2 / (2 * v))  # noqa: E731
    margins = np.asarray(batch[1]) * (draws @ np.asarray(batch[0]).T)
    log_ratio = scipy.special.log_ndtr(margins) - log_site[:, None]
    terms = scipy.special.logsumexp(alpha * log_ratio, axis=0) - np.log(7)
    expected = log_normalizer(prior_mean, prior_variance) - log_normalizer(mean, variance)
    expected -= 11 / (4 * alpha) * terms.sum()
    energy = alpha_energy(
        probit_log_likelihood,
        gaussian(mean, variance),
        gaussian(prior_mean, prior_variance),
        batch,
        jnp.asarray(noise),
        alpha=alpha,
        num_data=11,
    )
    np.testing.assert_allclose(energy, expected, rtol=1e-10)


@pytest.mark.parametrize("alpha", [-0.5, 0.5, 1.0])
def test_gradient_is_zero_where_q_has_the_averaged_moments_of_the_tilted_densities(alpha, x64):
    inputs = jnp.array([[1.0], [-0.7], [0.4], [1.5], [-2.0]])
    labels = jnp.array([1.0, -1.0, -1.0, 1.0, -1.0])
    prior = gaussian([0.0], [1.0])
    start, unravel = ravel_pytree(gaussian([0.2], [0.3]))

    @jax.jit
    def energy(vector):
        return exact_energy(probit_log_likelihood, unravel(vector), prior, (inputs, labels), alpha)

    result = scipy.optimize.minimize(
        energy, start, jac=jax.jit(jax.grad(energy)), method="BFGS", options={"gtol": 1e-9}
    )
    mean, log_variance = result.x
    grid = np.linspace(-12, 12, 48001)
    log_q = scipy.stats.norm.logpdf(grid, mean, np.exp(0.5 * log_variance))
    log_site = (log_q - scipy.stats.norm.logpdf(grid)) / len(labels)
    moments = []
    for x, label in zip(np.asarray(inputs)[:, 0], np.asarray(labels), strict=True):
        log_tilted = log_q + alpha * (scipy.special.log_ndtr(label * x * grid) - log_site)
        tilted = np.exp(log_tilted - log_tilted.max())
        tilted /= scipy.integrate.simpson(tilted, x=grid)
        moments.append([scipy.integrate.simpson(tilted * grid**p, x=grid) for p in (1, 2)])
    expected = [mean, mean**2 + np.exp(log_variance)]
    np.testing.assert_allclose(np.mean(moments, axis=0), expected, atol=1e-7)


def test_minibatch_energies_average_to_the_full_energy(probit_data):
    inputs, labels = probit_data
    q, prior = gaussian([0.3, -0.2], [0.5, 0.2]), gaussian([0.0, 0.0], [1.0, 1.0])
    noise = jax.random.normal(jax.random.key(0), (5, 2))

    def energy(rows, weights):
        batch = inputs[rows], labels[rows]
        return alpha_energy(
            probit_log_likelihood, q, prior, batch, noise, alpha=0.5, num_data=11, weights=weights
        )

    rows, weights = minibatch_rows(jax.random.key(1), 11, 11, 4)
    shares = [4 / 11, 4 / 11, 3 / 11]
    average = sum(
        share * energy(*batch) for share, *batch in zip(shares, rows, weights, strict=True)
    )
    np.testing.assert_allclose(average, energy(jnp.arange(11), None), rtol=1e-10)


def test_a_batch_without_weights_counts_as_the_whole_data(probit_data):
    inputs, labels = probit_data
    batch = inputs[:4], labels[:4]
    q, prior = gaussian([0.3, -0.2], [0.5, 0.2]), gaussian([0.0, 0.0], [1.0, 1.0])
    noise = jax.random.normal(jax.random.key(0), (5, 2))
    given = [None, jnp.full(4, 11 / 4)]
    plain, weighted = (
        alpha_energy(
            probit_log_likelihood, q, prior, batch, noise, alpha=0.5, num_data=11, weights=weights
        )
        for weights in given
    )
    np.testing.assert_allclose(plain, weighted, rtol=1e-10)


def test_padding_has_no_gradient_even_where_its_likelihood_is_infinite(x64):
    def log_likelihood(params, batch):
        return jnp.log(batch) + params  # −∞ for the second datum

    def energy(mean):
        return alpha_energy(
            log_likelihood,
            gaussian(mean, [0.5]),
            gaussian([0.0], [1.0]),
            jnp.array([1.0, 0.0]),
            jnp.ones((3, 1)),
            alpha=0.5,
            num_data=1,
            weights=jnp.array([1.0, 0.0]),
        )

    assert np.isfinite(jax.grad(energy)(jnp.array([0.3]))).all()


def reference_power_mean(values, alpha):
    """In float64, by log-sum-exp, which is exact enough there: its error is 1e-16 |t| / α."""
    values = np.asarray(values, np.float64)
    if alpha == 0:
        return values.mean(axis=0)
    if abs(alpha) < 1e-5:  # second-order expansion; the next term is of order α² times 1e3
        return values.mean(axis=0) + 0.5 * alpha * values.var(axis=0)
    return (scipy.special.logsumexp(alpha * values, axis=0) - np.log(len(values))) / alpha


POWERS = [0.0, 1e-8, -1e-8, 1e-6, -1e-6, 1e-3, -1e-3, 1.0, -1.0]


@pytest.mark.parametrize("alpha", POWERS)
@pytest.mark.parametrize("num_samples", [3, 100, 10_000])
def test_float32_power_mean_agrees_with_float64(alpha, num_samples):
    values = np.random.default_rng(0).normal(-150, 10, size=(num_samples, 20)).astype(np.float32)
    found = bb.log_power_mean(jnp.asarray(values), alpha)
    assert found.dtype == jnp.float32
    np.testing.assert_allclose(found, reference_power_mean(values, alpha), rtol=1e-5)


@pytest.mark.parametrize("num_samples", [100, 1000, 100_000])
def test_float32_power_mean_sums_many_small_terms_beside_a_large_one(num_samples):
    log_values = np.full((num_samples, 1), -17.0, np.float32)
    log_values[0] = 0.0
    expected = np.log(np.mean(np.exp(log_values.astype(np.float64))))
    np.testing.assert_allclose(bb.log_power_mean(jnp.asarray(log_values), 1.0), expected, rtol=2e-5)


@pytest.mark.parametrize("alpha", POWERS)
def test_float32_power_mean_has_the_gradient_of_float64(alpha):
    values = np.random.default_rng(1).normal(-150, 10, size=(100, 20)).astype(np.float32)
    found = jax.grad(lambda t: bb.log_power_mean(t, alpha).sum())(jnp.asarray(values))
    expected = scipy.special.softmax(alpha * values.astype(np.float64), axis=0)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * expected.max())


def test_power_mean_rounds_to_the_last_digit_at_small_alpha():
    """The naive log-mean-exp is off by 0.1 here; the last digit of 150 in float32 is 1.5e-5."""
    values = np.random.default_rng(2).normal(-150, 10, size=(100, 20)).astype(np.float32)
    for alpha in (1e-6, -1e-6):
        found = np.asarray(bb.log_power_mean(jnp.asarray(values), alpha), np.float64)
        assert np.abs(found - reference_power_mean(values, alpha)).max() < 4.6e-5


def test_float32_power_mean_of_two_numbers_is_right_at_every_distance():
    """The exponential is a series times a power of 2, which must fit together everywhere."""
    distances = np.geomspace(1e-6, 80.0, 4000).astype(np.float32)
    values = jnp.stack([jnp.zeros(4000), -distances])
    exact = distances.astype(np.float64)
    expected = np.log1p(np.expm1(-exact) / 2)
    np.testing.assert_allclose(bb.log_power_mean(values, 1.0), expected, rtol=5e-7)
    found = jax.grad(lambda t: bb.log_power_mean(t, 1.0).sum())(values)[1]
    np.testing.assert_allclose(found, scipy.special.expit(-exact), rtol=5e-7, atol=5e-8)


def test_power_mean_does_not_overflow_and_keeps_minus_infinity():
    values = jnp.array([[-2000.0, 3000.0], [-1000.0, -jnp.inf]])
    np.testing.assert_allclose(
        bb.log_power_mean(values, 1.0), [-1000 - np.log(2), 3000 - np.log(2)], rtol=1e-6
    )
    np.testing.assert_allclose(
        bb.log_power_mean(values, -1.0), [-2000 + np.log(2), -np.inf], rtol=1e-6
    )
    assert bb.log_power_mean(jnp.full((3,), -jnp.inf), 0.5) == -jnp.inf


def test_power_mean_is_smooth_in_a_traced_alpha(x64):
    values = jnp.asarray(np.random.default_rng(3).normal(size=20))
    derivative = jax.grad(lambda alpha: bb.log_power_mean(values, alpha))
    step = 1e-5
    for alpha in (-0.7, 0.3, 1.0):
        slope = reference_power_mean(values, alpha + step) - reference_power_mean(
            values, alpha - step
        )
        np.testing.assert_allclose(derivative(alpha), slope / (2 * step), rtol=1e-6)


def test_power_mean_with_weights_is_that_of_repeated_draws(x64):
    values = jnp.array([0.3, -1.0, 2.0])
    weighted = bb.log_power_mean(values, 0.7, jnp.array([0.5, 0.25, 0.25]))
    np.testing.assert_allclose(
        weighted, bb.log_power_mean(values[jnp.array([0, 0, 1, 2])], 0.7), rtol=1e-12
    )


@pytest.mark.parametrize("batch", [None, {"scale": jnp.ones(()), "flat": jnp.ones(5)}])
def test_a_batch_may_be_anything_that_the_log_likelihood_understands(batch):
    """Such as for other data, or for three data points stored as five numbers."""
    q = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))

    def log_likelihood(params, batch):
        return -0.5 * jnp.square(jnp.arange(3.0) - params)

    noise = jnp.zeros((2, 1))  # the site is 1 and θ = 0, so that E = (0 + 1 + 4) / 2
    energy = alpha_energy(log_likelihood, q, q, batch, noise, alpha=0.5, num_data=3)
    np.testing.assert_allclose(energy, 2.5, rtol=1e-6)


def test_the_log_likelihood_takes_the_tree_and_the_hyperparams_that_fit_would_give_it(linear_data):
    """The same energy from a flat vector, and from a tree with the noise as a hyper-parameter."""
    layout = bb.Layout.of({"slope": jnp.zeros(1)})

    def of_tree(params, batch, deviation):
        inputs, targets = batch
        return jax.scipy.stats.norm.logpdf(targets, inputs @ params["slope"], deviation)

    q, prior = gaussian([0.4], [0.1]), gaussian([0.0], [2.0])
    noise = jax.random.normal(jax.random.key(0), (7, 1))
    settings = {"q": q, "prior": prior, "batch": linear_data, "noise": noise, "alpha": 0.5}
    of_vector = alpha_energy(linear_log_likelihood, num_data=4, **settings)
    energy = alpha_energy(of_tree, num_data=4, layout=layout, hyperparams=0.8, **settings)
    np.testing.assert_allclose(energy, of_vector, rtol=1e-12)
