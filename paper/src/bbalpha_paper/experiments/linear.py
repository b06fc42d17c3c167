"""Linear regression with two weights: Examples 1 and 2 of Appendix B, Figures 5 to 8.

The true posterior is a Gaussian, uncorrelated in Example 1 and correlated in Example 2; q is an
uncorrelated Gaussian. The energy is integrated by Gauss–Hermite quadrature, which is exact to
rounding here, and minimized by BFGS, so the result differs from the closed form of the Appendix
only by rounding.
"""

from collections.abc import Sequence
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import scipy.optimize
from jaxtyping import Array, Float

import bbalpha as bb
from bbalpha_paper.experiments.plan import Bench, Configuration, Experiment, Metrics, Run

PAPER = Configuration(
    name="main",
    datasets=("example-1", "example-2"),
    alphas=(
        *(-2.0, -1.5, -1.0, -0.75, -0.5, -0.25, 0.0, 1e-6, 1e-3),
        *(0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 1.9),  # at 2 = N the energy is constant
    ),
    settings={
        "inputs": {"example-1": [[1.0, 0.0], [0.0, 1.0]], "example-2": [[1.0, -1.0], [-1.0, 1.0]]},
        "targets": [0.0, 0.0],
        "noise_variance": 1.0,
        "num_nodes": 40,  # of the quadrature, per weight
        "initial_mean": 0.1,
        "initial_log_variance": -2.0,  # small, since E = ∞ at large variances for α < 0
        "tolerance": 1e-10,  # of the gradient of the energy
    },
)
FIGURE = replace(PAPER, alphas=(-1.0, 1e-6, 0.5, 1.0, 1.5))
CONFIGURATIONS = {"smoke": (FIGURE,), "quick": (PAPER,), "paper": (PAPER,)}


def measure(runs: Sequence[Run], bench: Bench) -> list[Metrics]:
    """Moments of q and of the true posterior, and the variance of q in closed form."""
    with jax.enable_x64(True):
        return [_moments(run) for run in runs]


def log_likelihood(
    weights: Float[Array, " inputs"], batch: bb.Dataset, noise_variance: Float[Array, ""]
) -> Float[Array, " batch"]:
    """Return log N(yₙ; xₙᵀw, σ²)."""
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights, jnp.sqrt(noise_variance))


def variance_of_example_1(alpha: float, noise_variance: float) -> float:
    """The variance of each weight under q in Example 1 with y = 0, in closed form."""
    root = np.sqrt(alpha**2 - 2 * alpha + (noise_variance + 1) ** 2)
    precision = (root - alpha - noise_variance + 1) / (2 * noise_variance * (2 - alpha))  # λ
    return float(1 / (1 + 2 * precision))


def variance_of_example_2(alpha: float, noise_variance: float) -> float:
    """The variance of each weight under q in Example 2 with y = 0, in closed form."""
    root = np.sqrt(4 * alpha**2 - 8 * alpha + (noise_variance + 2) ** 2)
    precision = (root - 2 * alpha - noise_variance + 2) / (2 * noise_variance * (2 - alpha))  # λ
    return float(1 / (1 + 2 * precision))


CLOSED_FORMS = {"example-1": variance_of_example_1, "example-2": variance_of_example_2}


def _moments(run: Run) -> Metrics:
    settings = run.settings
    inputs, targets = np.array(settings["inputs"][run.dataset]), np.array(settings["targets"])
    noise_variance = settings["noise_variance"]
    nodes = _quadrature(settings["num_nodes"])

    def energy(vector: np.ndarray) -> tuple[np.ndarray, ...]:
        batch = bb.Dataset(inputs, targets)
        value_and_gradient = _energy(vector, run.alpha, batch, noise_variance, *nodes)
        return tuple(map(np.asarray, value_and_gradient))

    start = np.repeat([settings["initial_mean"], settings["initial_log_variance"]], 2)
    found = scipy.optimize.minimize(
        energy, start, jac=True, method="BFGS", options={"gtol": settings["tolerance"]}
    )
    mean, variance = found.x[:2], np.exp(found.x[2:])
    true_covariance = np.linalg.inv(np.eye(2) + inputs.T @ inputs / noise_variance)
    return {
        "mean": mean.tolist(),
        "covariance": np.diag(variance).tolist(),
        "variance_closed_form": CLOSED_FORMS[run.dataset](run.alpha, noise_variance),
        "true_mean": (true_covariance @ inputs.T @ targets / noise_variance).tolist(),
        "true_covariance": true_covariance.tolist(),
        "energy": float(found.fun),
    }


def _quadrature(num_nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights that integrate over two standard Gaussian numbers."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(num_nodes)
    weights /= weights.sum()
    pairs = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes)], axis=1)
    return pairs, np.outer(weights, weights).ravel()


@jax.jit
@jax.value_and_grad
def _energy(
    vector: Float[Array, "4"],
    alpha: Float[Array, ""],
    batch: bb.Dataset,
    noise_variance: Float[Array, ""],
    noise: Float[Array, "draws 2"],
    noise_weights: Float[Array, " draws"],
) -> Float[Array, ""]:
    mean, log_variance = jnp.split(vector, 2)
    return bb.alpha_energy(
        lambda weights, batch: log_likelihood(weights, batch, noise_variance),
        bb.DiagonalGaussian(mean, log_variance),
        bb.DiagonalGaussian(jnp.zeros(2), jnp.zeros(2)),
        batch,
        noise,
        alpha=alpha,
        num_data=2,
        noise_weights=noise_weights,
    )


EXPERIMENT = Experiment(
    name="linear",
    configurations=CONFIGURATIONS,
    measure=measure,
)
