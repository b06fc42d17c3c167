"""Facts about leave-one-out: what a row did to q is undone, without fitting again."""

import dataclasses
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

import bbalpha as bb
from bbalpha.interfaces import left_out
from bbalpha.interfaces.network import Head, Network

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(20, 2))
TARGETS = INPUTS @ [1.0, -0.5] + RANDOM.normal(size=20)
NOISE, PRIOR, NUM_KEYS = 0.8, 2.0, 8


def linear_model(alpha, weights):
    """A linear network whose q has its mean at the minimum of the energy; its variance is any.

    With Gaussian noise the power mean at fixed variances vₙ of the outputs is, as a function of the
    mean of q, −(yₙ − mₙ)²/2(σ² + αvₙ): a weighted ridge regression.
    """
    network = Network(2, (), (Head(1),), "scaled")
    design = np.column_stack([np.ones(20), INPUTS])  # biases come first in the vector
    own = np.array([0.3, 0.1, 0.2])
    variances = design**2 @ own
    rows = weights / (NOISE + alpha * variances)
    curvature = np.eye(3) / PRIOR + design.T @ (rows[:, None] * design)
    mean = np.linalg.solve(curvature, design.T @ (rows * TARGETS))
    q, prior = (
        bb.DiagonalGaussian(jnp.asarray(m, jnp.float32), jnp.asarray(np.log(v), jnp.float32))
        for m, v in ((mean, own), (np.zeros(3), np.full(3, PRIOR)))
    )
    noise = bb.Gaussian(jnp.log(jnp.array([NOISE])))
    layout, scalar = bb.Layout.of(network.shapes()), jnp.array(alpha)
    num_data = jnp.array(weights.sum())
    posterior = bb.Posterior(q, prior, noise, scalar, num_data, jnp.array(0.0), layout)
    without = []
    for n in range(20):
        others = np.where(np.arange(20) == n, 0.0, rows)
        system = np.eye(3) / PRIOR + design.T @ (others[:, None] * design)
        without.append(design[n] @ np.linalg.solve(system, design.T @ (others * TARGETS)))
    exact = norm.logpdf(TARGETS, np.array(without), np.sqrt(variances + NOISE))
    return posterior, exact


