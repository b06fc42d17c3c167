"""Rows are written once and complete, and read back as they were."""

from pathlib import Path

import pytest

from bbalpha_paper.experiments import NAMES
from bbalpha_paper.rows import append_rows, read_file, read_folder, rows_file


def test_rows_survive_being_written(tmp_path, rows):
    file = rows_file(tmp_path, "toy", "cubic")
    append_rows(file, rows["toy"])
    assert read_file(file) == rows["toy"]


def test_rows_are_appended(tmp_path, rows):
    file = rows_file(tmp_path, "toy", "cubic")
    for entry in rows["toy"]:
        append_rows(file, [entry])
    assert read_folder(tmp_path) == rows["toy"]


@pytest.mark.parametrize("kept", [1, 60, -2])
def test_an_incomplete_last_line_is_no_row_and_gives_way_to_the_next(tmp_path, rows, kept):
    file = rows_file(tmp_path, "toy", "cubic")
    append_rows(file, rows["toy"])
    *lines, last = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines) + last[:kept])
    assert read_file(file) == rows["toy"][:-1]
    append_rows(file, rows["toy"][-1:])
    assert read_file(file) == rows["toy"]


def test_a_number_that_is_not_finite_is_written_as_null(tmp_path, row):
    file = rows_file(tmp_path, "toy", "cubic")
    append_rows(file, [row("toy", "cubic", 0.0, {"score": float("nan"), "curve": [1.0, -1e999]})])
    assert read_file(file)[0].metrics == {"score": None, "curve": [1.0, None]}


def test_results_of_the_repository_can_be_read():
    """The rows from which docs/reproduction.md is made, whatever version wrote them."""
    found = read_folder(Path(__file__).parents[1] / "results")
    assert {row.experiment for row in found} == set(NAMES)


def test_a_folder_without_rows_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"must be a folder; got nothing at .*none\."):
        read_folder(tmp_path / "none")
    with pytest.raises(
        FileNotFoundError, match=r"RESULTS must hold rows .*; got none in .*run all"
    ):
        read_folder(tmp_path)
