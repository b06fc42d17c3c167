"""Facts about the way in and out: help, typer's own errors, and streams that are closed or odd."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bbalpha.engine.checks import warn
from bbalpha.interfaces import estimator_file

COMMANDS = ("fit", "predict", "evaluate", "inspect", "compare", "explore", "export")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command, done):
    result = done(*command.split(), "--help")
    assert result.stderr == ""
    assert f"Usage: bbalpha {command}".strip() in result.stdout
    assert f"bbalpha {command}".strip() in result.stdout.partition("Options:")[0].split("\n", 1)[1]
    assert result.stdout == done(*command.split(), "-h").stdout


def test_no_arguments_give_the_help(done):
    assert done().stdout == done("--help").stdout


@pytest.mark.parametrize(
    ("args", "message", "command"),
    [
        (["fitt"], "No such command 'fitt'. Did you mean 'fit'?", "bbalpha"),
        (["fit"], "Missing argument 'DATA'.", "bbalpha fit"),
        (["fit", "t.csv"], "Missing option '--target'.", "bbalpha fit"),
        (["fit", "t.csv", "--target"], "Option '--target' requires an argument.", "bbalpha"),
        (["inspect", "m", "--epoch", "3"], "No such option: --epoch", "bbalpha inspect"),
        (["inspect", "a", "b"], "Got unexpected extra argument(s) (b)", "bbalpha inspect"),
    ],
)
def test_errors_of_typer_are_printed_as_they_are_with_a_way_to_the_help(
    run, args, message, command
):
    result = run(*args)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {message}\nTry '{command} --help' for help.\n"


def test_a_wrong_option_is_told_the_nearest(run):
    options = ["--target", "y", "--epoch", "3"]
    first, _ = run("fit", "t.csv", *options).stderr.splitlines()
    assert first.startswith("Error: No such option: --epoch (Possible options: --epochs")


def test_a_closed_pipe_gives_no_traceback(started):
    with started("--help") as process:
        process.stdout.close()
        assert process.stderr.read() == ""


def test_an_encoding_without_greek_letters_is_no_obstacle(started):
    process = started("--help", env=os.environ | {"PYTHONIOENCODING": "latin-1"})
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert r"\u03b1-divergence" in out


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("args", [["--help"], ["inspect"], ["inspect", "--json"]])
def test_a_full_device_for_standard_output_is_told(started, prices, args):
    with Path("/dev/full").open("w") as full:
        process = started(*args, *([prices] if "inspect" in args else []), stdout=full)
        _, err = process.communicate()
    assert process.returncode == 2
    assert err == "Error: standard output cannot be written: no space left on device.\n"


def test_a_closed_standard_output_is_told():
    command = ["sh", "-c", 'exec "$0" -m bbalpha --help >&-', sys.executable]
    result = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (2, "Error: standard output is closed.\n")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_remarks_that_cannot_be_written_cost_nothing(started):
    with Path("/dev/full").open("w") as full:
        process = started("inspect", "nowhere", stderr=full)
        process.communicate()
    assert process.returncode == 2


@pytest.mark.parametrize(
    ("error", "details"),
    [
        (MemoryError(), ""),
        (MemoryError("Unable to allocate 7 TiB."), r" \(Unable to allocate 7 TiB\)"),
        (RuntimeError("RESOURCE_EXHAUSTED: Out of memory."), r" \(RESOURCE_EXHAUSTED: Out of.*\)"),
    ],
)
def test_want_of_memory_is_told(run, monkeypatch, folder, prices, error, details):
    def fail(path):
        raise error

    monkeypatch.setattr("bbalpha.cli.saved.read_model", fail)
    result = run("predict", prices, folder / "prices.csv")
    assert result.exit_code == 2
    assert re.fullmatch(f"Error: there is not enough memory{details}\\.\n", result.stderr)


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("command", ["predict", "evaluate"])
def test_warnings_about_a_model_are_sentences(folder, prices, done, monkeypatch, command):
    def read(*args, read=estimator_file.read):
        warn("the model is odd.")
        return read(*args)

    monkeypatch.setattr(estimator_file, "read", read)
    args = [command, prices, folder / "prices.csv"]
    assert done(*args).stderr == "Warning: the model is odd.\n"
    assert done(*args, "--json").stderr == ""
    if command == "predict":
        assert done(*args, "--quiet").stderr == ""


@pytest.mark.filterwarnings("default")
def test_warnings_before_the_work_are_sentences(prices, done, monkeypatch):
    def check_input(path):
        warn("the file is odd.")

    monkeypatch.setattr("bbalpha.cli.inspect.check_input", check_input)
    assert done("inspect", prices).stderr == "Warning: the file is odd.\n"
