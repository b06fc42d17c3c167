"""Files written whole or not at all: first under a temporary name, then renamed."""

import contextlib
import errno
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".bbalpha-"  # of temporary names, so that a killed process's leftovers can be recognized
TOKEN_BYTES = 8  # of randomness in a temporary name
LONGEST_NAME = 255  # bytes; the limit of common file systems
OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A new file to write, which replaces `path` if the block ends without an error.

    The temporary file lies in the same folder under a random name with the same suffixes, and only
    its owner can read it. If the block fails, the temporary file is removed and `path` is left as
    it was. The new file keeps the permissions of the old one, a symbolic link keeps pointing to its
    target, and a device or a pipe is written to instead of being replaced.

    Raises:
        OSError: If the file cannot be written.

    >>> import pathlib, tempfile
    >>> from bbalpha.files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "result.txt")
    ...     with replacing(path) as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     path.read_text()
    'all of it'
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    # Before links are resolved: /dev/stdout may be a link to a pipe, which has no path.
    if path.exists() and not path.is_file():
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder, "whole").with_suffix(path.suffix)
            yield whole
            path.write_bytes(whole.read_bytes())
        return
    target = Path(os.path.realpath(path))
    temporary = target.with_name(_temporary_name(target))
    try:
        with _naming(path):
            temporary.touch(exist_ok=False)
            permissions = stat.S_IMODE((target if target.is_file() else temporary).stat().st_mode)
            temporary.chmod(OWNER_ONLY)
        yield temporary
        with _naming(path):
            temporary.chmod(permissions)  # also if the writer has recreated the file
            _flush(temporary)
            temporary.replace(target)
            _flush(target.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files of killed processes from a folder that no other one writes to."""
    for leftover in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            leftover.unlink()


def _temporary_name(path: Path) -> str:
    """A random name with the suffixes of the path, unless it would be too long."""
    name = f"{PREFIX}{secrets.token_hex(TOKEN_BYTES)}"
    for suffixes in (path.suffixes[-2:], path.suffixes[-1:]):
        suffixed = name + "".join(suffixes)
        if len(os.fsencode(suffixed)) <= LONGEST_NAME:
            return suffixed
    return name


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Name the path that the caller knows, rather than the temporary one, in an error."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, where the system allows it."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
