"""Files written whole or not at all: under a temporary name first, then renamed."""

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PREFIX = ".bbalpha-"  # of temporary names, so that leftovers of a killed process can be recognized


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A new file to write, which takes the place of `path` when the block ends without an error.

    The temporary file lies in the same folder under a random name and disappears if the block
    fails; until the end, whatever was at `path` stays as it was. An existing file passes on its
    permissions, a symbolic link keeps pointing to its target, and a device or a pipe is written to,
    not replaced.

    Raises:
        OSError: if the file cannot be written.

    >>> import pathlib, tempfile
    >>> from bbalpha.files import replacing
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "result.txt")
    ...     with replacing(path) as temporary:
    ...         _ = temporary.write_text("all of it")
    ...     path.read_text()
    'all of it'
    """
    path = Path(os.path.realpath(path))
    if path.exists() and not (path.is_file() or path.is_dir()):
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder, "whole").with_suffix(path.suffix)
            yield whole
            path.write_bytes(whole.read_bytes())
        return
    suffixes = "".join(path.suffixes[-2:])
    temporary = path.with_name(f"{PREFIX}{secrets.token_hex(8)}{suffixes}")
    try:
        temporary.touch(exist_ok=False)
        permissions = stat.S_IMODE((path if path.is_file() else temporary).stat().st_mode)
        yield temporary
        temporary.chmod(permissions)  # a writer may have made the file anew
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink()


def _flush(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk; some systems cannot say."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
