"""Experiments: every table and figure of the paper, one file each.

A file holds what is run at each scale as data, and the function that runs it. `find_experiment`
gives an experiment by name; `running.reproduce` runs it and writes its rows.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from bbalpha_paper.report.sections import NAMES

if TYPE_CHECKING:
    from bbalpha_paper.experiments.plan import Experiment


def find_experiment(name: str) -> "Experiment":
    """The experiment of a name.

    Raises:
        ValueError: If there is none.
    """
    if name not in NAMES:
        raise ValueError(f"the experiment must be one of {', '.join(NAMES)}; got {name!r}.")
    return import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT
