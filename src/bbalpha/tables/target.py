"""The target: the column to predict, which holds numbers or classes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow

from bbalpha.tables import cells as cells_of
from bbalpha.tables.files import decimal_commas, names_of, select_column, select_rows
from bbalpha.tables.messages import (
    TableError,
    check_choice,
    check_has_column,
    check_keys,
    check_names,
    check_texts,
    is_text,
    listing,
    nearest,
    option,
    quote,
    remedies,
)
from bbalpha.tables.numerals import PLAIN_NOTATION, Notation, read_numerals
from bbalpha.tables.reading import Habits, Reading, first_reading, next_reading
from bbalpha.tables.value_columns import checked_notation

MAX_CLASSES = 1000
MAX_NEW_CLASSES = 20  # allowed even if most rows have a class of their own
MAX_TOKENS = 100  # texts that mark missing cells
TASKS = ("classification", "regression")


@dataclass(frozen=True)
class Target:
    """The column that a model predicts.

    Attributes:
        name: Its name in the header.
        task: "regression" or "classification".
        classes: The labels of a classification as spelled in the file, sorted, numbers by size;
            empty for a regression.
        notation: How the numbers of a regression are written.
        missing: Texts that mark missing cells, in addition to the usual ones.

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
    notation: Notation = PLAIN_NOTATION
    missing: tuple[str, ...] = ()

    @classmethod
    def learn(
        cls, frame: Any, name: str, task: str | None = None, missing: Sequence[str] = ()
    ) -> "Target":
        """Return the target of a training table.

        Texts are classes, and so are numbers if only two different ones occur; other numbers make a
        regression. Dates are refused.

        Args:
            frame: The table.
            name: The column to predict.
            task: "regression" or "classification" to override this rule.
            missing: Texts that mark missing cells, in addition to the usual ones.

        Raises:
            TableError: If the table lacks the column, if a cell of it is missing or does not suit
                the task, or if all cells are the same.
        """
        check_choice(task, (None, *TASKS), "task")
        reading = _first_reading(frame, name, task, missing)
        if reading.kind == "date":
            raise TableError(
                f"target {quote(name)} must be a number or a class; got dates "
                "(write them as numbers, such as days)."
            )
        _check_none_missing(reading)
        if task == "classification" or reading.kind != "number":
            return cls(name, "classification", _classes(reading, name), missing=tuple(missing))
        spelled = _spellings(reading)
        _check_differ(spelled, name)
        if task == "regression" or len(spelled) > 2:
            return cls(name, "regression", (), reading.notation, tuple(missing))
        return cls(name, "classification", _classes(reading, name), missing=tuple(missing))

    def encode(self, frame: Any) -> np.ndarray:
        """Return the targets of a table: numbers as float64, or classes as indices of `classes`.

        Raises:
            TableError: If the table lacks the column, or if a cell is missing, not a number or not
                one of the classes.
        """
        reading = self._reading(frame)
        _check_none_missing(reading)
        if self.task == "regression":
            return reading.values
        codes = _codes(reading.cells, self.classes)
        if (codes < 0).any():
            self._refuse_unseen(reading.cells, int((codes < 0).argmax()))
        return codes

    def to_json(self) -> dict[str, Any]:
        """The target as an object for JSON."""
        found = {"name": self.name, "task": self.task, "classes": list(self.classes)}
        return found | {"notation": list(self.notation), "missing": list(self.missing)}

    @classmethod
    def from_json(cls, obj: Any) -> "Target":
        """Return the target that `to_json` described.

        Args:
            obj: An object read from JSON, which is not trusted.

        Raises:
            TableError: If `to_json` could not have returned it.
        """
        check_keys(obj, ("name", "task", "classes", "notation", "missing"), "the target")
        check_names([obj["name"]], "the target")
        check_choice(obj["task"], TASKS, "the task of the target")
        _check_classes(obj["classes"], obj["task"])
        notation = checked_notation(obj["notation"], "the target")
        missing = check_texts(obj["missing"], "the missing texts of the target", MAX_TOKENS)
        return cls(obj["name"], obj["task"], tuple(obj["classes"]), notation, missing)

    def _reading(self, frame: Any) -> Reading:
        check_has_column(names_of(frame), self.name, "target")
        habits = Habits(self.missing, None, decimal_commas(frame), role="target")
        kind = "number" if self.task == "regression" else "class"
        column = select_column(frame, self.name)
        return next_reading(self.name, column, kind, self.notation, habits)

    def _refuse_unseen(self, cells, row):
        value = cells_of.texts(cells)[row].as_py()
        near = nearest(value, self.classes)
        hint = f" (did you mean {quote(near)}?)" if near else ""
        raise TableError(
            f"target {quote(self.name)} has {quote(value)} in row {row + 1}, but the training "
            f"table had only {listing(self.classes)}{hint}."
        )


