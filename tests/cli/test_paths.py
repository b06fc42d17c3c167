"""Facts about files: they are checked before the work, and refusals name them."""

import re

import pytest

TABLE = "x,y\n1,2\n2,3\n3,5\n4,4\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "table.csv"], "--output must not be another file of the command; got table.csv"),
        (["-o", "./link.csv"], "--output must not be another file of the command; got link.csv"),
        (["-o", "hard.csv"], "--output must not be another file of the command; got hard.csv"),
        (["-o", "no/m.safetensors"], "--output must be a file that can be written; got no/m.safe"),
        (["-o", "x" * 300], "--output must be a file that can be written; got x.*name too long"),
        (["-o", "dangling"], "--output must be a file that can .*got dangling: no such file or"),
        (["-o", "loop"], "--output must be a file that can be .*got loop: .*symbolic links"),
        (["-o", "table.csv/m"], "--output must be a file that can be .*/m: not a directory"),
        (["-o", "."], r"--output must name a file; got '' or the current folder\.$"),
        (["-o", ""], r"--output must name a file; got '' or the current folder\.$"),
        (["-o", "/"], r"--output must be a file; got the folder /\.$"),
        (["-o", "/dev/null"], "--output must be a file; got the device /dev/null"),
        (["--plot", "no/p.png"], "--plot must be a file that can be written; got no/p.png"),
        (["--plot", "table.png"], "--plot must not be another file of the command"),
        (["-o", "p.png", "--plot", "p.png"], "--plot must not be another file of the command"),
        (["-o", "m", "--checkpoint", "m"], "--checkpoint must not be another file of the command"),
        (["--checkpoint", "link.csv"], "--checkpoint must not be another file of the command"),
        (["--checkpoint", "loop"], "--checkpoint must be a folder; got loop, a link to nowhere"),
        (["--checkpoint", "note.txt"], r"--checkpoint must be a folder; got the file note\.txt"),
        (["--checkpoint", "note.txt/x"], "--checkpoint must be a folder that can be .* directory"),
    ],
)
def test_outputs_are_checked_before_the_table_is_read(
    tmp_path, monkeypatch, refused, written, options, message
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, b"\xff not even a table")
    (tmp_path / "link.csv").symlink_to("table.csv")
    (tmp_path / "hard.csv").hardlink_to("table.csv")
    (tmp_path / "table.png").hardlink_to("table.csv")
    (tmp_path / "dangling").symlink_to("nowhere/m.safetensors")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "note.txt").touch()
    assert re.search(message, refused(tmp_path, "fit", "table.csv", "--target", "y", *options))


def test_missing_files_are_named(tmp_path, prices, refused, written):
    nowhere, table = tmp_path / "nowhere", written(tmp_path, TABLE)
    missing = f"{nowhere} does not exist."
    output = ["-o", tmp_path / "m.safetensors"]
    assert refused(tmp_path, "fit", nowhere, "--target", "y", *output) == missing
    for command in (
        ["predict", nowhere, table],
        ["evaluate", nowhere, table],
        ["inspect", nowhere],
        ["predict", prices, nowhere],
        ["evaluate", prices, nowhere],
    ):
        assert refused(tmp_path, *command) == missing
    assert refused(tmp_path, "inspect", table / "m") == f"{table / 'm'} does not exist."


def test_a_folder_is_not_a_file(tmp_path, refused):
    for folder in (".", "/"):
        message = refused(tmp_path, "fit", folder, "--target", "y")
        assert message == f"{folder} is a folder, not a file."
    assert refused(tmp_path, "inspect", tmp_path) == f"{tmp_path} is a folder, not a file."


def test_a_file_that_cannot_be_read_is_named(tmp_path, refused):
    name = "x" * 300
    assert refused(tmp_path, "inspect", name) == f"{name} cannot be read: file name too long."
