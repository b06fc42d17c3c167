"""All experiments at the smallest scale, from the command line to the page, without a download."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bbalpha.experiments import NAMES

COMMAND = Path(sys.executable).with_name("bbalpha")


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """The folder of the rows and what the command said."""
    folder = tmp_path_factory.mktemp("smoke") / "results"
    command = [COMMAND, "reproduce", "all", "--scale", "smoke", "--output", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder, done.stderr


def test_every_experiment_has_rows_whose_metrics_are_numbers(results):
    folder, said = results
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    assert [line.partition(":")[0] for line in said.splitlines()] == list(NAMES)
    for file in folder.glob("*/*"):
        assert file.suffix == ".jsonl"  # no checkpoint is left
        for line in file.read_text().splitlines():
            row = json.loads(line)
            assert row["metrics"]
            for name, value in row["metrics"].items():
                assert value is not None, (file, name)


def test_the_page_has_every_table_and_figure(results, tmp_path):
    folder, _ = results
    page = tmp_path / "report.html"
    subprocess.run([COMMAND, "report", folder, "--output", page], capture_output=True, check=True)
    html = page.read_text()
    sections = re.findall(r'<section id="([^"]+)"', html)
    assert sorted(sections) == sorted(NAMES)
    for text in re.split(r"<section ", html)[1:]:
        assert "<table" in text
    drawn = ("divergence", "regression", "mnist", "clean-energy", "linear", "toy")
    for name in drawn:
        text = html.partition(f'<section id="{name}"')[2].partition("</section>")[0]
        assert "<svg" in text, name


def test_a_second_command_runs_nothing(results):
    folder, _ = results
    before = {file: file.read_bytes() for file in folder.glob("*/*")}
    command = [COMMAND, "reproduce", "all", "--scale", "smoke", "--output", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert all(": 0 runs added" in line for line in done.stderr.splitlines())
    assert {file: file.read_bytes() for file in folder.glob("*/*")} == before
