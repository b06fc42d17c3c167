"""Parquet as a source of rows for `fit`: a file, a folder of files, or a pyarrow dataset.

A block is a row group. Pages that carry checksums are verified as they are read.
"""

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from bbalpha.data import Dataset
from bbalpha.engine.chunks import SourceError


class _Group(NamedTuple):
    """A row group: the number of its file, its number in the file, and its number of rows."""

    file: int
    number: int
    num_rows: int


class ParquetRows:
    """The rows of Parquet files, one row group at a time. Needs pyarrow (extra `cli`).

    With `targets`, a batch is a `bb.Dataset` of a floating-point matrix of inputs and the targets.
    Without, it is a dictionary from column names to values. Memory depends on the size of the row
    groups: up to 32 are held at once, within 256 MiB if they are small enough. About 65,000 rows
    per group work well. Rows that are close to each other in the file need not be shuffled.

    Args:
        path: A file, a folder of files that end in `.parquet`, or a pyarrow dataset.
        inputs: The columns of the matrix of inputs, by default all but the targets; without
            `targets`, the columns of the dictionary, by default all.
        targets: The column of the targets, or a list of columns, which make a matrix.

    >>> import tempfile, pyarrow, pyarrow.parquet
    >>> table = pyarrow.table(
    ...     {"height": [1.5, 1.7, 1.8], "age": [12, 30, 41], "weight": [40, 70, 75]}
    ... )
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pyarrow.parquet.write_table(table, f"{folder}/people.parquet", row_group_size=2)
    ...     rows = bb.ParquetRows(folder, inputs=["height", "age"], targets="weight")
    ...     print(rows.num_rows, rows.block_rows, rows.read(0).inputs.tolist())
    3 [2, 1] [[1.5, 12.0], [1.7, 30.0]]
    """

    def __init__(
        self,
        path: Any,
        inputs: Sequence[str] | None = None,
        targets: str | Sequence[str] | None = None,
    ):
        self._filesystem, self._files = _files_of(path)
        self._metadata = [self._metadata_of(file) for file in self._files]
        groups = [
            _Group(file, number, metadata.row_group(number).num_rows)
            for file, metadata in enumerate(self._metadata)
            for number in range(metadata.num_row_groups)
        ]
        self._groups = [group for group in groups if group.num_rows]
        if not self._groups:
            raise ValueError(f"data must have at least one row; got {path} without rows.")
        self.targets = targets
        wanted = [] if targets is None else [targets] if isinstance(targets, str) else [*targets]
        names = self._schema(0).names
        rest = [name for name in names if name not in wanted]
        self.inputs = rest if inputs is None else [*inputs]
        self._columns = [*self.inputs, *wanted]
        self._check_columns()

    @property
    def num_rows(self) -> int:
        """N, the number of rows in all files."""
        return sum(self.block_rows)

    @property
    def block_rows(self) -> list[int]:
        """The number of rows in each row group."""
        return [group.num_rows for group in self._groups]

    def read(self, block: int) -> PyTree:
        """The rows of a row group."""
        from pyarrow.parquet import ParquetFile

        group = self._groups[block]
        with ParquetFile(
            self._files[group.file],
            metadata=self._metadata[group.file],
            filesystem=self._filesystem,
            page_checksum_verification=True,
        ) as file:
            table = file.read_row_group(group.number, columns=self._columns, use_threads=False)
        columns = {name: self._values(table.column(name), name, block) for name in self._columns}
        if self.targets is None:
            return columns
        inputs = _matrix([columns[name] for name in self.inputs], np.float32)
        if isinstance(self.targets, str):
            return Dataset(inputs, columns[self.targets])
        return Dataset(inputs, _matrix([columns[name] for name in self.targets], np.int32))

    def place(self, block: int, row: int | None = None) -> str:
        """The place of a row group, or of a row in it, in words."""
        group = self._groups[block]
        place = f"{self._files[group.file]}, row group {group.number}"
        return place if row is None else f"{place}, row {row}"

    def identity(self) -> str:
        """A hash of the footers, which contain sizes, positions and statistics of all columns."""
        found = hashlib.blake2b(repr(self._columns).encode(), digest_size=16)
        for metadata in self._metadata:
            footer = io.BytesIO()
            metadata.write_metadata_file(footer)
            found.update(footer.getvalue())
        return found.hexdigest()

    def _metadata_of(self, file: str) -> Any:
        import pyarrow
        from pyarrow.parquet import read_metadata

        try:
            return read_metadata(file, filesystem=self._filesystem)
        except (pyarrow.ArrowInvalid, OSError) as error:
            problem = str(error).strip().rstrip(".")
            raise SourceError(f"{file} cannot be read as Parquet: {problem}.") from None

    def _schema(self, file: int) -> Any:
        return self._metadata[file].schema.to_arrow_schema()

    def _check_columns(self) -> None:
        """Raise unless every file has the columns, numeric and with the types of the first file."""
        first = self._schema(0)
        for file, path in enumerate(self._files):
            schema = self._schema(file)
            for name in self._columns:
                if schema.get_field_index(name) < 0:
                    raise ValueError(
                        f'data must have the column "{name}" once in every file; got {path} with '
                        f"{_few(schema.names)}."
                    )
                kind = schema.field(name).type
                if not _is_numeric(kind):
                    raise ValueError(
                        f'column "{name}" must be numeric, neither nested nor text; got {kind} in '
                        f"{path}. Choose columns with bb.ParquetRows(path, inputs=[…])."
                    )
                if kind != first.field(name).type:
                    raise ValueError(
                        f'column "{name}" must have the same type in all files; got {kind} in '
                        f"{path} and {first.field(name).type} in {self._files[0]}."
                    )

    def _values(self, column: Any, name: str, block: int) -> np.ndarray:
        if column.null_count:
            row = int(np.argmax(column.is_null().to_numpy()))
            raise SourceError(
                f'column "{name}" must have no missing values; got {column.null_count}, the first '
                f"in {self.place(block, row)}."
            )
        return column.to_numpy()


def _files_of(path: Any) -> tuple[Any, list[str]]:
    """The file system and the files of a path or a dataset."""
    try:
        import pyarrow.dataset
        import pyarrow.fs
    except ImportError:
        raise ImportError("Parquet needs pyarrow: pip install 'bbalpha[cli]'.") from None
    if isinstance(path, str | Path):
        path = Path(path)
        files = sorted(map(str, path.rglob("*.parquet"))) if path.is_dir() else [str(path)]
        if not files:
            raise ValueError(f"data must be a folder of files that end in .parquet; got {path}.")
        return pyarrow.fs.LocalFileSystem(), files
    kind = getattr(getattr(path, "format", None), "default_extname", None)
    if not isinstance(path, pyarrow.dataset.FileSystemDataset) or kind != "parquet":
        raise TypeError(f"data must be a dataset of Parquet files; got {type(path).__name__}.")
    try:
        path.get_fragments()
    except ValueError:
        raise ValueError("data must be a dataset without a filter; write its rows first.") from None
    return path.filesystem, path.files


def _is_numeric(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


def _matrix(columns: list[np.ndarray], least: type) -> np.ndarray:
    """The columns side by side, in a type that can hold all of them and is at least `least`."""
    matrix = np.empty((len(columns[0]), len(columns)), np.result_type(least, *columns))
    for place, column in enumerate(columns):
        matrix[:, place] = column
    return matrix


def _few(names: list[str]) -> str:
    shown = ", ".join(f'"{name}"' for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"
