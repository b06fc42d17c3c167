"""Streaming predictions: a table of any length is read and predicted one part at a time."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas

from bbalpha.cli.doors import refusing
from bbalpha.cli.parts import each_part, ends_of_parts
from bbalpha.cli.predictions import asking, id_of, ids_of, table_of, with_ids, without_formulas
from bbalpha.cli.saved import Model, Remarks
from bbalpha.tables import TableError
from bbalpha.tables.encoder import EncodedRows
from bbalpha.tables.stream import TableStream


class Wishes(NamedTuple):
    """The options of `bbalpha predict`.

    Attributes:
        levels: Quantiles to predict, if the target is a number.
        id: The column that names the rows, if it is not the one named in training.
        unknown: What to do with a text that did not occur in training.
        spreadsheet: Whether to put an apostrophe before texts that a spreadsheet would run.
        quiet: Whether to show neither notes nor a progress bar.
    """

    levels: Sequence[float]
    id: str | None
    unknown: str
    spreadsheet: bool
    quiet: bool


class Inputs(NamedTuple):
    """One part of a table, encoded.

    Attributes:
        features: The inputs of the model.
        ids: The names of the rows, if there is an ID column.
        rows: The encoded rows with their remarks; None if another part carries them.
    """

    features: np.ndarray
    ids: pandas.Series | None
    rows: EncodedRows | None


class UndecidedError(Exception):
    """The parts of a table may have been read differently from the whole table."""


def predict_stream(
    model: Model, stream: TableStream, wishes: Wishes, opened: Callable[[], Any]
) -> None:
    """Predict every row, and write the predictions.

    How a column is read, and which row a message names, depends on the whole table. If the parts
    disagree about a column, or if one of them is refused, the table is read whole instead.

    Args:
        model: The model.
        stream: The table.
        wishes: The options.
        opened: Opens the output: a context manager that yields a function to write some rows. The
            rows are kept only if the context ends without an error.
    """
    id_of(model, stream.names, wishes.id)
    with refusing(TableError):
        try:
            _predict(model, wishes, opened, _parts(model, stream, wishes), stream.num_rows)
        except UndecidedError:
            _predict(model, wishes, opened, _whole(model, stream, wishes), stream.num_rows)


def _predict(
    model: Model, wishes: Wishes, opened: Any, inputs: Iterator[Inputs], num_rows: int
) -> None:
    remarks, ask = Remarks(), asking(model, wishes.levels)

    def answer(part: Inputs) -> tuple[Any, Any]:
        return ask(part.features), part.ids

    def told() -> Iterator[Inputs]:
        for part in inputs:
            if part.rows is not None:
                remarks.add(model, part.rows)
            yield part

    with opened() as write:
        for described, ids in each_part(
            answer, told(), ends_of_parts(num_rows), show=not wishes.quiet
        ):
            table = with_ids(table_of(model, wishes.levels, described), ids)
            write(without_formulas(table) if wishes.spreadsheet else table)
        if not remarks.agree():
            raise UndecidedError
    remarks.note(model, wishes.quiet)


def _parts(model: Model, stream: TableStream, wishes: Wishes) -> Iterator[Inputs]:
    """The inputs, one part after the other."""
    kinds = set()
    for part in stream.parts(ends_of_parts(stream.num_rows)):
        try:
            rows = model.read(part, wishes.unknown, wishes.id)
        except TableError:
            raise UndecidedError from None
        ids = ids_of(model, part, wishes.id)
        kinds.add(None if ids is None else ids.dtype)
        if len(kinds) > 1:  # such as whole numbers, some of which are missing
            raise UndecidedError
        yield Inputs(rows.features, ids, rows)


def _whole(model: Model, stream: TableStream, wishes: Wishes) -> Iterator[Inputs]:
    """The same parts, cut from a table that is read whole."""
    table = stream.whole()
    rows, ids = model.read(table, wishes.unknown, wishes.id), ids_of(model, table, wishes.id)
    for start, end in pairwise(ends_of_parts(stream.num_rows)):
        some = None if ids is None else ids.iloc[start:end]
        yield Inputs(rows.features[start:end], some, None if start else rows)
