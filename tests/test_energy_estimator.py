"""The library estimates the energy and its gradient as the paper does.

It is compared with the formula written out, without chunks, keys per draw, shortcuts to log q or
special functions of our own:

    Ê(q) = − (N/|S|) Σ_{n∈S} M_α(log p(xₙ|θₖ) − (log q(θₖ) − log p₀(θₖ))/N),  θₖ = g(εₖ)
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from jax.scipy.stats import multivariate_normal, norm

import bbalpha as bb
from bbalpha.engine import threefry

NUM_DATA, BATCH_SIZE, NUM_PARAMS, NUM_SAMPLES = 20, 5, 3, 4
PRIOR_MEAN, PRIOR_DEVIATION = [0.2, -0.1, 0.4], [1.5, 0.7, 1.1]
ALPHAS = [0.0, 0.5, 1.0]


def log_likelihood(weights, batch):
    """Of the probit model, as users of the library write it."""
    inputs, labels = batch
    return bb.log_ndtr(labels * (inputs @ weights))


def probit_batch():
    """The first five of twenty data."""
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(NUM_DATA, NUM_PARAMS))
    labels = np.sign(inputs @ [1.0, -2.0, 0.5] + generator.normal(size=NUM_DATA))
    return jnp.asarray(inputs[:BATCH_SIZE], float), jnp.asarray(labels[:BATCH_SIZE], float)


def diagonal_prior():
    return bb.DiagonalGaussian(jnp.array(PRIOR_MEAN), 2 * jnp.log(jnp.array(PRIOR_DEVIATION)))


def plain_energy(params, log_q, alpha):
    """The formula for given draws: one row of `params` and one number of `log_q` each."""
    inputs, labels = probit_batch()
    log_p = norm.logcdf(labels[None] * (params @ inputs.T))
    deviation = jnp.array(PRIOR_DEVIATION)[None]
    log_prior = jnp.sum(norm.logpdf(params, jnp.array(PRIOR_MEAN)[None], deviation), axis=1)
    log_site = (log_q - log_prior) / NUM_DATA
    log_ratio = log_p - log_site[:, None]
    power = jnp.where(alpha == 0, 1.0, alpha)
    sums = jax.nn.logsumexp(power * log_ratio, axis=0)
    power_means = (sums - jnp.log(len(params))) / power
    power_means = jnp.where(alpha == 0, jnp.mean(log_ratio, axis=0), power_means)
    return -NUM_DATA / BATCH_SIZE * jnp.sum(power_means)


def plain_diagonal(q, noise):
    deviation = jnp.sqrt(jnp.exp(q.log_variance))[None]
    params = q.mean[None] + deviation * noise
    return params, jnp.sum(norm.logpdf(params, q.mean[None], deviation), axis=1)


def plain_capped(q, noise):
    """Variances between zero and the prior's."""
    deviation = jnp.sqrt(jnp.array(PRIOR_DEVIATION) ** 2 / (1 + jnp.exp(-q.logit_variance)))[None]
    params = q.mean[None] + deviation * noise
    return params, jnp.sum(norm.logpdf(params, q.mean[None], deviation), axis=1)


def plain_full(q, noise):
    factor = jnp.diag(jnp.exp(q.log_scale)) @ (jnp.tril(q.lower, -1) + jnp.eye(NUM_PARAMS))
    params = q.mean[None] + noise @ factor.T
    return params, multivariate_log_density(params, q.mean, factor @ factor.T)


def plain_low_rank(q, noise):
    scale = jnp.diag(jnp.exp(q.log_scale))
    own, shared = noise[:, :NUM_PARAMS], noise[:, NUM_PARAMS:]
    params = q.mean[None] + (own + shared @ q.factor.T) @ scale
    covariance = scale @ (jnp.eye(NUM_PARAMS) + q.factor @ q.factor.T) @ scale
    return params, multivariate_log_density(params, q.mean, covariance)


def multivariate_log_density(params, mean, covariance):
    return jax.vmap(lambda row: multivariate_normal.logpdf(row, mean, covariance))(params)


def families():
    """A member of each family, its plain twin, and the length of its noise."""
    generator = np.random.default_rng(1)
    normal = lambda *shape: jnp.asarray(0.5 * generator.normal(size=shape), float)  # noqa: E731
    return {
        "diagonal": (bb.DiagonalGaussian(normal(3), normal(3)), plain_diagonal, 3),
        "full": (bb.FullGaussian(normal(3), normal(3), normal(3, 3)), plain_full, 3),
        "low rank": (bb.LowRankGaussian(normal(3), normal(3), normal(3, 2)), plain_low_rank, 5),
    }


