"""All experiments at the smallest scale, from the command to the page, without a download."""

import re

import pytest
from typer.testing import CliRunner

from bbalpha_paper.cli import app
from bbalpha_paper.experiments import NAMES

DRAWN = ("divergence", "regression", "mnist", "clean-energy", "linear", "toy")


def done(*args):
    """The result of a command that succeeds."""
    result = CliRunner().invoke(app, list(map(str, args)), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.parametrize("name", NAMES)
def test_every_experiment_runs_and_its_metrics_are_numbers(smoke, name):
    rows = smoke.rows(name)
    assert rows
    for row in rows:
        assert row.metrics
        assert None not in row.metrics.values(), row
    assert {file.suffix for file in (smoke.folder / name).iterdir()} == {".jsonl"}  # no checkpoint


def test_all_experiments_make_a_page_and_are_not_run_again(smoke, tmp_path):
    for name in NAMES:
        smoke.rows(name)
    rows = {file: file.read_bytes() for file in smoke.folder.glob("*/*")}
    said = done("run", "all", "--scale", "smoke", "--output", smoke.folder).stderr.splitlines()
    assert said == [f"{name}: 0 runs added to {smoke.folder}." for name in NAMES]
    assert {file: file.read_bytes() for file in smoke.folder.glob("*/*")} == rows
    done("report", smoke.folder, "--output", tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text("utf-8")
    assert re.findall(r'<section id="([^"]+)"', html) == list(NAMES)
    for name, text in zip(NAMES, html.split("<section ")[1:], strict=True):
        assert "<table" in text
        assert ("<svg" in text) == (name in DRAWN)
