"""Loading: from a name to arrays, wherever the data are."""

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Num

from . import cep, folder_files, openml
from .catalog import Entry, Task, find_entry

FOLDER_VARIABLE = "BBALPHA_DATA"

Arrays = tuple[np.ndarray, np.ndarray, str]  # inputs, targets and their source


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """A loaded data set.

    Attributes:
        name: Its name in `CATALOG`.
        inputs: One row per data point, as published, except that the pixels of mnist are divided
            by 255. float64, or float32 for mnist and cep, to save memory.
        targets: float64 for regression, otherwise integer labels from 0.
        feature_names: Names of the columns of `inputs`.
        target_name: Name of the target.
        task: "binary", "multiclass" or "regression".
        num_train: Number of leading rows that were published as the training part, or None. The
            others are the test part of mnist and year, and the validation part of madelon.
        source: Where the data come from: a file, or the number on OpenML.
    """

    name: str
    inputs: Float[np.ndarray, "rows features"]
    targets: Num[np.ndarray, " rows"]
    feature_names: tuple[str, ...]
    target_name: str
    task: Task
    num_train: int | None
    source: str


def load(name: str, folder: str | Path | None = None) -> Table:
    """A data set of the paper by name.

    The source is the folder, if one is named, and otherwise OpenML (for cep, the repository of its
    authors); downloads are kept in scikit-learn's data home. Arrays have the same form from
    everywhere: the same columns, and labels numbered from 0.

    Args:
        name: A name of `CATALOG`.
        folder: A folder that holds `<name>/<name>.csv.gz`; by default the one named by the
            environment variable BBALPHA_DATA, if it is set.

    Raises:
        ValueError: If the name is unknown, a file is damaged, or a copy differs from the data set
            that the catalog describes.
        FileNotFoundError: If the folder lacks the file, or the set has no download.
        ConnectionError: If a download fails.
        ModuleNotFoundError: If cep has no ready-made fingerprints, and RDKit is not installed.

    >>> import bbalpha as bb, bbalpha_paper.datasets
    >>> table = bbalpha_paper.datasets.load("boston")  # doctest: +SKIP
    >>> table.inputs.shape, table.target_name  # doctest: +SKIP
    ((506, 13), 'MEDV')
    >>> data = bb.Dataset(table.inputs, table.targets)  # doctest: +SKIP
    """
    entry = find_entry(name)
    folder = folder or os.environ.get(FOLDER_VARIABLE)
    inputs, targets, source = _read(entry, Path(folder)) if folder else _download(entry)
    _check_values(entry, inputs, targets, source)
    return Table(
        name=entry.name,
        inputs=inputs,
        targets=targets if entry.task == "regression" else targets.astype(np.int64),
        feature_names=entry.feature_names,
        target_name=entry.target_name,
        task=entry.task,
        num_train=entry.num_train,
        source=source,
    )


def fetch(name: str, folder: str | Path | None = None) -> str:
    """Where a data set is, after making sure that it is available and complete.

    Args:
        name: A name of `CATALOG`.
        folder: As for `load`, whose errors it also raises.

    Returns:
        The file it was read from, or its number on OpenML; a second call needs no network.

    >>> import bbalpha_paper.datasets
    >>> bbalpha_paper.datasets.fetch("boston")  # doctest: +SKIP
    'OpenML data set 531'
    """
    return load(name, folder).source


def _read(entry: Entry, folder: Path) -> Arrays:
    """The inputs, targets and path of a set in a folder."""
    if not folder.is_dir():
        raise FileNotFoundError(
            f"folder, or the environment variable {FOLDER_VARIABLE}, must name an existing folder; "
            f"got {str(folder)!r}."
        )
    if entry.name == "mnist":
        return folder_files.read_mnist(entry, folder)
    if entry.name == "cep":
        return cep.read(entry, folder)
    return folder_files.read_table(entry, folder)


def _download(entry: Entry) -> Arrays:
    """The inputs, targets and source of a downloaded set."""
    if entry.name == "cep":
        return cep.download(entry)
    if entry.openml_id is not None:
        return openml.download(entry)
    raise FileNotFoundError(
        f"folder must be given for {entry.name}, which has no confirmed copy on OpenML; got "
        f"folder=None with {FOLDER_VARIABLE} unset. Download {entry.url}, save its table as "
        f"{folder_files.table_path(entry)} in a folder, and name the folder."
    )


def _check_values(entry: Entry, inputs: np.ndarray, targets: np.ndarray, source: str) -> None:
    """Raise unless sizes match the catalog, numbers are finite, and labels are 0 and 1."""
    expected = (entry.num_data, entry.num_features)
    if inputs.shape != expected or targets.shape != expected[:1]:
        raise ValueError(
            f"{entry.name} must have {expected[0]} rows of {expected[1]} inputs and a target; "
            f"got {inputs.shape[0]} rows of {inputs.shape[1]} in {source}."
        )
    bad = ~(np.isfinite(inputs).all(axis=1) & np.isfinite(targets))
    if bad.any():
        raise ValueError(
            f"{entry.name} must be finite; got NaN or infinity in {bad.sum()} rows of {source}, "
            f"first in row {bad.argmax()}."
        )
    labels = np.unique(targets)
    if entry.task == "binary" and not np.array_equal(labels, [0, 1]):
        raise ValueError(
            f"{entry.target_name} must be 0 or 1 and take both values; "
            f"got {', '.join(f'{label:g}' for label in labels[:3])} in {source}."
        )
