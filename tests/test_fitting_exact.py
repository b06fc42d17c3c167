"""Fits of linear-Gaussian models, where the right answer is known."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize

import bbalpha as bb

ALPHAS = [-1.0, 0.25, 0.5, 1.0, 1.5]
INPUTS = {1: [[1.0, 0.0], [0.0, 1.0]], 2: [[1.0, -1.0], [-1.0, 1.0]]}  # Appendix, Examples 1 and 2
PUBLISHED = {  # variances at these α, found by minimizing the exact energy
    1: [0.451416, 0.516611, 0.535184, 0.577350, 0.622839],
    2: [0.283485, 0.354066, 0.379796, 0.447214, 0.526599],
}
NUM_EPOCHS = 4000
OPTIMIZER = optax.adam(optax.cosine_decay_schedule(3e-2, NUM_EPOCHS))
CAPPED = partial(bb.CappedGaussian.init, initial_logit_variance=-2.0)  # one program for both


def unit_log_likelihood(weights, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)


def closed_form_variance(example, alpha):
    """The variance of q for y = 0 and σ² = 1, from the Appendix's fixed-point equations."""
    if example == 2:
        root = np.sqrt(4 * alpha**2 - 8 * alpha + 9)
        precision = (root - (2 * alpha - 1)) / (2 * (2 - alpha))
        return 1 / (1 + 2 * precision)

    def mismatch(precision):
        rest = 1 + (2 - alpha) * precision
        return 1 / (1 + 2 * precision) - 0.5 * (1 / (rest + alpha) + 1 / rest)

    least = max(0.0, -(1 + alpha) / (2 - alpha)) + 1e-6
    return 1 / (1 + 2 * scipy.optimize.brentq(mismatch, least, 10.0))


@pytest.mark.parametrize("example", INPUTS)
def test_the_closed_forms_are_the_published_variances(example):
    found = [closed_form_variance(example, alpha) for alpha in ALPHAS]
    np.testing.assert_allclose(found, PUBLISHED[example], atol=1e-6)


