"""Experiments: every table and figure of the paper, one file each.

A file declares an `EXPERIMENT`: what to run at each scale, as data, and the function that runs it.
`find_experiment` loads one by name, and `running.reproduce` runs it and writes its rows.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bbalpha_paper.experiments.plan import Experiment

# In the order of the paper. Only names, so that help texts need not wait for jax.
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


def find_experiment(name: str) -> "Experiment":
    """The experiment with this name.

    Raises:
        ValueError: If there is none.
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}; got name={name!r}.")
    return import_module(f"{__name__}.{name.replace('-', '_')}").EXPERIMENT
