"""Summaries tell the moments and quantiles of q in the user's units."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

import bbalpha as bb
from bbalpha.summaries import NUM_DRAWS

PARAMS = {"chance": jnp.array(0.5), "scale": jnp.ones(2), "weights": jnp.zeros(2)}
TRANSFORMS = {"scale": bb.positive, "chance": bb.probability}
MEAN = jnp.array([0.4, -1.0, 0.5, 2.0, -3.0])  # of log-odds, two log-scales, two weights
DEVIATION = np.array([1.5, 0.3, 0.8, 0.1, 0.02])
FAMILIES = {
    "diagonal": bb.DiagonalGaussian(MEAN, jnp.asarray(2 * np.log(DEVIATION), jnp.float32)),
    "full": bb.FullGaussian(
        MEAN,
        jnp.asarray(np.log(DEVIATION / np.sqrt(1 + 0.25 * np.arange(5))), jnp.float32),
        0.5 * jnp.ones((5, 5)),
    ),
}


def posterior_with(q, params=PARAMS, transforms=TRANSFORMS):
    scalar = jnp.zeros(())
    layout = bb.Layout.of(params, transforms=transforms)
    return bb.Posterior(q, q, None, scalar, scalar, scalar, layout)


def logit_normal_moment(power, mean, deviation):
    def integrand(noise):
        value = scipy.special.expit(mean + deviation * noise)
        return value**power * scipy.stats.norm.pdf(noise)

    return scipy.integrate.quad(integrand, -12, 12)[0]


@pytest.mark.parametrize("name", FAMILIES)
def test_moments_and_quantiles_are_those_of_the_transformed_gaussian(name):
    summary = posterior_with(FAMILIES[name]).summary()
    scales = scipy.stats.lognorm(DEVIATION[1:3], scale=np.exp(MEAN[1:3]))
    weights = scipy.stats.norm(np.asarray(MEAN[3:]), DEVIATION[3:])
    for leaf, exact in {"scale": scales, "weights": weights}.items():
        np.testing.assert_allclose(summary.mean[leaf], exact.mean(), rtol=2e-5)
        np.testing.assert_allclose(summary.deviation[leaf], exact.std(), rtol=2e-5)
        np.testing.assert_allclose(summary.lower[leaf], exact.ppf(0.05), rtol=2e-5)
        np.testing.assert_allclose(summary.upper[leaf], exact.ppf(0.95), rtol=2e-5)
    first, second = (logit_normal_moment(power, 0.4, 1.5) for power in (1, 2))
    np.testing.assert_allclose(summary.mean["chance"], first, rtol=2e-5)
    np.testing.assert_allclose(summary.deviation["chance"], np.sqrt(second - first**2), rtol=2e-5)
    upper = scipy.special.expit(0.4 + 1.5 * scipy.stats.norm.ppf(0.95))
    np.testing.assert_allclose(summary.upper["chance"], upper, rtol=2e-5)


def test_wide_scales_have_the_moments_of_a_log_normal():
    q = bb.DiagonalGaussian(jnp.zeros(1), jnp.array([2 * np.log(3.0)]))
    posterior = posterior_with(q, jnp.ones(1), bb.positive)
    exact = scipy.stats.lognorm(3.0)
    np.testing.assert_allclose(posterior.mean, exact.mean(), rtol=1e-4)
    np.testing.assert_allclose(posterior.variance, exact.var(), rtol=1e-4)


def test_a_decreasing_transform_has_its_quantiles_in_order():
    q = bb.DiagonalGaussian(jnp.zeros(1), jnp.zeros(1))
    summary = posterior_with(q, jnp.ones(1), Reciprocal()).summary()
    exact = scipy.stats.lognorm(1.0)
    np.testing.assert_allclose(summary.lower, exact.ppf(0.05), rtol=2e-5)
    np.testing.assert_allclose(summary.upper, exact.ppf(0.95), rtol=2e-5)


class Reciprocal:
    elementwise = True

    def forward(self, free):
        return jnp.exp(-free)

    def inverse(self, values):
        return -jnp.log(values)

    def log_det_jacobian(self, free):
        return -free


def test_parameters_without_a_transform_keep_the_moments_of_q_to_the_last_bit(compilations):
    q = FAMILIES["full"]
    free, constrained = posterior_with(q, transforms=None), posterior_with(q)
    for moment in ("mean", "variance"):
        expected = getattr(free, moment)["weights"]
        np.testing.assert_array_equal(getattr(constrained, moment)["weights"], expected)
        np.testing.assert_array_equal(getattr(q, moment)[3:], expected)
    del compilations[:]
    assert jax.tree.structure(free.mean) == jax.tree.structure(PARAMS)
    assert not compilations


def test_entries_of_an_ordered_vector_have_the_moments_of_sums_of_log_normals():
    mean, deviation = np.array([0.5, 0.2, -0.4]), np.array([0.3, 0.2, 0.5])
    q = bb.DiagonalGaussian(jnp.asarray(mean), jnp.asarray(2 * np.log(deviation)))
    posterior = posterior_with(q, jnp.arange(3.0), bb.ordered)
    gaps = scipy.stats.lognorm(deviation[1:], scale=np.exp(mean[1:]))
    exact_mean = np.cumsum([mean[0], *gaps.mean()])
    exact_variance = np.cumsum([deviation[0] ** 2, *gaps.var()])
    error = np.sqrt(exact_variance / NUM_DRAWS)
    assert np.all(np.abs(posterior.mean - exact_mean) < 4 * error)
    draws = np.asarray(posterior.sample(NUM_DRAWS, key=jax.random.key(1)), float)
    fourth = np.mean((draws - draws.mean(axis=0)) ** 4, axis=0)
    error = np.sqrt((fourth - exact_variance**2) / NUM_DRAWS)
    assert np.all(np.abs(posterior.variance - exact_variance) < 4 * error)
    summary = posterior.summary()
    for level, found in ((0.05, summary.lower), (0.95, summary.upper)):
        below = np.mean(draws < found, axis=0)
        assert np.all(np.abs(below - level) < 4 * np.sqrt(2 * 0.05 * 0.95 / NUM_DRAWS))


def test_shares_of_a_simplex_sum_to_one_on_average():
    q = bb.DiagonalGaussian(jnp.array([0.5, -1.0]), jnp.zeros(2))
    posterior = posterior_with(q, jnp.full(3, 1 / 3), bb.simplex)
    np.testing.assert_allclose(posterior.mean.sum(), 1.0, rtol=2e-5)


class Laplace(eqx.Module):
    """A distribution of the user's own, which is not Gaussian."""

    mean: jax.Array

    @property
    def variance(self):
        return jnp.full_like(self.mean, 2.0)

    def noise(self, key):
        return jax.random.laplace(key, self.mean.shape)

    def transform(self, noise):
        return self.mean + noise

    def log_prob(self, params):
        return -jnp.sum(jnp.abs(params - self.mean) + jnp.log(2.0))


