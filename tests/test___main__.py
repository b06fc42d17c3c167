"""Facts about the program: its version, its libraries, and what it loads before it answers."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

HEAVY = {"jax", "matplotlib", "numpy", "pandas", "pyarrow", "rich", "sklearn"}
EXTRA = ("matplotlib", "pandas", "pyarrow", "typer")


def test_the_version_is_that_of_the_package():
    program = Path(sys.executable).with_name("bbalpha")
    for command in ([program], [sys.executable, "-m", "bbalpha"]):
        result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        assert re.fullmatch(r"bbalpha \d+\.\d+\.\d+\n", result.stdout)


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        *(([name], name) for name in EXTRA),
        (["typer", "pandas"], "pandas and typer"),
        (EXTRA, "matplotlib, pandas, pyarrow and typer"),
    ],
)
def test_a_missing_library_is_told_before_anything_is_read(tmp_path, missing, words):
    code = f"""
import sys
sys.modules.update(dict.fromkeys({missing!r}))
sys.argv = ["bbalpha", "fit", "no.csv", "--target", "y"]
from bbalpha.__main__ import main
main()
"""
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == (
        f'Error: the bbalpha command needs {words}; install with pip install "bbalpha[cli]".\n'
    )


def modules_after(*args):
    """The top-level modules that a fresh interpreter has loaded after a command."""
    code = f"""
import contextlib, io, sys
from bbalpha.cli import app
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    app({list(map(str, args))!r})
print(*sys.modules)
"""
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return {module.partition(".")[0] for module in loaded}


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["fit", "--help"],
        ["inspect", "no"],
        ["fit", "no.csv", "--target", "y"],
        ["fit", __file__, "--target", "y", "--epochs", "0"],
        ["predict", __file__, "no.csv"],
    ],
)
def test_what_needs_no_data_loads_nothing_heavy(args):
    assert not HEAVY & modules_after(*args)


def test_a_wrong_table_is_told_before_jax_is_loaded(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("x,y\n1,a\n1,b\n")
    options = ["--target", "x", "--output", tmp_path / "m.safetensors"]
    loaded = modules_after("fit", table, *options)
    assert "pyarrow" in loaded
    assert not {"jax", "matplotlib", "sklearn"} & loaded
