"""Fixtures of the tests of the reproduction: results at the smallest scale, and made-up rows."""

import fcntl
import json
import os
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from bbalpha_paper.cli import app
from bbalpha_paper.experiments import find_experiment
from bbalpha_paper.experiments.plan import Bench
from bbalpha_paper.rows import Row, read_file

ALPHAS = (1.0, 0.5, 1e-6, 0.0)
REPEATED = ("gradient", "toy")  # experiments of which a group is measured twice


class Smoke:
    """A results folder at the smallest scale, filled one experiment at a time when it is needed.

    The processes that share the tests share the folder, so that an experiment runs once.
    """

    def __init__(self, root):
        self.root, self.folder = root, root / "smoke-results"

    def rows(self, name):
        """The rows of an experiment, which the command runs if there are none yet."""
        with (self.root / f"{name}.lock").open("w") as lock, jax.enable_x64(False):
            fcntl.flock(lock, fcntl.LOCK_EX)
            is_new = not (self.folder / name).exists()
            args = ["run", name, "--scale", "smoke", "--output", str(self.folder)]
            result = CliRunner().invoke(app, args, catch_exceptions=False)
            assert result.exit_code == 0, result.output
            if is_new and name in REPEATED:
                self._repeat(find_experiment(name))
        files = sorted((self.folder / name).glob("*.jsonl"))
        return [row for file in files for row in read_file(file)]

    def repeated(self, name):
        """The metrics of the first group, measured again, and the reported progress."""
        self.rows(name)
        return json.loads((self.root / f"{name}.json").read_text())

    def _repeat(self, experiment):
        """Measure again at once, while the process still has the compiled programs."""
        progress = []
        group = next(iter(experiment.configurations["smoke"][0].groups()))
        metrics = experiment.measure(group, Bench(Path("unused"), progress.append))
        found = {"metrics": metrics, "progress": progress}
        (self.root / f"{experiment.name}.json").write_text(json.dumps(found))


@pytest.fixture(scope="session")
def smoke(tmp_path_factory):
    base = tmp_path_factory.getbasetemp()
    return Smoke(base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


def make_row(experiment, dataset, alpha, metrics, **changes):
    fields = {
        "experiment": experiment,
        "configuration": "main",
        "dataset": dataset,
        "split": 0,
        "seed": 0,
        "alpha": alpha,
        "settings": {"scale": "paper", "num_epochs": 20},
        "metrics": metrics,
        "seconds": 2.0,
        "version": "0.1.0",
    }
    return Row(**fields | changes)


@pytest.fixture(scope="session")
def row():
    """A function that makes a row."""
    return make_row


@pytest.fixture(scope="session")
def rows():
    """Rows of every experiment whose numbers can be worked out by hand."""
    return {
        "divergence": divergence_rows(),
        "probit": probit_rows(),
        "regression": regression_rows(),
        "mnist": curve_rows("mnist", "mnist", "error"),
        "clean-energy": curve_rows("clean-energy", "cep", "rmse"),
        "gradient": gradient_rows(),
        "linear": linear_rows(),
        "toy": toy_rows(),
    }


def probit_rows():
    """Three splits of Pima."""
    scores = {1.0: (-0.50, -0.52, -0.54), 0.0: (-0.51, -0.54, -0.57), 1e-6: (-0.51, -0.54, -0.56)}
    return [
        make_row("probit", "pima", alpha, {"log_likelihood": value, "error": 0.2}, split=split)
        for alpha, values in scores.items()
        for split, value in enumerate(values)
    ]


def regression_rows():
    return [
        make_row(
            "regression",
            dataset,
            alpha,
            {
                "log_likelihood": -2.5 + 0.1 * alpha + 0.01 * split,
                "log_likelihood_50": -2.6,
                "rmse": 3.0 + 0.1 * split,
                "noise_deviation": 2.0,
            },
            split=split,
            configuration="authors' code",
        )
        for dataset in ("boston", "diabetes")
        for split in range(3)
        for alpha in ALPHAS
    ]


def curve_rows(experiment, dataset, error):
    return [
        make_row(
            experiment,
            dataset,
            alpha,
            {
                "log_likelihood": -0.05 - 0.01 * alpha - 0.001 * seed,
                "log_likelihood_50": -0.06,
                error: 0.02 + 0.01 * alpha,
                "mse": 0.0004,
                "epochs": [1, 2, 4],
                "curve_log_likelihood": [-0.5, -0.1, -0.05],
                f"curve_{error}": [0.5, 0.1, 0.02],
                "curve_energy": [9.0, 7.0, 6.0],
            },
            seed=seed,
        )
        for seed in range(2)
        for alpha in (*ALPHAS, -1.0)
    ]


def gradient_rows():
    return [
        make_row(
            "gradient",
            "boston",
            alpha,
            {
                "num_samples": [1, 10],
                "bias": [0.35 + 0.25 * alpha + 0.01 * split * alpha, 0.15],
                "denoised_bias": [0.2 * alpha, 0.004 * alpha],
                "deviation": [14.0 + 0.1 * split, 12.0],
            },
            split=split,
        )
        for split in range(2)
        for alpha in ALPHAS
    ]


def linear_rows():
    return [
        make_row(
            "linear",
            dataset,
            alpha,
            {
                "mean": [0.0, 0.0],
                "covariance": [[0.5 + alpha / 10, 0.0], [0.0, 0.5]],
                "variance_closed_form": 0.5 + alpha / 10 + 2e-5,
                "true_mean": [0.0, 0.0],
                "true_covariance": [[0.6, 0.4], [0.4, 0.6]],
            },
        )
        for dataset in ("example-1", "example-2")
        for alpha in (-1.0, 1e-6, 0.5, 1.0)
    ]


def toy_rows():
    grid = np.linspace(-6, 6, 13)
    return [
        make_row(
            "toy",
            "cubic",
            alpha,
            {
                "grid": grid.tolist(),
                "mean": (grid**3).tolist(),
                "deviation": (4.0 + alpha + 0 * grid).tolist(),
                "train_inputs": [-2.0, 1.0],
                "train_targets": [-8.0, 1.0],
            },
        )
        for alpha in (-1.0, 1.0)
    ]


def divergence_rows():
    mixture = {"weights": [0.6, 0.4], "means": [-1.0, 2.0], "deviations": [0.5, 1.0]}
    return [
        make_row(
            "divergence",
            "bimodal",
            alpha,
            {"mean": 0.2, "deviation": 1.0 + alpha / 10, "log_mass": -0.5, "log_divergence": -1.0},
            settings={"scale": "paper"} | mixture,
        )
        for alpha in (-5.0, 0.0, 5.0)
    ]
