"""Files written whole or not at all: first under a temporary name, then renamed.

The name of a temporary file says which process on which machine writes it. So the leftovers of
killed processes can be removed later without touching files that are still being written.
"""

import contextlib
import errno
import hashlib
import os
import platform
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from bbalpha.engine.leaving import before_leaving

PREFIX = ".bbalpha-"  # of temporary names
TOKEN_BYTES = 8  # random bytes in a temporary name
# A whole temporary name: its machine, its process, a token, and the suffixes of a path.
OWNED = re.compile(
    rf"{re.escape(PREFIX)}([0-9a-f]{{8}})-([0-9]+)-[0-9a-f]{{{2 * TOKEN_BYTES}}}(\..*)?", re.DOTALL
)
LONGEST_NAME = 255  # bytes; the limit of common file systems
OWNER_ONLY = stat.S_IRUSR | stat.S_IWUSR
DAY = 86400.0  # seconds, after which a file of a process on another machine counts as left over
# Errors of systems that cannot flush such a file, or cannot open a folder.
CANNOT_FLUSH = {errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EACCES, errno.EPERM}

_in_use: dict[Path, int] = {}  # files to remove if the process ends now, and its number


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A new file to write, which replaces `path` if the block ends without an error.

    The temporary file is in the same folder, has a random name with the same suffixes, and can be
    read only by its owner. If the block fails, the temporary file is removed and `path` is left as
    it was. The new file gets the permissions of the old one; a symbolic link keeps pointing to its
    target; a device or a pipe is written to instead of being replaced. Temporary files that killed
    processes have left in the folder are removed.

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
        with _temporary_file(path, Path(tempfile.gettempdir())) as temporary:
            yield temporary
            path.write_bytes(temporary.read_bytes())
        return
    target = _target(path)
    with _temporary_file(path, target.parent) as temporary:
        with _naming(path):
            permissions = stat.S_IMODE((target if target.is_file() else temporary).stat().st_mode)
            temporary.chmod(OWNER_ONLY)
        yield temporary
        with _naming(path):
            temporary.chmod(permissions)  # also if the writer has recreated the file
            _flush(temporary)
            temporary.replace(target)
            _flush(target.parent)


def check_writable(path: Path) -> None:
    """Create a file with the name of `path` in a temporary folder next to it, and remove both.

    Raises:
        OSError: If they cannot be created, so that `replacing` would fail.
    """
    target = _target(path)
    remove_leftovers(target.parent)
    folder = target.with_name(_temporary_name(target))
    with _naming(path), _removed_later(folder):
        folder.mkdir()
        (folder / target.name).touch()


def remove_leftovers(folder: Path) -> None:
    """Remove the temporary files that killed processes have left in a folder.

    Files of living processes stay. Whether a process on another machine is alive is not known, so
    its files stay for a day.
    """
    for leftover in folder.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if _is_left(leftover):
                _remove(leftover)


def remove_own_files() -> None:
    """Remove the temporary files of this process, which is about to end."""
    for path, process in list(_in_use.items()):
        if process == os.getpid():  # not those of a process that it was forked from
            with contextlib.suppress(OSError):
                _remove(path)


def _target(path: Path) -> Path:
    """The file that a path leads to, through all symbolic links."""
    target = Path(os.path.realpath(path))
    with _naming(path):
        if target.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return target


@contextmanager
def _temporary_file(path: Path, folder: Path) -> Iterator[Path]:
    """An empty file for the content of `path`, removed after the block."""
    remove_leftovers(folder)
    temporary = folder / _temporary_name(path)
    with _removed_later(temporary):
        with _naming(path):
            temporary.touch(exist_ok=False)
        yield temporary


@contextmanager
def _removed_later(path: Path) -> Iterator[None]:
    """Remove a file or a folder after the block, or earlier if the process leaves."""
    _in_use[path] = os.getpid()
    try:
        yield
    finally:
        try:
            with contextlib.suppress(OSError):
                _remove(path)
        finally:  # if Ctrl-C comes in between, the next sweep finds the file
            del _in_use[path]


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _temporary_name(path: Path) -> str:
    """A random name with the suffixes of the path, unless that would be too long."""
    name = f"{PREFIX}{_machine()}-{os.getpid()}-{secrets.token_hex(TOKEN_BYTES)}"
    for suffixes in (path.suffixes[-2:], path.suffixes[-1:]):
        suffixed = name + "".join(suffixes)
        if len(os.fsencode(suffixed)) <= LONGEST_NAME:
            return suffixed
    return name


@cache
def _machine() -> str:
    """Eight digits for this machine, or for a container with its own process numbers."""
    try:
        processes = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        processes = ""
    return hashlib.sha256(f"{platform.node()} {processes}".encode()).hexdigest()[:8]


def _is_left(path: Path) -> bool:
    """Whether the process that wrote a temporary file has ended, as far as one can know."""
    owner = OWNED.fullmatch(path.name)
    if owner is None:  # somebody's own file
        return False
    if owner[1] != _machine() or os.name != "posix":
        return time.time() - path.lstat().st_mtime > DAY
    if int(owner[2]) == os.getpid():
        # A name that is not in use is from an earlier process with the same number.
        return path.name not in {used.name for used in list(_in_use)}
    return not _is_alive(int(owner[2]))


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # somebody else's
        return True
    return True


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """In errors, name the path that the caller knows rather than the temporary one."""
    try:
        yield
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk, if the system supports that.

    Raises:
        OSError: If the disk is full or broken.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in CANNOT_FLUSH:
            raise


before_leaving.append(remove_own_files)
