"""A network fitted to twenty points of x³: Appendix C, Figure 9.

The paper gives neither its four values of α nor its schedule. It says that the predictive variance
grows with α, which holds for all schedules tried here. The configuration "paper's schedule" is that
of the authors' regression code: inputs and targets standardized, a constant rate of 1e-3, and 7,500
steps, as many as 500 epochs on Boston; an epoch here is one step. At that point q is still moving.
When the energy is minimized to convergence, α ≤ 0 still follows the data, but at α = ½ and 1 q
approaches the prior and the data disappear in its spread. In original units the network follows the
data more slowly and spreads less.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

import bbalpha as bb
from bbalpha_paper.experiments.fits import FALLING, TEST_STREAM, fit_runs, key_of, unless_lost
from bbalpha_paper.experiments.plan import Bench, Configuration, Experiment, Metrics, Run

MOST_ENERGIES = 100  # in a row

PAPER = Configuration(
    name="paper's schedule",
    datasets=("cubic",),
    alphas=(-1.0, 0.0, 0.5, 1.0),
    settings={
        "num_data": 20,
        "inputs_between": [-4.0, 4.0],
        "noise_variance": 9.0,  # of the data, known to the network
        "data_seed": 0,
        "scaling": "standardized",
        "hidden": 100,
        "prior_deviation": 1.0,
        "variance": "capped",
        "num_samples": 50,
        "batch_size": 20,
        "num_epochs": 7500,
        "learning_rate": 1e-3,
        "grid": [-6.0, 6.0, 121],  # from, to, and the number of points
        "num_test_samples": 1000,
    },
    together=4,
)


CONVERGED = PAPER.changed("converged", num_epochs=20_000, learning_rate=FALLING)
ORIGINAL = PAPER.changed("original units", scaling="none")
CONFIGURATIONS = {
    "smoke": tuple(
        configuration.changed(hidden=20, num_samples=10, num_epochs=1000, learning_rate=1e-2)
        for configuration in (PAPER, ORIGINAL)  # which share one program
    ),
    "quick": (PAPER, CONVERGED.changed(num_epochs=5000)),
    "paper": (PAPER, CONVERGED, ORIGINAL),
}


class Batch(NamedTuple):
    """Inputs, targets and noise variances, one row of each per data point."""

    inputs: Float[Array | np.ndarray, "data 1"]
    targets: Float[Array | np.ndarray, " data"]
    noise_variances: Float[Array | np.ndarray, " data"]


def measure(runs: Sequence[Run], bench: Bench) -> list[Metrics]:
    """Mean and deviation of the predictions on a grid, the data, and the energy; original units.

    The deviation includes the noise of a new target. The energies are of evenly spaced epochs, from
    the first on.
    """
    settings = runs[0].settings
    train = cubic(settings)
    units = bb.Dataset(*(SCALINGS[settings["scaling"]](array) for array in train))
    batch = Batch(
        units.inputs.transform(train.inputs)[:, None],
        units.targets.transform(train.targets),
        np.full(len(train.targets), settings["noise_variance"] / units.targets.scale**2),
    )

    def start(key: Key[Array, ""]) -> PyTree:
        return bb.init_mlp((1, settings["hidden"], 1), key=key)

    batches, deviation = [batch] * len(runs), settings["prior_deviation"]
    posteriors = fit_runs(runs, log_likelihood, start, batches, prior=deviation)
    return [_bands(run, each, train, units) for run, each in zip(runs, posteriors, strict=True)]


def cubic(settings: Mapping[str, Any]) -> bb.Dataset:
    """The data: xₙ uniform, yₙ = xₙ³ + noise, sorted by the inputs."""
    generator = np.random.default_rng(settings["data_seed"])
    low, high = settings["inputs_between"]
    inputs = np.sort(generator.uniform(low, high, settings["num_data"]))
    noise = generator.normal(0.0, np.sqrt(settings["noise_variance"]), settings["num_data"])
    return bb.Dataset(inputs, inputs**3 + noise)


def log_likelihood(params: PyTree, batch: Batch) -> Float[Array, " batch"]:
    """Return log N(yₙ; network(xₙ), σ²), with σ² fixed."""
    outputs = bb.mlp(params, batch.inputs)[:, 0]
    return jax.scipy.stats.norm.logpdf(batch.targets, outputs, jnp.sqrt(batch.noise_variances))


SCALINGS = {
    "standardized": lambda array: bb.standardize(array)[1],
    "none": lambda array: bb.Standardizer(np.zeros(()), np.ones(())),
}


def _bands(run: Run, posterior: bb.Posterior, train: bb.Dataset, units: bb.Dataset) -> Metrics:
    grid = np.linspace(*run.settings["grid"])
    mean, variance = posterior.predict(
        bb.mlp,
        units.inputs.transform(grid)[:, None],
        key=key_of(run, TEST_STREAM),
        num_samples=run.settings["num_test_samples"],
        summary=_moments,
    )
    variance = units.targets.inverse_variance(variance) + run.settings["noise_variance"]
    # log p(y) = log p(z) − log scale for each target
    log_scale = float(units.targets.log_scale) * run.settings["num_data"]
    energies = np.array(posterior.info.energies) + log_scale
    bands = {
        "mean": _rounded(units.targets.inverse(mean)),
        "deviation": _rounded(np.sqrt(variance)),
        "energy": float(posterior.energy) + log_scale,
        "energies": _rounded(energies[:: max(1, -(-len(energies) // MOST_ENERGIES))]),
    }
    return {
        "grid": _rounded(grid),
        "train_inputs": _rounded(train.inputs),
        "train_targets": _rounded(train.targets),
        **unless_lost(posterior, bands),
    }


def _moments(outputs: Float[Array, "draws rows 1"]) -> tuple[Array, Array]:
    """Mean and variance over the draws."""
    return jnp.mean(outputs[..., 0], axis=0), jnp.var(outputs[..., 0], axis=0)


def _rounded(values: Array | np.ndarray) -> list[float]:
    """Six significant digits, so that rows stay small."""
    return [float(f"{value:.6g}") for value in np.asarray(values)]


EXPERIMENT = Experiment(
    name="toy",
    configurations=CONFIGURATIONS,
    measure=measure,
)
