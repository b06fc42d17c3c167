"""Delimited text: a CSV file with one of five delimiters, as columns of text.

Arrow splits well-formed files, in a tenth of the time. Python's csv module splits all others,
because it counts lines: a message can say which one is wrong.
"""

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.csv

from bbalpha.files.wording import one_line
from bbalpha.tables.cells import pc
from bbalpha.tables.messages import TableError, check_names, check_num_columns, listing
from bbalpha.tables.numerals import PLAIN

DELIMITERS = (",", ";", "\t", "|")
NO_DELIMITER = "\x1f"  # a control character that text never contains
NUM_SNIFFED = 50  # rows that decide the delimiter
SNIFFED_LENGTH = 1_000_000  # characters in which these rows are sought
ROWS_PER_CHUNK = 20_000
BLOCK_SIZE = 2**23  # bytes that arrow splits at a time; a row must fit

BINARY = bytes([*range(9), *range(14, 26), *range(27, 32)])  # bytes that text never contains
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
DECIMAL_COMMAS = b"decimal commas"  # in the metadata of a table whose delimiter is not a comma


class _Header(NamedTuple):
    """The first row: its cells, and the number of its last line."""

    names: list[str]
    line: int


def table_of_text(data: bytes, path: Path) -> pyarrow.Table:
    """The content of a CSV file as an arrow table whose columns are all text.

    A column without a name is called Unnamed: 0 by its position, as in pandas. If every row has one
    cell more than the header, as R writes them, the first column has no name.

    Args:
        data: The decompressed bytes of the file.
        path: The file, for messages.

    Raises:
        TableError: If the bytes are not UTF-8 text, or not a table with named columns.
    """
    text = _decoded(data, path)
    delimiter = _delimiter(text)
    rows = _numbered_rows(text, delimiter, path)
    header = next((_Header(row, line) for line, row in rows if not _is_blank(row)), None)
    if header is None:
        raise TableError(f"{path} is empty.")
    check_num_columns(len(header.names), str(path))
    names = [name.strip() for name in header.names]
    columns = _quick_columns(text, delimiter, header)
    if columns is None:
        row = next(rows, None)
        rows = itertools.chain([] if row is None else [row], rows)
        if row is not None and len(row[1]) == len(names) + 1 and len(names) > 1:
            names = ["", *names]  # R leaves out the name of its row names
        columns = _columns(_full_rows(rows, len(names), path), len(names))
    names = _checked_names(names, path)
    metadata = {} if delimiter == "," else {DECIMAL_COMMAS: b"1"}
    return pyarrow.table(columns, names=names).replace_schema_metadata(metadata)


def _decoded(data: bytes, path: Path) -> str:
    if data[:2] in UTF_16_MARKS:
        raise TableError(
            f"{path} is UTF-16 text, not UTF-8 "
            "(convert it, for example with iconv -f utf-16 -t utf-8)."
        )
    if len(data.translate(None, BINARY)) < len(data):
        offset = next(number for number, byte in enumerate(data) if byte in BINARY)
        raise TableError(
            f"{path} is not text: line {_line_of(data, offset)} has the byte 0x{data[offset]:02x}."
        )
    try:
        return data.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TableError(
            f"{path} is not UTF-8 text: line {_line_of(data, error.start)} has the byte "
            f"0x{data[error.start]:02x} (convert it, for example with iconv -f latin1 -t utf-8)."
        ) from None


