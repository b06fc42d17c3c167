"""Good tables, and ways to change them: as cells, as text, as Parquet columns and as bytes."""

import csv
import gzip
import io
from datetime import date, datetime
from decimal import Decimal
from functools import cache

import numpy as np
import pyarrow
import pyarrow.parquet
from fuzz.bounded import damaged

from bbalpha.tables.compression import COMPRESSED_SUFFIXES, compressed

NUM_ROWS = 30
TARGETS = {"price": "regression", "state": "classification"}

NUMERALS = (
    *("0", "-0", "1e39", "-1e39", "1e154", "1.7e308", "-1.7e308", "1e400", "5e-324", "1e-400"),
    *(
        "inf",
        "-Infinity",
        "nan",
        "1,5",
        "1.234,5",
        "1,234.5",
        "1 234",
        "1_000",
        "0x1F",
        "１２",
        "٣",
    ),
    *("$5", "5 €", "5%", "1e", "e5", "--5", "+", "9" * 400, "0." + "0" * 400 + "1", "1.5.5", "½"),
    *("9007199254740993", "18446744073709551616", "1e5000000000", "TRUE", "yes", "no"),
)
DATES = (
    *(
        "2020-02-30",
        "31/12/2020",
        "12/31/2020",
        "03/04/20",
        "9999-12-31",
        "0001-01-01",
        "0000-00-00",
    ),
    *(
        "2020-01-01T24:00",
        "2020-13-45T99:99:99Z",
        "2020-01-01T00:00+99:99",
        "Dec 2020",
        "99999-01-01",
    ),
    *("2020-01-01 10:00:00.123456789", "1 January 2020", "20200101", "10:30", "2020W53"),
)
TEXTS = (
    *("", " ", "NA", "-", "?", "null", "#REF!", "here", "elsewhere", "x" * 2000, "x" * 140_000),
    *(
        "\x1b[31mred",
        "\x9b2J",
        "a\u202eb",
        "a\0b",
        "line\nline",
        "a\rb",
        'a"b',
        '"',
        "'",
        "a,b;c\td|e",
    ),
    *(
        "=cmd|' /C calc'!A0",
        "<script>",
        "😀" * 40,
        "é",
        "e\u0301",
        "\ufeff",
        "\u2028",
        "\x1a",
        "\x85",
    ),
)
CELLS = (*NUMERALS, *DATES, *TEXTS)
ENCODINGS = ("utf-16", "utf-16-le", "utf-8-sig", "latin-1", "cp1252", "utf-32", "utf-7")


@cache
def rows():
    """A header and rows of texts: numbers, texts, dates, pairs, and two targets."""
    stream = np.random.default_rng(0)
    size, day = stream.uniform(40, 200, NUM_ROWS), np.datetime64("2020-01-01")
    columns = {
        "size": [f"{value:.2f}" for value in size],
        "town": [("here", "there", "Ely")[n] for n in stream.integers(3, size=NUM_ROWS)],
        "sold": [str(day + int(n)) for n in stream.integers(900, size=NUM_ROWS)],
        "garden": [("yes", "no")[n] for n in stream.integers(2, size=NUM_ROWS)],
        "note": [f"house, no. {n}" for n in stream.integers(8, size=NUM_ROWS)],
        "price": [
            f"{2 * value + noise:.1f}"
            for value, noise in zip(size, stream.normal(0, 9, NUM_ROWS), strict=True)
        ],
        "state": np.where(size > 120, "kept", "lost").tolist(),
    }
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


def mutated(seed, number):
    """The name of a mutated table, its content, and what was done to it."""
    stream = np.random.default_rng([seed, number])
    table, done = [row.copy() for row in rows()], []
    if stream.random() < 0.003:
        return "bomb.csv.gz", bomb(), ["bomb"]
    for _ in range(stream.choice([0, 1, 1, 1, 2, 3])):
        change = CELL_CHANGES[stream.integers(len(CELL_CHANGES))]
        done.append(change.__name__)
        try:
            change(table, stream)
        except IndexError:
            done[-1] += " (no effect)"  # an earlier change took away what this one changes
    make = as_parquet if stream.random() < 0.35 else as_text
    name, content = make(table, stream, done)
    if stream.random() < 0.25 and content:
        content = damaged(content, stream)
        done.append("damaged")
    if stream.random() < 0.25:
        suffix = str(stream.choice(COMPRESSED_SUFFIXES))
        name, content = name + suffix, compressed(content, suffix, name)
        done.append(suffix)
        if stream.random() < 0.4:
            content = damaged(content, stream)
            done.append("damaged")
    if stream.random() < 0.02:
        name = str(stream.choice(["t.csv.gz", "t.parquet", "t.csv", "t.zst", "t.tsv", "t"]))
        done.append(name)
    return name, content, done


