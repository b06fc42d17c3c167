"""Delimited text: a CSV file with one of five delimiters, as columns of text.

The file is read in blocks of whole rows. Arrow splits well-formed blocks, which is ten times as
fast. From the first other block on, Python's csv module splits the rest, because it counts lines,
so that a message can say which line is wrong.
"""

import contextlib
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow
import pyarrow.csv

from bbalpha.files.wording import one_line
from bbalpha.tables.cells import pc
from bbalpha.tables.content import Content
from bbalpha.tables.messages import TableError, check_names, check_num_columns, listing
from bbalpha.tables.numerals import PLAIN

DELIMITERS = (",", ";", "\t", "|")
NO_DELIMITER = "\x1f"  # a control character that text never contains
NUM_SNIFFED = 50  # rows that decide the delimiter
SNIFFED_LENGTH = 1_000_000  # characters in which to look for these rows
ROWS_PER_CHUNK = 20_000
BLOCK_SIZE = 2**23  # bytes that arrow splits at a time; a row must fit
MOST_WITHOUT_END = 2**25  # bytes; a longer row means that the quotes are wrong

BINARY = bytes([*range(9), *range(14, 26), *range(27, 32)])  # bytes that text never contains
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
DECIMAL_COMMAS = b"decimal commas"  # in the metadata of a table whose delimiter is not a comma


class _Header(NamedTuple):
    """The first row: its cells, and the number of its last line."""

    names: list[str]
    line: int


def tables_of_text(content: Content) -> Iterator[pyarrow.Table]:
    """The content of a CSV file as arrow tables whose columns are all text, some rows at a time.

    A column without a name is called Unnamed: 0, with the number of its position, as in pandas. If
    every row has one cell more than the header, as in files from R, the first column has no name.
    There is at least one table, even if there are no rows.

    Args:
        content: The file.

    Raises:
        TableError: If the bytes are not UTF-8 text, or not a table with named columns.
    """
    path, texts = content.path, _texts(content)
    text = next(texts, "")
    delimiter = _delimiter(text)
    rows = _numbered_rows(_lines(iter([text])), delimiter, path)
    header = next((_Header(row, line) for line, row in rows if not _is_blank(row)), None)
    if header is None:
        raise TableError(f"{path} is empty.")
    check_num_columns(len(header.names), str(path))
    names = [name.strip() for name in header.names]
    row = next(rows, None)
    if row is not None and len(row[1]) == len(names) + 1 and len(names) > 1:
        names = ["", *names]  # R leaves out the name of its row names
    checked = _checked_names(names, path)
    metadata = {} if delimiter == "," else {DECIMAL_COMMAS: b"1"}
    for columns in _parts(path, itertools.chain([text], texts), delimiter, header, len(names)):
        yield pyarrow.table(columns, names=checked).replace_schema_metadata(metadata)


def _parts(
    path: Path, texts: Iterator[str], delimiter: str, header: _Header, num_columns: int
) -> Iterator[list[Any]]:
    """The columns of each block; after a block that is not well-formed, of some rows at a time."""
    num_lines, skipped = 0, header.line
    for text in texts:
        columns = _quick_columns(text, delimiter, header._replace(line=skipped))
        if columns is None:
            lines = _lines(itertools.chain([text], texts))
            rows = _numbered_rows(lines, delimiter, path, num_lines)
            rows = itertools.dropwhile(lambda row: row[0] <= header.line, rows)
            yield from _columns(_full_rows(rows, num_columns, path), num_columns)
            return
        yield columns
        num_lines, skipped = num_lines + _num_lines(text), 0


def _texts(content: Content) -> Iterator[str]:
    """Blocks of whole rows, checked to be text."""
    num_lines = 0
    for number, block in enumerate(_blocks_of_rows(content.pieces())):
        text = _decoded(block, content.path, num_lines)
        num_lines += block.count(b"\n")
        yield text if number else text.removeprefix("\ufeff")


