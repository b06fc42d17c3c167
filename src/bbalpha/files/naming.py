"""Names of tables: a file, a folder of files, a pattern such as flights/*.parquet, or a query.

This module tells which, and finds the files, without reading them.
"""

import glob
import re
from pathlib import Path

COMPRESSED_SUFFIXES = (".gz", ".bz2", ".xz", ".zip", ".zst")
PARQUET_SUFFIXES = (".parquet", ".pq")
JSON_SUFFIXES = (".jsonl", ".ndjson")
TAB_SUFFIXES = (".tsv", ".tab")
IN_FOLDERS = (*PARQUET_SUFFIXES, *JSON_SUFFIXES, ".csv", *TAB_SUFFIXES)
WILD = re.compile(r"[*?[]")
HIDDEN = (".", "_")  # first characters of files that other programs leave in a folder of tables
QUERY = re.compile(r"\s*(SELECT|WITH|FROM)\s", re.IGNORECASE)
TEXT = re.compile(r"'((?:[^']|'')*)'")  # in a query


def is_query(text: str) -> bool:
    """Whether a text is a query rather than the name of a file."""
    return bool(QUERY.match(text)) and not _exists(Path(text))


def files_in_query(query: str) -> list[Path]:
    """The files that a query names."""
    named = (Path(text.replace("''", "'")) for text in TEXT.findall(query))
    return [file for path in named for file in files_of(path) if _exists(file)]


def files_of(path: Path) -> list[Path]:
    """The files that a name stands for: itself, those in a folder, or those matching a pattern."""
    if not _exists(path) and WILD.search(str(path)):
        matches = glob.glob(str(path))  # noqa: PTH207  the pattern may begin at the root
        return sorted(Path(name) for name in matches if not Path(name).is_dir())
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.iterdir() if _is_table(file))


def inner_name(path: Path) -> Path:
    """The name of a file without the suffix of a compression."""
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED_SUFFIXES else path


def name_of_source(source: Path | str) -> str:
    """A name for an output made from a source: the name of the file or folder, without suffixes."""
    if isinstance(source, str):
        return "query"
    if source.is_dir():
        return source.resolve().name or "table"
    if WILD.search(source.name) and not _exists(source):
        return source.absolute().parent.name or "table"
    return inner_name(Path(source.name)).stem


def _is_table(path: Path) -> bool:
    """Whether a file in a folder is a table, judging by its name."""
    is_shown = not path.name.startswith(HIDDEN)
    return is_shown and inner_name(path).suffix.lower() in IN_FOLDERS and path.is_file()


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # too long for a name, or with a zero byte
        return False
