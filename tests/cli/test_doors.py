"""Facts about the way in and out: help, typer's own errors, and streams that are closed or odd."""

import os

import pytest

COMMANDS = ("fit", "predict", "evaluate", "inspect", "compare")


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