def test_quantiles_of_another_distribution_come_from_draws():
    posterior = posterior_with(Laplace(jnp.zeros(5)))
    summary = posterior.summary()
    np.testing.assert_array_equal(summary.mean["weights"], 0.0)
    np.testing.assert_allclose(summary.deviation["weights"], np.sqrt(2), rtol=2e-5)
    exact = scipy.stats.laplace.ppf(0.95)
    error = np.sqrt(0.05 * 0.95 / NUM_DRAWS) / scipy.stats.laplace.pdf(exact)
    assert np.all(np.abs(summary.upper["weights"] - exact) < 4 * error)
    assert np.all(np.abs(np.log(summary.upper["scale"]) - exact) < 4 * error)
    again = posterior.summary()
    np.testing.assert_array_equal(again.upper["scale"], summary.upper["scale"])


def test_the_table_has_one_line_per_number():
    summary = posterior_with(FAMILIES["diagonal"]).summary()
    assert str(summary) == repr(summary)
    assert [line.split() for line in str(summary).splitlines()] == [
        ["mean", "deviation", "5", "%", "95", "%"],
        ["chance", "0.57", "0.27", "0.11", "0.95"],
        ["scale[0]", "0.38", "0.12", "0.22", "0.60"],
        ["scale[1]", "2.3", "2.1", "0.4", "6.1"],
        ["weights[0]", "2.00", "0.10", "1.84", "2.16"],
        ["weights[1]", "-3.000", "0.020", "-3.033", "-2.967"],
    ]
    assert len({len(line) for line in str(summary).splitlines()}) == 1
    row = summary.rows[3]
    assert row.name == "weights[0]"
    assert row[1:] == tuple(
        float(getattr(summary, name)["weights"][0])
        for name in ("mean", "deviation", "lower", "upper")
    )


def names_of(params):
    layout = bb.Layout.of(params)
    q = bb.DiagonalGaussian(jnp.zeros(layout.size), jnp.zeros(layout.size))
    return [row.name for row in posterior_with(q, params, None).summary().rows]


def test_names_lead_to_the_numbers_in_the_tree():
    layers = [{"biases": jnp.zeros(1)}, {"biases": jnp.zeros((1, 2))}]
    names = ["layer[0]['biases'][0]", "layer[1]['biases'][0, 0]", "layer[1]['biases'][0, 1]"]
    assert names_of({"layer": layers}) == names
    assert names_of(layers)[0] == "params[0]['biases'][0]"
    assert names_of(jnp.zeros(2)) == ["params[0]", "params[1]"]
    assert names_of(jnp.zeros(())) == ["params"]
    assert names_of(bb.Gaussian(jnp.zeros(()))) == ["log_variance"]


def test_many_numbers_take_one_line_per_array():
    params = {"network": bb.init_mlp((10, 50, 1), key=jax.random.key(0)), "noise": jnp.ones(())}
    layout = bb.Layout.of(params, transforms={"noise": bb.positive})
    mean = layout.flatten(params)
    q = bb.DiagonalGaussian(mean, jnp.full_like(mean, 2 * np.log(0.5)))
    summary = posterior_with(q, params, {"noise": bb.positive}).summary()
    lines = str(summary).splitlines()
    assert len(lines) == 7
    weights = params["network"][0]["weights"]
    span = f"{weights.min():.2f} to {weights.max():.2f}"
    assert lines[2].split() == ["network[0]['weights']", "(50", "×", "10)", *span.split(), "0.50"]
    assert lines[5].split() == ["noise", "1.13", "0.60", "0.44", "2.28"]
    assert lines[6] == "Arrays: the range of their means and the median of their deviations."
    assert len(summary.rows) == 602


def test_a_table_never_has_more_than_a_hundred_lines_of_numbers():
    params = [jnp.zeros(2) for _ in range(120)]
    q = bb.DiagonalGaussian(jnp.zeros(240), jnp.zeros(240))
    lines = str(posterior_with(q, params, None).summary()).splitlines()
    assert len(lines) == 103
    assert lines[101] == "… and 20 more arrays"


@pytest.mark.parametrize(
    ("variance", "printed"), [(0.0, "1"), (1e-24, "1.000e+00"), (np.inf, "1"), (1e4, "1")]
)
def test_numbers_of_any_deviation_are_printed(variance, printed):
    q = bb.DiagonalGaussian(jnp.ones(1), jnp.log(jnp.array([variance])))
    assert str(posterior_with(q, jnp.ones(1), None).summary()).splitlines()[1].split()[1] == printed
