"""References: as good as a fine grid, or refused."""

import importlib.util
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from problems.projected import INPUTS, LABELS, on_grid, probit_log_likelihood

import bbalpha as bb
from bbalpha.message_passing import references
from bbalpha.message_passing.arguments import prepare
from bbalpha.message_passing.references import reference_row

KEY = jax.random.key(0)
NEW = np.array([[0.5, -1.0], [2.0, 1.0]])


@pytest.fixture(scope="module")
def grid():
    center = on_grid(probit_log_likelihood, np.zeros(2), 0.5 * np.ones(2))
    return on_grid(probit_log_likelihood, *center[:2])


def problems(likelihood=None, targets=LABELS):
    likelihood = bb.Probit() if likelihood is None else likelihood
    new = prepare(likelihood, NEW, np.ones(2), 1.0, None, bb.FullGaussian)
    return prepare(likelihood, INPUTS, targets, 1.0, None, bb.FullGaussian), new


@pytest.fixture(scope="module")
def weighted():
    with jax.enable_x64(True):
        return reference_row("importance", *problems(), KEY)


def check_against(row, grid, error):
    mean, deviation, log_evidence = grid
    np.testing.assert_allclose(row.mean, mean, atol=4 * error * deviation.max())
    np.testing.assert_allclose(row.deviation, deviation, rtol=4 * error)
    assert row.log_evidence == pytest.approx(log_evidence, abs=0.01)
    assert row.converged


def test_importance_weights_give_the_posterior_of_a_grid(weighted, grid):
    check_against(weighted, grid, 0.005)
    assert "16,384 draws of EP's posterior" in weighted.remark


def test_weighted_draws_score_new_rows(weighted, grid):
    mean, deviation, _ = grid  # the posterior is close to a Gaussian without correlation
    variance = np.square(NEW) @ np.square(deviation)
    expected = scipy.stats.norm.logcdf(NEW @ mean / np.sqrt(1 + variance)).mean()
    assert weighted.held_out == pytest.approx(expected, abs=0.01)


def test_nuts_gives_the_posterior_of_a_grid(x64, grid):
    pytest.importorskip("numpyro")
    row = reference_row("auto", *problems(), KEY)
    assert (row.method, "R-hat at most 1.00" in row.remark) == ("nuts", True)
    check_against(row, grid, 0.03)


def test_uneven_weights_are_no_reference(x64, monkeypatch):
    monkeypatch.setattr(references, "highest_pareto_k", lambda num_draws: -math.inf)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"importance weights .* are too uneven \(Pareto k̂ = "):
        reference_row("importance", *problems(), KEY)
    row = reference_row("auto", *problems(), KEY)
    assert row.method == "none"
    assert row.remark.startswith("none, because importance weights of EP's posterior are too")
    assert np.isnan(row.mean).all()


def test_a_given_posterior_or_its_draws_are_a_reference(x64):
    problem, new = problems()
    q = bb.DiagonalGaussian(jnp.array([1.0, -1.0]), jnp.log(jnp.array([0.04, 0.01])))
    zero, layout = jnp.zeros(()), bb.Layout.of(jnp.zeros(2))
    posterior = bb.Posterior(q, q, None, zero, zero, jnp.array(12.0), layout)
    row = reference_row(posterior, problem, new, KEY)
    np.testing.assert_allclose(row.deviation, [0.2, 0.1])
    assert (row.method, row.log_evidence) == ("given", -12.0)
    draws = np.array([[0.0, 1.0], [2.0, 2.0]])
    row = reference_row(draws, problem, None, KEY)
    np.testing.assert_allclose([row.mean, row.deviation], [[1.0, 1.5], [1.0, 0.5]])
    weighted = bb.Reweighted(jnp.asarray(draws), np.array([0.25, 0.75]), pareto_k=0.0)
    np.testing.assert_allclose(reference_row(weighted, problem, None, KEY).mean, [1.5, 1.75])


@pytest.mark.parametrize(
    ("reference", "error", "message"),
    [
        ("mcmc", ValueError, "reference must be 'auto', .* or None; got reference='mcmc'"),
        ("exact", ValueError, "reference must not be 'exact' unless log_likelihood is bb.Gaussian"),
        (3, TypeError, "reference must be 'auto', .* or None; got a int"),
        (np.ones((5, 3)), ValueError, r"over the 2 columns of inputs, .*; got shape \(3,\)"),
        (
            np.ones(2),
            ValueError,
            r"reference must be draws of shape \(draws, 2\); got shape \(2,\)",
        ),
    ],
)
def test_another_reference_is_refused(x64, reference, error, message):
    with pytest.raises(error, match=message):
        reference_row(reference, *problems(), KEY)


def test_nuts_needs_numpyro(x64, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="reference='nuts' needs NumPyro: pip install numpyro"):
        reference_row("nuts", *problems(), KEY)
