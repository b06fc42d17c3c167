"""Splitting: the rows to train and test on, for each data set by name."""

import numpy as np

import bbalpha as bb

from .catalog import find_entry


def splits(name: str, num_splits: int) -> bb.Splits:
    """The row numbers of the training and test part of each split of a data set.

    Sets without a fixed split are split 90 % to 10 % at random by `bb.splits`; the first twenty
    splits of the UCI regression sets are the published ones. No data are loaded.

    For madelon only the 2,000 rows of the published training part are split, as in the paper; the
    600 rows of the validation part are in no split, although `load` returns them. For cep the paper
    trained on 50,000 molecules and tested on 10,000; only 29,978 are public.

    Args:
        name: A name of `CATALOG`.
        num_splits: Number of splits; 1 for mnist and year, whose split is fixed.

    Returns:
        Row numbers into `load(name)`.

    Raises:
        ValueError: If the name is unknown, or there are fewer splits.

    >>> import bbalpha_paper.datasets
    >>> train, test = bbalpha_paper.datasets.splits("boston", 20)
    >>> train.shape, test.shape
    ((20, 455), (20, 51))
    >>> bbalpha_paper.datasets.splits("mnist", 1).test[0, 0]
    np.int64(60000)
    """
    entry = find_entry(name)
    if not entry.fixed_split:
        return bb.splits(entry.num_train or entry.num_data, num_splits)
    if num_splits != 1:
        raise ValueError(
            f"num_splits must be 1 for {name}, whose split is fixed; got num_splits={num_splits}. "
            "Vary the random key instead."
        )
    rows = np.arange(entry.num_data)[None]
    return bb.Splits(train=rows[:, : entry.num_train], test=rows[:, entry.num_train :])
