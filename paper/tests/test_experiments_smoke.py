"""All experiments at the smallest scale, from the command line to the page, without a download."""

import json
import re
import subprocess
import sys
from pathlib import Path

from bbalpha_paper.experiments import NAMES

COMMAND = Path(sys.executable).with_name("bbalpha")


def test_all_experiments_run_make_a_page_and_run_no_second_time(tmp_path):
    """One test, so that the experiments run in one process of those that share the tests."""
    folder = tmp_path / "results"
    said = reproduce(folder)
    assert [line.partition(":")[0] for line in said] == list(NAMES)
    check_rows(folder)
    check_page(folder, tmp_path / "report.html")
    rows = {file: file.read_bytes() for file in folder.glob("*/*")}
    assert all(": 0 runs added" in line for line in reproduce(folder))
    assert {file: file.read_bytes() for file in folder.glob("*/*")} == rows


def reproduce(folder):
    """What the command says, line by line."""
    command = [COMMAND, "reproduce", "all", "--scale", "smoke", "--output", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


def check_rows(folder):
    """Every experiment has rows whose metrics are numbers."""
    assert sorted(path.name for path in folder.iterdir()) == sorted(NAMES)
    for file in folder.glob("*/*"):
        assert file.suffix == ".jsonl"  # no checkpoint is left
        for line in file.read_text().splitlines():
            row = json.loads(line)
            assert row["metrics"]
            for name, value in row["metrics"].items():
                assert value is not None, (file, name)


def check_page(folder, page):
    """It has every table and figure."""
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
