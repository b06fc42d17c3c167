"""Tables of 8 columns and an intercept: Pima, where its file is there, and a made-up one."""

import os
from pathlib import Path

import numpy as np
import pytest


def made_up():
    random = np.random.default_rng(8)
    inputs = random.normal(size=(768, 8))
    weights = np.array([1.0, -0.7, 0.5, -0.3, 0.2, 0.0, 0.0, 0.0])
    return inputs, (inputs @ weights - 0.5 + random.normal(size=768) > 0).astype(float)


def pima():
    folder = os.environ.get("BBALPHA_DATA", Path(__file__).parents[3] / "shared" / "data")
    path = Path(folder, "pima", "pima.csv.gz")
    if not path.is_file():
        pytest.skip("no data folder")
    rows = np.loadtxt(path, delimiter=",", skiprows=1)
    return rows[:, :-1], rows[:, -1]


@pytest.fixture(scope="module", params=[made_up, pima], ids=lambda make: make.__name__)
def table(request):
    """Standardized inputs with an intercept, and labels."""
    inputs, labels = request.param()
    inputs = (inputs - inputs.mean(axis=0)) / inputs.std(axis=0)
    return np.column_stack([inputs, np.ones(len(inputs))]), labels
