"""A Gaussian fitted to two modes by minimizing D_α: Figure 2, Section 2.

As in the figure, which comes from Minka (2005), q is not normalized: its mass is fitted together
with its mean and deviation. At α = 1 all three equal p's. As α → −∞, q becomes the Gaussian
of most mass below p; as α → +∞, the Gaussian of least mass above p. Neither paper gives the modes.
These are chosen so that q changes from the larger mode to both modes between α = 0 and ½, and p has
mean 1.5, deviation 2.5 and mass 1.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float

import bbalpha as bb
from bbalpha_paper.experiments.plan import Bench, Configuration, Experiment, Metrics, Run

PAPER = Configuration(
    name="main",
    datasets=("bimodal",),
    alphas=(
        *(-100.0, -50.0, -20.0, -10.0, -5.0, -2.0, -1.0, -0.5),
        *(0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        *(1.5, 2.0, 3.0, 6.0, 11.0, 21.0, 51.0, 101.0),
    ),
    settings={
        "weights": [0.7, 0.3],
        "means": [0.0, 5.0],
        "deviations": [1.0, 1.0],
        "grid": [-40.0, 45.0, 1701],  # from, to, and the number of points
        "tolerance": 1e-9,  # of the gradient of log D_α
    },
)
FIGURE = replace(PAPER, alphas=(-100.0, 0.0, 0.5, 1.0, 101.0))
CONFIGURATIONS = {"smoke": (FIGURE,), "quick": (PAPER,), "paper": (PAPER,)}


def measure(runs: Sequence[Run], bench: Bench) -> list[Metrics]:
    """Mean, deviation and log-mass of the Gaussian nearest to p, and its log-divergence."""
    with jax.enable_x64(True):
        return [_nearest(run) for run in runs]


def log_density(points: Float[Array, " grid"], mixture: Any) -> Float[Array, " grid"]:
    """The log-density of a mixture with these weights, means and deviations."""
    weights, means, deviations = (
        jnp.asarray(mixture[name])[:, None] for name in ("weights", "means", "deviations")
    )
    log_modes = jax.scipy.stats.norm.logpdf(points[None], means, deviations)
    return jax.nn.logsumexp(jnp.log(weights) + log_modes, axis=0)


def _nearest(run: Run) -> Metrics:
    """The best result of several starts, because D_α has several minima."""
    points = jnp.linspace(*run.settings["grid"])
    log_p = log_density(points, run.settings)

    def divergence(gaussian: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(map(np.asarray, _divergence(gaussian, run.alpha, points, log_p)))

    found = [
        scipy.optimize.minimize(
            divergence,
            start,
            jac=True,
            method="BFGS",
            options={"gtol": run.settings["tolerance"], "maxiter": 1000},
        )
        for start in _starts(run.settings)
    ]
    best = min(found, key=lambda result: result.fun)
    mean, log_deviation, log_mass = best.x.tolist()
    return {
        "mean": mean,
        "deviation": float(np.exp(log_deviation)),
        "log_mass": log_mass,
        "log_divergence": float(best.fun),
    }


def _starts(mixture: Any) -> list[tuple[float, float, float]]:
    """Mean, log-deviation and log-mass: slightly below each mode, equal to p, and above p."""
    weights, means, deviations = (
        np.array(mixture[name]) for name in ("weights", "means", "deviations")
    )
    mass = weights.sum()
    mean = weights @ means / mass
    deviation = np.sqrt(weights @ (deviations**2 + (means - mean) ** 2) / mass)
    modes = zip(means, np.log(0.9 * deviations), np.log(0.9 * weights), strict=True)
    wider = (mean, np.log(1.2 * deviation), np.log(2 * mass))
    return [*modes, (mean, np.log(deviation), np.log(mass)), wider]


@jax.jit
@jax.value_and_grad
def _divergence(
    gaussian: Float[Array, "3"],
    alpha: Float[Array, ""],
    points: Float[Array, " grid"],
    log_p: Float[Array, " grid"],
) -> Float[Array, ""]:
    mean, log_deviation, log_mass = gaussian
    log_q = log_mass + jax.scipy.stats.norm.logpdf(points, mean, jnp.exp(log_deviation))
    return bb.log_alpha_divergence_on_grid(log_p, log_q, alpha, points[1] - points[0])


EXPERIMENT = Experiment(
    name="divergence",
    configurations=CONFIGURATIONS,
    measure=measure,
)
