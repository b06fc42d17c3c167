"""The target: the column to be predicted, and whether it is a number or a class."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bbalpha.tables import cells as cells_of
from bbalpha.tables.encoder import MAX_CATEGORIES, check_repeats
from bbalpha.tables.messages import (
    TableError,
    check_choice,
    check_has_column,
    check_keys,
    check_names,
    is_text,
    listing,
    nearest,
    quote,
)

if TYPE_CHECKING:
    import numpy
    import pandas

TASKS = ("classification", "regression")


@dataclass(frozen=True)
class Target:
    """The column that a model predicts.

    Attributes:
        name: Its name in the header.
        task: "regression" or "classification".
        classes: The labels of a classification, sorted, numbers by size and written as in the
            file; empty for a regression.

    >>> import pandas
    >>> from bbalpha.tables import Target
    >>> frame = pandas.DataFrame({"outcome": ["yes", "no", "yes"]})
    >>> target = Target.learn(frame, "outcome")
    >>> target.task, target.classes
    ('classification', ('no', 'yes'))
    >>> target.encode(frame).tolist()
    [1, 0, 1]
    """

    name: str
    task: str
    classes: tuple[str, ...] = ()

    @classmethod
    def learn(cls, frame: "pandas.DataFrame", name: str, task: str | None = None) -> "Target":
        """Return what the column of that name is in a training table.

        Texts are classes, and so are numbers of which only two are different; other numbers are a
        regression. Dates are refused.

        Args:
            frame: The table.
            name: The column to be predicted.
            task: "regression" or "classification" to choose in place of that rule.

        Raises:
            TableError: If there is no such column, cells of it are missing or not what the task
                needs, or all are the same.
        """
        check_choice(task, (None, *TASKS), "task")
        check_has_column(list(frame.columns), name, "the target")
        cells, kind = _cells(frame, name)
        if kind == "date":
            raise TableError(
                f"target {quote(name)} must be a number or a class; got dates "
                "(write them as numbers, such as days)."
            )
        if task == "regression" or (kind == "number" and task is None):
            remedy = "" if task else " (--task classification treats them as classes)"
            _numbers(cells, name, remedy)
            spelled = _spellings(cells)
            _check_differ(spelled, name)
            if task == "regression" or len(spelled) > 2:
                return cls(name, "regression")
        return cls(name, "classification", _classes(cells, name))

    def encode(self, frame: "pandas.DataFrame") -> "numpy.ndarray":
        """Return the targets of a table: float64 numbers, or integers that point into `classes`.

        Raises:
            TableError: If there is no such column, or a cell is missing, not a number or not one of
                the classes.
        """
        check_has_column(list(frame.columns), self.name, "the target")
        cells, _ = _cells(frame, self.name)
        if self.task == "regression":
            return _numbers(cells, self.name)
        codes = _codes(cells, self.classes)
        if (codes < 0).any():
            self._refuse_unseen(cells, int((codes < 0).argmax()))
        return codes

    def to_json(self) -> dict[str, Any]:
        """The target as an object that can be written as JSON."""
        return {"name": self.name, "task": self.task, "classes": list(self.classes)}

    @classmethod
    def from_json(cls, obj: Any) -> "Target":
        """Return the target that `to_json` was called on.

        Args:
            obj: The object as read from JSON, which may come from anyone.

        Raises:
            TableError: If it is not what `to_json` could have returned.
        """
        check_keys(obj, ("name", "task", "classes"), "the target")
        check_names([obj["name"]], "the target")
        check_choice(obj["task"], TASKS, "the task of the target")
        _check_classes(obj["classes"], obj["task"])
        return cls(obj["name"], obj["task"], tuple(obj["classes"]))

    def _refuse_unseen(self, cells, row):
        value = cells_of.texts(cells)[row].as_py()
        near = nearest(value, self.classes)
        hint = f", of which the nearest is {quote(near)}" if near else ""
        raise TableError(
            f"target {quote(self.name)} must hold classes that the model was fitted to, "
            f"{listing(self.classes)}; got {quote(value)} in row {row + 1}{hint}."
        )


def _cells(frame, name):
    """The cells of the target, none of them missing, and their kind."""
    cells = cells_of.column_cells(frame[name])
    kind = cells_of.kind_of(cells)
    if kind is None:
        found = frame[name].dtype if cells is None else cells.type
        raise TableError(
            f"target {quote(name)} must hold numbers or classes; got the type {found}."
        )
    missing = cells_of.is_missing(cells)
    if missing.any():
        raise TableError(
            f"target {quote(name)} must be known in every row; got {missing.sum()} missing, the "
            f"first in row {missing.argmax() + 1} (remove those rows from the file)."
        )
    return cells, kind


def _classes(cells, name):
    """The different labels, of which there must be two at least and not one per row."""
    distinct = _spellings(cells) if _all_finite(cells) else cells_of.distinct_texts(cells)
    _check_differ(distinct, name)
    check_repeats(distinct, len(cells), f"target {quote(name)}")
    return tuple(distinct)


def _check_differ(distinct, name):
    if len(distinct) < 2:
        raise TableError(
            f"target {quote(name)} must have different values; "
            f"got {quote(distinct[0])} in every row."
        )


def _all_finite(cells):
    import numpy as np

    return bool(np.isfinite(cells_of.numbers(cells)).all())


def _spellings(cells):
    """How each different number is first written, in the order of the numbers."""
    import numpy as np

    _, first = np.unique(cells_of.numbers(cells), return_index=True)
    return cells_of.texts(cells).take(first).to_pylist()


def _numbers(cells, name, remedy=""):
    """The targets as numbers; a cell that is not a finite one is refused."""
    import numpy as np

    values = cells_of.numbers(cells)
    bad = ~np.isfinite(values)
    if bad.any():
        row, num = int(bad.argmax()), int(bad.sum())
        others = f", the first of {num}" if num > 1 else ""
        raise TableError(
            f"target {quote(name)} must hold finite numbers; got "
            f"{quote(cells_of.texts(cells)[row].as_py())} in row {row + 1}{others}{remedy}."
        )
    return values


def _codes(cells, classes):
    """Where each cell stands among the classes; by value if all of them are numbers."""
    import pyarrow

    keys = _keys(classes)
    if keys is classes:
        return cells_of.codes(cells_of.texts(cells), classes)
    return cells_of.codes(pyarrow.array(cells_of.numbers(cells) + 0.0), keys)


def _keys(classes):
    """What tells the classes apart: their values if all are finite numbers, or else themselves."""
    import pyarrow

    labels = pyarrow.array(classes, pyarrow.large_string())
    # Zero is added because arrow tells −0 from 0.
    return (cells_of.numbers(labels) + 0.0).tolist() if _all_finite(labels) else classes


def _check_classes(classes: Any, task: str) -> None:
    if task == "regression":
        if classes != []:
            raise TableError(f"a regression must have no classes; got {quote(classes)}.")
        return
    if not isinstance(classes, list) or not 2 <= len(classes) <= MAX_CATEGORIES:
        raise TableError(
            f"the target must list 2 to {MAX_CATEGORIES} classes; got {quote(classes)}."
        )
    for label in classes:
        if not is_text(label):
            raise TableError(f"the classes of the target must be texts; got {quote(label)}.")
    if len(set(_keys(classes))) < len(classes):
        raise TableError(f"the classes of the target must differ; got {listing(classes)}.")
