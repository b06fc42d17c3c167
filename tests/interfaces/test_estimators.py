"""What the estimators predict: against exact answers, other methods, and each other."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.datasets import load_diabetes
from sklearn.linear_model import BayesianRidge, PoissonRegressor

import bbalpha as bb
from bbalpha.interfaces.network import log_likelihood_of

RANDOM = np.random.RandomState(0)
NUM_DATA = 64
INPUTS = RANDOM.normal(size=(NUM_DATA, 2)) * [3.0, 0.1] + [10.0, -5.0]
SIGNAL = 2 * INPUTS[:, 0] - 30 * INPUTS[:, 1]
NUMBERS = SIGNAL + RANDOM.normal(size=NUM_DATA)
LABELS = np.where(SIGNAL + 3 * RANDOM.normal(size=NUM_DATA) > SIGNAL.mean(), "yes", "no")
NEW = INPUTS[:5] + 0.5


def regressor(**settings):
    return bb.BBAlphaRegressor(**{"hidden_layer_sizes": (), "random_state": 0} | settings)


def classifier(**settings):
    return bb.BBAlphaClassifier(**{"hidden_layer_sizes": (), "random_state": 0} | settings)


@pytest.fixture(scope="module")
def fitted():
    return regressor().fit(INPUTS, NUMBERS)


@pytest.fixture(scope="module")
def fitted_classifier():
    return classifier().fit(INPUTS, LABELS)


def test_variational_bayes_of_a_linear_model_predicts_as_bayesian_ridge():
    """Both have nearly flat priors; the ridge has the exact posterior given its noise."""
    model = regressor(alpha=0.0, prior_scale=10.0).fit(INPUTS, NUMBERS)
    ridge = BayesianRidge().fit(INPUTS, NUMBERS)
    mean, std = model.predict(NEW, return_std=True)
    ridge_mean, ridge_std = ridge.predict(NEW, return_std=True)
    np.testing.assert_allclose(mean, ridge_mean, atol=0.1 * ridge_std.min())
    np.testing.assert_allclose(std, ridge_std, rtol=0.1)


def test_a_prediction_does_not_depend_on_the_other_rows(fitted, fitted_classifier):
    many = np.concatenate([NEW, 100 * RANDOM.normal(size=(200, 2))])
    for method in (fitted.predict, fitted.predict_quantiles, fitted_classifier.predict_proba):
        np.testing.assert_allclose(method(many)[:5], method(NEW), rtol=1e-5)
        np.testing.assert_array_equal(method(NEW[3:4])[0], method(NEW)[3])


def test_densities_integrate_to_one(fitted):
    mean, std = fitted.predict(NEW[:1], return_std=True)
    grid = np.linspace(mean[0] - 12 * std[0], mean[0] + 12 * std[0], 2001)
    density = np.exp(fitted.score_samples(np.repeat(NEW[:1], len(grid), axis=0), grid))
    np.testing.assert_allclose(np.trapezoid(density, grid), 1, rtol=1e-4)
    np.testing.assert_allclose(np.trapezoid(density * grid, grid), mean[0], rtol=1e-4)


def test_log_densities_of_labels_are_log_probabilities(fitted_classifier):
    probabilities = fitted_classifier.predict_proba(INPUTS)
    chosen = np.where(LABELS == "yes", probabilities[:, 1], probabilities[:, 0])
    np.testing.assert_allclose(
        np.exp(fitted_classifier.score_samples(INPUTS, LABELS)), chosen, rtol=2e-5
    )


def test_draws_quantiles_and_moments_are_of_one_distribution(fitted):
    draws = fitted.sample_y(NEW, 4000)
    mean, std = fitted.predict(NEW, return_std=True)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=4 * std.max() / np.sqrt(4000))
    lower, upper = fitted.predict_interval(NEW, coverage=0.8).T
    covered = np.mean((draws >= lower[:, None]) & (draws <= upper[:, None]))
    assert abs(covered - 0.8) < 4 * np.sqrt(0.8 * 0.2 / draws.size)
    quantiles = fitted.predict_quantiles(NEW, (0.1, 0.5, 0.9))
    np.testing.assert_array_equal(quantiles[:, [0, 2]], np.column_stack([lower, upper]))
    assert (np.diff(quantiles, axis=1) > 0).all()


def test_quantiles_far_out_are_as_exact_above_as_below(fitted):
    """Of the mixture of Gaussians, whose distribution function scipy has in double precision."""
    probabilities = np.array([1e-8, 1 - 1e-8])
    outputs = fitted.posterior_.predict(
        bb.mlp, fitted.input_units_.transform(NEW), key=fitted._key(), num_samples=1000
    )
    deviation = float(fitted.posterior_.hyperparams.noise_variance[0]) ** 0.5
    quantiles = fitted.predict_quantiles(NEW, probabilities)
    low, high = (fitted.target_units_.transform(column[:, None]).T for column in quantiles.T)
    centers = np.asarray(outputs[..., 0], np.float64)
    below = stats.norm.cdf(low, centers, deviation).mean(axis=0)
    above = stats.norm.sf(high, centers, deviation).mean(axis=0)
    np.testing.assert_allclose(below, 1e-8, rtol=1e-3)
    np.testing.assert_allclose(above, 1e-8, rtol=1e-3)


def test_noise_and_doubt_add_up_to_the_predictive_variance(fitted):
    total, aleatoric, epistemic = fitted.decompose(NEW)
    np.testing.assert_allclose(total, fitted.predict(NEW, return_std=True)[1] ** 2, rtol=1e-5)
    np.testing.assert_allclose(total, aleatoric + epistemic)
    noise = float(fitted.posterior_.hyperparams.noise_variance[0])
    scale = fitted.target_units_.scale.item()
    np.testing.assert_allclose(aleatoric, np.full(5, noise * scale**2), rtol=1e-5)
    far_away = fitted.decompose(NEW + 1000).epistemic
    assert (far_away > 100 * epistemic).all()


def test_noise_and_doubt_add_up_to_the_entropy_of_a_label(fitted_classifier):
    total, aleatoric, epistemic = fitted_classifier.decompose(NEW)
    np.testing.assert_allclose(
        total, stats.entropy(fitted_classifier.predict_proba(NEW), axis=1), rtol=1e-4
    )
    np.testing.assert_allclose(total, aleatoric + epistemic)
    assert (epistemic > 0).all()


def test_probit_and_softmax_agree_on_the_probabilities():
    """Their links differ by little between 0.1 and 0.9 once the scale is learned."""
    settings = {"alpha": 0.0, "prior_scale": 3.0}
    probit = classifier(likelihood="probit", **settings).fit(INPUTS, LABELS)
    softmax = classifier(**settings).fit(INPUTS, LABELS)
    np.testing.assert_allclose(
        probit.predict_proba(INPUTS), softmax.predict_proba(INPUTS), atol=0.05
    )


def test_the_probability_of_an_unlikely_label_is_not_lost_by_subtraction():
    model = classifier(likelihood="probit", alpha=0.0, prior_scale=3.0).fit(INPUTS, LABELS)
    far = INPUTS.mean(axis=0, keepdims=True) + np.array([[12.0, 0.0]])
    unlikely = model.predict_log_proba(far)[:, 0]
    assert unlikely < -20
    np.testing.assert_allclose(unlikely, model.score_samples(far, ["no"]), rtol=1e-4)


def test_counts_are_predicted_as_by_poisson_regression():
    counts = np.random.RandomState(1).poisson(np.exp(0.2 * (INPUTS[:, 0] - 10) + 3))
    model = regressor(likelihood="poisson", alpha=0.0).fit(INPUTS, counts)
    scaled = (INPUTS - INPUTS.mean(axis=0)) / INPUTS.std(axis=0)
    expected = PoissonRegressor(alpha=0).fit(scaled, counts).predict(scaled)
    np.testing.assert_allclose(model.predict(INPUTS), expected, rtol=0.03)
    assert (model.predict_quantiles(INPUTS) % 1 == 0).all()


def test_noise_that_depends_on_the_inputs_is_found():
    random = np.random.RandomState(2)
    inputs = np.column_stack([np.repeat([-1.0, 1.0], 500), np.zeros(1000)])
    targets = random.normal(size=1000) * np.where(inputs[:, 0] > 0, 3.0, 0.3)
    model = regressor(likelihood="heteroscedastic", alpha=0.0).fit(inputs, targets)
    _, std = model.predict([[-1.0, 0.0], [1.0, 0.0]], return_std=True)
    np.testing.assert_allclose(std, [0.3, 3.0], rtol=4 / np.sqrt(2 * 500))


def test_outliers_move_a_student_t_less_than_a_gaussian():
    spoiled = NUMBERS.copy()
    spoiled[:6] += 500.0
    true = SIGNAL[6:]
    errors = {
        name: np.abs(regressor(likelihood=name).fit(INPUTS, spoiled).predict(INPUTS[6:]) - true)
        for name in ("gaussian", "student_t")
    }
    assert errors["student_t"].mean() < 0.1 * errors["gaussian"].mean()


def test_several_outputs_are_predicted_as_each_alone():
    targets = np.column_stack([NUMBERS, -5 * NUMBERS + 1])
    model = regressor().fit(INPUTS, targets)
    mean, std = model.predict(NEW, return_std=True)
    alone_mean, alone_std = regressor().fit(INPUTS, NUMBERS).predict(NEW, return_std=True)
    np.testing.assert_allclose(mean[:, 0], alone_mean, atol=0.2 * alone_std.min())
    np.testing.assert_allclose(mean[:, 1], -5 * alone_mean + 1, atol=alone_std.min())
    np.testing.assert_allclose(std, np.outer(alone_std, [1, 5]), rtol=0.15)
    shapes = (
        model.predict_interval(NEW).shape,
        model.sample_y(NEW, 3).shape,
        model.score_samples(NEW, mean).shape,
    )
    assert shapes == ((5, 2, 2), (5, 2, 3), (5,))


def test_a_row_of_weight_two_is_two_rows():
    """The units and the energy are the same; the optima are, but for the noise of the fits."""
    weights = np.where(np.arange(NUM_DATA) < 20, 2.0, 1.0)
    repeated = np.repeat(np.arange(NUM_DATA), weights.astype(int))
    weighted, doubled = [], []
    for seed in range(24):
        settings = {"random_state": seed, "max_epochs": 1000}
        weighted.append(regressor(**settings).fit(INPUTS, NUMBERS, sample_weight=weights))
        doubled.append(regressor(**settings).fit(INPUTS[repeated], NUMBERS[repeated]))
    one, other = weighted[0], doubled[0]
    np.testing.assert_allclose(one.input_units_.mean, other.input_units_.mean, rtol=1e-12)
    np.testing.assert_allclose(one.target_units_.scale, other.target_units_.scale, rtol=1e-12)
    targets = one.target_units_.transform(NUMBERS[:, None])
    rows = bb.Dataset(one.input_units_.transform(INPUTS), targets)
    energies = [
        energy_under_one_noise(one.posterior_, data, weight)
        for data, weight in (
            (rows, weights),
            (jax.tree.map(lambda leaf: leaf[repeated], rows), None),
        )
    ]
    np.testing.assert_allclose(*energies, rtol=2e-5)
    differences = [
        np.concatenate(a.predict(NEW, return_std=True))
        - np.concatenate(b.predict(NEW, return_std=True))
        for a, b in zip(weighted, doubled, strict=True)
    ]
    error = np.std(differences, axis=0, ddof=1) / np.sqrt(len(differences))
    assert (np.abs(np.mean(differences, axis=0)) < 4 * error).all()


def energy_under_one_noise(posterior, data, weights):
    noise = jax.vmap(posterior.q.noise)(jax.random.split(jax.random.key(0), 100))
    likelihood = posterior.hyperparams

    def log_likelihood(vector, batch):
        params = posterior.layout.unflatten(vector)
        return log_likelihood_of("relu")(params, batch, likelihood)

    return bb.alpha_energy(
        log_likelihood,
        posterior.q,
        posterior.prior,
        jax.tree.map(jnp.asarray, data),
        noise,
        alpha=0.5,
        num_data=84.0,
        weights=None if weights is None else jnp.asarray(weights, jnp.float32),
    )


def test_a_row_of_weight_zero_is_no_row():
    weights = np.where(np.arange(NUM_DATA) < 10, 0.0, 1.0)
    spoiled = np.where(weights == 0, 1e6, NUMBERS)
    weighted = regressor(max_epochs=5).fit(INPUTS, spoiled, sample_weight=weights)
    removed = regressor(max_epochs=5).fit(INPUTS[10:], NUMBERS[10:])
    np.testing.assert_array_equal(weighted.predict(NEW), removed.predict(NEW))


def test_ten_pieces_give_the_log_likelihood_of_one_fit():
    inputs, targets = load_diabetes(return_X_y=True)
    (train,), (test,) = bb.splits(len(targets), 1)
    settings = {"hidden_layer_sizes": (20,), "max_epochs": 100}
    whole = regressor(**settings).fit(inputs[train], targets[train])
    pieces = regressor(**settings)
    for rows in np.array_split(train, 10):
        pieces.partial_fit(inputs[rows], targets[rows])
    expected, found = (
        model.score_samples(inputs[test], targets[test]) for model in (whole, pieces)
    )
    difference = found - expected
    assert abs(difference.mean()) < 2 * difference.std(ddof=1) / np.sqrt(len(test))


def test_what_is_forgotten_stays_in_the_prior():
    """For a design whose columns are orthogonal in every piece the precisions add up exactly."""
    random = np.random.RandomState(3)
    inputs = np.tile([[-1.0], [1.0]], (500, 1))
    targets = 0.5 * inputs[:, 0] + random.normal(size=1000)
    model = regressor(alpha=0.0, memory_size=0, max_epochs=200)
    for rows in np.array_split(np.arange(1000), 5):
        model.partial_fit(inputs[rows], targets[rows])
    slope = model.posterior_.mean[0]["weights"].item() * model.target_units_.scale.item()
    variance = (
        model.posterior_.variance[0]["weights"].item() * model.target_units_.scale.item() ** 2
    )
    exact = np.mean(inputs[:, 0] * targets)
    assert abs(slope - exact) < 0.5 / np.sqrt(1000)
    np.testing.assert_allclose(variance, targets.var() * 0.8 / 1000, rtol=0.25)


def test_a_second_piece_narrows_what_a_fit_has_learned():
    model = regressor().fit(INPUTS, NUMBERS)
    before = model.decompose(NEW).epistemic
    model.partial_fit(INPUTS, NUMBERS)  # the same rows again count twice
    np.testing.assert_allclose(model.decompose(NEW).epistemic, before / 2, rtol=0.5)


def test_a_warm_start_goes_on_where_the_last_fit_ended():
    model = regressor(warm_start=True).fit(INPUTS, NUMBERS)
    before = model.posterior_
    model.set_params(learning_rate=1e-12, max_epochs=1).fit(INPUTS, NUMBERS)
    for one, other in zip(
        jax.tree.leaves((before.mean, before.variance)),
        jax.tree.leaves((model.posterior_.mean, model.posterior_.variance)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_a_warm_start_of_another_network_gets_a_sentence():
    model = regressor(warm_start=True, max_epochs=5).fit(INPUTS, NUMBERS)
    with pytest.raises(
        ValueError, match=r"hidden_layer_sizes must be those of the last fit .*\(3,"
    ):
        model.set_params(hidden_layer_sizes=(3,)).fit(INPUTS, NUMBERS)
    model.set_params(hidden_layer_sizes=(), likelihood="student_t")
    with pytest.raises(ValueError, match=r"likelihood must be that of the last fit .* a Gaussian"):
        model.partial_fit(INPUTS, NUMBERS)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_what_fails_leaves_the_last_fit_as_it_was(method):
    model = regressor(max_epochs=5).fit(INPUTS, NUMBERS)
    expected, attributes = model.predict(NEW), set(vars(model))
    model.set_params(learning_rate=1e30)
    with pytest.raises(bb.NonFiniteEnergyError):
        getattr(model, method)(100 * INPUTS, NUMBERS - 7)
    np.testing.assert_array_equal(model.predict(NEW), expected)
    assert set(vars(model)) == attributes
    fresh = regressor(learning_rate=1e30, max_epochs=5)
    with pytest.raises(bb.NonFiniteEnergyError):
        getattr(fresh, method)(INPUTS, NUMBERS)
    assert not hasattr(fresh, "n_features_in_")


@pytest.mark.parametrize("name", ["patience", "num_samples", "batch_size"])
def test_only_the_epochs_may_be_left_open(name):
    with pytest.raises(TypeError, match=f"^{name} must be a whole number; got {name}=None.$"):
        regressor(**{name: None}).fit(INPUTS, NUMBERS)


def test_early_stopping_ends_before_the_last_epoch_and_keeps_the_best():
    model = regressor(early_stopping=True, patience=3, max_epochs=500).fit(INPUTS, NUMBERS)
    info = model.posterior_.info
    assert info.stopped == "early"
    best = max(score for _, score in info.held_out)
    epochs = [epoch for epoch, score in info.held_out if score == best]
    assert model.n_iter_ == epochs[0] < 500


def test_equal_seeds_give_equal_models_and_others_do_not():
    models = [
        regressor(max_epochs=5, random_state=state).fit(INPUTS, NUMBERS).predict(NEW)
        for state in (7, np.random.RandomState(7), 8)
    ]
    np.testing.assert_array_equal(models[0], models[1])
    assert (models[0] != models[2]).all()


BAD = {
    "activation": ({"activation": "sine"}, "activation must be one of relu, tanh, logistic, soft"),
    "likelihood": ({"likelihood": "cauchy"}, "likelihood must be one of auto, gaussian, hetero"),
    "layers": ({"hidden_layer_sizes": (10, 0)}, r"hidden_layer_sizes must hold whole numbers from"),
    "half a unit": ({"hidden_layer_sizes": (1.5,)}, r"got hidden_layer_sizes=\(1.5,\)"),
    "samples": ({"num_samples": 0}, "num_samples must be at least 1; got num_samples=0"),
    "epochs": ({"max_epochs": -1}, "max_epochs must be at least 1; got max_epochs=-1"),
    "prior": ({"prior_scale": 0.0}, "prior_scale must be positive and finite; got prior_scale=0.0"),
    "rate": ({"learning_rate": -1.0}, "learning_rate must be positive and finite; got"),
    "no prior": (
        {"prior_scale": None},
        "prior_scale must be positive and finite; got prior_scale=N",
    ),
    "no fraction": ({"validation_fraction": None}, "validation_fraction must be between 0 and 1; "),
    "fraction": ({"validation_fraction": 1.0}, "validation_fraction must be between 0 and 1; got"),
    "alpha": ({"alpha": 65.0}, "alpha must not exceed the number of data points"),
    "memory": ({"memory_size": -1}, "memory_size must be a whole number from 0 on; got"),
    "counts": ({"likelihood": "poisson"}, "y must hold counts for likelihood='poisson'; got"),
}


def test_an_interrupted_fit_is_kept_with_a_warning(monkeypatch):
    """As `fit` leaves it after Ctrl-C, after which a loop over folds goes on."""

    def interrupted(*args, **kwargs):
        posterior = bb.fit(*args, **kwargs)
        info = dataclasses.replace(posterior.info, stopped="interrupted")
        return dataclasses.replace(posterior, info=info)

    monkeypatch.setattr("bbalpha.interfaces.estimator.fit", interrupted)
    with pytest.warns(UserWarning, match=r"got an interruption.* reached after 2 steps\.$"):
        regressor(max_epochs=1).fit(INPUTS, NUMBERS)


@pytest.mark.parametrize("name", BAD)
def test_a_setting_that_breaks_its_rule_gets_a_sentence(name):
    settings, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        regressor(**settings).fit(INPUTS, NUMBERS)


def test_labels_that_break_a_rule_get_a_sentence():
    with pytest.raises(ValueError, match="at least two classes; got one class, 'no'"):
        classifier().fit(INPUTS, np.full(NUM_DATA, "no"))
    with pytest.raises(ValueError, match="got likelihood='probit' with 3 classes"):
        classifier(likelihood="probit").fit(INPUTS, np.arange(NUM_DATA) % 3)
    with pytest.raises(ValueError, match="texts or booleans as labels; got type datetime"):
        classifier().fit(INPUTS, np.tile(np.array(["2020-01-01", "2021-01-01"], "M8[D]"), 32))
    with pytest.raises(ValueError, match="classes must be given in the first call of partial_fit"):
        classifier().partial_fit(INPUTS, LABELS)


def test_labels_that_were_not_there_get_a_sentence(fitted_classifier):
    with pytest.raises(ValueError, match=r"y must hold the classes \['no', 'yes'\]; got .*maybe"):
        fitted_classifier.score_samples(NEW[:1], ["maybe"])
    with pytest.raises(ValueError, match=r"classes must be those of the first call"):
        fitted_classifier.partial_fit(INPUTS, LABELS, classes=["a", "b"])


def test_probabilities_out_of_range_get_a_sentence(fitted):
    with pytest.raises(ValueError, match=r"quantiles must lie between 0 and 1; got quantiles=\[0"):
        fitted.predict_quantiles(NEW, [0.0, 0.5])
    with pytest.raises(ValueError, match="coverage must lie between 0 and 1; got coverage=90"):
        fitted.predict_interval(NEW, coverage=90)
