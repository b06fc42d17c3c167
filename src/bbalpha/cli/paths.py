"""Paths: files, checked before the work; those that are written are replaced whole after it."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bbalpha.cli.doors import Refusal


def check_output(
    path: Path, option: str, others: Sequence[Path], may_be_device: bool = False
) -> None:
    """Refuse a path that could not be written, or that is one of the other files of the command.

    Args:
        path: The file that will be written.
        option: What the user calls it.
        others: Files that must stay as they are.
        may_be_device: Whether something like /dev/null will do.
    """
    try:
        if path.is_dir():
            raise Refusal(f"{option} must be a file; got the folder {path}.")
        if any(path.resolve() == other.resolve() or _same_file(path, other) for other in others):
            raise Refusal(f"{option} must not be another file of the command; got {path} twice.")
        is_device = path.exists() and not path.is_file()
        if is_device and not may_be_device:
            raise Refusal(f"{option} must be a file; got the device {path}.")
        if not is_device:
            temporary_name(path).touch()
            temporary_name(path).unlink()
    except OSError as error:
        raise _unwritable(path, option, error) from None


def check_model(path: Path) -> None:
    """Refuse a model that is not there, before anything is imported."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing of that name"
        raise Refusal(f"{path} must be a model file; got {found}.")


@contextmanager
def replacing(path: Path, option: str) -> Iterator[Path]:
    """A name to write under, which becomes the file if all goes well and disappears otherwise."""
    try:
        yield temporary_name(path)
        temporary_name(path).replace(path)
    except OSError as error:
        raise _unwritable(path, option, error) from None
    finally:
        with contextlib.suppress(OSError):
            temporary_name(path).unlink()


def temporary_name(path: Path) -> Path:
    """Where a file is written before it takes its name."""
    return path.with_name(f".{path.name}.{os.getpid()}")


def _same_file(path: Path, other: Path) -> bool:
    """Whether both are one file under two names."""
    with contextlib.suppress(OSError):
        return path.samefile(other)
    return False


def _unwritable(path: Path, option: str, error: OSError) -> Refusal:
    reason = (error.strerror or str(error)).lower()
    return Refusal(f"{option} must be a file that can be written; got {path}: {reason}.")
