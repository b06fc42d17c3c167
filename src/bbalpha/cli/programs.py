"""Faster commands: compiled programs are kept on disk, and unneeded imports are left out."""

import importlib
import os
import re
import sys
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bbalpha.cli.doors import plain_warnings

DEFERRED = "scipy.stats"
DAMAGED = re.compile(r"Error reading persistent compilation cache entry for '([^']+)'")


def prepare_imports() -> None:
    """Make the imports that follow faster and quieter.

    scikit-learn imports `scipy.stats` for a function that no command calls, which takes a third of
    a command's import time; here it is loaded only when something uses it. XLA logs false errors
    about programs from the disk on processors whose features it lists in two ways (jax issue
    38445); they are silenced.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if DEFERRED in sys.modules:
        return
    module = types.ModuleType(DEFERRED)

    def load(name: str) -> Any:
        if sys.modules[DEFERRED] is module:
            del sys.modules[DEFERRED]
        return getattr(importlib.import_module(DEFERRED), name)

    module.__getattr__ = load
    sys.modules[DEFERRED] = module


@contextmanager
def without_pandas() -> Iterator[None]:
    """Hide pandas from imports in the block, unless it is already loaded.

    scikit-learn imports pandas without need, and pyarrow imports it at the first conversion of a
    value, to recognize pandas objects. A table from a file contains none, and pandas takes a
    quarter of the time of all imports.
    """
    finder: Any = _Hiding()
    if "pandas" in sys.modules:
        yield
        return
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


class _Hiding:
    """A finder of modules that hides pandas from those who ask for it."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        """Raise if the module is pandas; leave all others to the finders that follow."""
        if name == "pandas":
            raise ModuleNotFoundError(name)


@contextmanager
def keeping_programs(quiet: bool) -> Iterator[None]:
    """Keep compiled programs for later commands, and show warnings like `plain_warnings`.

    A program that is damaged on disk is deleted, so that it is compiled and written again.
    """
    from bbalpha.engine.cache import forget_program, use_compilation_cache

    with plain_warnings(quiet):
        show = warnings.showwarning

        def show_others(message: Warning | str, *details: Any) -> None:
            damaged = DAMAGED.match(str(message))
            if damaged:
                forget_program(damaged[1])
            else:
                show(message, *details)

        warnings.showwarning = show_others
        use_compilation_cache()
        yield
