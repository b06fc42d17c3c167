"""Predictions are finite, or an error names the rows; models that overflow are not loaded."""

import copy
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.engine.layout import Layout
from bbalpha.files import model_file
from bbalpha.interfaces.finite import (
    NonFinitePredictionError,
    _largest_output,
    check_finite_rows,
    has_infinite_variance,
)
from bbalpha.interfaces.network import model_of

TOO_LARGE = "its weights, noise or units are so extreme that predictions are not finite."


def with_q(estimator, **changes):
    """A copy of the estimator with other arrays in its q."""
    changed = copy.copy(estimator)
    posterior = estimator.posterior_
    q = bb.DiagonalGaussian(
        changes.get("mean", posterior.q.mean),
        changes.get("log_variance", posterior.q.log_variance),
    )
    changed.posterior_ = bb.Posterior(
        q,
        posterior.prior,
        changes.get("hyperparams", posterior.hyperparams),
        posterior.alpha,
        changes.get("num_data", posterior.num_data),
        posterior.energy,
        posterior.layout,
        changes.get("info", posterior.info),
    )
    return changed


def test_rows_that_are_not_finite_are_named():
    table = np.zeros((9, 2))
    table[[4, 7], 1] = np.nan, np.inf
    message = r"^the predictions of 2 of 9 rows are not finite; the first is row 4\.$"
    with pytest.raises(NonFinitePredictionError, match=message) as caught:
        check_finite_rows((np.zeros(9), table))
    assert caught.value.rows.tolist() == [4, 7]
    with pytest.raises(NonFinitePredictionError, match="of 1 of 9 rows"):
        check_finite_rows(table, allowed=np.inf)
    check_finite_rows(np.array([1.0, -np.inf]), allowed=-np.inf)


def test_predictions_that_overflow_are_an_error(table, fitted, fitted_classifier):
    message = r"^the predictions of 5 of 5 rows are not finite; the first is row 0\.$"
    large = jnp.full_like(fitted.posterior_.q.mean, 3e38)
    model = with_q(fitted, mean=large, log_variance=large / 1e37)
    for ask in (model.predict, model.predict_quantiles, model.decompose, model.score_samples):
        with pytest.raises(NonFinitePredictionError, match=message):
            ask(table.new)
    large = jnp.full_like(fitted_classifier.posterior_.q.mean, 3e38)
    limits = np.broadcast_to(fitted_classifier.input_units_.upper, table.new.shape)
    with pytest.raises(NonFinitePredictionError, match=message):
        with_q(fitted_classifier, mean=large).predict_proba(limits)


def test_inputs_beyond_float32_are_clipped_like_others(fitted):
    far, near = fitted.predict([[1e39, -1e300]]), fitted.predict([[1e6, -1e6]])
    np.testing.assert_array_equal(far, near)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"log_variance": 200.0}, ".q.log_variance is not finite, or too large for float32."),
        ({"log_variance": 88.0}, TOO_LARGE),
        ({"mean": 1e30}, TOO_LARGE),
        ({"num_data": -3.0}, ".num_data is -3.0, which is not positive."),
        ({"num_data": np.nan}, ".num_data is not finite."),
        (
            {"hyperparams": bb.Gaussian(jnp.array([89.0]))},
            ".hyperparams.log_variance is not finite, or too large for float32.",
        ),
    ],
)
def test_forged_arrays_are_refused(tmp_path, fitted, changes, problem):
    path = tmp_path / "m.safetensors"
    mean = fitted.posterior_.q.mean
    arrays = {
        name: value if name == "hyperparams" else jnp.full_like(mean, value)
        for name, value in changes.items()
    }
    if "num_data" in arrays:
        arrays["num_data"] = arrays["num_data"][0]
    with_q(fitted, **arrays).save(path)
    message = re.escape(f"m.safetensors is not a valid bbalpha model: {problem}")
    with pytest.raises(ValueError, match=f"^{message}$"):
        bb.BBAlphaRegressor.load(path)


@pytest.mark.parametrize("count", [10**8, 2**31])
def test_forged_counts_of_draws_are_refused(tmp_path, fitted, count):
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    _, metadata = model_file.read(path)
    metadata["estimator"]["settings"]["num_predictive_samples"] = count
    model_file.write(path, fitted.posterior_, metadata)
    message = (
        r"^m\.safetensors is not a valid bbalpha model: num_predictive_samples must be at most "
        rf"1,000,000; got num_predictive_samples={count}\.$"
    )
    with pytest.raises(ValueError, match=message):
        bb.BBAlphaRegressor.load(path)


