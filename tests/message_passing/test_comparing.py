"""Comparisons: exact where methods are exact, and a row for every method."""

import inspect
import warnings
from functools import partial

import jax
import numpy as np
import pytest
import scipy.stats
from problems.projected import INPUTS, LABELS, LINEAR_TARGETS, NOISE_VARIANCE, exact_linear

import bbalpha as bb
from bbalpha.message_passing.comparing import FUNCTIONS, METHODS, RANDOM

KEY = jax.random.key(0)
with jax.enable_x64(True):
    NOISE = bb.Gaussian(np.log(NOISE_VARIANCE))
ROWS = (INPUTS[:20], LINEAR_TARGETS[:20])
NEW = (INPUTS[20:40], LINEAR_TARGETS[20:40])
compare = partial(bb.compare, NOISE, *ROWS, key=KEY)


@pytest.fixture(scope="module")
def linear():
    return compare(methods=("power_ep", "fixed_point"), alphas=(0.0, 1.0), test=NEW)


def test_ep_is_exact_for_gaussian_noise(linear):
    mean, covariance, log_evidence = exact_linear(*ROWS, np.eye(2))
    row = linear.rows[1]
    assert (row.label, row.converged, row.remark) == ("power_ep, α = 1", True, "")
    assert np.abs(linear.mean_errors(row)).max() < 1e-6
    np.testing.assert_allclose(linear.deviation_ratios(row), 1, rtol=1e-6)
    np.testing.assert_allclose(row.mean, mean, rtol=1e-6)
    assert row.log_evidence == pytest.approx(log_evidence, abs=1e-6)
    inputs, targets = NEW
    deviation = np.sqrt(NOISE_VARIANCE + np.diag(inputs @ covariance @ inputs.T))
    expected = scipy.stats.norm.logpdf(targets, inputs @ mean, deviation).mean()
    assert row.held_out == pytest.approx(expected, abs=1e-6)
    assert linear.reference.held_out == pytest.approx(expected, abs=1e-12)
    assert linear.reference.log_evidence == pytest.approx(log_evidence, abs=1e-10)


def test_bb_alpha_at_one_is_wider(linear):
    assert linear.deviation_ratios(linear.rows[3]).min() > 1.1


def test_fit_is_the_fixed_point_but_for_its_noise(linear):
    fitted = compare(methods=("fit",), alphas=(1.0,), reference=None).rows[0]
    fixed = linear.rows[3]
    np.testing.assert_allclose(fitted.mean, fixed.mean, atol=0.1 * fixed.deviation.min())
    np.testing.assert_allclose(fitted.deviation, fixed.deviation, rtol=0.1)
    assert fitted.log_evidence == pytest.approx(fixed.log_evidence, abs=0.1)


def test_a_method_that_fails_says_why(linear):
    row = linear.rows[0]
    assert row.remark == (
        "alpha must not be 0 for power_ep, whose limit at 0 is bb.vmp; got alpha=0."
    )
    assert not row.converged
    assert np.isnan([*row.mean, *row.deviation, row.log_evidence, row.held_out]).all()


def test_seconds_leave_out_compiling(linear):
    row = linear.rows[1]
    assert row.seconds > 0
    assert row.compiling > 0


def test_results_are_in_64_bits_whatever_the_flag(linear, x64):
    again = compare(methods=("power_ep",), alphas=(1.0,)).rows[0]
    np.testing.assert_allclose(again.mean, linear.rows[1].mean, rtol=1e-12)


def test_functions_of_the_user_have_rows():
    diagonal = partial(bb.power_ep, family=bb.DiagonalGaussian)
    short = partial(bb.power_ep, step=0.1, max_sweeps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = compare(methods={"diagonal": diagonal, "short": short})
    assert [row.method for row in found.rows] == ["diagonal", "short"]
    assert found.rows[0].alpha == 1
    assert found.deviation_ratios(found.rows[0]).max() < 1
    assert found.rows[1].remark.startswith("power_ep did not converge: ")
    assert not found.rows[1].converged


def test_other_warnings_pass():
    def method(*rows, prior):
        warnings.warn("look out", stacklevel=1)
        return bb.power_ep(*rows, prior=prior)

    with pytest.warns(UserWarning, match="look out"):
        compare(methods={"mine": method}, reference=None)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_method_takes_what_it_is_given(name):
    parameters = inspect.signature(FUNCTIONS[name]).parameters
    assert {"prior", "hyperparams"} <= set(parameters)
    assert ("alpha" in parameters) == (name != "vmp")
    assert ("key" in parameters) == (name in RANDOM)
    assert set(METHODS) <= set(FUNCTIONS)


@pytest.mark.slow
def test_every_method_finds_a_posterior_of_labels():
    rows, new = (INPUTS[:60], LABELS[:60]), (INPUTS[60:], LABELS[60:])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = bb.compare(
            bb.Probit(), *rows, methods=tuple(FUNCTIONS), alphas=(1.0,), test=new, key=KEY
        )
    assert len(found.rows) == len(FUNCTIONS)
    for row in found.rows:
        assert np.isfinite([*row.mean, *row.deviation, row.held_out]).all()


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"methods": ("ep",)}, ValueError, "methods must be among power_ep, .*, fit; got 'ep'"),
        ({"methods": ()}, ValueError, "methods and alphas must not be empty"),
        ({"alphas": (1.0, np.inf)}, ValueError, "alphas must be finite numbers; got inf"),
        ({"alphas": ("1",)}, ValueError, "alphas must be finite numbers; got '1'"),
        ({"prior": -1.0}, ValueError, "prior must hold positive and finite standard deviations"),
        ({"test": INPUTS}, TypeError, "test must be a pair of inputs and targets; got a ndarray"),
        (
            {"test": (np.ones((4, 3)), np.ones(4))},
            ValueError,
            r"test must have the 2 columns of inputs; got shape \(4, 3\)",
        ),
        (
            {"methods": "power_ep", "alphas": 0.0},
            ValueError,
            "methods must not all fail; power_ep, α = 0: alpha must not be 0",
        ),
        (
            {"methods": "averaged_ep", "alphas": (20.0,)},
            ValueError,
            "averaged_ep, α = 20: alpha must be less than the number of data points",
        ),
    ],
)
def test_wrong_arguments_are_refused(settings, error, message):
    with pytest.raises(error, match=message):
        compare(**settings)
