"""What both estimators share: weights of rows, learning in pieces, warm starts, and failures."""

import copy
import dataclasses
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

import bbalpha as bb
from bbalpha.interfaces.network import log_likelihood_of

LINEAR = {"hidden_layer_sizes": (), "likelihood": "gaussian", "prior": "paper", "random_state": 0}


def regressor(**settings):
    """A linear regressor with constant noise and a fixed prior, not yet fitted."""
    return bb.BBAlphaRegressor(**LINEAR | settings)


def test_a_prediction_does_not_depend_on_the_other_rows(table, fitted, fitted_classifier):
    many = np.concatenate([table.new, 100 * np.random.RandomState(1).normal(size=(50, 2))])
    for method in (fitted.predict, fitted.predict_quantiles, fitted_classifier.predict_proba):
        np.testing.assert_allclose(method(many)[:5], method(table.new), rtol=1e-5)
        np.testing.assert_array_equal(method(table.new[3:4])[0], method(table.new)[3])


def test_a_row_of_weight_two_is_two_rows(table):
    """The units and the energy are the same; the optima are, but for the noise of the fits."""
    inputs, numbers = table.inputs[:44], table.numbers[:44]
    weights = np.where(np.arange(44) < 20, 2.0, 1.0)
    repeated = np.repeat(np.arange(44), weights.astype(int))
    weighted, doubled = [], []
    for seed in range(24):
        settings = {"random_state": seed, "max_epochs": 1000}
        weighted.append(regressor(**settings).fit(inputs, numbers, sample_weight=weights))
        doubled.append(regressor(**settings).fit(inputs[repeated], numbers[repeated]))
    one, other = weighted[0], doubled[0]
    np.testing.assert_allclose(one.input_units_.mean, other.input_units_.mean, rtol=1e-12)
    np.testing.assert_allclose(one.target_units_.scale, other.target_units_.scale, rtol=1e-12)
    targets = one.target_units_.transform(numbers[:, None])
    rows = bb.Dataset(one.input_units_.transform(inputs), targets)
    energies = [
        energy_under_one_noise(one.posterior_, rows, jnp.asarray(weights, jnp.float32)),
        energy_under_one_noise(
            one.posterior_, jax.tree.map(lambda leaf: leaf[repeated], rows), None
        ),
    ]
    np.testing.assert_allclose(*energies, rtol=2e-5)
    differences = [
        np.concatenate(a.predict(table.new, return_std=True))
        - np.concatenate(b.predict(table.new, return_std=True))
        for a, b in zip(weighted, doubled, strict=True)
    ]
    error = np.std(differences, axis=0, ddof=1) / np.sqrt(len(differences))
    assert (np.abs(np.mean(differences, axis=0)) < 4 * error).all()


@jax.jit
def energy_under_one_noise(posterior, data, weights):
    noise = jax.vmap(posterior.q.noise)(jax.random.split(jax.random.key(0), 100))
    return bb.alpha_energy(
        log_likelihood_of("relu"),
        posterior.q,
        posterior.prior,
        data,
        noise,
        alpha=0.5,
        num_data=64.0,
        layout=posterior.layout,
        hyperparams=posterior.hyperparams,
        weights=weights,
    )


def test_a_row_of_weight_zero_is_no_row(table):
    weights = np.where(np.arange(len(table.inputs)) < 10, 0.0, 1.0)
    spoiled = np.where(weights == 0, 1e6, table.numbers)
    weighted = regressor(max_epochs=5).fit(table.inputs, spoiled, sample_weight=weights)
    removed = regressor(max_epochs=5).fit(table.inputs[10:], table.numbers[10:])
    np.testing.assert_array_equal(weighted.predict(table.new), removed.predict(table.new))


def test_ten_pieces_give_the_log_likelihood_of_one_fit():
    inputs, targets = load_diabetes(return_X_y=True)
    (train,), (test,) = bb.splits(len(targets), 1)
    settings = {"hidden_layer_sizes": (20,), "max_epochs": 100}
    whole = regressor(**settings).fit(inputs[train], targets[train])
    pieces = regressor(**settings)
    # A third of the rows, then nine small pieces; all sizes of the memory share two programs.
    ends = np.linspace(len(train) / 3, len(train), 10).astype(int)
    for rows in np.split(train, ends[:-1]):
        pieces.partial_fit(inputs[rows], targets[rows])
    expected, found = (
        model.score_samples(inputs[test], targets[test]) for model in (whole, pieces)
    )
    difference = found - expected
    assert abs(difference.mean()) < 2 * difference.std(ddof=1) / np.sqrt(len(test))


@pytest.mark.usefixtures("optimized")
def test_what_is_forgotten_stays_in_the_prior():
    """For a design whose columns are orthogonal in every piece the precisions add up exactly."""
    signs = np.tile([-1.0, 1.0], 512)
    inputs = np.column_stack([signs, 0 * signs])
    targets = 0.5 * signs + np.random.RandomState(3).normal(size=1024)
    model = regressor(alpha=0.0, memory_size=0, max_epochs=1000, num_samples=100)
    for rows in np.array_split(np.arange(1024), 16):
        model.partial_fit(inputs[rows], targets[rows])
    scale = model.target_units_.scale.item()
    posterior = model.posterior_
    slope = posterior.mean["heads"][0]["weights"][0, 0] * scale
    variance = posterior.variance["heads"][0]["weights"][0, 0] * scale**2
    exact = np.mean(signs * targets)
    assert abs(slope - exact) < 0.5 / np.sqrt(1024)
    np.testing.assert_allclose(variance, targets.var() * 0.8 / 1024, rtol=0.25)


