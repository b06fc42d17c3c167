"""What the regressor predicts: against exact answers and other methods."""

import numpy as np
import pytest
from scipy import stats
from sklearn.linear_model import BayesianRidge, PoissonRegressor

import bbalpha as bb
from bbalpha.interfaces.network import model_of

LINEAR = {"hidden_layer_sizes": (), "likelihood": "gaussian", "prior": "paper", "random_state": 0}


def regressor(**settings):
    """A linear regressor with constant noise and a fixed prior, not yet fitted."""
    return bb.BBAlphaRegressor(**LINEAR | settings)


def test_variational_bayes_of_a_linear_model_predicts_as_bayesian_ridge(table):
    """Both have nearly flat priors; the ridge has the exact posterior given its noise."""
    model = regressor(alpha=0.0, prior_scale=10.0).fit(table.inputs, table.numbers)
    ridge = BayesianRidge().fit(table.inputs, table.numbers)
    mean, std = model.predict(table.new, return_std=True)
    ridge_mean, ridge_std = ridge.predict(table.new, return_std=True)
    np.testing.assert_allclose(mean, ridge_mean, atol=0.1 * ridge_std.min())
    np.testing.assert_allclose(std, ridge_std, rtol=0.1)


def test_densities_integrate_to_one(table, fitted):
    mean, std = fitted.predict(table.new[:1], return_std=True)
    grid = np.linspace(mean[0] - 12 * std[0], mean[0] + 12 * std[0], 2001)
    density = np.exp(fitted.score_samples(np.repeat(table.new[:1], len(grid), axis=0), grid))
    np.testing.assert_allclose(np.trapezoid(density, grid), 1, rtol=1e-4)
    np.testing.assert_allclose(np.trapezoid(density * grid, grid), mean[0], rtol=1e-4)


def test_draws_quantiles_and_moments_are_of_one_distribution(table, fitted):
    draws = fitted.sample_y(table.new, 4000)
    mean, std = fitted.predict(table.new, return_std=True)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=4 * std.max() / np.sqrt(4000))
    lower, upper = fitted.predict_interval(table.new, coverage=0.8).T
    covered = np.mean((draws >= lower[:, None]) & (draws <= upper[:, None]))
    assert abs(covered - 0.8) < 4 * np.sqrt(0.8 * 0.2 / draws.size)
    quantiles = fitted.predict_quantiles(table.new, (0.1, 0.5, 0.9))
    np.testing.assert_array_equal(quantiles[:, [0, 2]], np.column_stack([lower, upper]))
    assert (np.diff(quantiles, axis=1) > 0).all()


def test_quantiles_far_out_are_as_exact_above_as_below(table, fitted):
    """The mixture of Gaussians has its distribution function in scipy, in double precision."""
    probabilities = np.array([1e-8, 1 - 1e-8])
    outputs = fitted.posterior_.predict(
        model_of("relu"),
        fitted.input_units_.transform(table.new),
        key=fitted._key(),
        num_samples=1000,
    )
    deviation = float(fitted.posterior_.hyperparams.noise_variance[0]) ** 0.5
    quantiles = fitted.predict_quantiles(table.new, probabilities)
    low, high = (fitted.target_units_.transform(column[:, None]).T for column in quantiles.T)
    centers = np.asarray(outputs[..., 0], np.float64)
    below = stats.norm.cdf(low, centers, deviation).mean(axis=0)
    above = stats.norm.sf(high, centers, deviation).mean(axis=0)
    np.testing.assert_allclose(below, 1e-8, rtol=1e-3)
    np.testing.assert_allclose(above, 1e-8, rtol=1e-3)


def test_aleatoric_and_epistemic_parts_add_up_to_the_predictive_variance(table, fitted):
    total, aleatoric, epistemic = fitted.decompose(table.new)
    np.testing.assert_allclose(total, fitted.predict(table.new, return_std=True)[1] ** 2, rtol=1e-5)
    np.testing.assert_allclose(total, aleatoric + epistemic)
    noise = float(fitted.posterior_.hyperparams.noise_variance[0])
    scale = fitted.target_units_.scale.item()
    np.testing.assert_allclose(aleatoric, np.full(5, noise * scale**2), rtol=1e-5)
    limits = np.broadcast_to(fitted.input_units_.upper, table.new.shape)
    assert (fitted.decompose(limits).epistemic > 2 * epistemic).all()


def test_counts_are_predicted_as_by_poisson_regression(table):
    counts = np.random.RandomState(1).poisson(np.exp(0.2 * (table.inputs[:, 0] - 10) + 3))
    model = regressor(likelihood="poisson", alpha=0.0).fit(table.inputs, counts)
    scaled = (table.inputs - table.inputs.mean(axis=0)) / table.inputs.std(axis=0)
    expected = PoissonRegressor(alpha=0).fit(scaled, counts).predict(scaled)
    np.testing.assert_allclose(model.predict(table.inputs), expected, rtol=0.03)
    assert (model.predict_quantiles(table.inputs) % 1 == 0).all()


