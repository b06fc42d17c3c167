"""Bad input: one sentence each."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems.projected import INPUTS, LABELS

import bbalpha as bb

SINGULAR = np.array([[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"alpha": 0},
            r"alpha must not be 0 for power_ep, whose limit at 0 is bb\.vmp; got alpha=0",
        ),
        ({"alpha": np.inf}, r"alpha must be finite; got alpha=inf"),
        ({"inputs": np.zeros((0, 2))}, r"inputs must be a table .*; got shape \(0, 2\)"),
        ({"inputs": np.zeros((3, 0))}, r"inputs must be a table .*; got shape \(3, 0\)"),
        ({"targets": LABELS[:3]}, r"data must have the same number of rows .*targets'\] with 3"),
        ({"targets": 2 * LABELS}, r"targets must be 0 or 1 for Probit; got 2\.0"),
        ({"prior": np.inf}, r"prior must hold positive and finite .* separable .*; got prior=inf"),
        ({"prior": -1.0}, r"prior must hold positive and finite .*; got prior=-1"),
        ({"prior": SINGULAR}, r"positive definite covariance matrix; got a smallest eigen.* of -1"),
        ({"prior": np.ones(3)}, r"prior must be over the 2 columns of inputs; got shape \(3,\)"),
        ({"prior": SINGULAR + np.eye(2)[::-1] * [0, 1]}, r"prior must be a symmetric covariance"),
        ({"step": 0.0}, r"step must be positive and finite; got step=0\.0"),
        ({"tolerance": -1.0}, r"tolerance must be positive and finite; got tolerance=-1\.0"),
        ({"order": "random"}, r"order must be 'parallel' or 'sequential'; got order='random'"),
        ({"family": bb.LowRankGaussian}, r"family must be .*; got family=LowRankGaussian"),
        (
            {"family": bb.DiagonalGaussian, "prior": np.eye(2)},
            r"prior must be diagonal for a diagonal q; got a covariance matrix",
        ),
        (
            {"family": bb.DiagonalGaussian, "order": "sequential"},
            r"order must be 'parallel' for a diagonal q",
        ),
        (
            {"log_likelihood": lambda f, y: jnp.sum(f * y)},
            r"log_likelihood must return one number per data point; got shape \(\)",
        ),
        (
            {"log_likelihood": lambda f, y: jnp.where(y > 0, f, -jnp.inf)},
            r"log_likelihood must be finite where the prior has its mean; got -inf for row \d+",
        ),
    ],
)
def test_bad_input_gets_one_sentence(changes, message):
    arguments = {"log_likelihood": bb.Probit(), "inputs": INPUTS, "targets": LABELS} | changes
    with pytest.raises(ValueError, match=message):
        bb.power_ep(**arguments)


def test_a_prior_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"prior must be a standard deviation, .*; got a function"):
        bb.power_ep(bb.Probit(), INPUTS, LABELS, prior=lambda params: 0.0)


def test_all_data_cannot_be_removed_from_a_tied_site():
    with pytest.raises(ValueError, match=r"alpha must be less than .*; got alpha=100 with 100"):
        bb.averaged_ep(bb.Probit(), INPUTS, LABELS, alpha=100)
