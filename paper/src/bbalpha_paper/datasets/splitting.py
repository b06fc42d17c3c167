"""The rows to train and test on, for each data set by name."""

import numpy as np

from bbalpha import data
from bbalpha.data import Splits

from .catalog import find_entry


def splits(name: str, num_splits: int) -> Splits:
    """Return the row numbers of the training and test part of each split of a data set.

    Sets without a fixed split are split 90 % to 10 % at random by `bbalpha.splits`; the first
    twenty splits of the UCI regression sets are the published ones. Nothing is loaded.

    For madelon only the 2,000 rows of its published training part are split, as in the paper: the
    600 rows of the validation part are in no split, though `load` gives them. For cep the paper
    took 50,000 molecules to train and 10,000 to test; only 29,978 are public.

    Args:
        name: A name of `CATALOG`.
        num_splits: Number of splits; for mnist and year, whose split is fixed, 1.

    Returns:
        Row numbers into `load(name)`.

    Raises:
        ValueError: If the name is unknown, or there are not as many splits.

    >>> import bbalpha_paper.datasets
    >>> train, test = bbalpha_paper.datasets.splits("boston", 20)
    >>> train.shape, test.shape
    ((20, 455), (20, 51))
    >>> bbalpha_paper.datasets.splits("mnist", 1).test[0, 0]
    np.int64(60000)
    """
    entry = find_entry(name)
    if not entry.fixed_split:
        return data.splits(entry.num_train or entry.num_data, num_splits)
    if num_splits != 1:
        raise ValueError(
            f"num_splits must be 1 for {name}, whose split is fixed; got num_splits={num_splits}. "
            "Vary the random key instead."
        )
    rows = np.arange(entry.num_data)[None]
    return Splits(train=rows[:, : entry.num_train], test=rows[:, entry.num_train :])
