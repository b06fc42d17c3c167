"""`fit` against exact posteriors, `bb.fit` and NUTS, and all that its result can do."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
import pytest
import scipy.optimize
from numpyro.infer import SVI, Trace_ELBO, autoguide, init_to_value
from problems.numpyro_models import INPUTS, PAIRS, TARGETS, linear, outputs
from scipy.stats import norm

import bbalpha as bb
from bbalpha.interfaces.arviz import to_arviz
from bbalpha.interfaces.numpyro import BBAlphaELBO, fit, posterior_of

KEY = jax.random.key(0)
TOLERANCE = 0.02  # of `fit`: two standard errors, in posterior deviations
ERRORS = 4 * TOLERANCE / 2  # four standard errors
COARSE = 0.05  # likewise, in posterior deviations; minibatches take few steps to it
SAME = COARSE / 100  # what rounding may change


def exact_linear():
    precision = np.eye(3) + np.asarray(INPUTS.T @ INPUTS, float) / 0.25
    covariance = np.linalg.inv(precision)
    return covariance @ np.asarray(INPUTS.T @ TARGETS, float) / 0.25, covariance


@pytest.fixture(scope="module")
def linear_posterior():
    with jax.numpy_rank_promotion("allow"):
        return fit(linear, INPUTS, TARGETS, alpha=0.0, key=KEY)


def test_at_alpha_zero_a_linear_regression_has_its_exact_posterior(linear_posterior):
    mean, covariance = exact_linear()
    deviation = np.sqrt(np.diag(covariance))
    summary = linear_posterior.summary()
    assert linear_posterior.info.stopped == "converged"
    assert np.all(np.abs(summary.mean["weights"] - mean) < ERRORS * deviation)
    np.testing.assert_allclose(summary.deviation["weights"], deviation, rtol=ERRORS)


@pytest.mark.slow
def test_diagnosis_and_weights_of_an_exact_posterior_are_those_of_the_posterior(linear_posterior):
    diagnosis = linear_posterior.diagnose(key=KEY, num_samples=400)
    assert diagnosis.efficiency > 0.9
    exact = linear_posterior.reweighted(key=KEY, num_samples=1000)
    mean, covariance = exact_linear()
    error = 4 * np.sqrt(np.diag(covariance) / exact.effective_size)
    assert np.all(np.abs(exact.mean["weights"] - mean) < error)


def test_predictions_have_the_mean_and_spread_of_the_model(linear_posterior):
    new = jnp.array([[1.0, 0.0, 0.0], [0.0, 1.0, 1.0]])
    predictive = linear_posterior.predictive(2000, key=jax.random.key(1))
    draws = predictive(jax.random.key(2), new, jnp.full(2, jnp.nan))["y"]
    assert np.isnan(draws).all()  # NumPyro returns what is observed
    weights = linear_posterior.sample(2000, key=jax.random.key(1))["weights"]
    mean, covariance = exact_linear()
    error = 4 * np.sqrt(np.diag(covariance) / 2000)
    assert np.all(np.abs(weights.mean(axis=0) - mean) < error + ERRORS * np.diag(covariance) ** 0.5)


@pytest.mark.filterwarnings("ignore")
def test_arviz_gets_replicated_data_with_the_spread_of_the_observed(linear_posterior):
    found = to_arviz(linear_posterior, key=KEY, num_samples=200)
    assert found.log_likelihood["y"].shape == (1, 200, 200)
    np.testing.assert_array_equal(found.observed_data["y"].values, TARGETS)
    replicated = found.posterior_predictive["y"].values[0]
    mean, covariance = exact_linear()
    squares = np.mean((replicated - np.asarray(INPUTS @ mean)[None]) ** 2, axis=1)  # of each draw
    inputs = np.asarray(INPUTS)
    expected = 0.25 + np.mean(np.sum(inputs @ covariance * inputs, axis=1))
    assert abs(squares.mean() - expected) < 4 * squares.std(ddof=1) / np.sqrt(len(squares))


def fitted(name, alpha, batch_size):
    """A fit from a given start, and the one of `bb.fit` with the same start and the same noise."""
    model, data, log_likelihood, num_weights = PAIRS[name]
    start = 0.3 * jax.random.normal(jax.random.key(9), (num_weights,))
    settings = {"alpha": alpha, "tolerance": COARSE}
    start_here = init_to_value(values={"weights": start})
    guide = autoguide.AutoMultivariateNormal(model, init_loc_fn=start_here)
    found = fit(partial(model, batch_size=batch_size), *data, guide=guide, **settings, key=KEY)
    expected = bb.fit(
        log_likelihood,
        start,
        data,
        family=bb.FullGaussian,
        batch_size=batch_size,
        key=jax.random.split(KEY)[1],  # the other half draws a start
        **settings,
    )
    return found, expected


QUICK = ("linear", 1.0, 32)
CASES = [
    (name, alpha, batch_size)
    for name in PAIRS
    for alpha in (-1.0, 0.0, 0.5, 1.0)
    for batch_size in (None, 32)
]


@pytest.mark.filterwarnings("ignore:fit did not converge")  # networks on minibatches
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=str(case), marks=() if case == QUICK else pytest.mark.slow)
        for case in CASES
    ],
)
def test_a_fit_takes_the_steps_of_bbalpha(case):
    """From one start, with the same noise, nothing but rounding is left between the two."""
    found, expected = fitted(*case)
    assert found.info.num_steps == expected.info.num_steps
    assert found.info.stopped == expected.info.stopped
    deviation = np.sqrt(expected.variance)
    summary = found.summary()
    means = (summary.mean["weights"] - expected.mean) / deviation
    assert np.max(np.abs(means)) < SAME
    np.testing.assert_allclose(summary.deviation["weights"], deviation, rtol=SAME)
    np.testing.assert_allclose(found.energy, expected.energy, rtol=2e-5)
    if case[0] == "linear":
        assert_near_optimum(summary, case[1])


def assert_near_optimum(summary, alpha):
    """`tolerance` is two standard errors, so the exact optimum is within twice as many."""
    mean, deviation = exact_optimum(alpha)
    assert np.all(np.abs(summary.mean["weights"] - mean) < 2 * COARSE * deviation)
    np.testing.assert_allclose(summary.deviation["weights"], deviation, rtol=2 * COARSE)


def exact_optimum(alpha):
    """Means and deviations of the q of least energy, whose Gaussian integrals are in closed form.

    With Gaussian q = N(m, S), log p(yₙ|θ) − log f(θ) is a quadratic −½ θᵀAθ + bᵀθ + c.
    """
    inputs, targets = (np.asarray(of, float) for of in (INPUTS, TARGETS))
    num_data, num_weights = inputs.shape
    lower = np.tril_indices(num_weights)

    def parts(numbers):
        root = np.zeros((num_weights, num_weights))
        root[lower] = numbers[num_weights:]
        return numbers[:num_weights], root

    def energy(numbers):
        mean, root = parts(numbers)
        precision = np.linalg.inv(root @ root.T)
        log_scale = np.log(np.abs(np.linalg.det(precision)))
        matrices = np.einsum("ni,nj->nij", inputs, inputs) / 0.25
        matrices = matrices - (precision - np.eye(num_weights)) / num_data  # A
        vectors = inputs * targets[:, None] / 0.25 - precision @ mean / num_data  # b
        constants = norm.logpdf(targets, 0, 0.5)  # c
        constants = constants - 0.5 * (log_scale - mean @ precision @ mean) / num_data
        if alpha == 0:
            squares = matrices @ (root @ root.T + np.outer(mean, mean))
            means = vectors @ mean - 0.5 * np.trace(squares, axis1=1, axis2=2)
            return -np.sum(means + constants)
        tilted = precision + alpha * matrices
        vectors = precision @ mean + alpha * vectors
        squares = np.einsum(
            "ni,ni->n", vectors, np.linalg.solve(tilted, vectors[..., None])[..., 0]
        )
        logs = log_scale - np.linalg.slogdet(tilted)[1] + squares - mean @ precision @ mean
        return -np.sum(0.5 * logs / alpha + constants)

    mean, covariance = exact_linear()
    start = np.concatenate([mean, np.linalg.cholesky(covariance)[lower]])
    found = scipy.optimize.minimize(energy, start, method="BFGS", options={"gtol": 1e-3})
    mean, root = parts(found.x)
    return mean, np.sqrt(np.sum(root**2, axis=1))


LINES = {  # what a model predicts, of which q has a mean and a deviation
    "linear": lambda weights: PLACES @ weights,
    "probit": lambda weights: PLACES @ weights,
    "network": lambda weights: outputs(weights, PLACES),
}
PLACES = jnp.array([[1.0, 0.0, 0.0], [0.5, -1.0, 1.0]])
NUM_STEPS, NUM_PARTICLES, NUM_KEYS = 2100, 16, 16
RATE = optax.cosine_decay_schedule(0.03, NUM_STEPS)


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [None, 32])
@pytest.mark.parametrize("name", PAIRS)
def test_steps_of_svi_end_where_those_of_bbalpha_do(name, batch_size):
    """Adam with the same rate and number of draws, from one start, over sixteen keys each.

    Predictions are compared, because equal networks have many posteriors.
    """
    model, data, log_likelihood, num_weights = PAIRS[name]
    start = 0.3 * jax.random.normal(jax.random.key(9), (num_weights,))
    log_variance = jnp.full(num_weights, -4.0)

    def guide(*data):
        mean, spread = numpyro.param("mean", start), numpyro.param("log_variance", log_variance)
        numpyro.sample("weights", dist.Normal(mean, jnp.exp(spread / 2)).to_event(1))

    @jax.jit
    def of_svi(alpha_and_key):
        alpha, key = alpha_and_key
        loss = BBAlphaELBO(alpha, NUM_PARTICLES)
        svi = SVI(partial(model, batch_size=batch_size), guide, optax.adam(RATE), loss)

        def step(state, _):
            return svi.update(state, *data)

        state, _ = jax.lax.scan(step, svi.init(key, *data), length=NUM_STEPS)
        params = svi.get_params(state)
        return params["mean"], params["log_variance"]

    @jax.jit
    def predictions(mean, log_variance):
        noise = jax.random.normal(jax.random.key(3), (500, num_weights))
        values = jax.vmap(LINES[name])(mean + jnp.exp(log_variance / 2) * noise)
        return jnp.stack([jnp.mean(values, axis=0), jnp.log(jnp.std(values, axis=0))])

    alphas = jnp.repeat(jnp.array([-1.0, 0.0, 0.5, 1.0]), NUM_KEYS)
    keys = jax.random.split(KEY, (2, len(alphas)))
    found = jax.lax.map(of_svi, (alphas, keys[0]))
    fits = bb.fit_many(
        log_likelihood,
        jnp.broadcast_to(start, (len(alphas), num_weights)),
        data,
        keys=keys[1],
        alpha=alphas,
        family=partial(bb.DiagonalGaussian.init, initial_log_variance=-4.0),
        optimizer=optax.adam(RATE),
        num_samples=NUM_PARTICLES,
        batch_size=batch_size or len(data[0]),
        num_epochs=NUM_STEPS if batch_size is None else NUM_STEPS // 7,
        progress=False,
    )
    q = [posterior.q for posterior in fits]
    expected = jnp.stack([of.mean for of in q]), jnp.stack([of.log_variance for of in q])
    ours, theirs = (
        np.asarray(jax.vmap(predictions)(*of)).reshape(4, NUM_KEYS, -1) for of in (found, expected)
    )
    variances = sum(np.var(of, axis=1, ddof=1) / NUM_KEYS for of in (ours, theirs))
    assert np.all(np.abs(ours.mean(axis=1) - theirs.mean(axis=1)) < 4 * np.sqrt(variances))


def pooled(data, batch_size=None):
    center = numpyro.sample("center", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfNormal(2))
    with numpyro.plate("groups", 4, subsample_size=batch_size) as rows:
        effect = numpyro.sample("effect", dist.Normal(center, spread))
        observed = None if data is None else data[rows]
        numpyro.sample("x", dist.Normal(effect, 0.7), obs=observed)


@pytest.fixture(scope="module")
def local_posterior():
    data = jnp.array([1.0, 2.0, 0.5, 1.5])
    with jax.numpy_rank_promotion("allow"):
        model = partial(pooled, batch_size=2)
        return fit(model, data, num_epochs=150, num_particles=8, key=KEY)


def test_a_model_with_local_sites_takes_steps_of_svi_and_keeps_its_record(local_posterior):
    energies = local_posterior.info.energies
    assert (local_posterior.info.num_steps, len(energies)) == (300, 150)
    assert np.mean(energies[-30:]) < np.mean(energies[:30])
    assert local_posterior.structure.local == ("effect",)
    draws = local_posterior.sample(50, key=KEY)
    shapes = {name: of.shape for name, of in draws.items()}
    assert shapes == {"center": (50,), "spread": (50,), "effect": (50, 4)}
    assert np.all(draws["spread"] > 0)


def test_predictions_are_for_all_rows_of_a_model_trained_on_minibatches(local_posterior):
    """Row n is predicted from its own effect, whose draws have the same key."""
    draws = local_posterior.sample(500, key=KEY)["effect"]
    predictive = local_posterior.predictive(500, key=KEY)
    scores = np.asarray(predictive(jax.random.key(1), None)["x"] - draws) / 0.7
    assert scores.shape == (500, 4)
    assert np.all(np.abs(scores.mean(axis=0)) < 4 / np.sqrt(500))
    np.testing.assert_allclose(scores.std(axis=0), 1, atol=4 / np.sqrt(1000))


@pytest.mark.slow
def test_local_sites_of_new_data_come_from_their_own_distribution(local_posterior):
    draws = local_posterior.sample(4000, key=KEY)
    for new_data in (False, True):
        predictive = local_posterior.predictive(4000, key=KEY, new_data=new_data)
        found = predictive(jax.random.key(1), None)["x"]
        spread = draws["spread"][:, None] if new_data else 0.0
        center = draws["center"][:, None] if new_data else draws["effect"]
        scores = np.asarray((found - center) / np.sqrt(0.7**2 + spread**2))
        assert abs(scores.std() - 1) < 4 / np.sqrt(2 * scores.size)


@pytest.mark.slow
def test_summary_diagnosis_and_energy_of_a_guide_agree(local_posterior):
    assert "effect[3]" in str(local_posterior.summary())
    diagnosis = local_posterior.diagnose(key=KEY, num_samples=200)
    assert len(diagnosis.leave_one_out) == 4
    error = diagnosis.energy_standard_error
    assert abs(float(local_posterior.energy) - diagnosis.energy) < 4 * error


@pytest.mark.slow
def test_a_run_of_svi_with_any_loss_becomes_a_posterior():
    guide = autoguide.AutoNormal(linear)
    svi = SVI(linear, guide, optax.adam(0.05), Trace_ELBO(num_particles=4))
    result = svi.run(KEY, 500, INPUTS, TARGETS, progress_bar=False)
    posterior = posterior_of(svi, result, INPUTS, TARGETS)
    draws = posterior.sample(1000, key=KEY)["weights"]
    loc, scale = (np.asarray(result.params[f"weights_auto_{of}"]) for of in ("loc", "scale"))
    assert np.all(np.abs(draws.mean(axis=0) - loc) < 4 * scale / np.sqrt(1000))
    exact = posterior.reweighted(key=KEY, num_samples=2000)
    mean, covariance = exact_linear()
    error = 4 * np.sqrt(np.diag(covariance) / exact.effective_size)
    assert np.all(np.abs(exact.mean["weights"] - mean) < error)


@pytest.mark.slow
def test_a_minibatched_guide_of_svi_finds_the_exact_posterior():
    svi = SVI(
        partial(linear, batch_size=32),
        autoguide.AutoMultivariateNormal(linear),
        optax.adam(optax.cosine_decay_schedule(0.02, 6000)),
        BBAlphaELBO(0.0, 32),
    )
    result = svi.run(KEY, 6000, INPUTS, TARGETS, progress_bar=False)
    mean, covariance = exact_linear()
    deviation = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(result.params["auto_loc"] - mean) < 0.2 * deviation)
