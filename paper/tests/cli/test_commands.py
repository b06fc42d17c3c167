"""The program: help, refusals, and how quickly they come."""

import os
import pty
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from bbalpha.cli import refusing
from bbalpha_paper.cli import app

COMMANDS = ["run", "report", "datasets", "datasets list", "datasets fetch"]
HEAVY = {"jax", "matplotlib", "numpy", "pandas", "pyarrow", "scipy", "sklearn"}


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


def started(*args, **settings):
    """The command in a process of its own."""
    command = [sys.executable, "-m", "bbalpha_paper", *map(str, args)]
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
    return subprocess.Popen(command, **settings)


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help_with_an_example(command):
    result = run(*command.split(), "--help")
    assert (result.exit_code, result.stderr) == (0, "")
    before_options, _, _ = result.stdout.partition("Options:")
    usage, text = before_options.split("\n", 1)
    assert usage.startswith(f"Usage: bbalpha-paper {command}".strip())
    assert f"bbalpha-paper {command}".strip() in text
    assert result.stdout == run(*command.split(), "-h").stdout


def test_no_arguments_give_the_help():
    assert run().stdout == run("--help").stdout


def test_an_unknown_command_is_refused_with_the_nearest():
    result = run("rum")
    assert result.exit_code == 2
    assert "No such command 'rum'. Did you mean 'run'?" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["run", "--help"],
        ["run", "probid"],
        ["report", "--help"],
        ["report", "none"],
        ["datasets"],
        ["datasets", "fetch", "yachts"],
    ],
    ids=" ".join,
)
def test_help_and_refusals_come_without_heavy_libraries(args):
    code = f"""
import contextlib, io, sys
from bbalpha_paper.cli import app
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    app({args!r})
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {module.partition(".")[0] for module in done.stdout.split()}
    assert "bbalpha_paper" in loaded
    assert not HEAVY & loaded


def test_the_program_runs_an_experiment_and_makes_its_page(tmp_path):
    options = ["--scale", "smoke", "--data", "example-1", "--alphas", "1"]
    for added in ("1 run", "0 runs"):
        process = started("run", "linear", *options, cwd=tmp_path)
        assert process.communicate() == ("", f"linear: {added} added to results.\n")
        assert process.returncode == 0
    process = started("report", cwd=tmp_path)
    assert process.communicate() == ("", "1 run of 1 experiment: report.html\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "results"]


def test_a_closed_pipe_gives_no_traceback():
    with started("datasets") as process:
        process.stdout.close()
        assert process.stderr.read() == ""


def test_a_terminal_gets_a_table_with_lines():
    ours, theirs = pty.openpty()
    with started("datasets", stdout=theirs, env=os.environ | {"TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        while piece := read(ours):
            shown += piece
        os.close(ours)
    assert process.returncode == 0
    assert "│" in shown.decode()
    assert "…" not in shown.decode()


def read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""


def test_a_defect_keeps_its_traceback():
    """An error that the package did not raise on purpose is not turned into a sentence."""
    with pytest.raises(ValueError, match="a defect"), refusing(ValueError):
        raise ValueError("a defect")
