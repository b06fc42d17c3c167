"""Scores of the experiments equal those that other libraries compute from the same draws.

A known posterior replaces the fit; it is wide, so that its draws disagree.
"""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
import scipy.stats
import sklearn.datasets
import sklearn.metrics
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import bbalpha as bb
from bbalpha_paper.experiments import clean_energy, mnist, probit, regression
from bbalpha_paper.experiments.fits import CURVE_DRAWS, TEST_STREAM, key_of
from bbalpha_paper.experiments.plan import Bench

BENCH = Bench(Path("unused"), lambda part: None)
ENERGY = 1.5
NOISE_VARIANCE = 0.3  # of standardized targets


def known_posterior(params, deviation, hyperparams=None):
    """A Gaussian about some parameters."""
    layout = bb.Layout.of(params)
    mean = layout.flatten(params)
    return bb.Posterior(
        q=bb.DiagonalGaussian(mean, jnp.full_like(mean, 2 * math.log(deviation))),
        prior=bb.DiagonalGaussian(jnp.zeros_like(mean), jnp.zeros_like(mean)),
        hyperparams=hyperparams,
        alpha=jnp.asarray(0.5),
        num_data=jnp.asarray(1.0),
        energy=jnp.asarray(ENERGY),
        layout=layout,
    )


def smoke_runs(experiment):
    """The first run of every configuration."""
    configurations = experiment.EXPERIMENT.configurations["smoke"]
    return [next(iter(configuration.groups()))[0] for configuration in configurations]


def rows_of_split(num_data, num_train):
    """The first split, drawn as the published ones of the paper's data sets."""
    rows = np.random.RandomState(1).permutation(num_data)
    return rows[:num_train], rows[num_train:]


def draws(posterior, run, num_samples):
    sampled = posterior.sample(num_samples, key=key_of(run, TEST_STREAM))
    return jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), sampled)


def outputs(layers, inputs):
    """Outputs of a network with rectified units for every draw: (draws, rows, outputs)."""
    *hidden, last = layers
    for layer in hidden:
        inputs = np.maximum(inputs @ layer["weights"].mT + layer["biases"][:, None], 0.0)
    return inputs @ last["weights"].mT + last["biases"][:, None]


def mean_log_density(log_densities):
    """Averaged over draws, then over rows."""
    averaged = scipy.special.logsumexp(log_densities, axis=0) - math.log(len(log_densities))
    return averaged.mean()


@pytest.mark.parametrize("run", smoke_runs(probit), ids=lambda run: run.configuration)
def test_probit_scores_equal_an_independent_computation(monkeypatch, run):
    fitted, trained = [], []

    def fit_runs(runs, log_likelihood, start, data):
        trained.extend(data)
        fitted.append(known_posterior(3 * start(key_of(run, 0)), 0.2))
        return fitted

    monkeypatch.setattr(probit, "fit_runs", fit_runs)
    (found,) = probit.measure([run], BENCH)

    inputs, labels = sklearn.datasets.load_breast_cancer(return_X_y=True)
    train, test = rows_of_split(569, 512)
    scaler = {"standardized": StandardScaler(), "to one": MinMaxScaler((-1, 1))}
    scaler = scaler[run.settings["scaling"]].fit(inputs[train])
    scaled = with_intercept(scaler.transform(inputs[test]))
    for name, num_samples in (("log_likelihood", 1000), ("log_likelihood_50", 50)):
        activations = draws(fitted[0], run, num_samples) @ scaled.T
        log_densities = scipy.stats.norm.logcdf(np.where(labels[test], activations, -activations))
        assert found[name] == pytest.approx(mean_log_density(log_densities), rel=1e-5)
    mean = scipy.stats.norm.cdf(draws(fitted[0], run, 1000) @ scaled.T).mean(axis=0)
    assert found["error"] == pytest.approx(np.mean((mean > 0.5) != labels[test]))
    assert 0 < found["error"] < 1
    assert found["energy"] == ENERGY
    expected = with_intercept(scaler.transform(inputs[train]))
    np.testing.assert_allclose(trained[0].inputs, expected, atol=1e-12)
    np.testing.assert_array_equal(trained[0].targets, np.where(labels[train], 1, -1))


def with_intercept(inputs):
    return np.column_stack([np.ones(len(inputs)), inputs])