@jax.jit
def exact_energy_and_slope(mean_and_log_variance, inputs, alpha):
    """By quadrature, of a diagonal Gaussian; one program for all examples and α."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    noise = jnp.asarray(np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)], axis=1))
    noise_weights = jnp.asarray(np.outer(weights, weights).ravel() / weights.sum() ** 2)

    def energy(mean_and_log_variance):
        return bb.alpha_energy(
            unit_log_likelihood,
            bb.DiagonalGaussian(*mean_and_log_variance),
            bb.DiagonalGaussian(jnp.zeros(2), jnp.zeros(2)),
            (inputs, jnp.zeros(2)),
            noise,
            alpha=alpha,
            num_data=2,
            noise_weights=noise_weights,
        )

    return jax.value_and_grad(energy)(mean_and_log_variance)


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("example", INPUTS)
def test_the_exact_energy_is_least_at_the_closed_form_variance(example, alpha, x64):
    def energy_and_slope(vector):
        value, slope = exact_energy_and_slope(
            jnp.asarray(vector.reshape(2, 2)), jnp.array(INPUTS[example]), jnp.asarray(alpha)
        )
        return float(value), np.ravel(slope)

    start = np.array([0.1, 0.1, -1.5, -1.5])
    found = scipy.optimize.minimize(energy_and_slope, start, jac=True, method="BFGS")
    mean, log_variance = found.x.reshape(2, 2)
    np.testing.assert_allclose(mean, 0.0, atol=1e-4)
    expected = closed_form_variance(example, alpha)
    np.testing.assert_allclose(np.exp(log_variance), expected, atol=1e-4)


@pytest.mark.usefixtures("optimized")
@pytest.mark.parametrize("example", INPUTS)
def test_fitted_variances_are_the_closed_form(example):
    """Within four standard errors over eight keys, for each α."""
    num_keys = 8
    keys = jax.random.split(jax.random.key(example), num_keys)
    fits = bb.fit_many(
        unit_log_likelihood,
        jnp.zeros((len(ALPHAS) * num_keys, 2)),
        (jnp.array(INPUTS[example]), jnp.zeros(2)),
        alpha=np.repeat(ALPHAS, num_keys),
        keys=jnp.tile(keys, len(ALPHAS)),
        family=CAPPED,
        optimizer=OPTIMIZER,
        num_epochs=NUM_EPOCHS,
        num_samples=500,
    )
    variances = np.array([posterior.variance.mean() for posterior in fits])
    for alpha, of_keys in zip(ALPHAS, variances.reshape(-1, num_keys), strict=True):
        error = of_keys.std(ddof=1) / np.sqrt(num_keys)
        assert error < 0.005
        assert abs(of_keys.mean() - closed_form_variance(example, alpha)) < 4 * error, alpha


def evidence_maximum(inputs, targets):
    """Posterior, noise variance and prior variance that maximize log N(y; 0, σ² I + v X Xᵀ)."""

    def negative_log_evidence(log_variances):
        noise, prior = np.exp(log_variances)
        covariance = noise * np.eye(len(targets)) + prior * inputs @ inputs.T
        _, log_determinant = np.linalg.slogdet(covariance)
        return 0.5 * (log_determinant + targets @ np.linalg.solve(covariance, targets))

    found = scipy.optimize.minimize(negative_log_evidence, [0.0, 0.0], method="Nelder-Mead")
    noise, prior = np.exp(found.x)
    covariance = np.linalg.inv(inputs.T @ inputs / noise + np.eye(inputs.shape[1]) / prior)
    constant = 0.5 * len(targets) * np.log(2 * np.pi)
    return covariance @ inputs.T @ targets / noise, covariance, noise, prior, found.fun + constant


def regression(weights, batch, likelihood):
    inputs, targets = batch
    return likelihood.log_prob((inputs @ weights)[:, None], targets)


def correlated_inputs(generator):
    return generator.normal(size=(40, 3)) @ np.array([[1, 0.6, 0], [0, 0.8, 0.3], [0, 0, 1.0]])


def orthogonal_inputs(generator):
    orthonormal, _ = np.linalg.qr(generator.normal(size=(40, 3)))
    return orthonormal * [6.0, 5.0, 4.0]


@pytest.mark.parametrize(
    ("family", "make_inputs"),
    [
        (partial(bb.FullGaussian.init, initial_log_variance=-4.0), correlated_inputs),
        (partial(bb.CappedGaussian.init, initial_logit_variance=-4.0), orthogonal_inputs),
    ],
    ids=["full covariance", "capped variances, where inputs are orthogonal"],
)
def test_conjugate_regression_at_alpha_zero_finds_the_evidence_maximum(family, make_inputs):
    """With learned noise and learned prior: all within four standard errors, which are small."""
    generator = np.random.default_rng(0)
    inputs = make_inputs(generator)
    targets = inputs @ np.array([1.0, -2.0, 0.5]) + 0.5 * generator.normal(size=40)
    mean, covariance, noise, prior, least_energy = evidence_maximum(inputs, targets)
    num_keys = 8
    fits = bb.fit_many(
        regression,
        jnp.zeros((num_keys, 3)),
        (inputs, targets),
        alpha=0.0,
        keys=jax.random.split(jax.random.key(0), num_keys),
        family=family,
        hyperparams=bb.Gaussian(),
        learn_prior=True,
        batch_size=40,
        num_epochs=NUM_EPOCHS,
        optimizer=OPTIMIZER,
    )

    def assert_close(values, expected):
        values = np.stack([np.asarray(value) for value in values])
        error = values.std(axis=0, ddof=1) / np.sqrt(num_keys)
        assert np.all(error < 0.02 * np.max(np.abs(expected)))
        assert np.all(np.abs(values.mean(axis=0) - expected) < 4 * error)

    assert_close([fit.mean for fit in fits], mean)
    assert_close([fit.q.variance for fit in fits], np.diag(covariance))
    if isinstance(fits[0].q, bb.FullGaussian):
        assert_close([fit.q.covariance for fit in fits], covariance)
    assert_close([fit.hyperparams.noise_variance for fit in fits], noise)
    assert_close([fit.prior.variance for fit in fits], np.full(3, prior))
    assert_close([fit.energy for fit in fits], least_energy)


@pytest.mark.parametrize(
    ("learn_prior", "groups"),
    [
        (True, [[0, 1], [0, 1], [2]]),
        ({"a": np.array([1.0, 3.0]), "b": 1.0}, [[0], [1], [2]]),
    ],
    ids=["one per leaf", "given factors"],
)
def test_the_learned_prior_has_the_second_moment_of_q_in_each_group(learn_prior, groups):
    """At α = 0 the energy is least in v₀ where v₀ = mean of (m² + v) over what shares a factor."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(60, 3)).astype(np.float32)
    data = inputs, (inputs @ [1.0, 2.0, -3.0] + 1.0).astype(np.float32)
    params = {"a": jnp.zeros(2), "b": jnp.zeros(1)}

    def two_leaves(params, batch):
        inputs, targets = batch
        weights = jnp.concatenate([params["a"], params["b"]])
        return jax.scipy.stats.norm.logpdf(targets, inputs @ weights + 1.0, 0.5)

    posterior = bb.fit(
        two_leaves,
        params,
        data,
        alpha=0.0,
        key=jax.random.key(0),
        learn_prior=learn_prior,
        family=bb.DiagonalGaussian,
        num_epochs=3000,
        num_samples=50,
    )
    moments = posterior.q.mean**2 + posterior.q.variance
    expected = [moments[np.array(group)].mean() for group in groups]
    np.testing.assert_allclose(posterior.prior.variance, expected, rtol=0.02)
    squares = np.array([1.0, 4.0, 9.0])  # of the weights above
    np.testing.assert_allclose(expected, [squares[group].mean() for group in groups], rtol=0.1)


def test_the_posterior_of_a_fit_can_be_the_prior_of_the_next():
    """Two halves one after the other equal all data at once, for VB with exact Gaussians."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(40, 2)).astype(np.float32)
    targets = inputs @ np.array([1.0, -1.0], np.float32)

    def gaussian(weights, batch):
        inputs, targets = batch
        return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)

    settings = {
        "alpha": 0.0,
        "key": jax.random.key(0),
        "family": bb.FullGaussian,
        "num_epochs": 3000,
    }
    first = bb.fit(gaussian, jnp.zeros(2), (inputs[:20], targets[:20]), **settings)
    second = bb.fit(gaussian, first.mean, (inputs[20:], targets[20:]), prior=first.q, **settings)
    covariance = np.linalg.inv(inputs.T @ inputs + np.eye(2))
    np.testing.assert_allclose(second.q.covariance, covariance, rtol=0.03, atol=1e-3)
    np.testing.assert_allclose(second.mean, covariance @ inputs.T @ targets, atol=0.02)
