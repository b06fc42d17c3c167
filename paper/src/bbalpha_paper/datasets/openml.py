"""OpenML's copies of the data sets, brought into the form of the data folder.

A copy may have the target in any column, further targets, labels as words, or numbers declared as
categories. All columns are fetched as they are and sorted out here.

The ids and most names of targets come from public listings. No copy could be downloaded when this
was written, so every download is checked against `MARKS`, statistics of some columns of the
published files. If the means differ, the copy is something else: an error. If only the means
weighted by position differ, the rows are in another order and the splits are not the published
ones: a warning. For year, whose published file was not available, only the sizes are checked.
"""

import re
import warnings
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import sklearn.datasets
from sklearn.utils import Bunch

from .catalog import Entry
from .folder_files import table_path

Words = Sequence[str]  # of a category, in the order of their numbers

_MEAN_TOLERANCE = 1e-3  # relative; copies of concrete differ in the third decimal
_ORDER_TOLERANCE = 0.01  # in units of σ/√N; see `_in_order`
_MARK_PRECISION = 1e-6  # relative; the marks have seven digits


class Columns(NamedTuple):
    """How a copy differs from the data folder.

    Attributes:
        targets: Names that the target may have, besides the catalog's; if none is found, the target
            is the last column.
        others: Names of further targets, to be dropped.
        labels: The words for class 0 and class 1; empty if unknown, in which case class 1 is the
            larger one.
        constants: Names and values of constant columns that the copy may lack.
    """

    targets: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    constants: tuple[tuple[str, float], ...] = ()


COLUMNS = {
    "ionosphere": Columns(targets=("class",), labels=("b", "g")),
    "madelon": Columns(targets=("class",), labels=("1", "2")),  # −1 and +1 in the published file
    "pima": Columns(targets=("class",), labels=("tested_negative", "tested_positive")),
    "colon": Columns(targets=("class",)),  # 40 of 62 are tumors; the words are unknown
    "boston": Columns(),  # CHAS and RAD may be declared as categories
    "concrete": Columns(targets=("strength",)),
    "energy": Columns(targets=("y1",), others=("cooling_load", "y2")),
    "kin8nm": Columns(),
    # A listing has 15 columns: the 18 without the second target and, apparently, T1 and P1.
    "naval": Columns(
        targets=("gt_compressor_decay_state_coefficient",),
        others=("gt_turbine_decay_state_coefficient", "kmt"),
        constants=(("T1", 288.0), ("P1", 0.998)),
    ),
    "protein": Columns(),
    "wine_red": Columns(),
    "yacht": Columns(),
    "year": Columns(),
    "mnist": Columns(targets=("class",)),
}


class Marks(NamedTuple):
    """Statistics of the first three inputs and the target, by which to recognize a copy.

    Attributes:
        means: Mean of each, which does not depend on the order of the rows.
        weighted_means: Σ n xₙ / Σ n of each, n = 1, ..., N, which depends on the order.
    """

    means: tuple[float, float, float, float]
    weighted_means: tuple[float, float, float, float]


MARKS = {
    "ionosphere": Marks((0.8917379, 0, 0.6413419, 0.6410256), (0.9176865, 0, 0.6629583, 0.7397047)),
    "madelon": Marks(
        (481.7423, 483.5512, 509.3388, 0.5), (481.6371, 483.7467, 509.0978, 0.5036158)
    ),
    "pima": Marks(
        (3.845052, 120.8945, 69.10547, 0.3489583), (3.772821, 121.1339, 69.33916, 0.3365403)
    ),
    "colon": Marks(
        (7015.787, 4966.96, 4094.728, 0.6451613), (7148.005, 4944.094, 4135.343, 0.6620584)
    ),
    "boston": Marks(
        (3.613524, 11.36364, 11.13678, 22.53281), (5.630759, 9.975544, 12.7142, 21.33312)
    ),
    "concrete": Marks(
        (281.1679, 73.89583, 54.18835, 35.81796), (267.7575, 74.8887, 56.80812, 32.82191)
    ),
    "energy": Marks(
        (0.7641667, 671.7083, 318.5, 22.3072), (0.7604345, 674.8624, 318.7974, 23.53299)
    ),
    "kin8nm": Marks(
        (0.009351001, -0.007232715, 0.02279198, 0.7142835),
        (0.01707807, -0.01218102, 0.02146119, 0.7121239),
    ),
    "naval": Marks((5.166667, 15, 27247.5, 0.975), (5.167803, 15.00335, 27294.84, 0.983496)),
    "protein": Marks(
        (9871.597, 3017.367, 0.3023919, 7.748528), (9883.875, 3026.023, 0.3027999, 7.785702)
    ),
    "wine_red": Marks(
        (8.319637, 0.5278205, 0.2709756, 5.636023), (8.050004, 0.5269101, 0.2537221, 5.666977)
    ),
    "yacht": Marks(
        (-2.381818, 0.5641364, 4.788636, 10.49536), (-2.440718, 0.5643279, 4.784456, 10.95117)
    ),
    "mnist": Marks((0, 0, 0, 4.452429), (0, 0, 0, 4.453384)),
}


class UnpublishedOrderWarning(UserWarning):
    """A copy has the rows of the data set in another order than published."""