def _blocks_of_rows(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Pieces of a file, joined and cut between rows, outside of quotation marks."""
    rest = bytearray()
    for piece in pieces:
        rest += piece
        if len(rest) < BLOCK_SIZE:
            continue
        if end := _end_of_rows(rest):
            yield bytes(rest[:end])
            del rest[:end]
        elif len(rest) > MOST_WITHOUT_END:
            rest += b"".join(pieces)
    if rest:
        yield bytes(rest)


def _end_of_rows(data: bytearray) -> int:
    """The end of the last row up to which all quotation marks are in pairs."""
    end = data.rfind(b"\n") + 1
    num_quotes = data.count(b'"', 0, end)
    while num_quotes % 2:
        earlier = data.rfind(b"\n", 0, data.rfind(b'"', 0, end)) + 1
        num_quotes -= data.count(b'"', earlier, end)
        end = earlier
    return end


def _decoded(data: bytes, path: Path, num_lines: int) -> str:
    """The text of a block that comes after `num_lines` lines."""
    if num_lines == 0 and data[:2] in UTF_16_MARKS:
        raise TableError(
            f"{path} is UTF-16 text, not UTF-8 "
            "(convert it, for example with iconv -f utf-16 -t utf-8)."
        )
    if len(data.translate(None, BINARY)) < len(data):
        offset = next(number for number, byte in enumerate(data) if byte in BINARY)
        line = num_lines + _line_of(data, offset)
        raise TableError(f"{path} is not text: line {line} has the byte 0x{data[offset]:02x}.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = num_lines + _line_of(data, error.start)
        raise TableError(
            f"{path} is not UTF-8 text: line {line} has the byte "
            f"0x{data[error.start]:02x} (convert it, for example with iconv -f latin1 -t utf-8)."
        ) from None


def _line_of(data: bytes, offset: int) -> int:
    return data.count(b"\n", 0, offset) + 1


def _num_lines(text: str) -> int:
    """The number of lines in a block of whole rows, as the csv module counts them."""
    return sum(1 for _ in io.StringIO(text, newline="")) if "\r" in text else text.count("\n")


def _delimiter(text: str) -> str:
    """The delimiter that splits the header and most consistently the rows below it.

    White space is used only if no other delimiter splits the header and if most rows agree with it,
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
    lines = io.StringIO(text, newline="")
    rows = (row for row in _reader(lines, delimiter, strict=False) if not _is_blank(row))
    lengths = []
    with contextlib.suppress(csv.Error):  # a cell that is too long
        lengths.extend(len(row) for row in itertools.islice(rows, NUM_SNIFFED + 1))
    num_cells, *below = lengths or [0]
    agreeing = max(sum(n == num for n in below) for num in (num_cells, num_cells + 1))
    return num_cells > 1, agreeing / max(len(below), 1), num_cells


def _lines(texts: Iterable[str]) -> Iterator[str]:
    """The lines of all blocks; each block ends where a row ends."""
    for text in texts:
        yield from io.StringIO(text, newline="")


def _reader(lines: Iterable[str], delimiter: str, strict: bool):
    if delimiter == " ":
        lines = (line.strip().replace("\t", " ") for line in lines)
    return csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=strict)


def _numbered_rows(
    lines: Iterable[str], delimiter: str, path: Path, num_lines: int = 0
) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the number of its last line; `num_lines` lines precede the first row."""
    reader = _reader(lines, delimiter, strict=True)
    try:
        for row in reader:
            yield num_lines + reader.line_num, row
    except csv.Error as error:
        line = num_lines + reader.line_num
        if "field limit" in str(error):
            raise TableError(
                f"{path} must have cells of at most {csv.field_size_limit():,} characters; got a "
                f"longer one in line {line} (perhaps a quote is not closed)."
            ) from None
        raise TableError(
            f"{path} has an unclosed or misplaced quote, noticed in line {line}: {one_line(error)}."
        ) from None


def _is_blank(row: list[str]) -> bool:
    return not row or (len(row) == 1 and not row[0].strip())


def _quick_columns(text: str, delimiter: str, header: _Header) -> list[Any] | None:
    """The columns as split by arrow; None if the csv module might split them differently."""
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
            column_types=dict.fromkeys(names, pyarrow.string()), strings_can_be_null=False
        ),
    }
    try:
        columns = pyarrow.csv.read_csv(pyarrow.BufferReader(text.encode()), **options).columns
    except pyarrow.ArrowInvalid:  # rows of several lengths, or none at all
        return None
    return None if any(map(_has_long_cell, columns)) else columns


def _has_long_cell(column: pyarrow.ChunkedArray) -> bool:
    """Whether a cell may be longer than the csv module allows."""
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


def _columns(rows: Iterator[list[str]], num_columns: int) -> Iterator[list[pyarrow.Array]]:
    """The cells of each column, some rows at a time; without any rows, once."""
    batch = list(itertools.islice(rows, ROWS_PER_CHUNK))
    while True:
        cells = zip(*batch, strict=True) if batch else [()] * num_columns
        yield [pyarrow.array(column, pyarrow.string()) for column in cells]
        if not (batch := list(itertools.islice(rows, ROWS_PER_CHUNK))):
            return
