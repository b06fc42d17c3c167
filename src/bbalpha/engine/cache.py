"""The cache of compiled programs on disk, so that later processes need not compile them again."""

import hashlib
import os
import platform
import sys
import tempfile
from pathlib import Path

import jax

from bbalpha.engine.checks import warn

VARIABLE = "BBALPHA_CACHE_DIR"
# jax's settings, each with jax's default and ours. Programs that compile faster than they can be
# read and written are not kept. Beyond the maximum size, the least recently used ones are deleted.
SETTINGS = {
    "jax_persistent_cache_min_compile_time_secs": (1.0, 0.05),
    "jax_compilation_cache_max_size": (-1, 2**28),  # 256 MiB, about a thousand programs
}


def use_compilation_cache(path: str | Path | None = None) -> Path | None:
    """Keep compiled programs on disk from now on; return the folder, or None if there is none.

    This turns on jax's persistent compilation cache for the whole process. If an earlier process
    has fitted a model of the same shape, the first fit then takes a fraction of the time. The
    command line always does this.

    Without `path`, the folder is the first of these: the one that jax already uses, as set by
    `JAX_COMPILATION_CACHE_DIR`; the one named by `BBALPHA_CACHE_DIR`, where an empty value turns
    the cache off; `bbalpha` in the user's cache folder. If the folder cannot be written, there is a
    warning, and programs are compiled as usual.

    Args:
        path: the folder; it is created if it does not exist.

    >>> folder = bb.use_compilation_cache()
    >>> folder is None
    False
    """
    in_use = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    if path is None and in_use:
        return Path(in_use)
    try:
        base = _chosen_folder() if path is None else Path(path)
        if base is None:
            return None
        folder = base.absolute() / _processor()
        _prepare(folder)
    except (OSError, RuntimeError) as error:  # RuntimeError if there is no home folder
        reason = f"{error}".removeprefix("[Errno").lstrip(" 0123456789]")
        warn(
            f"compiled programs cannot be kept on disk: {reason}. Set {VARIABLE} to another "
            "folder, or to nothing to compile them every time."
        )
        return None
    for name, (default, value) in SETTINGS.items():
        if getattr(jax.config, name) == default:
            jax.config.update(name, value)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    _forget_folder_in_use()
    return folder


def forget_program(name: str) -> None:
    """Delete the damaged files of a program such as "jit_run_steps"."""
    in_use = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    for entry in Path(in_use).glob(f"{name}-*"):
        entry.unlink(missing_ok=True)


def _chosen_folder() -> Path | None:
    """The folder named by the environment, or the platform's usual one; None if turned off."""
    given = os.environ.get(VARIABLE)
    if given is not None:
        return Path(given).expanduser() if given else None
    home = Path.home()
    match sys.platform:
        case "win32":
            caches = os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local"
        case "darwin":
            caches = home / "Library" / "Caches"
        case _:
            caches = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    return Path(caches) / "bbalpha"


def _processor() -> str:
    """A name for this kind of processor, because machines that share a home may differ in it."""
    information = Path("/proc/cpuinfo")
    text = information.read_text().split("\n\n")[0] if information.exists() else ""
    kinds = ("vendor_id", "model name", "flags", "Features", "CPU part")
    lines = [line for line in text.splitlines() if line.startswith(kinds)]
    words = "\n".join([platform.machine(), *(lines or [platform.processor()])])
    return f"{platform.machine()}-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def _prepare(folder: Path) -> None:
    """Create the folder and clean up after a crash; raise an OSError if it cannot be written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass
    # jax writes a program and then the time of its use. A process that is killed in between leaves
    # a program without a time, which keeps jax from writing any other program.
    for program in folder.glob("*-cache"):
        if not program.with_name(program.name.removesuffix("cache") + "atime").exists():
            program.unlink(missing_ok=True)


def _forget_folder_in_use() -> None:
    """Make jax open the new folder even if it has already opened another one."""
    from jax.experimental.compilation_cache import compilation_cache

    compilation_cache.reset_cache()
