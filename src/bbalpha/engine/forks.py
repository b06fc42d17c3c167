"""Refuses to run in a forked process, where jax would wait forever for threads that are gone."""

import os
import sys
from pathlib import Path


class _Process:
    """Facts about this process."""

    has_run = False
    is_broken = False


def check_not_forked() -> None:
    """Raise if this process was forked from one that had already computed something with jax.

    Raises:
        RuntimeError: If it was forked like that.
    """
    if _Process.is_broken:
        raise RuntimeError(
            "bbalpha cannot run in a process that was forked after its parent had used jax, "
            "whose threads do not survive a fork. Start processes by "
            'multiprocessing.get_context("spawn") or with joblib.'
        )
    _Process.has_run = True


def _note_fork() -> None:
    _Process.is_broken = _Process.has_run or _jax_has_run()


def _jax_has_run() -> bool:
    """Whether jax has started its threads, as far as this version of jax lets us know."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    are_started = getattr(bridge, "backends_are_initialized", None)
    return are_started is not None and are_started()


def _has_lost_threads() -> bool:
    """Whether jax has started its threads and none are left; only Linux can tell."""
    threads = Path("/proc/self/task")
    return _jax_has_run() and threads.is_dir() and len(list(threads.iterdir())) == 1


_Process.is_broken = _has_lost_threads()  # forked before this module was imported
if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_note_fork)
