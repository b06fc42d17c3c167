"""A file is replaced as a whole at the end of the block, or not at all."""

import errno
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

from bbalpha.files import atomic, replacing
from bbalpha.files.atomic import PREFIX, check_writable, remove_own_files

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
    write(path.with_name("another"), "new")
    assert names_in(path.parent) == ["another", "result.txt"]


def name_of(process, machine=None):
    """The name of a temporary file of a process."""
    return f"{PREFIX}{machine or atomic._machine()}-{process}-0123456789abcdef.txt"


@pytest.fixture
def ended_process():
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_the_next_write_removes_what_ended_processes_left(path, ended_process):
    (path.parent / name_of(ended_process)).touch()
    (path.parent / name_of(2**40)).touch()  # beyond every number
    (path.parent / name_of(os.getpid())).touch()  # of an earlier process with our number
    kept = path.parent / "kept"
    kept.touch()
    (path.parent / f"{name_of(ended_process)}.link").symlink_to(kept)
    folder = path.parent / f"{name_of(ended_process)}.folder"
    folder.mkdir()
    (folder / "result.txt").touch()
    write(path, "new")
    assert names_in(path.parent) == ["kept", "result.txt"]


def test_what_a_living_process_writes_stays(path):
    names = [name_of(os.getppid()), name_of(1), "result.txt"]
    for name in names[:-1]:
        path.with_name(name).touch()
    with replacing(path) as outer:
        outer.write_text("outer")
        write(path, "inner")  # sweeps, too
    assert path.read_text() == "outer"
    assert names_in(path.parent) == sorted(names)


def test_what_another_machine_writes_stays_for_a_day(path, ended_process):
    young, old = (path.with_name(name_of(ended_process, "00000000") + end) for end in ("1", "2"))
    for leftover in (young, old):
        leftover.touch()
    make_old(old)
    write(path, "new")
    assert names_in(path.parent) == sorted([young.name, "result.txt"])


def test_what_somebody_else_named_like_a_temporary_file_stays(path, ended_process):
    names = [f"{PREFIX}cache", f"{PREFIX}notes.txt", name_of(ended_process)[:-5], "result.txt"]
    for name in names[:-1]:
        path.with_name(name).touch()
        make_old(path.with_name(name))
    write(path, "new")
    assert names_in(path.parent) == sorted(names)


def make_old(path):
    """Let a file have been written a day and a minute ago."""
    then = path.stat().st_mtime - 24 * 3600 - 60
    os.utime(path, (then, then))


def test_a_process_that_leaves_at_once_can_remove_its_own_files(path):
    with replacing(path) as temporary:
        temporary.write_text("half of")
        remove_own_files()
        assert names_in(path.parent) == []
        temporary.write_text("new")


def test_a_forked_process_leaves_the_files_of_its_parent_alone(path, monkeypatch):
    with replacing(path) as temporary:
        temporary.write_text("new")
        with monkeypatch.context() as child:
            child.setattr(os, "getpid", lambda: 1)
            remove_own_files()
    assert path.read_text() == "new"


@pytest.mark.parametrize(("number", "text"), [(errno.EIO, "old"), (errno.EINVAL, "new")])
def test_only_a_disk_that_fails_is_an_error(path, monkeypatch, number, text):
    """A file system that cannot flush is not."""

    def fail(descriptor):
        raise OSError(number, os.strerror(number))

    path.write_text("old")
    monkeypatch.setattr(os, "fsync", fail)
    if text == "new":
        write(path, "new")
    else:
        with pytest.raises(OSError, match=r"Input/output error: .*result\.txt'$"):
            write(path, "new")
    assert path.read_text() == text
    assert names_in(path.parent) == ["result.txt"]


def test_the_temporary_file_lies_in_the_same_folder_with_the_same_suffixes(tmp_path):
    with replacing(tmp_path / "table.csv.gz") as temporary:
        assert temporary.parent == tmp_path
        assert temporary.name.startswith(PREFIX)
        assert temporary.suffixes == [".csv", ".gz"]


def test_a_link_planted_under_the_temporary_name_is_not_followed(path, monkeypatch):
    """Even if the random name could be foreseen."""
    monkeypatch.setattr(atomic.secrets, "token_hex", lambda num_bytes: "0" * num_bytes)
    monkeypatch.setattr(atomic, "remove_leftovers", lambda folder: None)
    victim = path.with_name("victim")
    victim.write_text("old")
    path.with_name(atomic._temporary_name(path)).symlink_to(victim)
    with pytest.raises(FileExistsError, match=r"File exists: .*result\.txt'$"):
        write(path, "new")
    assert victim.read_text() == "old"
    assert not path.exists()


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


@pytest.mark.parametrize("function", [check_writable, lambda path: write(path, "new")])
def test_a_circle_of_links_is_an_error_and_stays(path, function):
    other = path.with_name("other")
    path.symlink_to(other)
    other.symlink_to(path)
    with pytest.raises(OSError, match=r"Too many levels of symbolic links: .*result\.txt'$"):
        function(path)
    assert path.is_symlink()
    assert names_in(path.parent) == ["other", "result.txt"]


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


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_path_that_can_be_written_is_proven_without_a_trace(tmp_path, name):
    check_writable(tmp_path / name)
    assert names_in(tmp_path) == []
    write(tmp_path / name, "old")
    check_writable(tmp_path / name)
    assert names_in(tmp_path) == [name]
    assert (tmp_path / name).read_text() == "old"


def test_a_link_is_proven_where_it_points_to(tmp_path):
    (tmp_path / "good").symlink_to(tmp_path / "target")
    check_writable(tmp_path / "good")
    (tmp_path / "bad").symlink_to(tmp_path / "nowhere" / "target")
    with pytest.raises(FileNotFoundError, match=r"No such file or directory: .*bad'$"):
        check_writable(tmp_path / "bad")
    (tmp_path / "long").symlink_to("x" * 256)
    with pytest.raises(OSError, match=r"File name too long: .*long'$"):
        check_writable(tmp_path / "long")
    assert names_in(tmp_path) == ["bad", "good", "long"]


@pytest.mark.parametrize("name", ["result.txt", "new.txt"])
def test_a_folder_that_cannot_be_written_is_found_out_at_once(folder_of_others, name):
    with pytest.raises(PermissionError, match=rf"Permission denied: .*{name}'$"):
        check_writable(folder_of_others / name)
    assert names_in(folder_of_others) == ["result.txt"]
