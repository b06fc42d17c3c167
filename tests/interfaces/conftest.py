"""A table and models fitted to it, which the tests of the estimators share."""

from typing import NamedTuple

import numpy as np
import pytest

import bbalpha as bb

NUM_DATA = 64


class Table(NamedTuple):
    """Two inputs in units of their own, a linear signal, and noisy numbers and labels of it."""

    inputs: np.ndarray
    signal: np.ndarray
    numbers: np.ndarray
    labels: np.ndarray
    new: np.ndarray  # inputs of five other rows


@pytest.fixture(scope="session")
def table():
    random = np.random.RandomState(0)
    inputs = random.normal(size=(NUM_DATA, 2)) * [3.0, 0.1] + [10.0, -5.0]
    signal = 2 * inputs[:, 0] - 30 * inputs[:, 1]
    numbers = signal + random.normal(size=NUM_DATA)
    noisy = signal + 3 * random.normal(size=NUM_DATA)
    labels = np.where(noisy > signal.mean(), "yes", "no")
    return Table(inputs, signal, numbers, labels, inputs[:5] + np.array([0.5, 0.05]))


@pytest.fixture(scope="session")
def fitted(table):
    """A linear regressor with constant noise and a fixed prior. No test may change it."""
    model = bb.BBAlphaRegressor((), likelihood="gaussian", prior="paper", random_state=0)
    return model.fit(table.inputs, table.numbers)


@pytest.fixture(scope="session")
def fitted_network(table):
    """A network with the default likelihood and prior. No test may change it."""
    model = bb.BBAlphaRegressor((10,), max_epochs=100, num_samples=20, random_state=0)
    return model.fit(table.inputs, table.numbers)


@pytest.fixture(scope="session")
def fitted_classifier(table):
    """A linear classifier. No test may change it."""
    return bb.BBAlphaClassifier((), random_state=0).fit(table.inputs, table.labels)
