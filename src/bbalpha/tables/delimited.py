"""Delimited text: a CSV file of one of five delimiters, as columns of text.

Python's csv module splits it, because it counts lines: a message can say where a file is wrong.
"""

import csv
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

from bbalpha.tables.cells import NUMBER, typed_cells, with_decimal_points
from bbalpha.tables.messages import TableError, check_names, listing

DELIMITERS = (",", ";", "\t", "|")
NO_DELIMITER = "\x1f"  # a control character, which text may not contain
NUM_SNIFFED = 50  # rows from which the delimiter is found
SNIFFED_LENGTH = 1_000_000  # characters that hold them
ROWS_PER_CHUNK = 20_000

BINARY = bytes([*range(9), *range(14, 26), *range(27, 32)])  # bytes that text does not contain
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def table_of_text(data: bytes, path: Path):
    """The arrow table of a CSV file's bytes, all text.

    Args:
        data: The bytes, decompressed.
        path: Where they come from, for messages.

    Raises:
        TableError: If they are not UTF-8 text, or not a table with named columns.
    """
    import pyarrow

    text = _decoded(data, path)
    delimiter = _delimiter(text)
    rows = _numbered_rows(text, delimiter, path)
    header = next((row for _, row in rows if not _is_blank(row)), [])
    if not header:
        raise TableError(f"{path} must be a table; got an empty file.")
    names = [name.strip() for name in header]
    _check_header(names, path)
    columns = _columns(_full_rows(rows, len(names), path), len(names))
    if delimiter != ",":
        columns = [with_decimal_points(typed_cells(column)) for column in columns]
    return pyarrow.table(columns, names=names)


def _decoded(data: bytes, path: Path) -> str:
    if data[:2] in UTF_16_MARKS:
        raise TableError(
            f"{path} must be UTF-8 text; got UTF-16 "
            "(convert it, for instance by iconv -f utf-16 -t utf-8)."
        )
    if len(data.translate(None, BINARY)) < len(data):
        offset = next(number for number, byte in enumerate(data) if byte in BINARY)
        raise TableError(
            f"{path} must be a table of text; got binary data, with byte "
            f"0x{data[offset]:02x} in line {_line_of(data, offset)}."
        )
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} must be UTF-8 text; got byte 0x{data[error.start]:02x} in line "
            f"{_line_of(data, error.start)} (convert it, for instance by iconv -f latin1 -t utf-8)."
        ) from None


def _line_of(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _delimiter(text: str) -> str:
    """The delimiter that splits the header and, of several, agrees best with the rows below.

    White space splits only if nothing else does and most of the rows agree, because the name of a
    single column may contain it.
    """
    start = text[:SNIFFED_LENGTH]
    best = max(DELIMITERS, key=lambda delimiter: _agreement(start, delimiter))
    if _agreement(start, best)[0]:
        return best
    splits, fraction, _ = _agreement(start, " ")
    return " " if splits and fraction > 0.5 else NO_DELIMITER


def _agreement(text: str, delimiter: str) -> tuple[bool, float, int]:
    """Whether a delimiter splits the header, what part of the rows agree, and into how many."""
    rows = (row for row in _reader(text, delimiter, strict=False) if not _is_blank(row))
    try:
        lengths = [len(row) for row in itertools.islice(rows, NUM_SNIFFED + 1)]
    except csv.Error:
        return False, 0.0, 0
    num_cells, *below = lengths or [0]
    return num_cells > 1, sum(n == num_cells for n in below) / max(len(below), 1), num_cells


def _reader(text: str, delimiter: str, strict: bool):
    lines: Iterator[str] = io.StringIO(text, newline="")
    if delimiter == " ":
        lines = (line.strip().replace("\t", " ") for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _numbered_rows(text: str, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the line it ends in."""
    reader = _reader(text, delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        raise TableError(
            f"{path} must have every quote closed; got line {reader.line_num}, where {error}."
        ) from None


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def _check_header(names: list[str], path: Path) -> None:
    if all(re.fullmatch(NUMBER, name) for name in names):
        raise TableError(
            f"{path} must name its columns in the first line; got the numbers {listing(names)}."
        )
    check_names(names, str(path))


def _full_rows(rows: Iterator[tuple[int, list[str]]], num_cells: int, path: Path):
    """The rows, each of as many cells as the header; blank lines are left out.

    A blank line of a one-column table is a missing cell, unless nothing follows it: to leave it out
    would put predictions beside the wrong lines.
    """
    num_blank = 0
    for line, row in rows:
        if not row if num_cells == 1 else _is_blank(row):
            num_blank += 1
            continue
        if num_cells == 1:
            yield from [[""]] * num_blank
        num_blank = 0
        if len(row) != num_cells:
            raise TableError(
                f"{path} must have as many cells in every line as in its header, {num_cells}; "
                f"got {len(row)} in line {line}."
            )
        yield row


def _columns(rows: Iterator[list[str]], num_columns: int):
    """The cells of each column, in chunks so that few are held as Python objects at a time."""
    import pyarrow

    chunks = [[] for _ in range(num_columns)]
    while batch := list(itertools.islice(rows, ROWS_PER_CHUNK)):
        for column, cells in zip(chunks, zip(*batch, strict=True), strict=True):
            column.append(pyarrow.array(cells, pyarrow.large_string()))
    return [pyarrow.chunked_array(column, pyarrow.large_string()) for column in chunks]
