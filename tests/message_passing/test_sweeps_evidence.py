"""What power EP gives for free: leave-one-out densities and evidence that can be maximized."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize
from scipy.special import log_ndtr

import bbalpha as bb


@pytest.mark.usefixtures("x64")
def test_leaving_one_out_is_refitting_without_the_datum(table):
    inputs, labels = (part[:100] for part in table)
    posterior = bb.power_ep(bb.Probit(), inputs, labels)
    refitted = []
    for row in range(100):
        kept = np.arange(100) != row
        other = bb.power_ep(bb.Probit(), inputs[kept], labels[kept])
        mean = inputs[row] @ other.mean
        variance = inputs[row] @ other.q.covariance @ inputs[row]
        refitted.append(log_ndtr((2 * labels[row] - 1) * mean / np.sqrt(1 + variance)))
    assert np.corrcoef(posterior.leave_one_out, refitted)[0, 1] > 0.99
    assert np.mean(np.abs(posterior.leave_one_out - np.array(refitted))) < 0.01


@pytest.mark.usefixtures("x64")
def test_maximizing_the_evidence_finds_the_best_prior_of_a_grid(table):
    @jax.jit
    @jax.value_and_grad
    def energy(log_deviation):
        return bb.power_ep(bb.Probit(), *table, prior=jnp.exp(log_deviation)).energy

    def best_of(deviations):
        energies = [bb.power_ep(bb.Probit(), *table, prior=d).energy for d in deviations]
        place = int(np.argmin(energies))
        assert 0 < place < len(deviations) - 1
        return deviations[place]

    best = scipy.optimize.minimize(lambda x: energy(x[0]), np.zeros(1), jac=True)
    on_grid = best_of(np.geomspace(0.05, 20, 25))
    on_grid = best_of(on_grid * np.geomspace(0.75, 1 / 0.75, 25))
    on_grid = best_of(on_grid * np.geomspace(0.97, 1 / 0.97, 25))  # 0.25 % apart
    np.testing.assert_allclose(np.exp(best.x[0]), on_grid, rtol=0.01)
