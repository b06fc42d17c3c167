"""SNEP with workers in this process, and with a worker of one's own."""

import jax
import numpy as np
import pytest
from problems.projected import INPUTS, LABELS, LINEAR_TARGETS, NOISE_VARIANCE, exact_linear

import bbalpha as bb
from bbalpha.message_passing.server import serve
from bbalpha.message_passing.workers import Message

KEY = jax.random.key(0)


def test_four_workers_find_the_moments_of_ep():
    ep = bb.power_ep(bb.Probit(), INPUTS, LABELS)
    found = bb.snep(bb.Probit(), INPUTS, LABELS, key=KEY)
    assert found.info.converged
    np.testing.assert_allclose(found.mean, ep.mean, rtol=0.02)
    np.testing.assert_allclose(np.sqrt(found.variance), np.sqrt(ep.variance), rtol=0.02)


def test_noise_vanishes_where_sites_can_be_exact():
    """With Gaussian noise the draws cancel at the fixed point, so few of them are enough."""
    gaussian = bb.Gaussian(np.log(NOISE_VARIANCE))
    found = bb.snep(gaussian, INPUTS, LINEAR_TARGETS, num_draws=5, key=KEY)
    mean, covariance, _ = exact_linear(INPUTS, LINEAR_TARGETS, np.eye(2))
    deviations = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose((found.mean - mean) / deviations, 0, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(found.variance), deviations, rtol=1e-3)


class ExactWorker:
    """A remote-like worker that knows its site exactly: Gaussian noise."""

    def __init__(self, rows, targets):
        precision = rows.T @ rows / NOISE_VARIANCE
        self._site = Message(precision, rows.T @ targets / NOISE_VARIANCE)

    def site(self):
        return Message(0 * self._site.precision, 0 * self._site.shift)

    def update(self, q, step):
        return self._site


def test_the_server_asks_nothing_but_messages_of_a_worker():
    halves = zip(np.split(INPUTS, 2), np.split(LINEAR_TARGETS, 2), strict=True)
    q, _, converged = serve([ExactWorker(*half) for half in halves], 120, 1e-6)
    mean, covariance, _ = exact_linear(INPUTS, LINEAR_TARGETS, np.eye(2))
    assert converged
    np.testing.assert_allclose(np.linalg.inv(q.precision), covariance, atol=1e-12)
    np.testing.assert_allclose(np.linalg.solve(q.precision, q.shift), mean, atol=1e-12)


class SlowWorker(ExactWorker):
    """A worker that goes a hundredth of the way that it is asked to go."""

    def __init__(self, rows, targets):
        super().__init__(rows, targets)
        self._share = 0.0

    def update(self, q, step):
        self._share += 0.01 * step * (1 - self._share)
        return Message(*(self._share * part for part in self._site))


def test_small_steps_do_not_look_like_convergence():
    _, count, converged = serve([SlowWorker(INPUTS, LINEAR_TARGETS)], 60, 0.02)
    assert not converged
    assert count == 60


def test_a_site_that_is_not_finite_is_named():
    class Broken(ExactWorker):
        def update(self, q, step):
            return Message(np.nan * self._site.precision, self._site.shift)

    with pytest.raises(ValueError, match=r"must be finite .*; got a site .* worker 0 in round 0"):
        serve([Broken(INPUTS, LINEAR_TARGETS)], 60, 0.02)


def test_more_workers_than_rows_are_refused():
    with pytest.raises(ValueError, match=r"num_workers must not exceed .*; got num_workers=101"):
        bb.snep(bb.Probit(), INPUTS, LABELS, num_workers=101, key=KEY)
