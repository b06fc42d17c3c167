"""Likelihoods: one contract for all of them, then what each must get right."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax.test_util import check_grads
from scipy.optimize import brentq
from scipy.special import digamma, expit, logsumexp, softmax

import bbalpha as bb
from bbalpha import likelihoods as lk

KEY = jax.random.key(0)

REALS = np.sinh(np.linspace(-22, 22, 4001))  # out to ±1e9, for the heavy tails
REAL_WEIGHTS = np.cosh(np.linspace(-22, 22, 4001)) * 44 / 4000
BITS, LABELS, COUNTS = np.arange(2.0), np.arange(3.0), np.arange(150.0)


def column(log_density):
    """A reference for several columns from that of one: the sum over them."""
    return lambda outputs, targets: log_density(outputs, targets).sum(-1)


def categorical_reference(outputs, targets):
    probabilities = softmax(outputs, axis=-1)
    return np.log(np.take_along_axis(probabilities, targets.astype(int), axis=-1))[..., 0]


# name → how to make it, columns of outputs per target, values of a target, their weights,
# log-density by scipy
LIKELIHOODS = {
    "Gaussian": (
        lambda: lk.Gaussian(log_variance=-0.7),
        1,
        (REALS, REAL_WEIGHTS),
        column(lambda f, y: st.norm.logpdf(y, f, np.exp(-0.35))),
    ),
    "HeteroscedasticGaussian": (
        lk.HeteroscedasticGaussian,
        2,
        (REALS, REAL_WEIGHTS),
        lambda f, y: column(lambda halves, y: st.norm.logpdf(y, halves[0], np.exp(halves[1] / 2)))(
            np.split(f, 2, axis=-1), y
        ),
    ),
    "StudentT": (
        lambda: lk.StudentT(log_scale=-0.3, log_degrees_of_freedom=np.log(12.0)),
        1,
        (REALS, REAL_WEIGHTS),
        column(lambda f, y: st.t.logpdf(y, 12.0, f, np.exp(-0.3))),
    ),
    "Probit": (
        lk.Probit,
        1,
        (BITS, np.ones(2)),
        column(lambda f, y: st.bernoulli.logpmf(y, st.norm.cdf(f))),
    ),
    "Bernoulli": (
        lk.Bernoulli,
        1,
        (BITS, np.ones(2)),
        column(lambda f, y: st.bernoulli.logpmf(y, expit(f))),
    ),
    "Categorical": (lk.Categorical, 3, (LABELS, np.ones(3)), categorical_reference),
    "Poisson": (
        lk.Poisson,
        1,
        (COUNTS, np.ones(150)),
        column(lambda f, y: st.poisson.logpmf(y, np.exp(f))),
    ),
}
every_likelihood = pytest.mark.parametrize("name", LIKELIHOODS)

# name of each likelihood with ordered targets → its distribution in scipy, given the outputs
ORDERED = {
    "Gaussian": lambda f: st.norm(f, np.exp(-0.35)),
    "HeteroscedasticGaussian": lambda f: st.norm(
        np.split(f, 2, axis=-1)[0], np.exp(np.split(f, 2, axis=-1)[1] / 2)
    ),
    "StudentT": lambda f: st.t(12.0, f, np.exp(-0.3)),
    "Poisson": lambda f: st.poisson(np.exp(f)),
}
every_ordered_likelihood = pytest.mark.parametrize("name", ORDERED)
every_continuous_likelihood = pytest.mark.parametrize("name", list(ORDERED)[:3])
EXTREMES = [1e-4, 0.05, 0.5, 0.95, 1 - 1e-4]
MANY = (100, 4)  # draws and rows of most tests of quantiles, which then share their programs


# One compiled program each, where plain calls would compile every operation by itself.
log_prob = jax.jit(lambda likelihood, outputs, targets: likelihood.log_prob(outputs, targets))
mean_of = jax.jit(lambda likelihood, outputs: likelihood.mean(outputs))
variance_of = jax.jit(lambda likelihood, outputs: likelihood.variance(outputs))
cdf = jax.jit(lambda likelihood, outputs, targets: likelihood.cdf(outputs, targets))
survival = jax.jit(lambda likelihood, outputs, targets: likelihood.survival(outputs, targets))
sample = jax.jit(lambda likelihood, outputs: likelihood.sample(KEY, outputs))


def outputs_of(name, *axes, num_targets=1):
    """Outputs of shape (*axes, columns) that cover both signs."""
    columns = LIKELIHOODS[name][1] * num_targets
    return 1.3 * jax.random.normal(jax.random.key(1), (*axes, columns)) + 0.2


def targets_of(name, num_data, num_targets=1):
    """Targets of shape (num_data, num_targets) that the likelihood allows."""
    values = LIKELIHOODS[name][2][0]
    chosen = values[:5] if len(values) < 1000 else np.linspace(-3, 3, 7)
    return np.random.default_rng(0).choice(chosen, (num_data, num_targets)).astype(np.float32)


def indicators(name, targets):
    """What mean and variance speak of: the target, or for Categorical the indicator of a class."""
    targets = np.asarray(targets, np.float64)
    return (targets[..., None] == LABELS).astype(float) if name == "Categorical" else targets


@every_likelihood
def test_it_meets_the_protocol(name):
    likelihood = LIKELIHOODS[name][0]()
    assert isinstance(likelihood, lk.Likelihood)
    assert isinstance(likelihood, lk.OrderedLikelihood) == (name in ORDERED)


@every_likelihood
def test_density_normalizes_and_has_the_mean_and_variance_it_states(name):
    make, _, (values, weights), _ = LIKELIHOODS[name]
    with jax.enable_x64(True):
        likelihood, outputs = make(), outputs_of(name, 1)
        log_density = log_prob(likelihood, jnp.repeat(outputs, len(values), axis=0), values)
        masses = weights * np.exp(log_density)
        features = indicators(name, values if name == "Categorical" else values[:, None])
        mean = masses @ features
        variance = masses @ (features - mean) ** 2
        np.testing.assert_allclose(masses.sum(), 1, rtol=1e-10)
        np.testing.assert_allclose(mean_of(likelihood, outputs)[0], mean, rtol=1e-9)
        np.testing.assert_allclose(variance_of(likelihood, outputs)[0], variance, rtol=1e-9)


@every_likelihood
def test_draws_have_the_mean_and_variance_it_states(name):
    likelihood, outputs, num_draws = LIKELIHOODS[name][0](), outputs_of(name, 4), 20_000
    repeated = jnp.broadcast_to(outputs[None], (num_draws, *outputs.shape))
    draws = indicators(name, sample(likelihood, repeated))
    squares = (draws - draws.mean(0)) ** 2
    for states, found in [
        (mean_of(likelihood, outputs), draws),
        (variance_of(likelihood, outputs), squares),
    ]:
        assert states.shape == found.shape[1:]
        assert (abs(found.mean(0) - states) < 4 * found.std(0) / np.sqrt(num_draws) + 1e-6).all()


@every_likelihood
def test_a_draw_of_targets_is_a_valid_argument_of_log_prob(name):
    likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, 6)
    draws = likelihood.sample(KEY, outputs)
    assert jnp.isfinite(likelihood.log_prob(outputs, draws)).all()
    discrete = name in {"Probit", "Bernoulli", "Categorical", "Poisson"}
    assert jnp.issubdtype(draws.dtype, jnp.integer if discrete else jnp.floating)


@every_likelihood
def test_log_prob_is_the_log_density_of_scipy(name):
    make, _, _, reference = LIKELIHOODS[name]
    outputs, targets = outputs_of(name, 4, 5), targets_of(name, 5)
    expected = reference(np.asarray(outputs, np.float64), np.stack([targets] * 4))
    assert expected.shape == (4, 5)
    np.testing.assert_allclose(log_prob(make(), outputs, targets), expected, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("name", [name for name in LIKELIHOODS if name != "Categorical"])
def test_log_prob_sums_over_the_columns_of_the_targets(name):
    make, _, _, reference = LIKELIHOODS[name]
    outputs, targets = outputs_of(name, 5, num_targets=3), targets_of(name, 5, num_targets=3)
    expected = reference(np.asarray(outputs, np.float64), targets)
    assert expected.shape == (5,)
    np.testing.assert_allclose(log_prob(make(), outputs, targets), expected, rtol=2e-5, atol=2e-5)


@every_likelihood
def test_one_axis_of_targets_means_one_column(name):
    likelihood, outputs, targets = LIKELIHOODS[name][0](), outputs_of(name, 5), targets_of(name, 5)
    flat = log_prob(likelihood, outputs, targets[:, 0])
    np.testing.assert_array_equal(flat, log_prob(likelihood, outputs, targets))
    assert flat.shape == (5,)


@every_likelihood
def test_jit_and_vmap_agree_with_plain_calls(name):
    likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, 4, 5)
    targets = jnp.asarray(targets_of(name, 5))
    plain = likelihood.log_prob(outputs, targets)
    in_jit = jax.jit(lambda like, f, y: like.log_prob(f, y))(likelihood, outputs, targets)
    over_draws = jax.vmap(likelihood.log_prob, in_axes=(0, None))(outputs, targets)
    over_data = jax.vmap(lambda f, y: likelihood.log_prob(f[None], y[None])[0])(outputs[0], targets)
    np.testing.assert_allclose(in_jit, plain, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(over_draws, plain, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(over_data, plain[0], rtol=2e-5, atol=2e-6)


@every_likelihood
def test_gradients_for_outputs_and_fields_agree_with_finite_differences(name):
    with jax.enable_x64(True):
        likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, 2, 5)
        leaves, tree = jax.tree.flatten(likelihood)

        def log_prob(outputs, leaves):
            rebuilt = jax.tree.unflatten(tree, [jnp.asarray(leaf) for leaf in leaves])
            return rebuilt.log_prob(jnp.asarray(outputs), targets_of(name, 5))

        check_grads(log_prob, (outputs, leaves), order=1, modes=["rev"])


@every_likelihood
def test_predictive_moments_and_density_are_those_of_the_mixture(name):
    make, _, (values, weights), reference = LIKELIHOODS[name]
    with jax.enable_x64(True):
        outputs, targets = outputs_of(name, 6, 3), targets_of(name, 3)
        means = jax.jit(bb.predictive_mean)(make(), outputs)
        variances = jax.jit(bb.predictive_variance)(make(), outputs)
        for datum in range(3):
            one = np.repeat(np.asarray(outputs)[:, [datum]], len(values), axis=1)
            log_density = reference(one, np.stack([values[:, None]] * 6))
            masses = weights * np.exp(log_density).mean(0)
            features = indicators(name, values if name == "Categorical" else values[:, None])
            mean = masses @ features
            variance = masses @ (features - mean) ** 2
            np.testing.assert_allclose(means[datum], mean, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(variances[datum], variance, rtol=1e-9)
        found = jax.jit(bb.predictive_log_density)(make(), outputs, targets)
        log_density = reference(np.asarray(outputs), np.stack([targets] * 6))
        np.testing.assert_allclose(found, logsumexp(log_density, axis=0) - np.log(6), rtol=1e-9)


def test_predictive_log_density_does_not_underflow():
    outputs = jnp.array([[[0.0]], [[10.0]]])
    found = bb.predictive_log_density(lk.Gaussian(), outputs, jnp.array([1000.0]))
    expected = st.norm.logpdf(990.0) + np.log1p(np.exp(-(1000**2 - 990**2) / 2)) - np.log(2)
    np.testing.assert_allclose(found, [expected], rtol=2e-7)


def test_fields_may_differ_between_columns():
    log_variance, outputs = np.array([-1.0, 2.0]), outputs_of("Gaussian", 4, 5, num_targets=2)
    targets = targets_of("Gaussian", 5, num_targets=2)
    expected = st.norm.logpdf(targets, np.asarray(outputs), np.exp(log_variance / 2)).sum(-1)
    found = lk.Gaussian(log_variance).log_prob(outputs, targets)
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    np.testing.assert_allclose(
        lk.Gaussian(log_variance).variance(outputs)[3, 4], np.exp(log_variance), rtol=2e-6
    )


def test_fields_are_trainable_arrays_of_a_type_that_training_keeps():
    likelihood = lk.StudentT(log_scale=0, log_degrees_of_freedom=1.5)
    for leaf in jax.tree.leaves(likelihood):
        assert (leaf.dtype, leaf.weak_type, leaf.shape) == (jnp.float32, False, ())
    assert len(jax.tree.leaves(likelihood)) == 2
    assert not jax.tree.leaves(lk.Probit())


def test_noise_variance_is_the_exponential_of_the_field():
    np.testing.assert_allclose(lk.Gaussian(np.log(0.16)).noise_variance, 0.16, rtol=1e-6)


@pytest.mark.parametrize("degrees_of_freedom", [0.5, 1.999])
def test_student_t_with_two_degrees_or_fewer_has_infinite_variance(degrees_of_freedom):
    likelihood = lk.StudentT(log_degrees_of_freedom=np.log(degrees_of_freedom))
    assert (likelihood.variance(jnp.zeros((3, 2))) == jnp.inf).all()


@pytest.mark.parametrize("degrees_of_freedom", [0.5, 3.0, 1e3, 1e6])
def test_student_t_keeps_its_precision_for_many_degrees_of_freedom(degrees_of_freedom):
    likelihood = lk.StudentT(log_degrees_of_freedom=np.log(degrees_of_freedom))
    targets = np.array([0.0, 0.5, -2.0, 5.0])
    found = log_prob(likelihood, jnp.zeros((4, 1)), targets)
    np.testing.assert_allclose(found, st.t.logpdf(targets, degrees_of_freedom), rtol=2e-5)


@pytest.mark.parametrize("log_df", [-2.0, 0.0, 3.0, 9.0, 14.0, 30.0, 41.0, 42.0, 60.0, 100.0])
def test_the_gradient_of_student_t_is_right_for_any_degrees_of_freedom(log_df):
    z, df = np.array([0.0, 0.5, -2.0, 5.0]), np.exp(log_df)
    if log_df < 10:
        u = z**2 / df
        expected = df / 2 * (digamma((df + 1) / 2) - digamma(df / 2)) - 0.5
        expected += (df + 1) / 2 * u / (1 + u) - df / 2 * np.log1p(u)
    else:  # log t(z; ν) = log φ(z) + (z⁴ − 2z² − 1) / 4ν + O(1/ν²)
        expected = -(z**4 - 2 * z**2 - 1) / (4 * df)

    def log_probs(log_df):
        likelihood = lk.StudentT(log_degrees_of_freedom=log_df)
        return likelihood.log_prob(jnp.zeros((4, 1)), z)

    np.testing.assert_allclose(jax.jacobian(log_probs)(jnp.array(log_df)), expected, atol=2e-6)


def test_student_t_with_degrees_of_freedom_that_overflow_is_the_gaussian():
    outputs, targets = jnp.zeros((4, 1)), jnp.array([0.0, 0.5, -2.0, 5.0])
    student_t, gaussian = lk.StudentT(0.7, 1000.0), lk.Gaussian(1.4)
    for method in ("log_prob", "cdf", "survival"):
        found, expected = (getattr(one, method)(outputs, targets) for one in (student_t, gaussian))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    np.testing.assert_allclose(student_t.variance(outputs), gaussian.variance(outputs), rtol=1e-6)
    draws = student_t.sample(KEY, jnp.zeros((100_000, 1)))
    assert st.kstest(draws[:, 0] / np.exp(0.7), "norm").pvalue > 1e-3


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 1000, 100_000])
def test_poisson_keeps_its_precision_for_large_counts(count):
    outputs = jnp.log(jnp.maximum(count, 1) * jnp.array([0.98, 1.0, 1.03]))[:, None]
    rates = np.exp(np.asarray(outputs[:, 0], np.float64))
    found = log_prob(lk.Poisson(), outputs, np.full(3, count))
    np.testing.assert_allclose(found, st.poisson.logpmf(count, rates), rtol=2e-5, atol=1e-3)


def test_poisson_is_exact_on_both_sides_of_the_start_of_the_series():
    counts = np.array([0, 1, 9, 10, 11, 30, 1000])
    with jax.enable_x64(True):
        found = lk.Poisson().log_prob(jnp.full((7, 1), np.log(20.0)), counts)
    np.testing.assert_allclose(found, st.poisson.logpmf(counts, 20.0), rtol=1e-10)


def test_probit_and_bernoulli_are_finite_where_the_probability_underflows():
    outputs, targets = jnp.array([[-40.0], [40.0], [40.0]]), jnp.array([1, 0, 1])
    for likelihood, wrong in [(lk.Probit(), st.norm.logcdf(-40)), (lk.Bernoulli(), -40.0)]:
        found = likelihood.log_prob(outputs, targets)
        np.testing.assert_allclose(found, [wrong, wrong, 0.0], rtol=2e-6, atol=1e-12)
        slopes = jax.grad(lambda f, like=likelihood: like.log_prob(f, targets).sum())(outputs)
        assert jnp.isfinite(slopes).all()
        assert slopes[0] > 0 > slopes[1]


@pytest.mark.parametrize(
    ("likelihood", "targets", "message"),
    [
        (lk.Probit(), [1.0, -1.0], r"0 or 1 for Probit; got -1\.0\. Map labels −1, \+1 by"),
        (lk.Bernoulli(), [1.0, np.nan], r"0 or 1 for Bernoulli; got nan\."),
        (lk.Categorical(), [1, 2], r"whole numbers from 0 to 1 for Categorical; got 2\."),
        (lk.Categorical(), [0.0, 0.5], r"whole numbers from 0 to 1 for Categorical; got 0\.5\."),
        (lk.Poisson(), [0, -3], r"whole numbers from 0 on for Poisson; got -3\."),
        (lk.Poisson(), [0.0, 1.5], r"whole numbers from 0 on for Poisson; got 1\.5\."),
        (lk.Poisson(), [0.0, np.inf], r"whole numbers from 0 on for Poisson; got inf\."),
    ],
)
def test_targets_outside_of_the_support_are_refused(likelihood, targets, message):
    columns = 2 if isinstance(likelihood, lk.Categorical) else 1
    with pytest.raises(ValueError, match="targets must be " + message):
        likelihood.log_prob(jnp.zeros((2, columns)), np.array(targets))


def test_the_door_check_sees_data_while_parameters_are_traced():
    def log_prob(outputs):
        return lk.Probit().log_prob(outputs, np.array([-1.0, 1.0]))

    with pytest.raises(ValueError, match="targets must be 0 or 1 for Probit"):
        jax.jit(log_prob)(jnp.zeros((2, 1)))


@every_likelihood
@pytest.mark.parametrize("shape", [(4,), (1, 5), (5, 5), (5, 1, 1), ()])
def test_targets_of_another_shape_never_broadcast(name, shape):
    with pytest.raises(ValueError, match=r"shape \(5, 1\) or \(5,\) to match the outputs; got sh"):
        LIKELIHOODS[name][0]().log_prob(outputs_of(name, 5), np.zeros(shape))


def test_one_axis_of_targets_is_refused_for_several_columns():
    with pytest.raises(ValueError, match=r"shape \(5, 2\) to match the outputs; got shape \(5,\)"):
        lk.Gaussian().log_prob(jnp.zeros((5, 2)), np.zeros(5))


def test_outputs_without_columns_are_refused():
    with pytest.raises(ValueError, match=r"\(\.\.\., data, columns\); got outputs\.ndim=1\. Give"):
        lk.Gaussian().log_prob(jnp.zeros(5), np.zeros(5))


def test_an_odd_number_of_columns_is_refused_for_means_and_log_variances():
    with pytest.raises(ValueError, match=r"even number of columns.*; got shape \(5, 3\)"):
        lk.HeteroscedasticGaussian().mean(jnp.zeros((5, 3)))


def test_a_field_that_does_not_fit_the_columns_is_refused():
    with pytest.raises(
        ValueError, match=r"log_scale must have shape \(\) or \(2,\).*; got .*\(3,\)"
    ):
        lk.StudentT(log_scale=jnp.zeros(3)).log_prob(jnp.zeros((5, 2)), np.zeros((5, 2)))


def test_predictions_without_an_axis_of_draws_are_refused():
    outputs, message = jnp.zeros((5, 1)), r"shape \(draws, data, columns\); got shape \(5, 1\)"
    with pytest.raises(ValueError, match=message):
        bb.predictive_mean(lk.Gaussian(), outputs)
    with pytest.raises(ValueError, match=message):
        bb.predictive_variance(lk.Gaussian(), outputs)
    with pytest.raises(ValueError, match=message):
        bb.predictive_log_density(lk.Gaussian(), outputs, np.zeros(5))
    with pytest.raises(ValueError, match=message):
        bb.predictive_cdf(lk.Gaussian(), outputs, np.zeros(5))
    with pytest.raises(ValueError, match=message):
        bb.predictive_quantiles(lk.Gaussian(), outputs, [0.5])


def test_labels_beyond_the_precision_of_the_outputs_keep_their_class():
    outputs = jnp.zeros((1, 300), jnp.bfloat16).at[0, 257].set(5.0)
    found = lk.Categorical().log_prob(outputs, np.array([257]))
    np.testing.assert_allclose(found, [5 - np.log(299 + np.exp(5))], rtol=1e-2)


@every_ordered_likelihood
@pytest.mark.parametrize(("x64", "tolerance"), [(False, 2e-5), (True, 1e-10)])
def test_cdf_and_survival_are_those_of_scipy(name, x64, tolerance):
    with jax.enable_x64(x64):
        likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, 4, 5, num_targets=3)
        targets = targets_of(name, 5, num_targets=3)
        expected = ORDERED[name](np.asarray(outputs, np.float64))
        repeated = np.stack([targets] * 4).astype(np.float64)
        found = cdf(likelihood, outputs, targets)
        np.testing.assert_allclose(found, expected.cdf(repeated), rtol=tolerance)
        found = survival(likelihood, outputs, targets)
        np.testing.assert_allclose(found, expected.sf(repeated), rtol=tolerance)


@every_continuous_likelihood
def test_the_derivative_of_the_cdf_is_the_density(name):
    with jax.enable_x64(True):
        likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, 1)
        center = float(mean_of(likelihood, outputs)[0, 0])
        slope_at = jax.jit(jax.grad(lambda y: likelihood.cdf(outputs, y[None])[0, 0]))
        for y in center + np.array([-20.0, -1.0, 0.0, 1e-3, 3.0]):
            density = np.exp(log_prob(likelihood, outputs, np.array([y])))[0]
            np.testing.assert_allclose(slope_at(jnp.asarray(y)), density, rtol=1e-9)
        edges = [cdf(likelihood, outputs, np.array([y])).item() for y in (-np.inf, np.inf)]
        assert edges == [0, 1]


def test_the_cdf_of_counts_is_the_sum_of_their_probabilities():
    with jax.enable_x64(True):
        outputs = jnp.full((150, 1), 2.5)
        masses = jnp.exp(log_prob(lk.Poisson(), outputs, COUNTS))
        found = cdf(lk.Poisson(), outputs, COUNTS)[:, 0]
        np.testing.assert_allclose(found, np.cumsum(masses), rtol=1e-10)
        between = cdf(lk.Poisson(), outputs, COUNTS + 0.99)[:, 0]
        np.testing.assert_array_equal(between, found)
        below = jnp.full(150, -1e-3)
        assert (cdf(lk.Poisson(), outputs, below) == 0).all()
        assert (survival(lk.Poisson(), outputs, below) == 1).all()


@every_ordered_likelihood
def test_predictive_cdf_is_the_mean_over_draws(name):
    outputs, targets = outputs_of(name, 6, 5), targets_of(name, 5)
    expected = ORDERED[name](np.asarray(outputs, np.float64)).cdf(np.stack([targets] * 6)).mean(0)
    found = bb.predictive_cdf(LIKELIHOODS[name][0](), outputs, targets)
    np.testing.assert_allclose(found, expected, rtol=2e-5)


@every_ordered_likelihood
@pytest.mark.parametrize(("x64", "tolerance"), [(False, 1e-5), (True, 1e-10)])
def test_quantiles_of_one_draw_are_those_of_scipy(name, x64, tolerance):
    with jax.enable_x64(x64):
        likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, 1, 7, num_targets=2)
        exact = ORDERED[name](np.asarray(outputs[0], np.float64))
        expected = np.stack([*map(exact.ppf, EXTREMES[:3]), *map(exact.isf, [0.05, 1e-4])], -1)
        scale = np.asarray(jnp.sqrt(variance_of(likelihood, outputs)))[0, ..., None]
        found = bb.predictive_quantiles(likelihood, outputs, EXTREMES)
        assert found.shape == (7, 2, 5)
        assert found.dtype == outputs.dtype
        atol = 0 if name == "Poisson" else tolerance * scale.max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@every_ordered_likelihood
def test_quantiles_of_many_draws_are_those_of_the_mixture(name):
    likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, *MANY)
    found = np.asarray(bb.predictive_quantiles(likelihood, outputs, EXTREMES), np.float64)
    for datum in range(4):
        draws = ORDERED[name](np.asarray(outputs[:, datum], np.float64))
        for p, quantile in zip(EXTREMES, found[datum, 0], strict=True):
            expected = quantile_of_mixture(draws, p, whole=name == "Poisson")
            assert abs(quantile - expected) < (1e-5 if name != "Poisson" else 0.5)


def quantile_of_mixture(draws, p, whole=False):
    """By root finding in float64, or for whole numbers by trying them all."""
    if whole:
        counts = np.arange(2000)
        return counts[np.argmax(draws.cdf(counts).mean(0) >= p)]
    if p > 0.5:
        return brentq(lambda y: draws.sf(y).mean() - (1 - p), -1e5, 1e5, xtol=1e-12)
    return brentq(lambda y: draws.cdf(y).mean() - p, -1e5, 1e5, xtol=1e-12)


@every_continuous_likelihood
def test_quantiles_invert_the_cdf(name):
    with jax.enable_x64(True):
        likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, 6, 1)
        for y in (-3.0, 0.1, 2.0):
            p = bb.predictive_cdf(likelihood, outputs, np.array([y]))[0]
            found = bb.predictive_quantiles(likelihood, outputs, p)
            np.testing.assert_allclose(found, [[[y]]], rtol=1e-10)


@pytest.mark.parametrize("log_variance", [-8.0, 0.0, 3.0])
def test_quantiles_of_draws_far_apart_are_those_of_their_own_component(log_variance):
    scale = np.exp(log_variance / 2)
    outputs = scale * jnp.array([0.0, 1e4, 2e4]).reshape(3, 1, 1)
    probabilities = [0.01, 0.3, 0.4, 0.5, 0.6, 0.99]
    found = bb.predictive_quantiles(lk.Gaussian(log_variance), outputs, probabilities)[0, 0]
    shares = st.norm.ppf([0.03, 0.9, 0.2, 0.5, 0.8, 0.97])
    expected = scale * (np.array([0, 0, 1e4, 1e4, 1e4, 2e4]) + shares)
    np.testing.assert_allclose(found, expected, rtol=2e-7, atol=1e-6 * scale)


def test_quantiles_of_vanishing_noise_are_the_order_statistics_of_the_draws():
    means = jnp.array([3.0, -1.0, 1e-3, 2e4, 0.5]).reshape(5, 1, 1)
    probabilities = [0.1, 0.3, 0.5, 0.7, 0.9]
    for log_variance in (-80.0, -500.0):
        outputs = jnp.concatenate([means, jnp.full_like(means, log_variance)], axis=-1)
        found = bb.predictive_quantiles(lk.HeteroscedasticGaussian(), outputs, probabilities)
        np.testing.assert_allclose(found[0, 0], np.sort(means.ravel()), rtol=2e-7)
    outputs = 1e4 * jnp.arange(1000.0).reshape(1000, 1, 1)
    found = bb.predictive_quantiles(lk.Gaussian(), outputs, np.arange(1, 1000) / 1000)[0, 0]
    np.testing.assert_allclose(found / 1e4, np.arange(999), atol=1e-3)  # K p draws are below


@pytest.mark.parametrize("degrees_of_freedom", [0.3, 0.9, 1.1, 4.0, 1e6])
def test_quantiles_of_heavy_tails_are_exact_to_rounding(degrees_of_freedom):
    likelihood = lk.StudentT(log_degrees_of_freedom=np.log(degrees_of_freedom))
    outputs = jnp.array([-1.0, 2.0]).reshape(2, 1, 1)
    df = np.exp(np.asarray(likelihood.log_degrees_of_freedom, np.float64))
    found = bb.predictive_quantiles(likelihood, outputs, [1e-4, 1e-3, 1 - 1e-3, 1 - 1e-4])[0, 0]
    tails = st.t(df).sf
    for tail, low, high in zip([1e-4, 1e-3], found[:2], found[:1:-1], strict=True):
        reach = (tails(-1 - low) + tails(2 - low)) / 2, (tails(high + 1) + tails(high - 2)) / 2
        np.testing.assert_allclose(reach, tail, rtol=1e-5)


@every_continuous_likelihood
def test_quantiles_of_a_mirrored_mixture_are_mirrored(name):
    likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, *MANY)
    signs = jnp.array([-1.0] if name != "HeteroscedasticGaussian" else [-1.0, 1.0])
    mirrored = outputs * signs[None, None]
    found = bb.predictive_quantiles(likelihood, outputs, EXTREMES)
    other = bb.predictive_quantiles(likelihood, mirrored, EXTREMES)
    np.testing.assert_allclose(found, -other[..., ::-1], atol=5e-6)
    half = MANY[0] // 2
    symmetric = jnp.concatenate([outputs[:half], mirrored[:half]])
    both = bb.predictive_quantiles(likelihood, symmetric, EXTREMES)[..., EXTREMES.index(0.5)]
    np.testing.assert_allclose(both, 0, atol=5e-6)


def test_quantiles_shift_and_scale_with_the_target():
    outputs, scale, shift = outputs_of("Gaussian", *MANY), 2.5, 7.0
    plain = bb.predictive_quantiles(lk.StudentT(-0.5), outputs, EXTREMES)
    likelihood = lk.StudentT(-0.5 + np.log(scale))
    moved = bb.predictive_quantiles(likelihood, scale * outputs + shift, EXTREMES)
    np.testing.assert_allclose(moved, scale * plain + shift, rtol=2e-6, atol=2e-5)


@pytest.mark.parametrize("log_rate", [-20.0, -1.0, 0.7, 3.0, 6.0])
def test_quantiles_of_counts_are_the_smallest_that_reach_the_probability(log_rate):
    outputs = jnp.asarray(log_rate).reshape(1, 1, 1)
    probabilities = np.linspace(0.01, 0.99, 23)
    found = bb.predictive_quantiles(lk.Poisson(), outputs, probabilities)[0, 0]
    expected = st.poisson.ppf(probabilities, np.exp(np.float64(np.float32(log_rate))))
    np.testing.assert_array_equal(found, expected)
    assert not np.signbit(found).any()


@every_ordered_likelihood
def test_quantiles_rise_with_the_probability(name):
    likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, *MANY)
    close = 0.3 + 1e-7 * np.arange(20)  # closer than the rounding of a mean over draws
    probabilities = np.concatenate([[1e-30, 1e-4], close, np.linspace(0.31, 0.99, 40), [1 - 1e-9]])
    found = bb.predictive_quantiles(likelihood, outputs, probabilities)
    assert (jnp.diff(found, axis=-1) >= 0).all()
    assert jnp.isfinite(found).all()


@every_ordered_likelihood
def test_quantiles_of_a_row_do_not_depend_on_the_other_rows(name):
    likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, *MANY)
    found = bb.predictive_quantiles(likelihood, outputs, EXTREMES)
    others = outputs.at[:, 1:].set(jnp.nan)
    again = bb.predictive_quantiles(likelihood, others, EXTREMES)
    np.testing.assert_array_equal(found[0], again[0])
    assert jnp.isnan(again[1:]).all()
    alone = bb.predictive_quantiles(likelihood, outputs[:, :1], EXTREMES)
    np.testing.assert_allclose(alone[0], found[0], rtol=2e-6, atol=1e-6)


@every_ordered_likelihood
def test_quantiles_in_jit_are_those_outside(name):
    likelihood, outputs = LIKELIHOODS[name][0](), outputs_of(name, *MANY)
    probabilities = jnp.array(EXTREMES)
    found = jax.jit(bb.predictive_quantiles)(likelihood, outputs, probabilities)
    expected = bb.predictive_quantiles(likelihood, outputs, probabilities)
    np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("wrong", [0.0, 1.0, -0.1, 1.5, np.nan])
def test_probabilities_outside_of_the_open_interval_are_refused(wrong):
    outputs = jnp.zeros((2, 3, 1))
    with pytest.raises(ValueError, match=f"lie strictly between 0 and 1; got {wrong}"):
        bb.predictive_quantiles(lk.Gaussian(), outputs, [0.5, wrong])


def test_probabilities_of_another_shape_are_refused():
    outputs = jnp.zeros((2, 3, 1))
    with pytest.raises(ValueError, match=r"probabilities must have one axis; got shape \(\)"):
        bb.predictive_quantiles(lk.Gaussian(), outputs, 0.5)


@pytest.mark.parametrize("likelihood", [lk.Probit(), lk.Bernoulli(), lk.Categorical()])
def test_targets_without_an_order_have_no_quantiles(likelihood):
    outputs, message = jnp.zeros((2, 3, 1)), "methods cdf and survival, .*; got "
    with pytest.raises(TypeError, match=message + type(likelihood).__name__):
        bb.predictive_quantiles(likelihood, outputs, [0.5])
    with pytest.raises(TypeError, match=message + type(likelihood).__name__):
        bb.predictive_cdf(likelihood, outputs, np.zeros(3))