def test_regression_scores_equal_an_independent_computation_in_original_units(monkeypatch):
    run, *_ = smoke_runs(regression)
    fitted, trained = [], []

    def fit_runs(runs, log_likelihood, start, data, hyperparams):
        trained.extend(data)
        noise = bb.Gaussian(math.log(NOISE_VARIANCE))
        fitted.append(known_posterior(start(key_of(run, 0)), 0.3, noise))
        return fitted

    monkeypatch.setattr(regression, "fit_runs", fit_runs)
    (found,) = regression.measure([run], BENCH)

    inputs, targets = sklearn.datasets.load_diabetes(return_X_y=True)
    train, test = rows_of_split(442, 398)
    scaler = StandardScaler().fit(inputs[train])
    scaled = scaler.transform(inputs[test])
    mean, scale = targets[train].mean(), targets[train].std()
    deviation = math.sqrt(NOISE_VARIANCE) * scale
    for name, num_samples in (("log_likelihood", 1000), ("log_likelihood_50", 50)):
        predicted = mean + scale * outputs(draws(fitted[0], run, num_samples), scaled)[..., 0]
        log_densities = scipy.stats.norm.logpdf(targets[test], predicted, deviation)
        assert found[name] == pytest.approx(mean_log_density(log_densities), rel=1e-5)
    predicted = mean + scale * outputs(draws(fitted[0], run, 1000), scaled)[..., 0].mean(axis=0)
    rmse = sklearn.metrics.root_mean_squared_error(targets[test], predicted)
    assert found["rmse"] == pytest.approx(rmse, rel=1e-5)
    assert found["noise_deviation"] == pytest.approx(deviation, rel=1e-5)
    assert found["energy"] == ENERGY
    np.testing.assert_allclose(trained[0].inputs, scaler.transform(inputs[train]), atol=1e-12)
    np.testing.assert_allclose(trained[0].targets, (targets[train] - mean) / scale, atol=1e-12)


def known_long_fit(deviation, seen):
    """A replacement of `fit_long` that records its arguments and its result."""

    def fit_long(run, log_likelihood, params, data, score, bench):
        posterior = known_posterior(params, deviation)
        seen.update(posterior=posterior, data=data, log_likelihood=log_likelihood)
        return posterior, {"along_the_way": score(posterior)}

    return fit_long


def test_scores_of_digits_equal_an_independent_computation(monkeypatch):
    (run,), seen = smoke_runs(mnist), {}
    monkeypatch.setattr(mnist, "fit_long", known_long_fit(0.3, seen))
    (found,) = mnist.measure([run], BENCH)

    pixels, labels = sklearn.datasets.load_digits(return_X_y=True)
    _, test = rows_of_split(1797, 1617)
    scores = {}
    for num_samples in (1000, 50, CURVE_DRAWS):
        logits = outputs(draws(seen["posterior"], run, num_samples), pixels[test] / 16)
        mean = scipy.special.softmax(logits, axis=-1).mean(axis=0)
        log_likelihood = np.log(mean[np.arange(len(test)), labels[test]]).mean()
        error = 1 - sklearn.metrics.accuracy_score(labels[test], mean.argmax(axis=1))
        scores[num_samples] = {"log_likelihood": log_likelihood, "error": error}
    few = {"log_likelihood_50": scores[50]["log_likelihood"], "error_50": scores[50]["error"]}
    expected = {**scores[1000], **few, "energy": ENERGY}
    assert found.pop("along_the_way") == pytest.approx(scores[CURVE_DRAWS], rel=1e-5)
    assert found == pytest.approx(expected, rel=1e-5)


def test_scores_of_clean_energy_equal_an_independent_computation_in_original_units(monkeypatch):
    (run,), seen = smoke_runs(clean_energy), {}
    monkeypatch.setattr(clean_energy, "fit_long", known_long_fit(0.3, seen))
    (found,) = clean_energy.measure([run], BENCH)

    pixels, targets = sklearn.datasets.load_digits(return_X_y=True)
    inputs = np.where(pixels > 8, 1.0, 0.0)
    train, test = rows_of_split(1797, 1500)
    mean, scale = targets[train].mean(), targets[train].std()
    deviation = math.sqrt(0.16)
    scores = {}
    for num_samples in (1000, 50, CURVE_DRAWS):
        sampled = draws(seen["posterior"], run, num_samples)
        predicted = mean + scale * outputs(sampled, inputs[test])[..., 0]
        log_densities = scipy.stats.norm.logpdf(targets[test], predicted, deviation)
        mse = sklearn.metrics.mean_squared_error(targets[test], predicted.mean(axis=0))
        scores[num_samples] = {
            "log_likelihood": mean_log_density(log_densities),
            "rmse": math.sqrt(mse),
            "mse": mse,
        }
    few = {"log_likelihood_50": scores[50]["log_likelihood"]}
    along_the_way = found.pop("along_the_way")
    assert along_the_way == pytest.approx(scores[CURVE_DRAWS], rel=1e-5)
    assert found == pytest.approx({**scores[1000], **few, "energy": ENERGY}, rel=1e-5)

    params = seen["posterior"].mean
    trained_on = seen["log_likelihood"](params, jax.tree.map(jnp.asarray, seen["data"]))
    layers = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64)[None], params)
    predicted = mean + scale * outputs(layers, inputs[train])[0, :, 0]
    log_densities = scipy.stats.norm.logpdf(targets[train], predicted, deviation)
    np.testing.assert_allclose(trained_on - math.log(scale), log_densities, 1e-5, 1e-6)
