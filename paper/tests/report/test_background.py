"""The background of a section: its commands, settings and times."""

from dataclasses import replace

import pytest

from bbalpha_paper.experiments import NAMES
from bbalpha_paper.report.background import reproduction
from bbalpha_paper.report.page import page_of
from bbalpha_paper.report.runs import Runs


def texts(table):
    """The cells of the rows of a table by the first of them."""
    return {line[0].text: [cell.text for cell in line[1:]] for g in table.groups for line in g.rows}


@pytest.mark.parametrize("name", NAMES)
def test_a_section_names_its_command_settings_and_times(name, rows):
    (section,) = page_of(rows[name], "results").sections
    details = section.blocks[-1]
    numbers, settings = details.blocks
    assert f"{len(rows[name])} runs" in details.label
    assert "2 s" in {cell.text for g in numbers.groups for line in g.rows for cell in line}
    assert texts(settings)["scale"][0] == "paper"
    (command,) = section.blocks[1].lines
    assert command.startswith(f"bbalpha-paper run {name} --scale paper --data ")
    assert "--output" not in command  # the default folder, not the one of the page


def test_data_sets_that_share_options_share_a_command(rows):
    rows = [
        r
        for r in rows["regression"]
        if r.dataset == "boston" or (r.split < 2 and r.alpha in (0.5, 0))
    ]
    lines = reproduction(Runs(rows)).lines
    assert lines == (
        "bbalpha-paper run regression --scale paper --data boston --alphas 1,0.5,1e-06,0 "
        "--splits 3 --epochs 20",
        "bbalpha-paper run regression --scale paper --data diabetes --alphas 0.5,0 "
        "--splits 2 --epochs 20",
    )


def test_settings_say_for_which_data_sets_they_hold(rows):
    rows = [
        replace(r, settings=r.settings | {"num_epochs": 5}) if r.dataset == "diabetes" else r
        for r in rows["regression"]
    ]
    (section,) = page_of(rows, "results").sections
    _, table = section.blocks[-1].blocks
    assert table.header[1:] == ("authors' code: boston", "authors' code: diabetes")
    assert texts(table)["epochs"] == ["20", "5"]