@pytest.mark.parametrize(
    "info",
    [
        bb.FitInfo(stopped="\x1b[31mred"),
        bb.FitInfo(stopped="x" * 41),
        bb.FitInfo(num_steps=-1),
        bb.FitInfo(num_steps=2**63),
        bb.FitInfo(seconds=float("inf")),
        bb.FitInfo(held_out=((-1, 0.0),)),
    ],
)
def test_a_forged_record_is_refused(tmp_path, fitted, info):
    path = tmp_path / "m.safetensors"
    with_q(fitted, info=info).save(path)
    message = r"^m\.safetensors is not a valid bbalpha model: info is \{.*\}\.$"
    with pytest.raises(ValueError, match=message) as caught:
        bb.BBAlphaRegressor.load(path)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("lower", "upper", "problem"),
    [
        (3e38, 0.0, ".hyperparams.lower exceeds .hyperparams.upper."),
        (2e38, 3e38, TOO_LARGE),
    ],
)
def test_forged_limits_are_refused(tmp_path, fitted_network, lower, upper, problem):
    likelihood = fitted_network.posterior_.hyperparams
    limits = (jnp.full_like(likelihood.lower, limit) for limit in (lower, upper))
    path = tmp_path / "m.safetensors"
    with_q(fitted_network, hyperparams=type(likelihood)(likelihood.likelihood, *limits)).save(path)
    message = re.escape(f"m.safetensors is not a valid bbalpha model: {problem}")
    with pytest.raises(ValueError, match=f"^{message}$"):
        bb.BBAlphaRegressor.load(path)


@pytest.mark.parametrize("scale", [5e-324, 1e-300])
def test_forged_units_are_refused(tmp_path, fitted, scale):
    path = tmp_path / "m.safetensors"
    changed = copy.deepcopy(fitted)
    changed.input_units_.scale[0] = scale
    changed.save(path)
    with pytest.raises(ValueError, match=re.escape(TOO_LARGE)):
        bb.BBAlphaRegressor.load(path)


def test_an_overflow_in_one_corner_of_the_inputs_is_found(tmp_path, fitted):
    layout, ones = fitted.posterior_.layout, np.ones(2)
    weights = {"weights": jnp.array([[1e37, -1e37]]), "biases": jnp.zeros(1)}
    mean = layout.flatten({"heads": [weights], "hidden": []})
    changed = with_q(fitted, mean=mean, log_variance=0 * mean - 20)
    axes = fitted.input_units_.axes
    changed.input_units_ = type(fitted.input_units_)(0 * ones, ones, -ones, ones, axes)
    found = changed.predict([[-1, -1], [0, 0], [1, 1]])
    np.testing.assert_allclose(found, np.full(3, fitted.target_units_.mean), rtol=1e-3)
    message = r"^the predictions of 1 of 1 rows are not finite; the first is row 0\.$"
    with pytest.raises(NonFinitePredictionError, match=message):
        changed.predict([[1, -1]])
    changed.save(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match=re.escape(TOO_LARGE)):
        bb.BBAlphaRegressor.load(tmp_path / "m.safetensors")


def test_the_bound_holds_for_all_draws(fitted_network):
    units = fitted_network.input_units_
    corners = units.transform(np.stack([units.mean, units.lower, units.upper]))
    outputs = fitted_network.posterior_.predict(
        model_of("relu"), corners, key=jax.random.key(0), num_samples=200
    )
    assert (
        jnp.abs(outputs).max() < _largest_output(fitted_network, fitted_network.posterior_.q) < 1e6
    )


def test_a_deep_network_loads_although_its_bound_is_large(tmp_path):
    model = bb.BBAlphaRegressor((3,) * 12, prior="paper", num_predictive_samples=5)
    X, y = np.arange(8.0).reshape(4, 2), np.arange(4.0)
    rows = model._rows(*model._validated(X, y, reset=True), None, new_units=True)
    level, network = model._level(rows), model._network()
    layout = Layout.of(network.shapes())
    mean = layout.flatten(network.start(level, 0))
    model._seed, model.n_iter_, model._memory = 0, 0, None
    one = jnp.array(1.0)
    likelihood = model._new_likelihood(level)
    q = bb.DiagonalGaussian(mean, 0 * mean)
    model.posterior_ = bb.Posterior(q, q, likelihood, one, one, one, layout)
    assert _largest_output(model, model.posterior_.q) > 1e15
    model.save(tmp_path / "deep")
    loaded = bb.BBAlphaRegressor.load(tmp_path / "deep")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_heavy_tails_have_an_infinite_standard_deviation():
    assert has_infinite_variance(bb.StudentT(jnp.zeros(1), jnp.log(jnp.array([2.0]))))
    assert not has_infinite_variance(bb.StudentT(jnp.zeros(1), jnp.log(jnp.array([2.1]))))
    assert not has_infinite_variance(bb.Gaussian())


def test_rows_are_predicted_in_pieces_if_outputs_would_fill_the_memory(
    monkeypatch, passes, fitted_classifier, table
):
    whole = fitted_classifier.predict_proba(table.inputs)
    monkeypatch.setattr("bbalpha.interfaces.network.OUTPUTS_AT_ONCE", 2 * 1000 * 32)
    pieces = fitted_classifier.predict_proba(table.inputs)
    assert passes == [64, 32, 32]
    np.testing.assert_allclose(pieces, whole, atol=1e-7)
    assert jax.tree.leaves(pieces)[0].shape == (64, 2)
