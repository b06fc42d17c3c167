"""Sections of the report, one file per experiment.

Each has a TITLE, a PLACE (where the paper has it), an INTRODUCTION, and two functions of the
experiment's runs: `outcome`, one sentence, and `blocks`, tables and figures. Any runs may be
missing, since a report may be made while others are under way.
"""

from importlib import import_module
from types import ModuleType

# The experiments, in the order of the paper.
NAMES = (
    "divergence",
    "probit",
    "regression",
    "mnist",
    "clean-energy",
    "gradient",
    "linear",
    "toy",
)


def section_of(name: str) -> ModuleType:
    """The file of an experiment's section."""
    return import_module(f"{__name__}.{name.replace('-', '_')}")