def test_a_second_piece_narrows_what_a_fit_has_learned(table, fitted):
    model = copy.copy(fitted)
    before = model.decompose(table.new).epistemic
    model.partial_fit(table.inputs, table.numbers)  # the same rows again count twice
    np.testing.assert_allclose(model.decompose(table.new).epistemic, before / 2, rtol=0.5)


def test_a_warm_start_continues_where_the_last_fit_ended(table, fitted):
    model, before = copy.copy(fitted), fitted.posterior_
    model.set_params(warm_start=True, learning_rate=1e-12, max_epochs=1)
    model.fit(table.inputs, table.numbers)
    for one, other in zip(
        jax.tree.leaves((before.mean, before.variance, before.prior)),
        jax.tree.leaves((model.posterior_.mean, model.posterior_.variance, model.posterior_.prior)),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=1e-4)


def test_a_warm_start_of_another_network_is_refused(table):
    model = regressor(warm_start=True, max_epochs=5).fit(table.inputs, table.numbers)
    with pytest.raises(
        ValueError,
        match=r"hidden_layer_sizes and prior must be the same as in the last fit .*=\(3,\) and pri",
    ):
        model.set_params(hidden_layer_sizes=(3,)).fit(table.inputs, table.numbers)
    model.set_params(hidden_layer_sizes=(), likelihood="student_t")
    with pytest.raises(
        ValueError, match=r"likelihood must be the same as in the last fit .* a Gaussian"
    ):
        model.partial_fit(table.inputs, table.numbers)


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_fit_that_fails_leaves_the_last_one_as_it_was(table, method):
    model = regressor(max_epochs=5).fit(table.inputs, table.numbers)
    expected, attributes = model.predict(table.new), set(vars(model))
    model.set_params(learning_rate=9e14)
    with pytest.raises(bb.NonFiniteEnergyError):
        getattr(model, method)(100 * table.inputs, table.numbers - 7)
    np.testing.assert_array_equal(model.predict(table.new), expected)
    assert set(vars(model)) == attributes
    fresh = regressor(learning_rate=9e14, max_epochs=5)
    with pytest.raises(bb.NonFiniteEnergyError):
        getattr(fresh, method)(table.inputs, table.numbers)
    assert not hasattr(fresh, "n_features_in_")


def test_early_stopping_ends_before_the_last_epoch_and_keeps_the_best(table):
    model = regressor(early_stopping=True, patience=3, max_epochs=500).fit(
        table.inputs, table.numbers
    )
    info = model.posterior_.info
    assert info.stopped == "early"
    best = max(score for _, score in info.held_out)
    epochs = [epoch for epoch, score in info.held_out if score == best]
    assert model.n_iter_ == epochs[0] < 500


def test_equal_seeds_give_equal_models_and_others_do_not(table):
    models = [
        regressor(max_epochs=5, random_state=state)
        .fit(table.inputs, table.numbers)
        .predict(table.new)
        for state in (7, np.random.RandomState(7), 8)
    ]
    np.testing.assert_array_equal(models[0], models[1])
    assert (models[0] != models[2]).all()


def test_an_interrupted_fit_is_kept_with_a_warning(table, monkeypatch):
    """As `fit` leaves it after Ctrl-C, after which a loop over folds goes on."""

    def interrupted(*args, **kwargs):
        posterior = bb.fit(*args, **kwargs)
        info = dataclasses.replace(posterior.info, stopped="interrupted")
        return dataclasses.replace(posterior, info=info)

    monkeypatch.setattr("bbalpha.interfaces.training.fit", interrupted)
    with pytest.warns(UserWarning, match=r"^fit was interrupted after 2 steps; the estimator hold"):
        regressor(max_epochs=1).fit(table.inputs, table.numbers)


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_targets_whose_variance_is_no_number_are_refused(table, factor):
    with pytest.raises(ValueError, match=r"^y must have a standard deviation between 1e-153 and"):
        regressor(max_epochs=1).fit(table.inputs, factor * table.numbers)


@pytest.mark.parametrize("factor", [1e-300, 1e300])
@pytest.mark.filterwarnings("ignore:fit did not converge")
def test_the_units_of_the_inputs_do_not_matter(table, factor):
    one = regressor(max_epochs=2).fit(table.inputs, table.numbers)
    other = regressor(max_epochs=2).fit(factor * table.inputs, table.numbers)
    found = other.predict(factor * table.new, return_std=True)
    np.testing.assert_allclose(found, one.predict(table.new, return_std=True), rtol=1e-4)


def test_a_fit_that_has_not_converged_says_how_far_the_energy_still_fell(table):
    short = "^fit did not converge: 3 epochs with 6 steps in all are too few to judge. Raise max_ep"
    with pytest.warns(ConvergenceWarning, match=short):
        regressor(max_epochs=3).fit(table.inputs, table.numbers)
    slow = r"^fit did not converge: the energy still fell by \S+ nats .* 40 epochs. Raise max_epoc"
    with pytest.warns(ConvergenceWarning, match=slow):
        regressor(max_epochs=40, learning_rate=1e-3).fit(table.inputs, table.numbers)


@pytest.mark.parametrize("learns_prior", [False, True])
def test_a_fit_of_many_rows_is_judged_though_it_takes_few_epochs(learns_prior):
    random = np.random.default_rng(0)
    inputs = random.normal(size=(30_000, 2))
    targets = inputs @ [1.0, -1.0] + random.normal(size=30_000)
    model = regressor(num_samples=2, learn_prior=learns_prior)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(inputs, targets)
    assert model.n_iter_ == 11
    assert model.posterior_.info.converged
