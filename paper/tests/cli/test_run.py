"""`bbalpha-paper run` refuses bad options, folders and missing data before anything is run."""

import json
import re
from dataclasses import asdict
from pathlib import Path

import pytest
from typer.testing import CliRunner

import bbalpha as bb
from bbalpha_paper.cli import app
from bbalpha_paper.experiments.problems import load_problem


def command(*args):
    return CliRunner().invoke(app, ["run", *map(str, args)], catch_exceptions=False)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["probid"], "NAME must be divergence, .* or all; got 'probid'"),
        (["probit", "--scale", "huge"], "--scale must be one of smoke, quick, paper; got 'huge'"),
        (["probit", "--alphas", "one"], "--alphas must be numbers sep.*; got --alphas 'one'"),
        (
            ["probit", "--alphas", "0.3"],
            r"--alphas must be among 1, 0\.5, .* for probit at .* 0\.3",
        ),
        (["probit", "--data", "boston"], "--data must be among ionosphere, .*; got boston"),
        (["probit", "--data", "pima,"], "--data must be among ionosphere, .*; got nothing"),
        (
            ["all", "--scale", "smoke", "--data", "cubic", "--alphas", "1e-6"],
            "--data and --alphas must select a run of divergence, .* smoke; got none",
        ),
        (["probit", "--splits", "11"], "--splits must be from 1 to 10 for .*; got 11"),
        (["mnist", "--seeds", "0"], "--seeds must be from 1 to 1 for .*; got 0"),
        (["divergence", "--epochs", "3"], "--epochs must not be given for divergence"),
        (["probit", "--epochs", "0"], "--epochs must be at least 1; got 0"),
    ],
)
def test_an_option_that_the_plan_cannot_fulfil_is_refused(tmp_path, args, message):
    result = command(*args, "--output", tmp_path / "results")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert re.search(message, line)
    assert list(tmp_path.iterdir()) == []


def test_missing_data_are_reported_before_anything_is_run(tmp_path, monkeypatch):
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path))
    load_problem.cache_clear()
    result = command("probit", "--output", tmp_path / "results")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert "folder must hold ionosphere/ionosphere.csv.gz" in line
    assert "The canonical download is https://archive.ics.uci.edu" in line
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_a_file_is_refused(tmp_path):
    file = tmp_path / "results"
    file.write_text("mine")
    result = command("linear", "--scale", "smoke", "--output", file)
    assert result.exit_code == 2
    assert "--output must be a folder" in result.stderr
    assert file.read_text() == "mine"
    result = command("linear", "--scale", "smoke", "--output", file / "below")
    assert result.exit_code == 2
    assert "--output must be a writable folder" in result.stderr


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"version": "0.0.1"}, "got version '0.0.1' in "),
        ({"settings": {"scale": "paper"}}, "got scale 'paper' in "),
        ({"alpha": "none"}, "line 1 of "),
    ],
)
def test_a_folder_of_other_rows_is_refused_before_anything_is_run(tmp_path, row, line, message):
    mine = row("toy", "cubic", 1.0, {}, settings={"scale": "smoke"}, version=bb.__version__)
    file = tmp_path / "toy" / "cubic.jsonl"
    file.parent.mkdir()
    file.write_text(json.dumps(asdict(mine) | line) + "\n")
    result = command("all", "--scale", "smoke", "--output", tmp_path)
    assert result.exit_code == 2
    (sentence,) = result.stderr.splitlines()
    assert message in sentence
    assert [path.name for path in tmp_path.iterdir()] == ["toy"]


def test_rows_that_cannot_be_written_are_reported_in_one_sentence(tmp_path):
    (tmp_path / "linear").write_text("in the way")
    result = command("linear", "--scale", "smoke", "--output", tmp_path)
    assert result.exit_code == 2
    assert re.search(r"^Error: Could not write .*example-1\.jsonl: .+\.$", result.stderr.strip())


def documented_commands():
    """The lines of the README and of docs/reproduction.md that run experiments."""
    root = Path(__file__).parents[3]
    files = (root / "paper" / "README.md", root / "docs" / "reproduction.md")
    lines = [line for file in files for line in file.read_text("utf-8").splitlines()]
    return [line.partition("#")[0] for line in lines if line.startswith("bbalpha-paper run ")]


def test_every_documented_command_is_accepted(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bbalpha_paper.experiments.running.load_data", lambda *args: None)
    monkeypatch.setattr("bbalpha_paper.experiments.running.reproduce", lambda *args, **kwargs: 0)
    commands = documented_commands()
    assert len(commands) > 8
    for line in commands:
        result = command(*line.split()[2:])
        assert result.exit_code == 0, result.output


def test_an_interruption_tells_how_to_continue(tmp_path, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("bbalpha_paper.experiments.running.reproduce", interrupted)
    result = command("linear", "--scale", "smoke", "--output", tmp_path)
    assert result.exit_code == 130
    assert result.stderr.startswith("Stopped. Run the same command again to continue.")
