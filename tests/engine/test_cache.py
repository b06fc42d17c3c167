"""Compiled programs are kept where the user wants them, and a folder that fails stops nothing."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

import bbalpha as bb
from bbalpha.engine import cache
from bbalpha.engine.compiling import Compiled

SETTINGS = ("jax_compilation_cache_dir", *cache.SETTINGS)

PROGRAM = """
import sys, jax, jax.numpy as jnp, bbalpha as bb
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
bb.use_compilation_cache(sys.argv[1])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
print("ready", flush=True)
sys.stdin.readline()

@jax.jit
def chain(x):
    for _ in range(20):
        x = jnp.sin(x @ x) + 1
    return x.sum()

first = chain(jnp.ones((4, 4)))
events.clear()
jax.clear_caches()
again = chain(jnp.ones((4, 4)))
assert any(event.endswith("cache_hits") for event in events)  # what is on disk can be read
assert again == first
"""


@pytest.fixture(autouse=True)
def _settings(monkeypatch):
    """jax without a folder for a test, and afterwards as it was."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    monkeypatch.delenv(cache.VARIABLE, raising=False)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.mark.parametrize(
    ("system", "variable", "expected"),
    [
        ("linux", "XDG_CACHE_HOME", "there/bbalpha"),
        ("linux", None, "home/.cache/bbalpha"),
        ("darwin", None, "home/Library/Caches/bbalpha"),
        ("win32", "LOCALAPPDATA", "there/bbalpha"),
        ("win32", None, "home/AppData/Local/bbalpha"),
        ("linux", cache.VARIABLE, "there"),
    ],
)
def test_the_folder_follows_the_platform_and_the_environment(
    system, variable, expected, tmp_path, monkeypatch
):
    monkeypatch.setattr("sys.platform", system)
    monkeypatch.setattr("pathlib.Path.home", lambda: tmp_path / "home")
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "there"))
    folder = bb.use_compilation_cache()
    assert folder is not None
    assert folder.parent == tmp_path / expected
    assert folder.is_dir()
    assert jax.config.jax_compilation_cache_dir == str(folder)


def test_an_empty_variable_means_no_folder(monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, "")
    assert bb.use_compilation_cache() is None
    assert jax.config.jax_compilation_cache_dir is None


def test_a_folder_that_jax_uses_already_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "other"))
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "own"))
    assert bb.use_compilation_cache() == tmp_path / "own"
    assert list(tmp_path.iterdir()) == []
    assert bb.use_compilation_cache(tmp_path / "named").parent == tmp_path / "named"


def test_settings_of_the_user_are_left_alone(tmp_path):
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 7.0)
    jax.config.update("jax_compilation_cache_max_size", -1)  # jax's default
    bb.use_compilation_cache(tmp_path)
    assert jax.config.jax_persistent_cache_min_compile_time_secs == 7.0
    assert jax.config.jax_compilation_cache_max_size == 2**28


@pytest.mark.parametrize("path", ["file/folder", "file"])
def test_a_folder_that_cannot_be_written_is_done_without(path, tmp_path):
    (tmp_path / "file").touch()
    message = r"^compiled programs cannot be kept on disk: .*file.* Set BBALPHA_CACHE_DIR to"
    with pytest.warns(UserWarning, match=message):
        assert bb.use_compilation_cache(tmp_path / path) is None
    assert jax.config.jax_compilation_cache_dir is None
    assert jax.jit(lambda x: x + 2)(1) == 3


def test_a_user_without_a_home_is_told_so(monkeypatch):
    def fail():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", fail)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    with pytest.warns(UserWarning, match="kept on disk: Could not determine home directory"):
        assert bb.use_compilation_cache() is None


def test_programs_with_compiler_options_are_kept_and_found(tmp_path):
    events = []
    jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
    folder = bb.use_compilation_cache(tmp_path)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

    for _ in range(2):

        def kept_program(x):
            return jnp.sin(x) @ x

        Compiled(kept_program)(jnp.ones((3, 3)))
    assert events.count("/jax/compilation_cache/cache_hits") == 1
    assert [path.name[:16] for path in folder.glob("jit_kept*-cache")] == ["jit_kept_program"]


def test_a_program_without_the_time_of_its_use_is_removed(tmp_path):
    folder = bb.use_compilation_cache(tmp_path)
    for name in ("jit_f-1-cache", "jit_f-1-atime", "jit_f-2-cache"):
        (folder / name).write_bytes(b"12345678")
    bb.use_compilation_cache(tmp_path)
    assert sorted(path.name for path in folder.iterdir()) == ["jit_f-1-atime", "jit_f-1-cache"]


def test_a_damaged_program_is_forgotten_with_its_time(tmp_path):
    folder = bb.use_compilation_cache(tmp_path)
    for name in ("jit_f-1-cache", "jit_f-1-atime", "jit_fg-1-cache", "jit_fg-1-atime"):
        (folder / name).touch()
    cache.forget_program("jit_f")
    assert sorted(path.name for path in folder.iterdir()) == ["jit_fg-1-atime", "jit_fg-1-cache"]


def test_two_processes_may_write_the_same_program_at_once(tmp_path):
    def start():
        command = [sys.executable, "-W", "error", "-c", PROGRAM, str(tmp_path)]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, text=True, **pipes)

    both = [start(), start()]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("\n")
        process.stdin.flush()
    errors = [process.communicate()[1] for process in both]
    assert errors == ["", ""]
    assert [process.returncode for process in both] == [0, 0]
    assert len(list(tmp_path.rglob("jit_chain-*-cache"))) == 1
