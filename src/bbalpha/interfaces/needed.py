"""Optional libraries: an error that says how to install one that is missing or too old."""

import importlib.metadata
import re


def check_installed(package: str, least: tuple[int, int], what: str) -> None:
    """Raise unless a package is installed in a version that is new enough.

    Args:
        package: its name, which is also the name of the extra that installs it.
        least: the oldest version that is new enough.
        what: the part of bbalpha that needs it.

    Raises:
        ImportError: if it is missing or too old, with the command that installs it.
    """
    needed, remedy = ".".join(map(str, least)), f"pip install 'bbalpha[{package}]'"
    try:
        found = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise ImportError(f"{what} needs {package} {needed} or newer: {remedy}.") from None
    if tuple(map(int, re.findall(r"\d+", found)[:2])) < least:
        raise ImportError(f"{what} needs {package} {needed} or newer; got {found}: {remedy}.")
