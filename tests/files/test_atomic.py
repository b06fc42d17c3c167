"""A file is replaced as a whole at the end of the block, or not at all."""

import multiprocessing
import os
import stat
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bbalpha.files import replacing
from bbalpha.files.atomic import PREFIX

SECONDS = 30.0  # to wait for a thread or a process that needs milliseconds
ROUNDS = 50  # of writers that compete for one path
LONG = 2**20  # bytes of each of them, more than one call of the system writes


@pytest.fixture
def path(tmp_path):
    return tmp_path / "result.txt"


@pytest.fixture
def umask():
    """Set the umask for the length of one test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


def write(path, text):
    with replacing(path) as temporary:
        temporary.write_text(text)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def names_in(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_new_file_appears_only_at_the_end(path):
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert names_in(path.parent) == ["result.txt"]


def test_an_old_file_is_replaced_only_at_the_end(path):
    path.write_text("old")
    with replacing(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names_in(path.parent) == ["result.txt"]


def test_a_path_may_be_a_string_and_relative(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    write("result.txt", "new")
    assert path.read_text() == "new"


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt, SystemExit])
def test_an_exception_keeps_the_old_file_and_leaves_nothing_else(path, error):
    path.write_text("old")
    with pytest.raises(error, match="in the middle"), replacing(path) as temporary:  # noqa: PT012
        temporary.write_text("half of")
        raise error("in the middle")
    assert path.read_text() == "old"
    assert names_in(path.parent) == ["result.txt"]


def test_an_exception_leaves_nothing_where_there_was_nothing(path):
    with pytest.raises(ValueError, match="early"), replacing(path):
        raise ValueError("early")
    assert names_in(path.parent) == []


def test_a_killed_process_keeps_the_old_file_and_leaves_a_recognizable_name(path):
    path.write_text("old")
    code = (
        "import os, sys\nfrom bbalpha.files import replacing\n"
        "with replacing(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half of')\n"
        "    os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 9
    assert path.read_text() == "old"
    leftover, _ = names_in(path.parent)
    assert leftover.startswith(PREFIX)


def test_the_temporary_file_lies_in_the_same_folder_with_the_same_suffixes(tmp_path):
    with replacing(tmp_path / "table.csv.gz") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(PREFIX)
        assert temporary.suffixes == [".csv", ".gz"]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o444])
def test_the_permissions_of_an_old_file_are_kept(path, umask, mode):
    umask(0o077)
    path.write_text("old")
    path.chmod(mode)
    write(path, "new")
    assert mode_of(path) == mode
    assert path.read_text() == "new"


@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_a_new_file_has_the_permissions_that_the_umask_leaves(path, umask, mask, mode):
    umask(mask)
    write(path, "new")
    assert mode_of(path) == mode


def test_others_cannot_read_a_file_while_it_is_written(path, umask):
    umask(0o000)
    path.write_text("old")
    path.chmod(0o600)
    with replacing(path) as temporary:
        assert mode_of(temporary) == 0o600


def test_a_writer_that_recreates_the_file_does_not_change_the_permissions(path, umask):
    path.write_text("old")
    path.chmod(0o640)
    with replacing(path) as temporary:
        temporary.unlink()
        temporary.write_text("new")
    assert mode_of(path) == 0o640
    assert path.read_text() == "new"


@pytest.mark.parametrize("content", ["old", None], ids=["to a file", "to nothing yet"])
def test_a_symbolic_link_stays_one_and_its_target_is_replaced(tmp_path, content):
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    if content is not None:
        target.write_text(content)
    write(link, "new")
    assert link.is_symlink()
    assert not target.is_symlink()
    assert target.read_text() == "new"
    assert names_in(target.parent) == ["target"]
    assert names_in(tmp_path) == ["folder", "link"]


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()), daemon=True)
    reader.start()
    write(pipe, "new")
    reader.join(SECONDS)
    assert read == ["new"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert names_in(tmp_path) == ["pipe"]


def test_a_pipe_gets_nothing_from_a_block_that_fails(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="early"), replacing(pipe) as temporary:  # noqa: PT012
        temporary.write_text("half of")
        raise ValueError("early")
    assert names_in(tmp_path) == ["pipe"]


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no /dev/null here")
def test_a_device_is_written_to_and_stays_one():
    write("/dev/null", "new")
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)


@pytest.mark.skipif(not Path("/dev/stdout").exists(), reason="no /dev/stdout here")
def test_standard_output_is_written_to_although_it_is_a_link_to_a_pipe_without_a_path():
    code = (
        "from bbalpha.files import replacing\n"
        "with replacing('/dev/stdout') as temporary:\n"
        "    temporary.write_text('new')"
    )
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "new"


def write_often(path, letter):
    """Write a long file of one letter again and again; a process runs this too."""
    for _ in range(ROUNDS):
        write(path, letter * LONG)


def assert_whole(path):
    text = path.read_text()
    assert text in ("a" * LONG, "b" * LONG)
    assert names_in(path.parent) == [path.name]


def test_of_two_threads_that_write_to_one_path_both_succeed_and_one_wins(path):
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(write_often, path, letter) for letter in "ab"]:
            done.result(SECONDS)
    assert_whole(path)


def test_of_two_processes_that_write_to_one_path_both_succeed_and_one_wins(path):
    context = multiprocessing.get_context("spawn")  # jax runs threads, which forbid a fork
    writers = [context.Process(target=write_often, args=(path, letter)) for letter in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(SECONDS)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert_whole(path)


NAMES = {
    "no suffix": "x" * 255,
    "a suffix": "x" * 251 + ".txt",
    "a long suffix": "x." + "y" * 253,
    "two long suffixes": "x." + "y" * 249 + ".txt",
    "letters of two bytes": "α" * 125 + ".text",
    "a suffix of such letters": "x." + "α" * 126 + "y",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_name_as_long_as_file_systems_allow_can_be_written(tmp_path, name):
    assert len(os.fsencode(name)) == 255
    write(tmp_path / name, "new")
    assert (tmp_path / name).read_text() == "new"
    assert names_in(tmp_path) == [name]


def test_a_name_that_is_too_long_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="File name too long"):
        write(tmp_path / ("x" * 256), "new")
    assert names_in(tmp_path) == []


def test_a_folder_is_refused_before_the_block_and_left_alone(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    with pytest.raises(IsADirectoryError, match=r"Is a directory: .*folder'$"), replacing(folder):
        pytest.fail("the block was entered")
    assert list(tmp_path.rglob("*")) == [folder]


@pytest.mark.parametrize("parent", ["nowhere", "file"])
def test_a_folder_that_does_not_exist_is_an_error_that_names_the_path(tmp_path, parent):
    (tmp_path / "file").touch()
    path = tmp_path / parent / "result.txt"
    with pytest.raises(OSError, match=r"directory: .*result\.txt'$") as raised, replacing(path):
        pytest.fail("the block was entered")
    assert raised.value.filename == str(path)
    assert names_in(tmp_path) == ["file"]


@pytest.fixture
def folder_of_others():
    """A folder in which the user of the test may not write; not even root, who becomes nobody."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "result.txt").write_text("old")
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        yield folder
        if is_root:
            os.seteuid(0)
        folder.chmod(0o755)


@pytest.mark.parametrize("name", ["result.txt", "new.txt"])
def test_a_folder_that_cannot_be_written_is_an_error_and_is_left_alone(folder_of_others, name):
    path = folder_of_others / name
    with pytest.raises(PermissionError, match="Permission denied") as raised, replacing(path):
        pytest.fail("the block was entered")
    assert raised.value.filename == str(path)
    assert names_in(folder_of_others) == ["result.txt"]
    assert (folder_of_others / "result.txt").read_text() == "old"