def download(entry: Entry) -> tuple[np.ndarray, np.ndarray, str]:
    """The inputs, the targets and the source of OpenML's copy of a data set.

    scikit-learn keeps the download, but its reader takes minutes for mnist and year, every time; a
    data folder is faster.

    Raises:
        ConnectionError: If OpenML cannot be reached.
        ValueError: If the columns or their means differ from the data set.
    """
    source = f"OpenML data set {entry.openml_id}"
    try:
        copy = sklearn.datasets.fetch_openml(
            data_id=entry.openml_id, target_column=None, as_frame=False, parser="liac-arff"
        )
    except OSError as error:
        raise ConnectionError(
            f"Could not download {entry.name}, {source}: {error}. Try again, or set BBALPHA_DATA "
            f"to a folder that holds {table_path(entry)}."
        ) from error
    assert isinstance(copy, Bunch)  # not a pair of arrays, which fetch_openml can also return
    names = [_plain(name) for name in copy.feature_names]
    matrix = copy.data.toarray() if hasattr(copy.data, "toarray") else copy.data  # may be sparse
    values = dict(zip(names, matrix.T, strict=True))
    categories = {_plain(name): words for name, words in (copy.categories or {}).items()}
    target, rest = _parted(entry, names)
    targets = _targets(entry, values[target], categories.get(target), source)
    inputs = _inputs(entry, {name: values[name] for name in rest}, categories, source)
    _check_marks(entry, inputs, targets, source)
    return inputs, targets, source


def _plain(name: str) -> str:
    """A column's name in lower case and without punctuation, because copies differ in both."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _parted(entry: Entry, names: list[str]) -> tuple[str, list[str]]:
    """The name of the target, and the names of the inputs in their order."""
    columns = COLUMNS[entry.name]
    accepted = [_plain(name) for name in (entry.target_name, *columns.targets)]
    target = next((name for name in accepted if name in names), names[-1])
    dropped = {target, *map(_plain, columns.others)}
    return target, [name for name in names if name not in dropped]


def _targets(entry: Entry, values: np.ndarray, words: Words | None, source: str) -> np.ndarray:
    """The targets as numbers, with labels numbered from 0."""
    if entry.task != "binary":
        return values if words is None else _decoded(values, words, entry.target_name, source)
    found = [f"{value:g}" for value in values] if words is None else [words[int(i)] for i in values]
    counts = Counter(found)
    labels = COLUMNS[entry.name].labels or tuple(sorted(counts, key=counts.__getitem__))
    if set(counts) != set(labels) or len(labels) != 2:
        expected = " and ".join(COLUMNS[entry.name].labels) or "two labels"
        raise ValueError(
            f"{entry.target_name} must take the values {expected}; "
            f"got {', '.join(sorted(counts)[:3])} in {source}."
        )
    return np.array(found) == labels[1]


def _inputs(
    entry: Entry, values: dict[str, np.ndarray], categories: dict[str, Words], source: str
) -> np.ndarray:
    """The matrix of the inputs, with the constant columns that a copy may lack."""
    columns = [
        _decoded(column, categories[name], name, source) if name in categories else column
        for name, column in values.items()
    ]
    constants = COLUMNS[entry.name].constants
    if len(columns) == entry.num_features - len(constants):
        for name, value in constants:  # in the order of the columns
            columns.insert(entry.feature_names.index(name), np.full(len(columns[0]), value))
    num_rows = len(columns[0])
    if (num_rows, len(columns)) != (entry.num_data, entry.num_features):
        raise ValueError(
            f"{entry.name} must have {entry.num_data} rows of {entry.num_features} inputs; got "
            f"{num_rows} rows of {len(columns)} in {source}: {', '.join(list(values)[:20])}."
        )
    if entry.name == "mnist":  # bytes, exact in float32
        return np.stack(columns, axis=1, dtype=np.float32) / np.float32(255)
    return np.stack(columns, axis=1, dtype=np.float64)


def _decoded(values: np.ndarray, words: Words, name: str, source: str) -> np.ndarray:
    """The numbers that a column of categories stands for."""
    try:
        return np.array(words, dtype=np.float64)[values.astype(int)]
    except ValueError as error:
        raise ValueError(f"{name} must be numbers; got {words[0]!r} in {source}.") from error


def _check_marks(entry: Entry, inputs: np.ndarray, targets: np.ndarray, source: str) -> None:
    """Raise if the copy is of something else; warn if its rows are in another order."""
    if entry.name not in MARKS:
        return
    marks = MARKS[entry.name]
    names = (*entry.feature_names[:3], entry.target_name)
    marked = np.column_stack([inputs[:, :3], targets])
    for name, found, expected in zip(names, marked.mean(axis=0), marks.means, strict=True):
        if not np.isclose(found, expected, rtol=_MEAN_TOLERANCE, atol=1e-6):
            raise ValueError(
                f"{name} of {entry.name} must have mean {expected:g}, as published; got {found:g} "
                f"in {source}. Set BBALPHA_DATA to a folder that holds {table_path(entry)}."
            )
    if not _in_order(marked, marks.weighted_means):
        warnings.warn(
            f"{source} has the rows of {entry.name} in another order than published, so the splits "
            "are not the published ones.",
            UnpublishedOrderWarning,
            stacklevel=5,  # the caller of load
        )


def _in_order(marked: np.ndarray, weighted_means: Sequence[float | int]) -> bool:
    """Whether the columns have these means Σ n xₙ / Σ n, up to rounding.

    A random order changes each mean by about σ/√(3N), where σ is the column's standard deviation.
    So a column that is not constant fails to notice it with probability 0.014, and four independent
    columns with probability 4e-8. Rounding by at most δ changes each mean by about ⅔ δ/√N, far less
    unless δ is near σ/100.
    """
    num_rows = len(marked)
    found = np.average(marked, axis=0, weights=np.arange(1, num_rows + 1))
    slack = _ORDER_TOLERANCE * marked.std(axis=0) / np.sqrt(num_rows)
    return bool(np.isclose(found, weighted_means, rtol=_MARK_PRECISION, atol=slack).all())
