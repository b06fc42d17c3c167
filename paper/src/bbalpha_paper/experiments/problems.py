"""Problems: data sets by name, and their splits, for the experiments.

Some data sets come with scikit-learn, so that every experiment can run at the smallest scale
without a download.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

import bbalpha as bb
from bbalpha_paper import datasets


class Split(NamedTuple):
    """The training and the test data."""

    train: bb.Dataset
    test: bb.Dataset


@cache
def load_problem(name: str) -> bb.Dataset:
    """The inputs and targets of a data set, in original units; classes are numbered from 0.

    Raises:
        OSError: If the data are not found or cannot be downloaded.
        ValueError: If the name is unknown, or the data are damaged.
    """
    if name in BUNDLED:
        return BUNDLED[name]()
    table = datasets.load(name)
    return bb.Dataset(table.inputs, table.targets)


def split_of(name: str, split: int, num_train: int | None = None) -> Split:
    """One split of a data set.

    Args:
        name: The data set.
        split: The number of the split, from 0.
        num_train: How many rows to train on; by default as many as in the standard splits.
    """
    problem = load_problem(name)
    num_data = len(problem.targets)
    if num_train is not None:
        rows = bb.splits(num_data, split + 1, num_train / num_data)
    elif name in BUNDLED:
        rows = bb.splits(num_data, split + 1)
    else:
        rows = datasets.splits(name, split + 1)
    return Split(*(bb.Dataset(*(array[part[split]] for array in problem)) for part in rows))


def _breast_cancer() -> bb.Dataset:
    return bb.Dataset(*load_breast_cancer(return_X_y=True))


def _diabetes() -> bb.Dataset:
    return bb.Dataset(*load_diabetes(return_X_y=True))


def _digits() -> bb.Dataset:
    pixels, labels = load_digits(return_X_y=True)
    return bb.Dataset(pixels / 16, labels)  # 16 is the brightest


def _digit_bits() -> bb.Dataset:
    """Which pixels are bright, and the digit as a number to predict."""
    digits = _digits()
    return bb.Dataset((digits.inputs > 0.5).astype(float), digits.targets.astype(float))


BUNDLED: dict[str, Callable[[], bb.Dataset]] = {
    "breast-cancer": _breast_cancer,
    "diabetes": _diabetes,
    "digits": _digits,
    "digit-bits": _digit_bits,
}
