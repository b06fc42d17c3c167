"""The target: the column to predict, which holds numbers or classes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas
import pyarrow

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

TASKS = ("classification", "regression")


@dataclass(frozen=True)
class Target:
    """The column that a model predicts.

    Attributes:
        name: Its name in the header.
        task: "regression" or "classification".
        classes: The labels of a classification as they are spelled in the file, sorted, numbers by
            size; empty for a regression.

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
    def learn(cls, frame: pandas.DataFrame, name: str, task: str | None = None) -> "Target":
        """Return the target of a training table.

        Texts are classes, and so are numbers if there are only two different ones; other numbers
        make a regression. Dates are refused.

        Args:
            frame: The table.
            name: The column to predict.
            task: "regression" or "classification" to override this rule.

        Raises:
            TableError: If the table lacks the column, if a cell of it is missing or does not suit
                the task, or if all cells are the same.
        """
        check_choice(task, (None, *TASKS), "task")
        check_has_column(list(frame.columns), name, "target")
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

    def encode(self, frame: pandas.DataFrame) -> np.ndarray:
        """Return the targets of a table: numbers as float64, or classes as indices of `classes`.

        Raises:
            TableError: If the table lacks the column, or if a cell is missing, not a number or not
                one of the classes.
        """
        check_has_column(list(frame.columns), self.name, "target")
        cells, _ = _cells(frame, self.name)
        if self.task == "regression":
            return _numbers(cells, self.name)
        codes = _codes(cells, self.classes)
        if (codes < 0).any():
            self._refuse_unseen(cells, int((codes < 0).argmax()))
        return codes

    def to_json(self) -> dict[str, Any]:
        """The target as an object for JSON."""
        return {"name": self.name, "task": self.task, "classes": list(self.classes)}

    @classmethod
    def from_json(cls, obj: Any) -> "Target":
        """Return the target that `to_json` described.

        Args:
            obj: An object read from JSON, which is not trusted.

        Raises:
            TableError: If `to_json` could not have returned it.
        """
        check_keys(obj, ("name", "task", "classes"), "the target")
        check_names([obj["name"]], "the target")
        check_choice(obj["task"], TASKS, "the task of the target")
        _check_classes(obj["classes"], obj["task"])
        return cls(obj["name"], obj["task"], tuple(obj["classes"]))

    def _refuse_unseen(self, cells, row):
        value = cells_of.texts(cells)[row].as_py()
        near = nearest(value, self.classes)
        hint = f" (did you mean {quote(near)}?)" if near else ""
        raise TableError(
            f"target {quote(self.name)} has {quote(value)} in row {row + 1}, but the training "
            f"table had only {listing(self.classes)}{hint}."
        )


def _cells(frame, name):
    """The cells of the target and their kind; missing cells are refused."""
    cells = cells_of.column_cells(frame[name])
    kind = cells_of.kind_of(cells)
    if kind is None:
        found = frame[name].dtype if cells is None else cells.type
        raise TableError(
            f"target {quote(name)} must hold numbers or classes; got the type {found}."
        )
    missing = cells_of.is_missing(cells)
    if missing.any():
        num, first = int(missing.sum()), missing.argmax() + 1
        where = f"row {first}" if num == 1 else f"{num} rows, the first of which is row {first}"
        raise TableError(
            f"target {quote(name)} is missing in {where} (remove such rows from the file)."
        )
    return cells, kind


def _classes(cells, name):
    """The distinct labels: at least two, and not a new one in most rows."""
    distinct = _spellings(cells) if _all_finite(cells) else cells_of.distinct_texts(cells)
    _check_differ(distinct, name)
    check_repeats(distinct, len(cells), f"target {quote(name)}", "its classes cannot be learned")
    return tuple(distinct)


def _check_differ(distinct, name):
    if len(distinct) < 2:
        raise TableError(
            f"target {quote(name)} is {quote(distinct[0])} in every row, so there is nothing to "
            "predict."
        )


def _all_finite(cells):
    return bool(np.isfinite(cells_of.numbers(cells)).all())


def _spellings(cells):
    """The first spelling of each distinct number, in the order of the numbers."""
    _, first = np.unique(cells_of.numbers(cells), return_index=True)
    return cells_of.texts(cells).take(first).to_pylist()


def _numbers(cells, name, remedy=""):
    """The targets as numbers; a cell that is not a finite number is refused."""
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
    """The index of each cell's class; classes that are all numbers are compared by value."""
    keys = _keys(classes)
    if keys is classes:
        return cells_of.codes(cells_of.texts(cells), classes)
    return cells_of.codes(pyarrow.array(cells_of.numbers(cells) + 0.0), keys)


def _keys(classes):
    """The values of the classes if all are finite numbers, otherwise the classes themselves."""
    labels = pyarrow.array(classes, pyarrow.large_string())
    # Adding zero turns −0 into 0, which arrow would count as different.
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