@cache
def bomb():
    """A few hundred kilobytes of gzip that hold 400 megabytes."""
    line = ",".join(rows()[1]).encode() + b"\n"
    return gzip.compress(",".join(rows()[0]).encode() + b"\n") + 8 * gzip.compress(line * 10**6)


def change_cells(table, stream):
    """Other texts in a few cells."""
    for _ in range(stream.integers(1, 6)):
        row, column = place(table, stream)
        table[row][column] = chosen(CELLS, stream)


def change_column(table, stream):
    """Other texts in a whole column, of one kind or of all."""
    kind = (NUMERALS, DATES, TEXTS, CELLS, (chosen(CELLS, stream),))[stream.integers(5)]
    column = int(stream.integers(len(table[0])))
    for row in table[1:]:
        if column < len(row):
            row[column] = chosen(kind, stream)


def scale_column(table, stream):
    """Sizes or prices in another unit."""
    column, power = (0, 5)[stream.integers(2)], int(stream.integers(-320, 309))
    for row in table[1:]:
        if column < len(row):
            row[column] += f"e{power}"


def change_header(table, stream):
    """Another name of a column."""
    column = int(stream.integers(len(table[0])))
    table[0][column] = chosen((*CELLS, *table[0]), stream)


def change_rows(table, stream):
    """Rows that are lost, repeated, reordered, blank, or of another length."""
    row, column = place(table, stream)
    match stream.integers(7):
        case 0:
            del table[row:]
        case 1:
            table.extend([list(table[row])] * int(stream.integers(1, 200)))
        case 2:
            table.insert(row, [])
        case 3:
            del table[row][column]
        case 4:
            table[row].append(chosen(CELLS, stream))
        case 5:
            stream.shuffle(table)
        case _:
            for each in table[1:]:
                each.insert(0, "1")


def change_columns(table, stream):
    """Columns that are lost, repeated or added."""
    _, column = place(table, stream)
    match stream.integers(4):
        case 0:
            for row in table:
                del row[column : column + 1]
        case 1:
            for row in table:
                row.extend(row[column : column + 1])
        case 2:
            for number, row in enumerate(table):
                row.append(f"c{column}" if number == 0 else chosen(NUMERALS, stream))
        case _:
            more = int(stream.choice([10, 200, 25_000], p=[0.6, 0.38, 0.02]))
            for number, row in enumerate(table):
                row.extend(f"{n}" if number else f"more {n}" for n in range(more))


CELL_CHANGES = (
    *(change_cells, change_cells, change_column, change_column, scale_column),
    *(change_header, change_rows, change_columns),
)


def place(table, stream):
    """A row with cells, and one of them."""
    full = [number for number, row in enumerate(table) if row]
    row = full[stream.integers(len(full))] if full else 0
    return row, int(stream.integers(max(len(table[row]), 1))) if full else 0


def chosen(values, stream):
    return values[stream.integers(len(values))]


def as_text(table, stream, done):
    """A name and the table as CSV, in one of many dialects."""
    buffer = io.StringIO()
    quoting = int(stream.choice([csv.QUOTE_MINIMAL] * 4 + [csv.QUOTE_ALL, csv.QUOTE_NONE]))
    dialect = {
        "delimiter": str(stream.choice([",", ",", ",", ";", "\t", "|", " "])),
        "lineterminator": str(stream.choice(["\n", "\n", "\r\n", "\r", "\n\n"])),
        "escapechar": "\\" if quoting == csv.QUOTE_NONE else None,
    }
    csv.writer(buffer, quoting=quoting, **dialect).writerows(table)
    text = buffer.getvalue()
    if stream.random() < 0.1:
        where = int(stream.integers(len(text) + 1))
        text = text[:where] + chosen((*CELLS, ",", '"', "\n", "\n\n\n"), stream) + text[where:]
        done.append("insert")
    encoding = str(stream.choice(ENCODINGS)) if stream.random() < 0.1 else "utf-8"
    done.append(f"{dialect['delimiter']!r} {encoding}")
    return "table.csv", text.encode(encoding, "replace")