@pytest.fixture(params=["float32", "float64"])
def tolerance(request):
    """Of algebra in the precision that the test runs in."""
    with jax.enable_x64(request.param == "float64"):
        yield {"float32": 2e-5, "float64": 1e-10}[request.param]


@pytest.mark.parametrize("name", families())
def test_energy_and_gradient_for_given_noise_are_those_of_the_formula(name, tolerance):
    q, plain, size = families()[name]
    keys = jax.random.split(jax.random.key(2), 10)
    noise = jax.vmap(lambda key: threefry.normal(key, (size,), q.mean.dtype))(keys)
    settings = {"prior": diagonal_prior(), "batch": probit_batch(), "num_data": NUM_DATA}
    energy_of = partial(bb.alpha_energy, log_likelihood, **settings)
    engines = {
        "whole": partial(energy_of, noise=noise),
        "whole from keys": partial(energy_of, noise=keys),
        "one at a time": partial(energy_of, noise=noise, sample_chunk=1),
        "in chunks of 3, 3, 3, 1": partial(energy_of, noise=noise, sample_chunk=3),
        "in chunks of 3, 3, 3, 1 from keys": partial(energy_of, noise=keys, sample_chunk=3),
    }
    formula = jax.jit(jax.value_and_grad(lambda q, alpha: plain_energy(*plain(q, noise), alpha)))
    for engine, energy in engines.items():
        found = jax.jit(jax.value_and_grad(lambda q, alpha, energy=energy: energy(q, alpha=alpha)))
        for alpha in (-1.0, *ALPHAS):
            leaves = jax.tree.leaves(found(q, alpha)), jax.tree.leaves(formula(q, alpha))
            for one, other in zip(*leaves, strict=True):
                np.testing.assert_allclose(
                    one, other, tolerance, tolerance * np.abs(other).max(), err_msg=engine
                )


@pytest.mark.parametrize("alpha", ALPHAS)
def test_energies_and_gradients_have_the_mean_and_covariance_of_the_formulas(alpha):
    """Over the noise: the engine's as a step draws it, the formula's from `jax.random`."""
    num_gradients = 100_000
    state = bb.init(
        log_likelihood,
        jnp.array([0.3, -0.5, 0.1]),
        num_data=NUM_DATA,
        key=jax.random.key(0),
        alpha=alpha,
        prior=diagonal_prior(),
        num_samples=NUM_SAMPLES,
        sample_chunk=3,
    )
    q = dataclasses.replace(state.variables.q, logit_variance=jnp.array([0.5, -0.7, 0.0]))
    variables = state.variables._replace(q=q)

    def energy_of_engine(variables, key):
        return dataclasses.replace(state, variables=variables, key=key).energy(probit_batch())

    def energy_of_formula(variables, key):
        noise = jax.random.normal(key, (NUM_SAMPLES, NUM_PARAMS))
        return plain_energy(*plain_capped(variables.q, noise), alpha)

    def samples(energy, seed):
        """One row for each key: the energy, then its gradient."""
        keys = jax.random.split(jax.random.key(seed), num_gradients)
        of_keys = jax.vmap(lambda key: jax.value_and_grad(energy)(variables, key))
        rows = jax.vmap(lambda row: ravel_pytree(row)[0])(jax.jit(of_keys)(keys))
        return np.asarray(rows, np.float64)

    assert_same_moments(samples(energy_of_engine, 1), samples(energy_of_formula, 2))


def assert_same_moments(rows, other):
    """Means and covariances agree within four standard errors, entry by entry."""
    assert_same_mean(rows, other)
    assert_same_mean(products_of_deviations(rows), products_of_deviations(other))


def assert_same_mean(rows, other):
    difference = rows.mean(axis=0) - other.mean(axis=0)
    error = np.sqrt(rows.var(axis=0) / len(rows) + other.var(axis=0) / len(other))
    assert np.all(np.abs(difference) < 4 * error), difference / error


def products_of_deviations(rows):
    """One row for each: the products of all pairs, whose mean is the covariance."""
    deviations = rows - rows.mean(axis=0, keepdims=True)
    first, second = np.triu_indices(rows.shape[1])
    return deviations[:, first] * deviations[:, second]
