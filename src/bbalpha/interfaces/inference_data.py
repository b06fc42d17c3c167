"""ArviZ objects, for versions before and after 1.0, which changed the arguments of `from_dict`."""

import inspect
import warnings
from typing import Any

import numpy as np

from bbalpha.interfaces.needed import check_installed

Groups = dict[str, dict[str, Any]]


def inference_data(groups: Groups, attributes: dict[str, Any]) -> Any:
    """The object that ArviZ works on: an `InferenceData` in 0.23, a `DataTree` from 1.0 on.

    Args:
        groups: arrays by group and variable. Their first axis is the draws, which become one chain;
            `observed_data` has no such axis.
        attributes: attributes to store with the posterior.

    Raises:
        ImportError: if ArviZ is missing or too old.
    """
    check_installed("arviz", (0, 23), "to_arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # 0.23 announces 1.0 at every import
        import arviz
    return call_from_dict(arviz.from_dict, _in_one_chain(groups), attributes)


def call_from_dict(from_dict: Any, groups: Groups, attributes: dict[str, Any]) -> Any:
    """Call `from_dict` with the groups in the form that this version takes."""
    if "posterior" in inspect.signature(from_dict).parameters:  # before 1.0
        return from_dict(**groups, posterior_attrs=attributes)
    return from_dict(groups, attrs={"posterior": attributes})


def _in_one_chain(groups: Groups) -> Groups:
    """The groups as arrays; those with draws get a leading axis for the single chain."""
    return {
        group: {
            name: np.asarray(values) if group == "observed_data" else np.asarray(values)[None]
            for name, values in variables.items()
        }
        for group, variables in groups.items()
        if variables
    }
