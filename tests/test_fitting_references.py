"""The reference problems that fits are judged by, and the answers stored next to them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats as st
from problems.references import LINEAR_NOISE, REFERENCES, RIDGE_NOISE, answers

import bbalpha as bb

ANSWERS = answers()


def test_the_linear_design_has_condition_number_a_million():
    inputs, _ = REFERENCES["linear"].data
    np.testing.assert_allclose(np.linalg.cond(inputs.astype(float)) ** 2, 1e6, rtol=1e-4)


def test_ridge_has_more_weights_than_data():
    inputs, _ = REFERENCES["ridge"].data
    assert inputs.shape == (80, 100)


@pytest.mark.parametrize(("name", "noise"), [("linear", LINEAR_NOISE), ("ridge", RIDGE_NOISE)])
def test_answers_of_the_linear_models_are_their_exact_posteriors(name, noise):
    inputs, targets = (array.astype(float) for array in REFERENCES[name].data)
    num_data, num_weights = inputs.shape
    # By the covariance of the data; the script goes by the precision of the weights.
    covariance_of_data = inputs @ inputs.T + noise**2 * np.eye(num_data)
    gain = np.linalg.solve(covariance_of_data, inputs).T
    means, covariance = gain @ targets, np.eye(num_weights) - gain @ inputs
    log_evidence = st.multivariate_normal.logpdf(targets, cov=covariance_of_data)
    for answer in (ANSWERS[name]["posterior"], ANSWERS[name]["alpha=0"]):
        np.testing.assert_allclose(answer["means"], means, rtol=2e-5, atol=1e-6)
        np.testing.assert_allclose(answer["deviations"], np.sqrt(np.diag(covariance)), rtol=2e-5)
    np.testing.assert_allclose(ANSWERS[name]["alpha=0"]["energy"], -log_evidence, rtol=2e-5)


@pytest.mark.parametrize("name", REFERENCES)
def test_answers_belong_to_the_data_of_their_problem(name):
    problem, answer = REFERENCES[name], ANSWERS[name]
    params, data = jax.tree.map(jnp.asarray, (problem.params, problem.data))
    log_likelihood = problem.log_likelihood(params, data)
    assert log_likelihood.shape == (problem.num_data,)
    np.testing.assert_allclose(log_likelihood.sum(), answer["log_likelihood_at_start"], rtol=2e-5)
    for part in ("posterior", "alpha=0", "alpha=0.5"):
        assert len(answer[part]["means"]) == bb.Layout.of(problem.params).size


@pytest.mark.parametrize("name", REFERENCES)
def test_answers_are_as_accurate_as_fits_are_judged(name):
    answer = ANSWERS[name]
    for alpha in ("alpha=0", "alpha=0.5"):
        errors = answer[alpha]["errors"]
        assert max(errors["means"], errors["deviations"]) <= 0.005
        assert errors["gradient_norm"] <= 1e-4
    if answer["posterior"]["method"] == "NUTS":
        assert answer["posterior"]["largest_r_hat"] <= 1.01
        assert answer["posterior"]["smallest_effective_size"] >= 10_000  # 1 % of a deviation


@pytest.mark.parametrize("name", REFERENCES)
def test_the_lowest_energy_does_not_grow_with_alpha(name):
    answer = ANSWERS[name]
    assert answer["alpha=0.5"]["energy"] <= answer["alpha=0"]["energy"]
    assert answer["alpha=0.5"]["start_energy"] <= answer["alpha=0"]["start_energy"]