def drop_unknown_targets(
    frame: Any, name: str, task: str | None = None, missing: Sequence[str] = ()
) -> tuple[Any, int]:
    """Return the rows of a table whose target is known, and the number of other rows.

    Args:
        frame: The table.
        name: The column to predict.
        task: "regression", "classification" or None, as in `Target.learn`.
        missing: Texts that mark missing cells, in addition to the usual ones.

    Raises:
        TableError: If no row has a target.
    """
    absent = _first_reading(frame, name, task, missing).missing
    if absent.all():
        raise TableError(f"target {quote(name)} is missing in every row.")
    return (select_rows(frame, ~absent) if absent.any() else frame), int(absent.sum())


def _first_reading(frame, name, task, missing):
    """The target of a training table; as text if it holds classes."""
    check_has_column(names_of(frame), name, "target")
    habits = Habits(tuple(missing), None, decimal_commas(frame), role="target")
    column = select_column(frame, name)
    reading = first_reading(name, column, habits, as_text=task == "classification")
    if reading.kind == "boolean" or (task == "regression" and reading.kind in ("text", "boolean")):
        kind = "number" if task == "regression" else "class"
        return next_reading(name, column, kind, PLAIN_NOTATION, habits)
    return reading


def _check_none_missing(reading):
    absent = reading.missing
    if not absent.any():
        return
    num, first = int(absent.sum()), absent.argmax() + 1
    where = f"row {first}" if num == 1 else f"{num} rows, the first of which is row {first}"
    remedy = remedies(option("--skip-missing-target", "", "leaves such rows out"))
    raise TableError(f"target {quote(reading.name)} is missing in {where}{remedy}.")


def _classes(reading, name):
    """The distinct labels; there must be at least two, and most rows must share theirs."""
    labels = cells_of.texts(reading.cells)
    if _all_finite(labels):
        distinct = _spellings(Reading(name, "number", labels, read_numerals(labels).values))
    else:
        distinct = sorted(map(str, cells_of.counts(labels)))
    _check_differ(distinct, name)
    num, num_rows = len(distinct), len(labels)
    if num > MAX_CLASSES:
        raise TableError(
            f"target {quote(name)} has {num} different texts, more than the limit of {MAX_CLASSES}."
        )
    if num > MAX_NEW_CLASSES and 2 * num > num_rows:
        found = f"{num} different texts in {num_rows} rows"
        found = "a different text in every row" if num == num_rows else found
        raise TableError(f"target {quote(name)} has {found}, so its classes cannot be learned.")
    return tuple(distinct)


def _check_differ(distinct, name):
    if len(distinct) < 2:
        raise TableError(
            f"target {quote(name)} is {quote(distinct[0])} in every row, so there is nothing to "
            "predict."
        )


def _all_finite(labels):
    return bool(np.isfinite(read_numerals(labels).values).all())


def _spellings(reading):
    """The first spelling of each distinct number, in the order of the numbers."""
    _, first = np.unique(reading.values, return_index=True)
    return cells_of.texts(reading.cells).take(first).to_pylist()


def _codes(cells, classes):
    """The index of each cell's class; classes that are all numbers are compared by value."""
    keys, labels = _keys(classes), cells_of.texts(cells)
    if keys is classes:
        return cells_of.codes(labels, classes)
    return cells_of.codes(pyarrow.array(read_numerals(labels).values + 0.0), keys)


def _keys(classes):
    """The values of the classes if all are finite numbers, otherwise the classes themselves."""
    labels = pyarrow.array(classes, pyarrow.large_string())
    # Adding zero turns −0 into 0, which arrow would count as different.
    return (read_numerals(labels).values + 0.0).tolist() if _all_finite(labels) else classes


def _check_classes(classes: Any, task: str) -> None:
    if task == "regression":
        if classes != []:
            raise TableError(f"a regression must have no classes; got {quote(classes)}.")
        return
    if not isinstance(classes, list) or not 2 <= len(classes) <= MAX_CLASSES:
        raise TableError(f"the target must list 2 to {MAX_CLASSES} classes; got {quote(classes)}.")
    for label in classes:
        if not is_text(label):
            raise TableError(f"the classes of the target must be texts; got {quote(label)}.")
    if len(set(_keys(classes))) < len(classes):
        raise TableError(f"the classes of the target must differ; got {listing(classes)}.")
