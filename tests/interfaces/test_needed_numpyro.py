"""Importing the interface where NumPyro is missing, or too old to have what it needs."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import bbalpha

CHILD = """
try:
    import bbalpha.interfaces.numpyro
except ImportError as error:
    print(error)
"""
NEEDED = "bbalpha.interfaces.numpyro needs numpyro 0.22 or newer"


def import_among(packages):
    """What an import prints where only these packages are installed."""
    source = Path(bbalpha.__file__).parents[1]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (source, packages)))}
    command = [sys.executable, "-S", "-c", CHILD]  # without the packages of this Python
    found = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return found.stdout.strip()


@pytest.fixture
def packages(tmp_path):
    """A folder of all installed packages but NumPyro."""
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.startswith("numpyro"):
            (tmp_path / entry.name).symlink_to(entry)
    return tmp_path


def test_without_numpyro_the_import_names_the_command_that_installs_it(packages):
    assert import_among(packages) == f"{NEEDED}: pip install 'bbalpha[numpyro]'."


def test_an_old_numpyro_is_refused_before_any_of_it_is_imported(packages):
    information = packages / "numpyro-0.15.3.dist-info"
    information.mkdir()
    text = "Metadata-Version: 2.1\nName: numpyro\nVersion: 0.15.3\n"
    (information / "METADATA").write_text(text)
    (packages / "numpyro.py").write_text("raise SystemError")
    found = import_among(packages)
    assert found == f"{NEEDED}; got 0.15.3: pip install 'bbalpha[numpyro]'."