def as_parquet(table, stream, done):
    """A name and the table as Parquet, with columns of any type."""
    names, cells = table[0] if table else [], table[1:]
    columns = []
    for number in range(len(names)):
        texts = [row[number] if number < len(row) else None for row in cells]
        columns.append(typed(texts, stream, done))
    table = pyarrow.Table.from_arrays(columns, names=names)
    if stream.random() < 0.1:
        extra = {b"pandas": chosen(TEXTS, stream).encode()}
        table = table.replace_schema_metadata(extra)
    sink = pyarrow.BufferOutputStream()
    codec = str(stream.choice(["snappy", "none", "gzip", "zstd", "brotli", "lz4"]))
    size = int(stream.choice([1, 7, 1000]))
    pyarrow.parquet.write_table(table, sink, compression=codec, row_group_size=size)
    done.append(f"parquet {codec}")
    return "table.parquet", sink.getvalue().to_pybytes()


def typed(texts, stream, done):
    """A column: numbers where the texts are plain numbers, or values of another type."""
    if stream.random() < 0.1:
        values = VALUES[stream.integers(len(VALUES))]
        done.append(str(values.type))
        return values.take(pyarrow.array(stream.integers(len(values), size=len(texts))))
    try:
        return pyarrow.array([None if text is None else float(text) for text in texts])
    except ValueError:
        kinds = (pyarrow.string(), pyarrow.large_string(), pyarrow.string_view())
        return pyarrow.array(texts, kinds[stream.integers(2)])


def _values():
    """A few values of many types, the extreme ones among them."""
    most = {bits: 2 ** (bits - 1) - 1 for bits in (8, 16, 32, 64)}
    for bits, largest in most.items():
        yield pyarrow.array([0, 1, largest, -largest - 1, None], f"int{bits}")
        yield pyarrow.array([0, 1, 2 * largest + 1], f"uint{bits}")
    for kind in ("float16", "float32", "float64"):
        largest = float(np.finfo(kind).max)
        values = np.array([0, -largest, largest, np.inf, np.nan, -0.0], kind)
        yield pyarrow.array(values)
        yield pyarrow.array(values[:3])
    yield pyarrow.array([Decimal("1e36"), Decimal("1.5"), None], pyarrow.decimal128(38, 1))
    yield pyarrow.array([Decimal("1e70"), Decimal(1)], pyarrow.decimal256(76, 2))
    yield pyarrow.array([True, False, None])
    yield pyarrow.array([None, None], pyarrow.null())
    for unit in ("s", "ms", "us", "ns"):
        largest = 2**62 // (1000 if unit == "s" else 1)  # Parquet has no seconds
        whole = pyarrow.array([0, largest, -largest, 10**9, None], "int64")
        yield whole.cast(pyarrow.timestamp(unit))
        yield whole.cast(pyarrow.timestamp(unit, "Europe/Berlin"))
        yield whole.cast(pyarrow.duration(unit))
    yield pyarrow.array([date(1, 1, 1), date(9999, 12, 31), None])
    yield pyarrow.array([datetime(2020, 1, 1, 10).time(), None])
    yield pyarrow.array([2**31 - 1, -(2**31)], "int32").cast(pyarrow.date32())
    yield pyarrow.array([b"\xff\x00", b"abc", None])
    yield pyarrow.array([b"abcd", b"\xff\xff\xff\xff"], pyarrow.binary(4))
    yield pyarrow.array([[1, 2], [], None])
    yield pyarrow.array([{"a": 1, "\x1b[31m": "x"}, None])
    yield pyarrow.array([[("a", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.int64()))
    yield pyarrow.array(["here", "there", "\x1b[31m", None]).dictionary_encode()
    yield pyarrow.array([1, 2, None]).dictionary_encode()
    yield pyarrow.array(TEXTS)


VALUES = tuple(_values())