def test_noise_that_depends_on_the_inputs_is_found():
    random = np.random.RandomState(2)
    inputs = np.column_stack([np.repeat([-1.0, 1.0], 500), np.zeros(1000)])
    targets = random.normal(size=1000) * np.where(inputs[:, 0] > 0, 3.0, 0.3)
    model = regressor(likelihood="heteroscedastic", prior="scaled", alpha=0.0).fit(inputs, targets)
    _, std = model.predict([[-1.0, 0.0], [1.0, 0.0]], return_std=True)
    np.testing.assert_allclose(std, [0.3, 3.0], rtol=4 / np.sqrt(2 * 500))


def test_outliers_move_a_student_t_less_than_a_gaussian(table):
    spoiled = table.numbers.copy()
    spoiled[:6] += 500.0
    true = table.signal[6:]
    errors = {}
    for name in ("gaussian", "student_t"):
        model = regressor(likelihood=name).fit(table.inputs, spoiled)
        errors[name] = np.abs(model.predict(table.inputs[6:]) - true)
    assert errors["student_t"].mean() < 0.1 * errors["gaussian"].mean()


@pytest.mark.filterwarnings("ignore:fit did not converge")
def test_units_of_the_inputs_do_not_change_predictions(table):
    model = bb.BBAlphaRegressor((3,), max_epochs=2, random_state=0)
    expected = model.fit(table.inputs, table.numbers).predict(table.new, return_std=True)
    for factor in (7, 1e-300):
        found = model.fit(table.inputs * factor, table.numbers)
        np.testing.assert_allclose(
            found.predict(table.new * factor, return_std=True), expected, rtol=1e-4
        )


def test_rows_alone_have_the_predictions_that_they_have_together(table, fitted_network):
    def described(rows):
        return np.column_stack(
            [*fitted_network.predict(rows, return_std=True), fitted_network.predict_quantiles(rows)]
        )

    alone = np.concatenate([described(row[None]) for row in table.new])
    np.testing.assert_allclose(described(table.new), alone, rtol=1e-5)


def test_several_outputs_are_predicted_as_each_alone(table, fitted):
    targets = np.column_stack([table.numbers, -5 * table.numbers + 1])
    model = regressor().fit(table.inputs, targets)
    mean, std = model.predict(table.new, return_std=True)
    alone_mean, alone_std = fitted.predict(table.new, return_std=True)
    np.testing.assert_allclose(mean[:, 0], alone_mean, atol=0.2 * alone_std.min())
    np.testing.assert_allclose(mean[:, 1], -5 * alone_mean + 1, atol=alone_std.min())
    np.testing.assert_allclose(std, np.outer(alone_std, [1, 5]), rtol=0.15)
    shapes = (
        model.predict_interval(table.new).shape,
        model.sample_y(table.new, 3).shape,
        model.score_samples(table.new, mean).shape,
    )
    assert shapes == ((5, 2, 2), (5, 2, 3), (5,))


def test_probabilities_out_of_range_are_refused(table, fitted):
    with pytest.raises(ValueError, match=r"quantiles must lie between 0 and 1; got quantiles=\[0"):
        fitted.predict_quantiles(table.new, [0.0, 0.5])
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1; got coverage=90"):
        fitted.predict_interval(table.new, coverage=90)


def test_mean_and_deviation_come_from_one_pass_over_the_draws(fitted, table, passes):
    mean, std = fitted.predict(table.new, return_std=True)
    assert passes == [len(table.new)]
    np.testing.assert_allclose(mean, fitted.predict(table.new), rtol=1e-6)
    np.testing.assert_allclose(std**2, fitted.decompose(table.new).total, rtol=1e-5)


def test_one_pass_describes_rows_as_the_single_methods_do(fitted, table, passes):
    rows, targets = table.inputs[:5], table.numbers[:5]
    described = fitted._described(rows, (0.1, 0.7), targets)
    assert passes == [5]
    mean, std = fitted.predict(rows, return_std=True)
    np.testing.assert_allclose(described.mean, mean, rtol=1e-6)
    np.testing.assert_allclose(described.std, std, rtol=1e-6)
    np.testing.assert_allclose(
        described.quantiles, fitted.predict_quantiles(rows, (0.1, 0.7)), rtol=1e-6
    )
    np.testing.assert_allclose(
        described.log_densities, fitted.score_samples(rows, targets), rtol=1e-5
    )
    assert fitted._described(rows)[2:] == (None, None)
