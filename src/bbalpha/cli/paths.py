"""Paths on the command line: checked before the work starts, and replaced whole after it."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bbalpha import files
from bbalpha.cli.doors import Refusal
from bbalpha.files.atomic import check_writable
from bbalpha.files.naming import files_in_query, files_of

PICTURES = (".png", ".pdf", ".svg")
PROBE = "checkpoint"  # name of the file created to test whether a folder can be written to


def check_input(path: Path) -> None:
    """Refuse a file that is not there, without importing the libraries that read it."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise Refusal(f"{path} does not exist.") from None
    except OSError as error:
        raise Refusal(f"{path} cannot be read: {_reason(error)}.") from None
    if path.is_dir():
        raise Refusal(f"{path} is a folder, not a file.")


def check_data(source: Path | str) -> list[Path]:
    """The files of a table; refuse one that is not there, without importing what reads it."""
    if isinstance(source, str):
        return files_in_query(source)
    try:
        files = files_of(source)
    except OSError as error:
        raise Refusal(f"{source} cannot be read: {_reason(error)}.") from None
    if not files:
        what = "is a folder, not a file" if source.is_dir() else "matches no file"
        raise Refusal(f"{source} {what}.")
    for file in files:
        check_input(file)
    return files


def check_output(
    path: Path, option: str, others: Sequence[Path], may_be_device: bool = False
) -> None:
    """Refuse a path that cannot be written, or that is one of the other files of the command.

    Args:
        path: The file to be written.
        option: The option that names it.
        others: Files that must stay as they are.
        may_be_device: Whether the path may be a device such as /dev/null.
    """
    try:
        if path == Path():  # an empty name is read like this, too
            raise Refusal(f"{option} must name a file; got '' or the current folder.")
        if path.is_dir():
            raise Refusal(f"{option} must be a file; got the folder {path}.")
        if any(_same_file(path, other) for other in others):
            raise Refusal(f"{option} must not be another file of the command; got {path} twice.")
        is_device = path.exists() and not path.is_file()
        if is_device and not may_be_device:
            raise Refusal(f"{option} must be a file; got the device {path}.")
        if not is_device:
            check_writable(path)
    except OSError as error:
        raise _unwritable(path, option, error) from None


def check_folder(path: Path, option: str, others: Sequence[Path]) -> None:
    """Refuse a folder that cannot be created or written to, or that is a file of the command.

    Args:
        path: The folder.
        option: The option that names it.
        others: Files of the command.
    """
    if any(_same_file(path, other) for other in others):
        raise Refusal(f"{option} must not be another file of the command; got {path} twice.")
    if path.exists() and not path.is_dir():
        raise Refusal(f"{option} must be a folder; got the file {path}.")
    if path.is_symlink() and not path.exists():
        raise Refusal(f"{option} must be a folder; got {path}, a link to nowhere.")
    place = next(folder for folder in (path, *path.absolute().parents) if folder.exists())
    try:
        check_writable(place / PROBE)
    except OSError as error:
        problem = f"got {path}: {_reason(error)}"
        raise Refusal(f"{option} must be a folder that can be written to; {problem}.") from None


def check_picture(path: Path, option: str) -> None:
    """Refuse a file name whose suffix is not a known picture format."""
    if path.suffix.lower() not in PICTURES:
        *others, last = PICTURES
        raise Refusal(f"{option} must end in {', '.join(others)} or {last}; got {path}.")


@contextmanager
def replacing(path: Path, option: str) -> Iterator[Path]:
    """`bbalpha.files.replacing`, with a refusal if the file cannot be written."""
    try:
        with files.replacing(path) as temporary:
            yield temporary
    except OSError as error:
        raise _unwritable(path, option, error) from None


def _same_file(path: Path, other: Path) -> bool:
    """Whether both paths lead to the same file, perhaps under two names."""
    with contextlib.suppress(OSError):
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)  # for a file that is not there yet


def _unwritable(path: Path, option: str, error: OSError) -> Refusal:
    return Refusal(f"{option} must be a file that can be written; got {path}: {_reason(error)}.")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
