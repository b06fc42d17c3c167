"""A posterior agrees with its q, and predictions are the model at its draws."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

import bbalpha as bb

KEY = jax.random.key(0)
LAYOUT = bb.Layout.of({"weights": jnp.zeros(2), "bias": jnp.zeros(())})  # bias comes first
MEAN = jnp.array([0.5, 1.0, -2.0])
LOG_SCALE = jnp.array([-1.0, -0.5, 0.0])
FAMILIES = {
    "DiagonalGaussian": bb.DiagonalGaussian(MEAN, 2 * LOG_SCALE),
    "FullGaussian": bb.FullGaussian(MEAN, LOG_SCALE, 0.7 * jnp.ones((3, 3))),
    "LowRankGaussian": bb.LowRankGaussian(MEAN, LOG_SCALE, jnp.array([[1.0], [0.5], [-1.0]])),
}
INPUTS = jnp.linspace(-1.0, 1.0, 14).reshape(7, 2)
TARGETS = jnp.linspace(-3.0, 3.0, 7)


def posterior_with(q, hyperparams=None):
    prior = bb.DiagonalGaussian(jnp.zeros(3), jnp.zeros(3))
    scalar = jnp.array(1.0)
    return bb.Posterior(q, prior, hyperparams, scalar, scalar, scalar, LAYOUT)


def model(params, inputs):
    return inputs @ params["weights"] + params["bias"]


def log_likelihood(params, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, model(params, inputs))


def log_likelihood_with_noise(params, batch, noise):
    inputs, targets = batch
    return noise.log_prob(model(params, inputs)[:, None], targets)


def mean_over_draws(outputs):
    return {"mean": outputs.mean(axis=0), "variance": outputs.var(axis=0)}


@pytest.fixture
def posterior():
    return posterior_with(FAMILIES["FullGaussian"])


@pytest.mark.parametrize("name", FAMILIES)
def test_mean_and_variance_are_those_of_q_in_the_tree_of_the_model(name):
    posterior = posterior_with(FAMILIES[name])
    np.testing.assert_array_equal(posterior.mean["bias"], MEAN[0])
    np.testing.assert_array_equal(posterior.mean["weights"], MEAN[1:])
    np.testing.assert_array_equal(posterior.variance["bias"], posterior.q.variance[0])
    np.testing.assert_array_equal(posterior.variance["weights"], posterior.q.variance[1:])


@pytest.mark.parametrize("name", FAMILIES)
def test_draws_have_the_moments_of_q(name):
    posterior = posterior_with(FAMILIES[name])
    num_samples = 4000
    draws = posterior.sample(num_samples, key=KEY)
    for leaf in ("bias", "weights"):
        mean, variance = np.asarray(posterior.mean[leaf]), np.asarray(posterior.variance[leaf])
        found = np.asarray(draws[leaf])
        assert found.shape == (num_samples, *mean.shape)
        mean_error = np.sqrt(variance / num_samples)
        variance_error = variance * np.sqrt(2 / (num_samples - 1))
        assert np.all(np.abs(found.mean(axis=0) - mean) < 4 * mean_error)
        assert np.all(np.abs(found.var(axis=0, ddof=1) - variance) < 4 * variance_error)


def test_draws_from_neighboring_seeds_have_none_in_common(posterior):
    draws = [posterior.sample(1000, key=jax.random.key(seed))["bias"] for seed in (1, 2)]
    common = np.intersect1d(*np.asarray(draws))
    assert len(common) < 10  # of float32 numbers one or two may meet by chance


def test_log_prob_is_the_gaussian_density_of_the_tree(posterior):
    params = {"weights": jnp.array([0.3, -1.0]), "bias": jnp.array(0.2)}
    expected = scipy.stats.multivariate_normal.logpdf(
        [0.2, 0.3, -1.0], MEAN, np.asarray(posterior.q.covariance)
    )
    np.testing.assert_allclose(posterior.log_prob(params), expected, rtol=2e-5)


def test_log_prob_refuses_a_tree_of_other_shapes(posterior):
    draws = posterior.sample(5, key=KEY)
    with pytest.raises(
        ValueError, match=r"^params\['bias'\] must have shape \(\), as in the model"
    ):
        posterior.log_prob(draws)


def test_predictions_are_the_model_at_the_draws_of_sample(posterior):
    draws = posterior.sample(11, key=KEY)
    outputs = posterior.predict(model, INPUTS, key=KEY, num_samples=11)
    expected = INPUTS @ draws["weights"].T + draws["bias"][None, :]
    assert outputs.shape == (11, 7)
    np.testing.assert_allclose(outputs, expected.T, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows_in_memory", [1, 3, 7])
@pytest.mark.parametrize("summary", [None, mean_over_draws])
def test_predictions_in_chunks_of_rows_equal_those_in_one_piece(
    monkeypatch, posterior, rows_in_memory, summary
):
    whole = posterior.predict(model, INPUTS, key=KEY, num_samples=11, summary=summary)
    monkeypatch.setattr("bbalpha.posterior.ROWS_TIMES_DRAWS", 11 * rows_in_memory)
    chunked = posterior.predict(model, INPUTS, key=KEY, num_samples=11, summary=summary)
    assert jax.tree.structure(chunked) == jax.tree.structure(whole)
    for piece, expected in zip(jax.tree.leaves(chunked), jax.tree.leaves(whole), strict=True):
        assert piece.shape == expected.shape
        np.testing.assert_allclose(piece, expected, rtol=1e-5, atol=1e-5)


def test_more_draws_than_fit_in_memory_at_once_still_predict_row_by_row(monkeypatch, posterior):
    whole = posterior.predict(model, INPUTS[:2], key=KEY, num_samples=11)
    monkeypatch.setattr("bbalpha.posterior.ROWS_TIMES_DRAWS", 3)
    chunked = posterior.predict(model, INPUTS[:2], key=KEY, num_samples=11)
    np.testing.assert_allclose(chunked, whole, rtol=1e-5, atol=1e-5)


def test_the_prediction_of_a_row_does_not_depend_on_its_neighbours(posterior):
    outputs = posterior.predict(model, INPUTS, key=KEY, num_samples=11)
    changed = posterior.predict(model, INPUTS.at[3].set(100.0), key=KEY, num_samples=11)
    others = np.arange(7) != 3
    np.testing.assert_array_equal(changed[:, others], outputs[:, others])
    assert np.all(changed[:, 3] != outputs[:, 3])


@pytest.mark.parametrize("num_rows", [1, 2, 3])
def test_a_summary_whose_first_axis_is_not_the_rows_is_refused(posterior, num_rows):
    message = r"^summary must return arrays whose first axis is the rows; got shape \(2, 8\) for 8"
    with pytest.raises(ValueError, match=message):
        posterior.predict(
            model,
            INPUTS[:num_rows],
            key=KEY,
            num_samples=11,
            summary=lambda outputs: jnp.quantile(outputs, jnp.array([0.05, 0.95]), axis=0),
        )


def test_log_densities_of_another_shape_are_refused(posterior):
    def summed(params, data):
        return jnp.sum(log_likelihood(params, data))

    message = r"^log_likelihood must return one number per data point; got shape \(\) for 7"
    with pytest.raises(ValueError, match=message):
        posterior.log_density(summed, (INPUTS, TARGETS), key=KEY)


def test_a_model_without_an_axis_of_rows_is_refused(posterior):
    message = (
        r"^model must return arrays whose first axis is the rows; got shape \(\) for 8 rows\.$"
    )
    with pytest.raises(ValueError, match=message):
        posterior.predict(lambda params, inputs: params["bias"], INPUTS, key=KEY, num_samples=11)


def test_inputs_may_be_any_tree_of_numpy_arrays(posterior):
    def model_of_tree(params, inputs):
        return model(params, inputs["x"]), inputs["offset"] + params["bias"]

    inputs = {"x": np.asarray(INPUTS), "offset": np.arange(7.0)}
    outputs, offsets = posterior.predict(model_of_tree, inputs, key=KEY, num_samples=11)
    expected = posterior.predict(model, INPUTS, key=KEY, num_samples=11)
    np.testing.assert_allclose(outputs, expected, rtol=1e-5, atol=1e-5)
    assert offsets.shape == (11, 7)


def test_log_density_is_the_log_of_the_mean_density_over_draws(posterior):
    draws = posterior.sample(50, key=KEY)
    data = (INPUTS, TARGETS)
    outputs = np.asarray(INPUTS) @ np.asarray(draws["weights"]).T + np.asarray(draws["bias"])
    densities = scipy.stats.norm.pdf(np.asarray(TARGETS)[:, None], outputs)
    found = posterior.log_density(log_likelihood, data, key=KEY, num_samples=50)
    np.testing.assert_allclose(found, np.log(densities.mean(axis=1)), rtol=2e-5, atol=2e-5)


def test_log_density_hands_the_learned_hyperparams_to_the_log_likelihood():
    data = (INPUTS, TARGETS)
    plain = posterior_with(FAMILIES["FullGaussian"])
    noisy = posterior_with(FAMILIES["FullGaussian"], bb.Gaussian(0.0))  # variance one
    expected = plain.log_density(log_likelihood, data, key=KEY, num_samples=50)
    found = noisy.log_density(log_likelihood_with_noise, data, key=KEY, num_samples=50)
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)
    wide = dataclasses.replace(noisy, hyperparams=bb.Gaussian(4.0))
    wider = wide.log_density(log_likelihood_with_noise, data, key=KEY, num_samples=50)
    assert np.all(wider < -0.5 * np.log(2 * np.pi) - 0.5 * 4.0)


@pytest.mark.parametrize("method", ["sample", "predict", "log_density"])
def test_at_least_one_draw_is_needed(posterior, method):
    arguments = {
        "sample": (),
        "predict": (model, INPUTS),
        "log_density": (log_likelihood, (INPUTS, TARGETS)),
    }
    with pytest.raises(ValueError, match=r"^num_samples must be at least 1; got num_samples=0\.$"):
        getattr(posterior, method)(*arguments[method], num_samples=0, key=KEY)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ((INPUTS, TARGETS[:3]), "must have the same number of rows in every array; got data"),
        ((INPUTS[:0], TARGETS[:0]), "must have at least one row; got data"),
        ((INPUTS, jnp.array(1.0)), r"\[1\] must be an array with one row per data point; got the"),
        (([0.5, 1.5], TARGETS), r"\[0\]\[0\] must be an array .* Convert lists with numpy.asarray"),
        ((INPUTS, TARGETS * jnp.nan), r"\[1\] must be finite; got 7 NaN"),
        ((), "must hold at least one array"),
    ],
)
def test_rows_that_do_not_match_are_refused(posterior, data, message):
    with pytest.raises(ValueError, match=rf"^data ?{message}"):
        posterior.log_density(log_likelihood, data, key=KEY)


def test_a_posterior_prints_in_three_lines_however_long_the_record_of_its_fit(posterior):
    info = bb.FitInfo(energies=(1.5,) * 3000, num_steps=6000, seconds=2.04, converged=True)
    long = dataclasses.replace(posterior, energy=jnp.array(12.5), info=info)
    first, second, third = str(long).splitlines()
    assert first == "Posterior: FullGaussian over 3 numbers in 2 arrays, prior DiagonalGaussian"
    assert second.strip() == "α = 1, N = 1, energy = 12.5"
    assert third.strip() == "6,000 steps, 2.0 s, stopped: finished, converged: yes"
    assert repr(long) == str(long)


def test_a_posterior_prints_where_its_numbers_are_not_known(posterior):
    said = []
    jax.eval_shape(lambda posterior: said.append(repr(posterior)), posterior)
    several = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), posterior)
    shapes = jax.eval_shape(lambda: posterior)
    one, two = "float32[]", "float32[2]"
    for text, number in ((said[0], one), (repr(several), two), (repr(shapes), one)):
        assert f"energy = {number}\n" in text
