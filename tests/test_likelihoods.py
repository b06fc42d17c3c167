"""Likelihoods: one contract for all of them, then what each must get right."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from jax.test_util import check_grads
from scipy.special import digamma

import bbalpha as bb
from bbalpha import likelihoods as lk

KEY = jax.random.key(0)
NUM_DRAWS = 25_000

# One compiled program each, where plain calls would compile every operation by itself.
log_prob = jax.jit(lambda likelihood, outputs, targets: likelihood.log_prob(outputs, targets))
moments = jax.jit(
    lambda likelihood, outputs: (likelihood.mean(outputs), likelihood.variance(outputs))
)
sample = jax.jit(lambda likelihood, outputs: likelihood.sample(outputs, key=KEY))


@jax.jit
def tails(likelihood, outputs, targets):
    """P(Y ≤ y) and P(Y > y)."""
    return likelihood.cdf(outputs, targets), likelihood.survival(outputs, targets)


@functools.cache
def draws_of(case):
    """The likelihood, outputs for four rows, and many draws of their targets."""
    likelihood, outputs = case.make(), case.outputs(4)
    repeated = jnp.broadcast_to(outputs[None], (NUM_DRAWS, *outputs.shape))
    return likelihood, outputs, sample(likelihood, repeated)


def test_it_meets_the_protocol(likelihood_case):
    likelihood = likelihood_case.make()
    assert isinstance(likelihood, lk.Likelihood)
    assert isinstance(likelihood, lk.OrderedLikelihood) == likelihood_case.is_ordered


def test_density_normalizes_and_has_the_mean_and_variance_it_states(likelihood_case, x64):
    case, values = likelihood_case, likelihood_case.values
    likelihood, outputs = case.make(), case.outputs(1)
    log_density = log_prob(likelihood, jnp.repeat(outputs, len(values), axis=0), values)
    masses = case.weights * np.exp(log_density)
    features = case.indicators(values if case.name == "Categorical" else values[:, None])
    mean = masses @ features
    variance = masses @ (features - mean) ** 2
    stated_mean, stated_variance = moments(likelihood, outputs)
    np.testing.assert_allclose(masses.sum(), 1, rtol=1e-10)
    np.testing.assert_allclose(stated_mean[0], mean, rtol=1e-9)
    np.testing.assert_allclose(stated_variance[0], variance, rtol=1e-9)


def test_draws_have_the_mean_and_variance_it_states(likelihood_case):
    likelihood, outputs, draws = draws_of(likelihood_case)
    draws = likelihood_case.indicators(draws)
    squares = (draws - draws.mean(0)) ** 2
    for stated, found in zip(moments(likelihood, outputs), (draws, squares), strict=True):
        assert stated.shape == found.shape[1:]
        assert (abs(found.mean(0) - stated) < 4 * found.std(0) / np.sqrt(NUM_DRAWS) + 1e-6).all()


def test_a_draw_of_targets_is_a_valid_argument_of_log_prob(likelihood_case):
    likelihood, outputs, draws = draws_of(likelihood_case)
    targets = draws[0]  # a value outside of the program, where the likelihood can check it
    found = jax.jit(lambda outputs: likelihood.log_prob(outputs, targets))(outputs)
    assert jnp.isfinite(found).all()
    kind = jnp.integer if likelihood_case.is_discrete else jnp.floating
    assert jnp.issubdtype(draws.dtype, kind)


def test_log_prob_is_the_log_density_of_scipy(likelihood_case):
    outputs, targets = likelihood_case.outputs(4, 5), likelihood_case.targets(5)
    expected = likelihood_case.log_density(outputs, np.stack([targets] * 4))
    assert expected.shape == (4, 5)
    found = log_prob(likelihood_case.make(), outputs, targets)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def test_log_prob_sums_over_the_columns_of_the_targets(single_column_case):
    case = single_column_case
    outputs, targets = case.outputs(5, num_targets=3), case.targets(5, num_targets=3)
    expected = case.log_density(outputs, targets)
    assert expected.shape == (5,)
    np.testing.assert_allclose(
        log_prob(case.make(), outputs, targets), expected, rtol=2e-5, atol=2e-5
    )


def test_one_axis_of_targets_means_one_column(likelihood_case):
    case = likelihood_case
    likelihood, outputs, targets = case.make(), case.outputs(4, 5), case.targets(5)
    flat = log_prob(likelihood, outputs, targets[:, 0])
    np.testing.assert_array_equal(flat, log_prob(likelihood, outputs, targets))
    assert flat.shape == (4, 5)


def test_jit_and_vmap_agree_with_plain_calls(likelihood_case):
    case = likelihood_case
    likelihood, outputs, targets = case.make(), case.outputs(4, 5), jnp.asarray(case.targets(5))
    plain = likelihood.log_prob(outputs, targets)

    @jax.jit
    def mapped(outputs, targets):
        over_draws = jax.vmap(likelihood.log_prob, in_axes=(0, None))(outputs, targets)
        over_data = jax.vmap(lambda f, y: likelihood.log_prob(f[None], y[None])[0])
        return over_draws, over_data(outputs[0], targets)

    over_draws, over_data = mapped(outputs, targets)
    np.testing.assert_allclose(log_prob(likelihood, outputs, targets), plain, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(over_draws, plain, rtol=2e-5, atol=2e-6)
    np.testing.assert_allclose(over_data, plain[0], rtol=2e-5, atol=2e-6)


def test_gradients_for_outputs_and_fields_agree_with_finite_differences(likelihood_case, x64):
    outputs, targets = likelihood_case.outputs(2, 5), likelihood_case.targets(5)
    leaves, tree = jax.tree.flatten(likelihood_case.make())

    @jax.jit
    def log_prob(outputs, leaves):
        rebuilt = jax.tree.unflatten(tree, [jnp.asarray(leaf) for leaf in leaves])
        return rebuilt.log_prob(jnp.asarray(outputs), targets)

    check_grads(log_prob, (outputs, leaves), order=1, modes=["rev"])


def test_fields_may_differ_between_columns():
    log_variance, outputs = np.array([-1.0, 2.0]), np.linspace(-2, 2, 40).reshape(4, 5, 2)
    targets = np.linspace(3, -3, 10).reshape(5, 2)
    expected = st.norm.logpdf(targets, outputs, np.exp(log_variance / 2)).sum(-1)
    likelihood, outputs = lk.Gaussian(log_variance), jnp.asarray(outputs)
    np.testing.assert_allclose(log_prob(likelihood, outputs, targets), expected, rtol=2e-5)
    _, variance = moments(likelihood, outputs)
    np.testing.assert_allclose(variance[3, 4], np.exp(log_variance), rtol=2e-6)


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
    _, variance = moments(likelihood, jnp.zeros((3, 2)))
    assert (variance == jnp.inf).all()


@pytest.mark.parametrize("degrees_of_freedom", [0.5, 3.0, 1e3, 1e6])
def test_student_t_keeps_its_precision_for_many_degrees_of_freedom(degrees_of_freedom):
    likelihood = lk.StudentT(log_degrees_of_freedom=np.log(degrees_of_freedom))
    targets = np.array([0.0, 0.5, -2.0, 5.0])
    found = log_prob(likelihood, jnp.zeros((4, 1)), targets)
    np.testing.assert_allclose(found, st.t.logpdf(targets, degrees_of_freedom), rtol=2e-5)


@jax.jit
@functools.partial(jax.jacobian, argnums=1)
def slopes_of_student_t(z, log_df):
    """Derivatives of log t(z; ν) with respect to log ν."""
    return lk.StudentT(log_degrees_of_freedom=log_df).log_prob(jnp.zeros((4, 1)), z)


@pytest.mark.parametrize("log_df", [-2.0, 0.0, 3.0, 9.0, 14.0, 30.0, 41.0, 42.0, 60.0, 100.0])
def test_the_gradient_of_student_t_is_right_for_any_degrees_of_freedom(log_df):
    z, df = np.array([0.0, 0.5, -2.0, 5.0]), np.exp(log_df)
    if log_df < 10:
        u = z**2 / df
        expected = df / 2 * (digamma((df + 1) / 2) - digamma(df / 2)) - 0.5
        expected += (df + 1) / 2 * u / (1 + u) - df / 2 * np.log1p(u)
    else:  # log t(z; ν) = log φ(z) + (z⁴ − 2z² − 1) / 4ν + O(1/ν²)
        expected = -(z**4 - 2 * z**2 - 1) / (4 * df)
    np.testing.assert_allclose(slopes_of_student_t(z, log_df), expected, atol=2e-6)


def test_student_t_with_degrees_of_freedom_that_overflow_is_the_gaussian():
    outputs, targets = jnp.zeros((4, 1)), np.array([0.0, 0.5, -2.0, 5.0])
    student_t, gaussian = lk.StudentT(0.7, 1000.0), lk.Gaussian(1.4)
    for function in (log_prob, tails):
        found, expected = (function(one, outputs, targets) for one in (student_t, gaussian))
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    variances = [moments(one, outputs)[1] for one in (student_t, gaussian)]
    np.testing.assert_allclose(*variances, rtol=1e-6)
    draws = sample(student_t, jnp.zeros((NUM_DRAWS, 4, 1)))
    assert st.kstest(np.ravel(draws) / np.exp(0.7), "norm").pvalue > 1e-3


@pytest.mark.parametrize("count", [0, 1, 9, 10, 11, 1000, 100_000])
def test_poisson_keeps_its_precision_for_large_counts(count):
    outputs = jnp.log(jnp.maximum(count, 1) * jnp.array([0.98, 1.0, 1.03]))[:, None]
    rates = np.exp(np.asarray(outputs[:, 0], np.float64))
    found = log_prob(bb.Poisson(), outputs, np.full(3, count))
    np.testing.assert_allclose(found, st.poisson.logpmf(count, rates), rtol=2e-5, atol=1e-3)


def test_poisson_is_exact_on_both_sides_of_the_start_of_the_series():
    counts = np.array([0, 1, 9, 10, 11, 30, 1000])
    with jax.enable_x64(True):
        found = log_prob(bb.Poisson(), jnp.full((7, 1), np.log(20.0)), counts)
    np.testing.assert_allclose(found, st.poisson.logpmf(counts, 20.0), rtol=1e-10)


def test_probit_and_bernoulli_are_finite_where_the_probability_underflows():
    outputs, targets = jnp.array([[-40.0], [40.0], [40.0]]), jnp.array([1, 0, 1])
    slopes_of = jax.jit(jax.grad(lambda f, like: like.log_prob(f, targets).sum()))
    for likelihood, wrong in [(lk.Probit(), st.norm.logcdf(-40)), (lk.Bernoulli(), -40.0)]:
        found = log_prob(likelihood, outputs, targets)
        np.testing.assert_allclose(found, [wrong, wrong, 0.0], rtol=2e-6, atol=1e-12)
        slopes = slopes_of(outputs, likelihood)
        assert jnp.isfinite(slopes).all()
        assert slopes[0] > 0 > slopes[1]


@pytest.mark.parametrize(
    ("likelihood", "targets", "message"),
    [
        (lk.Probit(), [1.0, -1.0], r"0 or 1 for Probit; got -1\.0\. Map labels −1, \+1 by"),
        (lk.Bernoulli(), [1.0, np.nan], r"0 or 1 for Bernoulli; got nan\."),
        (lk.Categorical(), [1, 2], r"whole numbers from 0 to 1 for Categorical; got 2\."),
        (lk.Categorical(), [0.0, 0.5], r"whole numbers from 0 to 1 for Categorical; got 0\.5\."),
        (bb.Poisson(), [0, -3], r"non-negative whole numbers for Poisson; got -3\."),
        (bb.Poisson(), [0.0, 1.5], r"non-negative whole numbers for Poisson; got 1\.5\."),
        (bb.Poisson(), [0.0, np.inf], r"non-negative whole numbers for Poisson; got inf\."),
    ],
)
def test_targets_outside_the_support_are_refused(likelihood, targets, message):
    columns = 2 if isinstance(likelihood, lk.Categorical) else 1
    with pytest.raises(ValueError, match="targets must be " + message):
        likelihood.log_prob(jnp.zeros((2, columns)), np.array(targets))


def test_targets_are_checked_while_parameters_are_traced():
    def log_prob(outputs):
        return lk.Probit().log_prob(outputs, np.array([-1.0, 1.0]))

    with pytest.raises(ValueError, match="targets must be 0 or 1 for Probit"):
        jax.jit(log_prob)(jnp.zeros((2, 1)))


@pytest.mark.parametrize("shape", [(4,), (1, 5), (5, 5), (5, 1, 1), ()])
def test_targets_of_another_shape_never_broadcast(likelihood_case, shape):
    likelihood, outputs = likelihood_case.make(), likelihood_case.outputs(5)
    with pytest.raises(ValueError, match=r"shape \(5, 1\) or \(5,\) to match the outputs; got sh"):
        likelihood.log_prob(outputs, np.zeros(shape))


def test_one_axis_of_targets_is_refused_for_several_columns():
    with pytest.raises(ValueError, match=r"shape \(5, 2\) to match the outputs; got shape \(5,\)"):
        lk.Gaussian().log_prob(jnp.zeros((5, 2)), np.zeros(5))


def test_outputs_without_columns_are_refused():
    with pytest.raises(ValueError, match=r"\(\.\.\., data, columns\); got outputs\.ndim=1\. For a"):
        lk.Gaussian().log_prob(jnp.zeros(5), np.zeros(5))


def test_an_odd_number_of_columns_is_refused_for_means_and_log_variances():
    with pytest.raises(ValueError, match=r"even number of columns.*; got shape \(5, 3\)"):
        lk.HeteroscedasticGaussian().mean(jnp.zeros((5, 3)))


def test_a_field_that_does_not_fit_the_columns_is_refused():
    with pytest.raises(
        ValueError, match=r"log_scale must have shape \(\) or \(2,\).*; got .*\(3,\)"
    ):
        lk.StudentT(log_scale=jnp.zeros(3)).log_prob(jnp.zeros((5, 2)), np.zeros((5, 2)))


def test_labels_beyond_the_precision_of_the_outputs_keep_their_class():
    outputs = jnp.zeros((1, 300), jnp.bfloat16).at[0, 257].set(5.0)
    found = log_prob(lk.Categorical(), outputs, np.array([257]))
    np.testing.assert_allclose(found, [5 - np.log(299 + np.exp(5))], rtol=1e-2)


@pytest.mark.parametrize(("x64", "tolerance"), [(False, 2e-5), (True, 1e-10)])
def test_cdf_and_survival_are_those_of_scipy(ordered_case, x64, tolerance):
    with jax.enable_x64(x64):
        likelihood, outputs = ordered_case.make(), ordered_case.outputs(4, 5, num_targets=3)
        targets = ordered_case.targets(5, num_targets=3)
        expected = ordered_case.distribution(np.asarray(outputs, np.float64))
        repeated = np.stack([targets] * 4).astype(np.float64)
        below, above = tails(likelihood, outputs, targets)
        np.testing.assert_allclose(below, expected.cdf(repeated), rtol=tolerance)
        np.testing.assert_allclose(above, expected.sf(repeated), rtol=tolerance)


def test_the_derivative_of_the_cdf_is_the_density(continuous_case, x64):
    likelihood, outputs = continuous_case.make(), jnp.repeat(continuous_case.outputs(1), 7, axis=0)
    center = float(moments(likelihood, outputs)[0][0, 0])
    distances = np.array([-20.0, -1.0, 0.0, 1e-3, 3.0, -np.inf, np.inf])
    slopes = jax.jit(jax.grad(lambda y: likelihood.cdf(outputs, y).sum()))
    density = np.exp(log_prob(likelihood, outputs, center + distances))
    found = slopes(jnp.asarray(center + distances))
    np.testing.assert_allclose(found[:5], density[:5], rtol=1e-9)
    below, _ = tails(likelihood, outputs, center + distances)
    assert below[5:, 0].tolist() == [0, 1]


def test_the_cdf_of_counts_is_the_sum_of_their_probabilities(x64):
    counts, outputs = np.arange(150.0), jnp.full((150, 1), 2.5)
    masses = jnp.exp(log_prob(bb.Poisson(), outputs, counts))
    found, _ = tails(bb.Poisson(), outputs, counts)
    np.testing.assert_allclose(found[:, 0], np.cumsum(masses), rtol=1e-10)
    between, _ = tails(bb.Poisson(), outputs, counts + 0.99)
    np.testing.assert_array_equal(between, found)
    below, above = tails(bb.Poisson(), outputs, np.full(150, -1e-3))
    assert (below == 0).all()
    assert (above == 1).all()
