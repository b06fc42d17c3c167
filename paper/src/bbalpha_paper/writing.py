"""Writing files: folders are made, whole files replaced, and failures told in one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bbalpha.files import replacing


def write_text(file: Path, text: str) -> None:
    """Write a file whole, in place of the old one if there is one.

    Raises:
        OSError: If the file cannot be written.
    """
    with writing(file), replacing(file) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def writing(file: Path) -> Iterator[None]:
    """Make the folder of a file that the block writes, and explain a failure in one sentence.

    Raises:
        OSError: If the file cannot be written.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise OSError(f"Could not write {file}: {reason}.") from error
