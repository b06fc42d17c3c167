"""Problems: data sets by name, and their splits, for the experiments.

Beside those of the paper there are some that scikit-learn carries, so that every experiment can be
tried at the smallest scale without a download.
"""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from bbalpha import data
from bbalpha_paper import datasets
from bbalpha.data import Dataset


class Split(NamedTuple):
    """The training and the test data."""

    train: Dataset
    test: Dataset


@cache
def load_problem(name: str) -> Dataset:
    """The inputs and targets of a data set, in original units; classes are counted from 0.

    Raises:
        OSError: If the data are not found or cannot be downloaded.
        ValueError: If the name is unknown, or the data are damaged.
    """
    if name in BUNDLED:
        return BUNDLED[name]()
    table = datasets.load(name)
    return Dataset(table.inputs, table.targets)


def split_of(name: str, split: int, num_train: int | None = None) -> Split:
    """One split of a data set, counted from 0.

    Args:
        name: The data set.
        split: The number of the split.
        num_train: How many rows are for training; by default as many as in the standard splits.
    """
    problem = load_problem(name)
    num_data = len(problem.targets)
    if num_train is not None:
        rows = data.splits(num_data, split + 1, num_train / num_data)
    elif name in BUNDLED:
        rows = data.splits(num_data, split + 1)
    else:
        rows = datasets.splits(name, split + 1)
    return Split(*(Dataset(*(array[part[split]] for array in problem)) for part in rows))


def _breast_cancer() -> Dataset:
    from sklearn.datasets import load_breast_cancer

    return Dataset(*load_breast_cancer(return_X_y=True))


def _diabetes() -> Dataset:
    from sklearn.datasets import load_diabetes

    return Dataset(*load_diabetes(return_X_y=True))


def _digits() -> Dataset:
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return Dataset(pixels / 16, labels)  # 16 is the brightest


def _digit_bits() -> Dataset:
    """Which pixels are bright, and the digit as a number to be predicted."""
    digits = _digits()
    return Dataset((digits.inputs > 0.5).astype(float), digits.targets.astype(float))


BUNDLED: dict[str, Callable[[], Dataset]] = {
    "breast-cancer": _breast_cancer,
    "diabetes": _diabetes,
    "digits": _digits,
    "digit-bits": _digit_bits,
}
