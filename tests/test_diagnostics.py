"""A diagnosis agrees with closed forms, with scipy, and with many repetitions."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
from problems import conjugate
from problems.conjugate import COVARIANCE, DATA, DESIGN, INPUTS, MEAN, TARGETS, log_likelihood

import bbalpha as bb
from bbalpha.engine import threefry

KEY = jax.random.key(0)
NUM_SAMPLES, GROUP = 400, 20


def diagnose(posterior, data=DATA, key=KEY, **settings):
    settings = {"num_samples": NUM_SAMPLES, "fit_num_samples": GROUP} | settings
    return posterior.diagnose(log_likelihood, data, key=key, **settings)


def draws_of(posterior):
    return conjugate.flat(posterior.sample(NUM_SAMPLES, key=KEY))


def log_site(posterior, draws):
    return (conjugate.log_q(posterior, draws) - conjugate.log_prior(draws)) / conjugate.NUM_DATA


@pytest.fixture(scope="module")
def exact():
    return diagnose(conjugate.posterior())


def test_the_exact_posterior_passes_every_check(exact):
    assert exact.pareto_k == -np.inf
    assert exact.efficiency == pytest.approx(1)
    assert exact.checks[0].verdict == "close"
    assert all(check.passed for check in exact.checks)


def test_efficiency_is_the_effective_size_of_the_weights():
    posterior = conjugate.posterior(width=1.3)
    weighted = posterior.reweighted(log_likelihood, DATA, key=KEY, num_samples=NUM_SAMPLES)
    found = diagnose(posterior)
    assert found.pareto_k == pytest.approx(weighted.pareto_k)
    assert found.efficiency == pytest.approx(weighted.effective_size / NUM_SAMPLES)


def test_a_narrow_q_is_far_from_the_posterior():
    found = diagnose(conjugate.posterior(width=0.2), num_samples=4000)
    assert found.pareto_k > 0.7
    assert [check.passed for check in found.checks] == [False, True, True, True, True]


@pytest.mark.parametrize("alpha", [0.5, 1.0, -1.0, 0.0])
def test_effective_draws_are_those_of_the_weights_inside_the_energy(alpha):
    posterior = conjugate.posterior(width=2.0, alpha=alpha)
    draws = draws_of(posterior)
    values = conjugate.log_likelihoods(draws) - log_site(posterior, draws)[:, None]
    effective = []
    for group in np.split(alpha * values, NUM_SAMPLES // GROUP):
        weights = scipy.special.softmax(group, axis=0)
        effective.append(1 / np.square(weights).sum(axis=0))
    found = diagnose(posterior).effective_draws
    np.testing.assert_allclose(found, np.mean(effective, axis=0), rtol=1e-4)
    if alpha == 0:
        np.testing.assert_allclose(found, GROUP)


def test_energy_of_the_exact_posterior_is_minus_the_log_evidence(exact):
    assert exact.energy == pytest.approx(-conjugate.LOG_EVIDENCE, abs=1e-4)
    assert exact.energy_standard_error < 1e-5


@pytest.mark.parametrize("alpha", [1.0, -1.0, 1e-6, 1e-30])
def test_energy_is_that_of_the_fit(alpha):
    posterior = conjugate.posterior(width=2.0, alpha=alpha)
    assert diagnose(posterior).energy == pytest.approx(float(energy_of(posterior)), rel=2e-5)


@jax.jit
def energy_of(posterior):
    return bb.alpha_energy(
        log_likelihood,
        posterior.q,
        posterior.prior,
        jax.tree.map(jnp.asarray, DATA),
        threefry.consecutive(KEY, NUM_SAMPLES),
        alpha=posterior.alpha,
        num_data=posterior.num_data,
        layout=posterior.layout,
    )


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_standard_error_is_the_deviation_over_repetitions(alpha):
    posterior, num = conjugate.posterior(width=2.0, alpha=alpha), 30
    found = [diagnose(posterior, key=key) for key in jax.random.split(KEY, num)]
    energies = np.array([each.energy for each in found])
    predicted = np.sqrt(np.mean([each.energy_standard_error**2 for each in found]))
    relative_error = 1 / np.sqrt(2 * (num - 1))
    assert abs(np.std(energies, ddof=1) / predicted - 1) < 4 * relative_error
    if alpha == 0:  # E = KL[q‖posterior] − log evidence
        divergence = 3 / 2 * (2.0**2 - 1) - 3 * np.log(2.0)
        error = predicted / np.sqrt(num)
        assert abs(energies.mean() - divergence + conjugate.LOG_EVIDENCE) < 4 * error


def test_left_out_densities_are_exact_if_q_is_the_posterior(exact):
    ratios = np.exp(-conjugate.log_likelihoods(draws_of(conjugate.posterior())))  # 1/p(xₙ|θₖ)
    error = ratios.std(axis=0) / ratios.mean(axis=0) / np.sqrt(NUM_SAMPLES)
    scores = conjugate.exact_leave_one_out()
    assert np.all(np.abs(exact.leave_one_out - scores) < 4 * error)
    in_sample = scipy.stats.norm.logpdf(
        TARGETS, DESIGN @ MEAN, np.sqrt(1 + np.sum(DESIGN @ COVARIANCE * DESIGN, axis=1))
    )
    assert np.max(in_sample - scores - 8 * error) > 0  # which is told apart


def test_without_its_site_q_predicts_by_the_cavity(monkeypatch):
    monkeypatch.setattr("bbalpha.diagnostics.LEFT_OUT", 0)
    posterior = conjugate.posterior(width=2.0)
    share = 1 / conjugate.NUM_DATA  # q/f ∝ q^(1 − 1/N) p₀^(1/N)
    precision = (1 - share) * np.linalg.inv(4 * COVARIANCE)
    covariance = np.linalg.inv(precision + share * np.eye(3) / conjugate.PRIOR_VARIANCE)
    means = DESIGN @ covariance @ precision @ MEAN
    deviations = np.sqrt(1 + np.sum(DESIGN @ covariance * DESIGN, axis=1))
    expected = scipy.stats.norm.logpdf(TARGETS, means, deviations)
    draws = draws_of(posterior)
    inverse_site = np.exp(-log_site(posterior, draws))[:, None]
    ratios = inverse_site * np.exp(conjugate.log_likelihoods(draws))
    influence = ratios / ratios.mean(axis=0) - inverse_site / inverse_site.mean()
    error = influence.std(axis=0) / np.sqrt(NUM_SAMPLES)
    assert np.all(np.abs(diagnose(posterior).leave_one_out - expected) < 4 * error)


def test_an_outlier_is_found():
    targets = TARGETS.copy()
    targets[17] += 9.0
    found = diagnose(conjugate.posterior(), data=(INPUTS, targets))
    assert found.outliers == (17,)
    assert found.worst[0] == 17
    assert len(found.worst) == 5
    assert found.checks[-1].verdict == "1 outlier: look at the rows below"


def test_chunks_of_rows_change_nothing(monkeypatch):
    posterior = conjugate.posterior(width=2.0, alpha=0.5)
    whole = diagnose(posterior)
    monkeypatch.setattr("bbalpha.importance.ROWS_TIMES_DRAWS", 7 * NUM_SAMPLES)
    chunked = diagnose(posterior)
    for field in dataclasses.fields(whole):
        found, expected = (getattr(each, field.name) for each in (chunked, whole))
        np.testing.assert_allclose(found, expected, rtol=1e-3, err_msg=field.name)


# One parameter and three rows, for which the gradient is quick.
ROWS = jnp.array([0.5, 1.5, 4.0])


class PlainGaussian(eqx.Module):
    """A diagonal Gaussian without a natural gradient."""

    mean: jax.Array
    log_variance: jax.Array

    def __getattr__(self, name):
        if name in ("variance", "noise", "transform", "log_prob", "log_prob_of_noise"):
            return getattr(bb.DiagonalGaussian(self.mean, self.log_variance), name)
        raise AttributeError(name)


def one_mean(params, batch):
    return jax.scipy.stats.norm.logpdf(batch, params)


def one_mean_posterior(alpha, family=bb.DiagonalGaussian):
    q = family(jnp.array([1.0]), jnp.array([0.5]))
    prior = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    scalars = jnp.array(alpha), jnp.array(3.0), jnp.array(jnp.nan)
    return bb.Posterior(q, prior, None, *scalars, bb.Layout.of(jnp.zeros(())))


@jax.jit
def gradients(posterior, noise):
    """The gradient of every group of draws, one column per number of q."""

    def energy(q, noise):
        fixed = {"alpha": posterior.alpha, "num_data": 3, "layout": posterior.layout}
        return bb.alpha_energy(one_mean, q, posterior.prior, ROWS, noise, **fixed)

    found = jax.vmap(jax.grad(energy), (None, 0))(posterior.q, noise)
    return jnp.concatenate(jax.tree.leaves(found), axis=1)


@jax.jit
def path_gradients(posterior, noise):
    """The path gradient of every group of draws, times the square root of F⁻¹."""

    def energy(noise):
        fixed = {"alpha": posterior.alpha, "num_data": 3, "layout": posterior.layout}
        return bb.alpha_energy(one_mean, posterior.q, posterior.prior, ROWS, noise, **fixed)

    by_noise = (1 - posterior.alpha / 3) * jax.vmap(jax.grad(energy))(noise)
    # A shift of one deviation adds 1 to the noise; a stretch by e multiplies it, and F is 2.
    stretch = jnp.sum(by_noise * noise, axis=1) / jnp.sqrt(2.0)
    return jnp.concatenate([jnp.sum(by_noise, axis=1), stretch], axis=1)


def exact_gradient(posterior):
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)

    def energy(q):
        return bb.alpha_energy(
            one_mean,
            q,
            posterior.prior,
            ROWS,
            jnp.asarray(nodes[:, None], jnp.float32),
            alpha=posterior.alpha,
            num_data=3,
            layout=posterior.layout,
            noise_weights=jnp.asarray(weights / weights.sum(), jnp.float32),
        )

    return np.concatenate(jax.tree.leaves(jax.jit(jax.grad(energy))(posterior.q)))


def test_gradient_has_the_bias_and_deviation_of_many_repetitions():
    posterior, size, num = one_mean_posterior(1.0, PlainGaussian), 10, 200_000
    found = np.asarray(gradients(posterior, jax.random.normal(KEY, (num, size, 1))), np.float64)
    bias = found.mean(axis=0) - exact_gradient(posterior)
    error = found.std(axis=0) / np.sqrt(num)
    squared_bias = np.mean(bias**2 - error**2)
    squared_error = np.sqrt(np.mean(4 * bias**2 * error**2) / 2)
    settings = {"num_samples": 4000, "fit_num_samples": size}
    diagnoses = [
        posterior.diagnose(one_mean, ROWS, key=key, **settings) for key in jax.random.split(KEY, 20)
    ]
    squares = np.square([each.gradient_bias for each in diagnoses])
    tolerance = 4 * np.hypot(bb.metrics.standard_error(squares), squared_error)
    assert abs(squares.mean() - squared_bias) < tolerance
    assert tolerance < squared_bias  # so that there is a bias to be found
    variances = np.square([each.gradient_deviation for each in diagnoses])
    tolerance = 4 * bb.metrics.standard_error(variances)
    assert abs(variances.mean() - np.mean(found.var(axis=0))) < tolerance
    assert not diagnoses[0].in_posterior_deviations


def test_gradient_has_no_bias_at_alpha_zero():
    settings = {"num_samples": 4000, "fit_num_samples": 10}
    found = one_mean_posterior(0.0, PlainGaussian).diagnose(one_mean, ROWS, key=KEY, **settings)
    assert found.gradient_bias < 1e-5 * found.gradient_deviation


def test_a_family_with_a_natural_gradient_measures_in_posterior_deviations():
    posterior = one_mean_posterior(1.0)
    settings = {"num_samples": 400, "fit_num_samples": 20}  # two blocks of ten groups
    found = posterior.diagnose(one_mean, ROWS, key=KEY, **settings)
    noise = jax.vmap(posterior.q.noise)(threefry.consecutive(KEY, 400))
    groups = path_gradients(posterior, noise.reshape(20, 20, 1))
    blocks = path_gradients(posterior, noise.reshape(2, 200, 1))
    first, second = (groups.reshape(2, 10, 2).mean(axis=1) - blocks) / 0.9
    variance = groups.reshape(2, 10, 2).var(axis=1, ddof=1).sum(axis=1).mean()
    assert found.in_posterior_deviations
    assert found.gradient_deviation == pytest.approx(np.sqrt(variance), rel=1e-3)
    assert found.gradient_bias == pytest.approx(np.sqrt(max(0.0, first @ second)), rel=1e-2)


def test_groups_must_fit_into_the_draws():
    message = (
        r"^num_samples must be at least 4 times fit_num_samples, to compare groups of that size; "
        r"got num_samples=300 with fit_num_samples=100\.$"
    )
    with pytest.raises(ValueError, match=message):
        diagnose(conjugate.posterior(), num_samples=300, fit_num_samples=100)
    with pytest.raises(ValueError, match=r"^fit_num_samples must be at least 1; got "):
        diagnose(conjugate.posterior(), fit_num_samples=0)


SOUND = bb.Diagnosis(
    alpha=0.5,
    num_samples=4000,
    fit_num_samples=100,
    pareto_k=0.3,
    efficiency=0.95,
    effective_draws=np.array([10.0, 90.0, 95.0]),
    gradient_bias=0.01,
    gradient_deviation=1.0,
    in_posterior_deviations=True,
    energy=296.125,
    energy_standard_error=0.04,
    leave_one_out=np.array([-1.0, -5.0, -1.2]),
)


def test_printed_table_has_value_verdict_and_threshold_of_every_check():
    text = str(SOUND)
    for check in SOUND.checks:
        assert check.passed
        assert f"{check.name:27}{check.value}" in text
        assert check.verdict in text
        assert check.threshold in text
    assert "Vehtari" in text
    assert text.endswith("1 (-5.00), 2 (-1.20), 0 (-1.00)")
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("line", "changes", "passed", "verdict"),
    [
        (0, {"pareto_k": -np.inf}, True, "close"),
        (0, {"efficiency": 0.8}, True, "reweight"),
        (0, {"pareto_k": 0.6}, True, "reweight"),
        (0, {"pareto_k": 0.8}, False, "far off"),
        (0, {"pareto_k": 0.6, "num_samples": 100}, False, "far"),  # 1 − 1/log₁₀ 100 = 0.5
        (1, {"effective_draws": np.array([9.0, 99.0, 99.0])}, False, "too few"),
        (1, {"effective_draws": np.ones(3), "fit_num_samples": 1}, True, "enough"),
        (2, {"gradient_bias": 0.11}, False, "biased"),
        (2, {"gradient_bias": 0.11, "in_posterior_deviations": False}, False, "biased"),
        (2, {"gradient_bias": 0.09, "in_posterior_deviations": False}, True, "negligible"),
        (2, {"gradient_bias": np.nan}, False, "biased"),
        (3, {"energy_standard_error": 1.1}, False, "too noisy"),
        (4, {"leave_one_out": np.array([-1.0, -5.2, -1.0])}, False, "1 outlier"),
    ],
)
def test_verdicts_follow_the_thresholds(line, changes, passed, verdict):
    check = dataclasses.replace(SOUND, **changes).checks[line]
    assert check.passed == passed
    assert check.verdict.startswith(verdict)
