"""Sections of the report, one file per experiment and named like it.

Each has a TITLE, a PLACE (where the paper has it), an INTRODUCTION, and two functions of the
experiment's runs: `outcome`, a sentence or two, and `blocks`, tables and figures. Any runs may be
missing, because a report may be made while experiments are still running.
"""

from importlib import import_module
from types import ModuleType


def section_of(name: str) -> ModuleType:
    """The section of an experiment."""
    return import_module(f"{__name__}.{name.replace('-', '_')}")