def _line_of(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _delimiter(text: str) -> str:
    """The delimiter that splits the header and most consistently the rows below it.

    White space counts only if no other delimiter splits the header and most rows agree with it,
    because the name of a single column may contain spaces.
    """
    start = text[:SNIFFED_LENGTH]
    best = max(DELIMITERS, key=lambda delimiter: _agreement(start, delimiter))
    if _agreement(start, best)[0]:
        return best
    splits, fraction, _ = _agreement(start, " ")
    return " " if splits and fraction > 0.5 else NO_DELIMITER


def _agreement(text: str, delimiter: str) -> tuple[bool, float, int]:
    """Whether a delimiter splits the header, the fraction of rows that agree, and their length."""
    rows = (row for row in _reader(text, delimiter, strict=False) if not _is_blank(row))
    lengths = []
    with contextlib.suppress(csv.Error):  # a cell that is too long
        lengths.extend(len(row) for row in itertools.islice(rows, NUM_SNIFFED + 1))
    num_cells, *below = lengths or [0]
    agreeing = max(sum(n == num for n in below) for num in (num_cells, num_cells + 1))
    return num_cells > 1, agreeing / max(len(below), 1), num_cells


def _reader(text: str, delimiter: str, strict: bool):
    lines: Iterator[str] = io.StringIO(text, newline="")
    if delimiter == " ":
        lines = (line.strip().replace("\t", " ") for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _numbered_rows(text: str, delimiter: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the number of its last line."""
    reader = _reader(text, delimiter, strict=True)
    try:
        for row in reader:
            yield reader.line_num, row
    except csv.Error as error:
        if "field limit" in str(error):
            raise TableError(
                f"{path} must have cells of at most {csv.field_size_limit():,} characters; got a "
                f"longer one in line {reader.line_num} (perhaps a quote is not closed)."
            ) from None
        raise TableError(
            f"{path} has an unclosed or misplaced quote, noticed in line {reader.line_num}: "
            f"{one_line(error)}."
        ) from None


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def _quick_columns(text: str, delimiter: str, header: _Header) -> list[Any] | None:
    """The columns as arrow splits them; None if it might not split them as the csv module does."""
    num_columns = len(header.names)
    if delimiter not in DELIMITERS or num_columns < 2 or not _has_plain_quotes(text, delimiter):
        return None
    names = [str(number) for number in range(num_columns)]
    options = {
        "read_options": pyarrow.csv.ReadOptions(
            column_names=names, skip_rows=header.line, block_size=BLOCK_SIZE
        ),
        "parse_options": pyarrow.csv.ParseOptions(
            delimiter=delimiter, newlines_in_values='"' in text
        ),
        "convert_options": pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(names, pyarrow.large_string()), strings_can_be_null=False
        ),
    }
    try:
        columns = pyarrow.csv.read_csv(pyarrow.BufferReader(text.encode()), **options).columns
    except pyarrow.ArrowInvalid:  # rows of several lengths, or none at all
        return None
    return None if any(map(_has_long_cell, columns)) else columns


def _has_long_cell(column: pyarrow.ChunkedArray) -> bool:
    """Whether a cell has more bytes than the csv module allows a cell to have characters."""
    longest = pc.max(pc.binary_length(column)).as_py()
    return longest is not None and longest > csv.field_size_limit()


def _has_plain_quotes(text: str, delimiter: str) -> bool:
    """Whether every quotation mark opens or closes a cell, or is doubled inside one."""
    if '"' not in text:
        return True
    edge = re.escape(delimiter)
    cell = rf'(?:(?<=[{edge}\r\n])|\A)"[^"]*(?:""[^"]*)*"(?=[{edge}\r\n]|\Z)'
    return '"' not in re.sub(cell, "", text)


def _checked_names(names: list[str], path: Path) -> list[str]:
    """The names of the columns, with a name for those that have none."""
    if all(re.fullmatch(PLAIN, name) for name in names if name) and any(names):
        given = [name for name in names if name]
        raise TableError(
            f"{path} must name its columns in the first line; got the numbers {listing(given)}."
        )
    if not any(names):
        raise TableError(f"{path} must name its columns in the first line; got no name.")
    names = [name or f"Unnamed: {number}" for number, name in enumerate(names)]
    check_names(names, str(path))
    return names


def _full_rows(
    rows: Iterator[tuple[int, list[str]]], num_cells: int, path: Path
) -> Iterator[list[str]]:
    """The rows, each with as many cells as the header; blank lines are skipped.

    In a table of one column a blank line is a missing cell, unless it is at the end: skipping it
    would shift the predictions against the lines of the file.
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
                f"{path} has {_count(len(row))} in line {line}, but {num_cells} in its header."
            )
        yield row


def _count(num_cells: int) -> str:
    return "1 cell" if num_cells == 1 else f"{num_cells} cells"


def _columns(rows: Iterator[list[str]], num_columns: int) -> list[pyarrow.ChunkedArray]:
    """The cells of each column, in chunks so that only a few are Python objects at a time."""
    chunks = [[] for _ in range(num_columns)]
    while batch := list(itertools.islice(rows, ROWS_PER_CHUNK)):
        for column, cells in zip(chunks, zip(*batch, strict=True), strict=True):
            column.append(pyarrow.array(cells, pyarrow.large_string()))
    return [pyarrow.chunked_array(column, pyarrow.large_string()) for column in chunks]