@pytest.mark.parametrize("alpha", [-0.5, 0.0, 0.5, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_leaving_out_a_row_of_a_linear_model_is_exact(monkeypatch, alpha, weighted):
    """At fixed variances of q, whose mean then is a ridge regression without the row."""
    monkeypatch.setattr(left_out, "MOST_DRAWS", 4000)
    monkeypatch.setattr(left_out, "CURVATURE_DRAWS", 4000)
    weights = np.where(np.arange(20) < 5, 2.0, 1.0) if weighted else np.ones(20)
    posterior, exact = linear_model(alpha, weights)
    rows = left_out.RowsToScore(INPUTS, TARGETS[:, None], weights)
    found = []
    for seed in range(NUM_KEYS):
        model = SimpleNamespace(
            activation="relu",
            num_predictive_samples=4000,
            target_units_=SimpleNamespace(log_scale=0.0),
            _key=lambda seed=seed: jax.random.key(seed),
        )
        scores, training, leverages = left_out.scores_of_rows(model, posterior, rows)
        assert (scores < training).mean() > 0.5
        assert ((leverages > 0) & (leverages < 1)).all()
        found.append(scores)
    error = np.std(found, axis=0, ddof=1) / np.sqrt(NUM_KEYS)
    assert (np.abs(np.mean(found, axis=0) - exact) < 5 * error + 1e-4).all()


@pytest.mark.parametrize("alpha", [-1.0, 0.0, 1.0])
def test_slopes_and_curvatures_are_those_of_the_power_mean(x64, likelihood_case, alpha):
    likelihood = likelihood_case.make()
    outputs = likelihood_case.outputs(30, 4)
    targets = jnp.asarray(likelihood_case.targets(4))
    if likelihood_case.name == "Categorical":
        targets = targets.astype(int)
    found = left_out._effects(likelihood, jnp.array(alpha), outputs, targets)
    width, step = outputs.shape[-1], 1e-4

    def power_mean(shift):
        log_likelihoods = jax.vmap(likelihood.log_prob, (0, None))(
            outputs + shift[None, None], targets
        )
        return np.asarray(bb.log_power_mean(log_likelihoods, alpha))

    shifts = step * np.eye(width)
    slopes = [(power_mean(s) - power_mean(-s)) / (2 * step) for s in shifts]
    np.testing.assert_allclose(found.slopes, np.transpose(slopes), rtol=1e-5, atol=1e-6)
    curvatures = np.array(
        [
            [
                power_mean(a + b) - power_mean(a - b) - power_mean(b - a) + power_mean(-a - b)
                for a in shifts
            ]
            for b in shifts
        ]
    ) / (-4 * step**2)
    sizes, axes = np.linalg.eigh(np.moveaxis(curvatures, -1, 0))
    positive = (axes * np.maximum(sizes, 0)[:, None, :]) @ np.swapaxes(axes, 1, 2)
    roots = np.asarray(found.roots)
    np.testing.assert_allclose(roots @ np.swapaxes(roots, 1, 2), positive, rtol=1e-4, atol=1e-5)


def test_random_sums_of_the_columns_of_a_root_make_the_same_curvature(monkeypatch):
    root = RANDOM.normal(size=(3, 3)).astype(np.float32)
    num_rows = 4000
    effects = left_out._Effects(
        training=jnp.zeros(num_rows),
        slopes=jnp.zeros((num_rows, 3)),
        roots=jnp.asarray(np.broadcast_to(root, (num_rows, 3, 3))),
    )
    monkeypatch.setattr(left_out, "NUMBERS", 2 * num_rows)
    slopes, one = np.asarray(left_out._cotangents(effects, 1))
    assert not slopes.any()
    products = np.einsum("ni,nj->nij", one, one)
    error = products.std(axis=0) / np.sqrt(num_rows)
    assert (np.abs(products.mean(axis=0) - root @ root.T) < 4 * error + 1e-5).all()


def test_scores_and_rows_of_a_fitted_estimator(table, fitted_network, monkeypatch):
    found = bb.leave_one_out(fitted_network, table.inputs, table.numbers)
    np.testing.assert_array_equal(found.rows, np.arange(64))
    assert found.mean < found.training.mean()
    assert found.standard_error == bb.metrics.standard_error(found.scores)
    np.testing.assert_allclose(
        found.training, fitted_network.score_samples(table.inputs, table.numbers), atol=1e-4
    )
    monkeypatch.setattr(left_out, "MOST_ROWS", 20)
    some = bb.leave_one_out(fitted_network, table.inputs, table.numbers)
    np.testing.assert_array_equal(some.rows, np.linspace(0, 63, 20).astype(int))
    assert dataclasses.astuple(some)[0].shape == (20,)


def test_a_fifth_of_the_rows_says_what_all_rows_say(monkeypatch):
    random = np.random.default_rng(1)
    X = random.normal(size=(500, 3))
    y = X[:, 0] + random.normal(size=500)
    model = bb.BBAlphaRegressor((), likelihood="gaussian", random_state=0).fit(X, y)
    every = bb.leave_one_out(model, X, y)
    monkeypatch.setattr(left_out, "MOST_ROWS", 100)
    some = bb.leave_one_out(model, X, y)
    ratios = some.leverages / every.leverages[some.rows]
    assert 0.8 < ratios.mean() < 1.25
    np.testing.assert_allclose(some.scores, every.scores[some.rows], atol=0.01)


def test_two_rows_and_models_that_are_not_fitted_are_refused(table, fitted_network):
    with pytest.raises(ValueError, match=r"X must have at least 3 rows to leave one out; got 2\."):
        bb.leave_one_out(fitted_network, table.inputs[:2], table.numbers[:2])
    with pytest.raises(NotFittedError):
        bb.leave_one_out(bb.BBAlphaRegressor(), table.inputs, table.numbers)
