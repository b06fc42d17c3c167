"""Forked processes, in which jax would wait forever for threads that it no longer has."""

import os


class _Process:
    """What is known about this process."""

    has_run = False
    is_broken = False


def check_not_forked() -> None:
    """Raise if this process was forked from one that had already computed something.

    Raises:
        RuntimeError: If it was.
    """
    if _Process.is_broken:
        raise RuntimeError(
            "bbalpha cannot run in a process that was forked after its parent had used bbalpha, "
            "because the threads of jax do not survive a fork. Start processes by "
            'multiprocessing.get_context("spawn") or with joblib.'
        )
    _Process.has_run = True


def _note_fork() -> None:
    _Process.is_broken = _Process.has_run


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_note_fork)
